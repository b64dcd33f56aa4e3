"""A series: exchanges are counted, members come and go, a lost round costs one round."""

import gc
import threading
from itertools import count, pairwise

import msgspec
import numpy as np
import pytest

from ccesa.agreement.config import MAX_NUMBER
from ccesa.errors import ConfigError, FaultyClient, LateMessage, MalformedMessage, OrderError, TooFewClients, UsageError
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.round import run_series
from ccesa.protocol.schedule import Schedule
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.server import Server
from ccesa.protocol.server_states import Drawn
from rounds import read
from series_rounds import GUARDS, SeriesPlay, configure_series, kinds, opened, series_in_memory, survivors, task_of

guards = pytest.mark.parametrize("guard", GUARDS)
STEPS = {"curious": 5, "active": 6}
STRIDE = {"curious": 2, "active": 3}
#: docs/protocol.md, design: what each exchange of a long series carries, by guard.
CARRIED = {
    "curious": {0: ["UnmaskRequest", "AcceptRequest", "AdvertiseRequest"], 1: ["MaskRequest", "ShareRequest"]},
    "active": {
        0: ["MaskAmongRequest", "AdvertiseRequest"],
        1: ["ConfirmRequest", "RosterRequest"],
        2: ["SignedUnmaskRequest", "AcceptRequest"],
    },
}


# How many exchanges there are, and what is in them


@guards
def test_a_long_series_costs_two_exchanges_per_round_or_three(guard):
    """Counted, not computed: 1 more round is 2 more exchanges (3 under ``active``)."""
    counts = []
    for rounds in (1, 2, 7, 8):
        play, exchanges = SeriesPlay(guard, rounds=rounds), count()
        while not play.series.finished:
            next(exchanges)
            play.exchange()
        counts.append(next(exchanges))
    assert counts[0] == STEPS[guard]  # a single round is a series of length one
    assert counts[1] - counts[0] == counts[3] - counts[2] == STRIDE[guard]
    assert counts[3] == STEPS[guard] + 7 * STRIDE[guard]


@guards
def test_each_exchange_carries_what_the_table_of_the_guard_and_its_stride_say(guard):
    play, stride = SeriesPlay(guard, rounds=8), STRIDE[guard]
    for exchange in range(stride * 8):
        play.exchange()
        if exchange >= STEPS[guard]:
            assert all(kinds(one) == CARRIED[guard][exchange % stride] for one in play.requests.values())


@guards
def test_an_envelope_has_room_for_every_round_in_flight(guard):
    schedule = Schedule.of(configure_series(guard))
    in_flight = -(-len(schedule.requests) // schedule.stride)
    assert in_flight <= envelope.MOST


@guards
def test_the_vectors_of_a_round_are_asked_for_once_the_sum_before_is_there(guard):
    """So a round may work on the sum of the one before."""
    play, known, worked = SeriesPlay(guard, rounds=5), [], {}

    def task(number):
        worked[number] = list(known)
        return task_of(number)

    for ended in run_series(play.series, series_in_memory(play.clients), task):
        known += [ended.number]
    assert worked == {number: list(range(number)) for number in range(5)}


@guards
def test_rounds_have_fresh_keys_and_contexts_of_their_own(guard):
    play, seen = SeriesPlay(guard, rounds=4), {}
    while not play.series.finished:
        for i, request in play.open().items():
            reply = play.clients[i].receive(request)
            play.series.receive(i, reply)
            for one in map(read, opened(reply)):
                if isinstance(one, m.AdvertiseReply | m.SignedAdvertiseReply):
                    seen.setdefault(one.context, set()).update((one.keys[:32], one.keys[32:]))
        play.series.close()
    assert len(seen) == 4
    assert len(set().union(*seen.values())) == 4 * 6 * 2


@guards
def test_a_series_may_start_at_any_number(guard):
    play = SeriesPlay(guard, rounds=2, number=MAX_NUMBER - 1)
    assert list(survivors(play.run())) == [MAX_NUMBER - 1, MAX_NUMBER]
    with pytest.raises(ConfigError, match=r"rounds must lie in 1\.\.1,"):
        Series(msgspec.structs.replace(play.config, number=MAX_NUMBER), rounds=2)


# Members, dropouts, lost rounds


@guards
def test_who_misses_an_exchange_is_out_of_the_rounds_in_flight_and_asked_again(guard):
    """Client 5 is gone for one exchange, whichever: it is in all rounds but those that were in flight."""
    stride, steps = STRIDE[guard], STEPS[guard]
    for gone in range(stride * 2, stride * 3):
        play = SeriesPlay(guard, rounds=6)
        found = survivors(play.run(lambda exchange, client, gone=gone: (exchange, client) == (gone, 5)))
        for number, members in found.items():
            step = gone - number * stride
            has_masked = step == steps - 1  # its vector is in; the others open the sum without it
            confirms = guard == "active" and step == steps - 2
            out = 0 <= step < steps and not has_masked and not confirms
            assert (5 not in members) == out, (gone, number)
        assert all(len(members) >= 5 for members in found.values())


@guards
def test_members_come_and_go_between_rounds(guard):
    play, stride = SeriesPlay(guard, clients=8, rounds=5), STRIDE[guard]
    plans = [{0, 1, 2, 3, 4}, {3, 4, 5, 6, 7}, set(range(8)), {1, 2, 3, 4, 5, 6}, {0, 2, 4, 6, 7}]
    ended = []
    for exchange in count():
        if play.series.finished:
            break
        if exchange % stride == 0 and exchange // stride < len(plans):
            play.series.members.clear()
            play.series.members |= plans[exchange // stride]
        ended += play.exchange()
    assert survivors(ended) == {number: tuple(sorted(plan)) for number, plan in enumerate(plans)}


@guards
@pytest.mark.parametrize("step", range(5))
def test_a_lost_round_costs_one_round_and_not_the_series(guard, step):
    """In one step of round 2 nearly all messages of it, and only of it, are lost on their way."""
    play = SeriesPlay(guard, rounds=5)
    ended = []
    for exchange in count():
        if play.series.finished:
            break
        lossy = exchange == 2 * STRIDE[guard] + step
        lost = msgspec.structs.replace(play.config, number=2).context
        for i, request in play.open().items():
            reply = play.clients[i].receive(request)
            if lossy and i > 0:
                reply = envelope.pack(one for one in opened(reply) if m.context_of(one) != lost)
            play.series.receive(i, reply)
        ended += play.series.close()
    outcomes = survivors(ended)
    assert outcomes.pop(2) is None
    assert outcomes == dict.fromkeys((0, 1, 3, 4), tuple(range(6)))
    failed = next(one for one in ended if one.number == 2)
    with pytest.raises(type(failed.failure)):
        failed.result()
    assert not any(client.rounds for client in play.clients.values())


def test_the_first_round_may_be_lost_for_want_of_members():
    play = SeriesPlay(rounds=3)
    play.series.members.clear()
    assert play.open() == {}
    (lost,) = play.series.close()
    assert isinstance(lost.failure, TooFewClients)
    play.series.members.update(range(6))
    ended = []
    while not play.series.finished:
        ended += play.exchange()
    assert survivors(ended) == {1: tuple(range(6)), 2: tuple(range(6))}


def states_of_servers():
    gc.collect()
    return {one for one in gc.get_objects() if isinstance(one, Drawn)}


def test_a_failure_that_is_kept_keeps_no_state_of_its_server():
    others = states_of_servers()  # of tests before this one
    play = SeriesPlay(rounds=1)
    play.exchanges(3)
    play.open()
    assert states_of_servers() - others
    (lost,) = play.series.close()  # nobody sends a vector
    assert lost.failure.__traceback__ is lost.failure.__context__ is lost.failure.__cause__ is None
    assert not states_of_servers() - others


# The end


@guards
@pytest.mark.parametrize("exchanges", [1, 2, 3, 4, 5, 6, 7])
def test_a_stopped_series_leaves_no_keys_behind(guard, exchanges):
    play = SeriesPlay(guard, rounds=None)
    for exchange in range(exchanges):
        play.exchange(missing={exchange % 6})  # who missed something still holds keys
    assert any(client.rounds for client in play.clients.values())
    last = play.series.stop()
    assert set(last) == set(range(6))
    assert all(play.clients[i].receive(request) == b"" for i, request in last.items())
    assert not any(client.rounds for client in play.clients.values())
    assert not play.series._servers
    assert play.series.finished
    assert play.series.stop() == {}


@guards
def test_when_the_caller_of_a_series_goes_away_no_client_keeps_keys(guard):
    play = SeriesPlay(guard, rounds=None)
    for ended in run_series(play.series, series_in_memory(play.clients), task_of):
        if ended.number == 2:
            break
    gc.collect()  # the generator ends with the loop
    assert play.series.finished
    assert not any(client.rounds for client in play.clients.values())


@guards
def test_nor_when_something_breaks_in_the_middle(guard):
    play = SeriesPlay(guard, rounds=None)

    def task(number):
        if number == 2:
            raise KeyboardInterrupt
        return task_of(number)

    with pytest.raises(KeyboardInterrupt):
        list(run_series(play.series, series_in_memory(play.clients), task))
    assert play.series.finished
    assert not any(client.rounds for client in play.clients.values())


def test_members_that_were_never_asked_are_not_told_of_the_end():
    play = SeriesPlay(rounds=None)
    play.series.members.remove(4)
    play.exchange()
    assert set(play.series.stop()) == {0, 1, 2, 3, 5}


# Calls in the wrong order, at once, or interrupted


def test_the_series_says_what_is_out_of_order():
    play = SeriesPlay(rounds=1)
    for call in (play.series.close, lambda: play.series.receive(0, b"")):
        with pytest.raises(OrderError, match="no exchange is open"):
            call()
    play.open()
    with pytest.raises(OrderError, match="close the exchange"):
        play.series.open()
    for _ in range(4):
        for i, request in play.requests.items():
            play.series.receive(i, play.clients[i].receive(request))
        play.series.close()
        play.open()
    for i, request in play.requests.items():
        play.series.receive(i, play.clients[i].receive(request))
    assert len(play.series.close()) == 1
    assert play.series.finished
    for call in (play.series.open, lambda: play.series.open(task_of(1))):
        with pytest.raises(OrderError, match="the series is over"):
            call()
    with pytest.raises(OrderError, match="not over"):
        Ended(number=0).result()


def test_after_stop_nothing_opens_and_nothing_is_taken():
    play = SeriesPlay(rounds=None)
    replies = {i: play.clients[i].receive(request) for i, request in play.open().items()}
    play.series.stop()
    with pytest.raises(OrderError):
        play.series.receive(0, replies[0])
    with pytest.raises(OrderError):
        play.series.close()
    with pytest.raises(OrderError, match="over"):
        play.series.open()
    assert play.series.waiting == frozenset()
    assert play.series.masking is None


def test_overlapping_calls_are_refused():
    """A server that takes its time to be made, and impatient callers."""
    inside, go_on = threading.Event(), threading.Event()

    def slow(config):
        inside.set()
        go_on.wait(10)
        return Server(config)

    series = Series(configure_series("curious"), server=slow)
    thread = threading.Thread(target=series.open)
    thread.start()
    inside.wait(10)
    for call in (series.open, series.close, series.stop, lambda: series.receive(0, b"")):
        with pytest.raises(OrderError, match="still at work"):
            call()
    go_on.set()
    thread.join()
    assert series.waiting == frozenset(range(6))


def test_after_an_interruption_a_series_can_only_be_stopped(monkeypatch):
    play = SeriesPlay(rounds=None)
    play.exchanges(2)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    play.open()
    monkeypatch.setattr(Server, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        play.series.receive(0, play.clients[0].receive(play.requests[0]))
    for call in (play.series.open, play.series.close, lambda: play.series.receive(0, b"")):
        with pytest.raises(OrderError, match="interrupted"):
            call()
    assert set(play.series.stop()) == set(range(6))
    assert play.series.finished


@guards
def test_an_exchange_that_cannot_be_opened_changes_nothing(guard):
    """A bad task, an unknown member, no server for the next round: correct it, and go on."""
    play = SeriesPlay(guard, rounds=4)
    play.exchanges(3)
    with pytest.raises(ConfigError, match="a task must be a digest"):
        play.series.open(b"short")
    if guard == "active":  # here the same exchange starts a round
        play.series.members.add(99)
        with pytest.raises(ConfigError, match="client id 99 was never enrolled"):
            play.open()
        play.series.members.remove(99)
    ended = []
    while not play.series.finished:
        ended += play.exchange()
    assert survivors(ended) == dict.fromkeys(range(4), tuple(range(6)))


def test_members_are_ids_of_enrolled_clients():
    play = SeriesPlay(rounds=1)
    for odd, text in ((6, "never enrolled"), (-1, "never enrolled"), ("x", "whole number")):
        play.series.members = {0, 1, odd}
        with pytest.raises(ConfigError, match=text):
            play.series.open()
    play.series.members = [0, 1, 2, 3]  # any collection will do
    assert set(play.series.open()) == {0, 1, 2, 3}


def test_a_server_of_another_round_is_the_callers_mistake():
    config = configure_series("curious")
    series = Series(config, server=lambda _: Server(msgspec.structs.replace(config, number=7)))
    with pytest.raises(ConfigError, match="made from another configuration"):
        series.open()
    with pytest.raises(ConfigError, match="expected Server, got NoneType"):
        Series(config, server=lambda _: None).open()


def test_rounds_of_a_series_have_accept():
    for guard in GUARDS:
        config = msgspec.structs.replace(configure_series(guard), accept=False)
        with pytest.raises(ConfigError, match="accept=True"):
            Series(config)
    with pytest.raises(ConfigError, match="expected RoundConfig"):
        Series(None)


def test_a_vector_must_fit_into_an_envelope():
    config = configure_series("curious", length=2**31 - 1)
    with pytest.raises(ConfigError, match="too long for a series"):
        Series(config)


@pytest.mark.parametrize("rounds", [0, -1, 1.5, "3", MAX_NUMBER + 2])
def test_rounds_are_counted_from_one(rounds):
    with pytest.raises(ConfigError, match="rounds"):
        Series(configure_series("curious"), rounds=rounds)


# Replies


def test_what_is_right_in_a_reply_is_taken_whatever_else_is_in_it():
    play = SeriesPlay(rounds=3)
    play.exchanges(2)
    for i, request in play.open().items():
        accept, advertise = opened(play.clients[i].receive(request))
        reply = envelope.pack([accept, advertise[:-1]] if i == 0 else [accept, advertise])
        if i == 0:
            with pytest.raises(FaultyClient) as error:
                play.series.receive(0, reply)
            assert error.value.client == 0
        else:
            play.series.receive(i, reply)
    play.series.close()
    ended = []
    while not play.series.finished:
        ended += play.exchange()
    assert survivors(ended) == {0: tuple(range(6)), 1: (1, 2, 3, 4, 5), 2: tuple(range(6))}


def test_replies_come_late_twice_and_from_strangers():
    play = SeriesPlay(rounds=3)
    replies = {i: play.clients[i].receive(request) for i, request in play.open().items()}
    for i, reply in replies.items():
        play.series.receive(i, reply)
    play.series.receive(0, replies[0])  # no news
    with pytest.raises(FaultyClient):
        play.series.receive(1, replies[0])
    with pytest.raises(FaultyClient, match="never enrolled"):
        play.series.receive(77, replies[0])
    with pytest.raises(ConfigError, match="whole number"):
        play.series.receive("0", replies[0])
    with pytest.raises(UsageError, match="a reply must be bytes"):
        play.series.receive(0, "text")
    play.series.close()
    play.open()
    with pytest.raises(LateMessage, match="advertise has closed"):
        play.series.receive(0, replies[0])


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (b"\1", "1 bytes after the last message"),
        (envelope.pack([b"x"])[:-1], "a message of 1 bytes in an envelope that has 0 left"),
        (bytes(4), "a message of 0 bytes"),
        (b"\xff" * 4 + b"x", "a message of 4294967295 bytes"),
        (envelope.pack([b"x"] * 4), "more than 3 messages"),
        (envelope.pack([b"x"]), "not in flight"),
    ],
)
def test_other_bytes_than_an_envelope_are_refused(reply, text):
    play = SeriesPlay(rounds=1)
    play.open()
    with pytest.raises(FaultyClient, match=text):
        play.series.receive(0, reply)
    assert play.series.waiting == frozenset(range(6))


def test_an_envelope_gives_back_what_was_put_into_it():
    messages = [b"a", b"bc" * 500, b"\0"]
    packed = envelope.pack(messages)
    assert [bytes(one) for one in envelope.unpack(packed)] == messages
    assert envelope.unpack(memoryview(bytearray(packed)))[1] == messages[1]
    assert len(packed) == sum(4 + len(one) for one in messages)
    for cut in range(1, len(packed)):
        if cut not in {5, 5 + 1004}:
            with pytest.raises(MalformedMessage):
                envelope.unpack(packed[:cut])


def test_waiting_names_who_owes_something():
    play = SeriesPlay(rounds=2)
    assert play.series.waiting == frozenset()
    play.open()
    play.series.receive(2, play.clients[2].receive(play.requests[2]))
    assert play.series.waiting == {0, 1, 3, 4, 5}
    assert play.series.rounds == (0,)
    play.series.close()
    assert play.series.waiting == frozenset()


@guards
def test_sums_are_those_of_the_survivors_whoever_is_missing(guard):
    """Everybody misses something, one after the other."""
    play = SeriesPlay(guard, clients=20, rounds=6)
    found = play.run(lambda exchange, client: exchange % 20 == client)
    assert [one.number for one in found] == list(range(6))
    assert all(a.number < b.number for a, b in pairwise(found))
    assert all(np.any(one.result().vector) for one in found)


@pytest.mark.needs("ml-kem")
@guards
def test_series_agree_in_the_hybrid_way_as_well(guard):
    """Somebody drops out, and everybody prepares its masks."""
    play, ended = SeriesPlay(guard, clients=8, rounds=3, agreement="x25519-mlkem768"), []
    for exchange in count():
        if play.series.finished:
            break
        for client in play.clients.values():
            client.prepare()
        ended += play.exchange(missing={3} if exchange == STRIDE[guard] + 1 else ())
    assert [one.number for one in ended] == [0, 1, 2]
    assert all(len(one.result().survivors) >= 7 for one in ended)
    assert ended[-1].result().survivors == tuple(range(8))
