"""A participant without a network: whole federations under both guards, faults, kills and new starts."""

import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError, FaultyServer, OrderError, VectorError
from ccesa.memory import RELEASE, ROUND, ProcessMemory
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.service.participant.calls import HubAnswer, Pause
from ccesa.service.participant.core import Taking
from ccesa.service.tasks import task_digest
from played_hub import FORGOTTEN, Played, PlayedHub, check_sums, contribution, play, problem, site_of
from rounds import charter, identity
from series_rounds import GUARDS


def federation(guard: str, rounds: int = 3, **options) -> tuple[PlayedHub, list[Played]]:
    hub = PlayedHub(guard, rounds=rounds, **options)
    return hub, [Played(hub, client) for client in range(6)]


def survivors(hub: PlayedHub) -> list[tuple[int, ...] | None]:
    return [one.aggregate and one.aggregate.survivors for one in hub.ended]


EVERYONE = tuple(range(6))


@pytest.mark.parametrize("guard", GUARDS)
def test_everyone_is_in_every_sum(guard):
    hub, players = federation(guard)
    play(hub, players)
    assert survivors(hub) == [EVERYONE] * 3
    check_sums(hub)
    for player in players:
        assert player.said("summed") == [f"in the sum of round {number}" for number in range(3)]
        assert player.said("over") == ["the federation is over"]
        assert not player.said("refused")


@pytest.mark.parametrize("guard", GUARDS)
def test_no_secret_is_left_when_it_is_over_or_broken_off(guard):
    hub, players = federation(guard)
    hub.open()
    player = players[0]
    while not player.hub.sent:
        player.step(hub.answer)
    series = player.core.gi_frame.f_locals["taking"]._series
    assert series.rounds == (0,)
    player.core.close()
    assert series.rounds == ()


@pytest.mark.parametrize("guard", GUARDS)
def test_one_series_follows_the_other(guard):
    hub, players = federation(guard, rounds=2, series=3)
    hub.payload_of = lambda number: b"%d of %d" % (number, hub.number)
    play(hub, players)
    assert survivors(hub) == [EVERYONE] * 6
    assert sum(players[0].tasks(ROUND).values()) == 6
    assert players[0].said("joined") == ["joined round 0", "joined round 1"] * 3


# Kills


def vectors(hub: PlayedHub) -> list[tuple[int, bytes, bytes]]:
    """Client, context and task of every masked vector that has left, each once."""
    found = set()
    for client, _, reply in hub.sent:
        for message in envelope.unpack(reply):
            kind = m.kind_of(message)
            if kind is not None and m.has_vector(kind):
                said = m.decode(message, len(message))
                found.add((client, said.context, said.task, bytes(message)))
    return [one[:3] for one in found]


@pytest.mark.parametrize("guard", GUARDS)
@settings(max_examples=12)
@given(
    kills=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 40), st.booleans()), max_size=8, unique_by=lambda k: k[:2]
    ),
    again=st.booleans(),
)
def test_whoever_is_killed_and_started_again_sends_one_vector_a_round_and_few_a_task(guard, kills, again):
    """At any call, before it is made or with its answer lost; and also if all rounds ask the same."""
    hub, players = federation(guard, rounds=4)
    if again:
        hub.payload_of = lambda number: b"always the same"
    due = {(client, call): after for client, call, after in kills}
    made = Counter()

    def before(player: Played) -> None:
        if isinstance(player.wish, Pause):
            return
        made[player.client] += 1
        after = due.pop((player.client, made[player.client]), None)
        if after:
            hub.answer(player.wish)  # it is made, and nobody hears the answer
        if after is not None:
            player.die()

    play(hub, players, before)
    check_sums(hub)
    sent = vectors(hub)
    assert max(Counter((client, context) for client, context, _ in sent).values()) == 1
    assert max(Counter((client, task) for client, _, task in sent).values()) <= 2
    assert not hub.faults
    for player in players:
        assert player.done
        assert len(player.tasks()) <= (1 if again else 4)
        assert max(player.tasks(RELEASE).values(), default=0) <= 1


@pytest.mark.parametrize("guard", GUARDS)
def test_a_new_start_is_out_of_the_rounds_in_flight_and_in_the_next(guard):
    hub, players = federation(guard, rounds=4)

    def before(player: Played) -> None:
        if player.client == 2 and player.lives == 1 and hub.exchange == 1:
            player.die()

    play(hub, players, before)
    assert survivors(hub) == [(0, 1, 3, 4, 5)] + [EVERYONE] * 3
    assert players[2].said("out")
    assert not players[2].said("refused")
    assert hub.sent.count((2, 1, b"")) == 1


def test_a_new_start_after_its_answer_came_is_no_conflict():
    hub, players = federation("active")
    lost = []

    def before(player: Played) -> None:
        if player.client == 2 and not lost and getattr(player.wish, "method", "") == "PUT":
            lost.append(hub.answer(player.wish))
            player.die()

    play(hub, players, before)
    assert lost[0].status == 204
    assert survivors(hub)[1:] == [EVERYONE] * 2


# Tasks and attempts


@pytest.mark.parametrize("guard", GUARDS)
def test_shares_are_released_for_a_task_once(guard):
    hub, players = federation(guard, rounds=3)
    hub.payload_of = lambda number: b"the same"
    play(hub, players)
    assert survivors(hub) == [EVERYONE, None, None]
    check_sums(hub)
    assert players[0].tasks() == players[0].tasks(RELEASE) == {task_digest(b"the same"): 1}
    assert any("released its shares for this task" in text for text in players[0].said("refused"))


@pytest.mark.parametrize("guard", GUARDS)
def test_a_task_with_another_digest_than_the_hub_names_gets_no_vector(guard):
    hub, players = federation(guard, rounds=1)
    honest = hub.task

    def task(digest, ranged):
        hub.payload, kept = (b"something else" if digest == task_digest(hub.payload) else hub.payload, hub.payload)
        answer = honest(task_digest(hub.payload), ranged)
        hub.payload = kept
        return answer

    hub.task = task
    play(hub, players)
    assert vectors(hub) == []
    assert any("another task than the one" in text for text in players[0].said("refused"))


def test_a_task_that_the_hub_does_not_have_gets_no_vector():
    hub, players = federation("active", rounds=1)
    hub.task = lambda digest, ranged: problem(404, "not-found")
    play(hub, players)
    assert vectors(hub) == []
    assert any("before it sent the task" in text for text in players[0].said("refused"))


def test_tasks_come_in_parts_and_replies_go_in_parts():
    hub, players = federation("active", rounds=2)
    hub.payload_of = lambda number: bytes([number]) * 1000
    players[1].changed(part_bytes=77)
    play(hub, players)
    check_sums(hub)
    assert survivors(hub) == [EVERYONE] * 2
    methods = Counter(call.method for call in players[1].calls)
    assert methods["PATCH"] > 20
    assert max(len(call.body) for call in players[1].calls if call.method == "PATCH") == 77
    assert sum("range" in call.headers for call in players[1].calls) == 2 * 13


@settings(max_examples=20)
@given(losses=st.dictionaries(st.integers(1, 200), st.floats(0, 1), max_size=12), part_bytes=st.integers(20, 400))
def test_what_is_lost_on_the_way_changes_nothing(losses, part_bytes):
    """Half a part, or an answer. Calls are made again with the same bytes, and go on where they broke off."""
    hub, players = federation("active", rounds=2)
    hub.payload_of = lambda number: bytes([number]) * 500
    players[1].changed(part_bytes=part_bytes)
    made, answer = Counter(), hub.answer

    def lossy(call):
        left = losses.get(made.total() + 1)
        if left is not None and call.method == "PATCH":
            call = replace(call, body=call.body[: int(left * len(call.body))])
        found = answer(call)
        if found is None:
            return None
        made[call.method] += 1
        if left is None:
            return found
        if "range" in call.headers and found.status == 206:
            return replace(found, body=found.body[: int(left * len(found.body))], broken=True)
        return HubAnswer(status=0, reason="the connection broke")

    hub.answer = lossy
    play(hub, players)
    check_sums(hub)
    assert survivors(hub) == [EVERYONE] * 2
    assert not any(player.said("refused") or player.said("late") for player in players)


# Faults of the site


class Broken(Exception):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise Broken("there are no words")


def throw(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda task, number: 1 / 0, "the site's own function failed: ZeroDivisionError"),
        (lambda task, number: sys.exit(0), "the site's own function failed: SystemExit"),
        (lambda task, number: throw(Mute()), "the site's own function failed: "),
        (lambda task, number: np.zeros(4, np.uint16), "4"),
        (lambda task, number: None, ""),
        (lambda task, number: "text", ""),
    ],
)
def test_a_round_goes_on_without_a_site_whose_function_fails(wrong, why):
    hub, players = federation("active", rounds=2)

    def contribute(task, number):
        return wrong(task, number) if number == 0 else contribution(hub.config, 3, task)

    players[3].changed(contribute=contribute)
    play(hub, players)
    check_sums(hub)
    assert survivors(hub) == [(0, 1, 2, 4, 5), EVERYONE]
    assert players[3].tasks() == {task_digest(hub.payload_of(1)): 1}  # nothing has left for the first one
    assert why in players[3].said("refused")[0]


def test_a_strict_site_ends_with_the_failure_of_its_function():
    hub, players = federation("curious")

    def contribute(task, number):
        raise Broken("no data today")

    players[0].changed(contribute=contribute, strict=True)
    with pytest.raises(Broken):
        play(hub, players)


def test_a_strict_site_whose_function_exits_does_not_end_well():
    """Whoever starts it again on failure has to see one."""
    hub, players = federation("curious")
    players[0].changed(contribute=lambda task, number: sys.exit(0), strict=True)
    with pytest.raises(VectorError, match="failed: SystemExit: 0"):
        play(hub, players)


def test_a_function_that_is_interrupted_ends_everything():
    hub, players = federation("curious")

    def contribute(task, number):
        raise KeyboardInterrupt

    players[0].changed(contribute=contribute)
    with pytest.raises(KeyboardInterrupt):
        play(hub, players)


def test_once_is_one_sum_and_no_half_of_another():
    hub, players = federation("curious", rounds=3)
    players[4].changed(once=True)
    play(hub, players)
    check_sums(hub)
    assert survivors(hub) == [EVERYONE, (0, 1, 2, 3, 5), (0, 1, 2, 3, 5)]
    assert players[4].said("joined") == ["joined round 0"]
    assert players[4].said("refused") == []
    assert len(vectors(hub)) == 6 + 5 + 5


# What the hub answers


@pytest.mark.parametrize("guard", GUARDS)
def test_a_late_answer_costs_a_round_and_no_more(guard):
    hub, players = federation(guard, rounds=3)
    held = []

    def before(player: Played) -> None:
        if player.client == 5 and not held and getattr(player.wish, "method", "") == "PUT":
            held.append(player.wish)
            hub.replies[5] = b""  # the hub closes without it
            hub.requests.pop(5)
            while hub.everyone_answered is False:
                for other in players[:5]:
                    other.step(hub.answer)
            hub.close()

    play(hub, players, before)
    check_sums(hub)
    assert players[5].said("late")
    assert survivors(hub)[1:] == [EVERYONE] * 2


def test_a_session_that_has_run_out_is_renewed():
    hub, players = federation("active")

    def before(player: Played) -> None:
        if hub.exchange == 4 and FORGOTTEN not in hub.sessions:
            hub.sessions.clear()
            hub.sessions[FORGOTTEN] = -1

    play(hub, players, before)
    assert survivors(hub) == [EVERYONE] * 3
    signed = [call.path for call in players[0].calls if call.path == "/v1/sessions"]
    assert len(signed) == 2


def test_a_token_that_the_hub_does_not_know():
    hub = PlayedHub("curious")
    player = Played(hub, 0, token="x" * 20)
    with pytest.raises(ConfigError, match="does not know this participant"):
        play(hub, [player])


def test_a_second_process_with_the_same_identity_is_found_out():
    hub = PlayedHub("active")
    players = [Played(hub, 0), Played(hub, 0)]
    with pytest.raises(OrderError, match="another process answers with the identity or token of this site"):
        play(hub, players)


@pytest.mark.parametrize("status", [0, 408, 429, 500, 502, 503, 504])
def test_a_hub_that_is_away_is_asked_again_more_and_more_rarely(status):
    hub = PlayedHub("curious")
    player = Played(hub, 0, patience=100)
    pauses = []

    def ask_on() -> None:
        first = player.wish
        while True:
            player.step(lambda call: HubAnswer(status=status))
            if isinstance(player.wish, Pause):
                pauses.append(player.wish.seconds)
            else:
                assert player.wish == first

    with pytest.raises(TimeoutError, match="has been away for"):
        ask_on()
    assert pauses[:4] == [0.5, 1, 2, 4]
    assert max(pauses) <= 30
    assert sum(pauses) > 60


def test_the_hub_says_when_to_come_back():
    hub = PlayedHub("curious")
    player = Played(hub, 0)
    player.step(lambda call: HubAnswer(status=503, headers={"retry-after": "7"}))
    assert player.wish == Pause(seconds=7)
    player.step(hub.answer)
    player.step(lambda call: HubAnswer(status=503, headers={"retry-after": "86400"}))
    assert player.wish == Pause(seconds=30)


# Results


@pytest.mark.parametrize("guard", GUARDS)
def test_a_site_is_told_what_the_hub_publishes(guard):
    hub, players = federation(guard, rounds=3)
    hub.payload_of = lambda number: b"%d" % min(number, 1)  # so that the third is lost
    told = []
    players[2].changed(results=told.append)
    play(hub, players)
    assert [(one["question"], one["survivors"]) for one in told] == [(0, [*EVERYONE]), (1, [*EVERYONE])]
    assert told[1]["value"] == hub.form.for_json(hub.ended[1].aggregate.vector)
    assert not any("/v1/results" in call.path for call in players[1].calls)


@pytest.mark.parametrize("said", [b"", b"[]", b'{"question": "0"}', b"\xff"])
def test_a_result_that_is_none_is_an_error_by_name(said):
    hub, players = federation("curious", rounds=1)
    told = []
    players[2].changed(results=told.append)
    hub.result = lambda question: HubAnswer(status=200, body=said)
    with pytest.raises(FaultyServer):
        play(hub, players)
    assert told == []


# What a site brings


def test_a_site_that_was_never_told_which_client_it_is_makes_no_client(monkeypatch):
    hub = PlayedHub("curious", rounds=1)
    player = Played(hub, 0, strict=True)
    monkeypatch.setattr(Taking, "_is_out", lambda *_: False)
    with pytest.raises(ConfigError, match="does not know which client it is"):
        play(hub, [player])


def test_what_does_not_go_together():
    usual = {"contribute": None, "memory": ProcessMemory()}
    agreed = charter(6)
    for options in (
        {},
        {"charter": agreed},
        {"identity": identity(0)},
        {"charter": agreed, "identity": identity(0), "token": "x"},
        {"charter": agreed, "identity": identity(99)},
        {"charter": charter(6, expires=1), "identity": identity(0)},
        *({"token": token} for token in ("", "a b", "a\nb", "\xe4", "x" * 5000)),
    ):
        with pytest.raises(ConfigError):
            site_of(**usual, **options)
