"""Attacks by a lying server: each fails, and succeeds once its one defence is taken away."""

import re
from functools import partial

import numpy as np
import pytest

from attacks import server_cut
from attacks.base import Outcome
from attacks.client_accusations import gang
from attacks.registry import ATTACKS, find
from attacks.relaxed import relaxed, skip
from attacks.server_attempts import sum_twice
from attacks.server_views import split_view
from attacks.servers import SERVER_ATTACKS
from ccesa.errors import UsageError
from ccesa.graphs import ErdosRenyi, Graph, Harary
from ccesa.graphs.assignment import draw
from ccesa.protocol import active_client
from ccesa.protocol.server import Server

#: With its defence in place: what the last lines say about where it was stopped.
STOPPED = {
    "S1": "two disjoint sets of holders exist",
    "S2": r"(\d+) of \1 neighbours .* the server holds 1 of \d+ shares of b_",
    "S3": "all four aborted",
    "S4": "lists this client itself as dropped",
    "S5": "the round is over for this client",
    "S6": "0 shares of b_3",
    "S7": "the roster that the server committed to",
    "S8": "the roster that the server committed to",
    "S9": "client 0 did not sign its keys",
    "S10": "did not sign the survivors",
    "S11": "refused before it made keys: the round is for another charter",
    "S12": "refused before a key was made",
    "S13": "this series has had a round of this number",
    "S14": "stays on",
    "S15": "client 3 sent no vector .*another task than the one this client works on",
    "S16": "cannot use what clients 0, 1, 2, 4, 5, 6, 7, 8 sealed for it",
    "S17": "fewer than its threshold",
    "S18": r"no V3 opens a sum of fewer than (\d+) honest clients",
    "S19": r"(\d+) of \1 holders aborted; the server has 2 of",
    "S20": "4 clients in the roster, the charter demands 13",
    "S21": "refused before it made keys: the round differs from the charter in graph",
    "S22": "refused before it made keys: the round differs from the charter in threshold",
    "S23": "refused before it made keys: the round differs from the charter in graph",
    "S24": "did not sign its keys as the server shows them",
    "S25": "the mask between clients 3 and 0 stays on",
    "S26": "clients 0, 1, 2, 4, 5, 6, 7, 8 aborted: client 3 did not sign the survivors",
    "S27": "is behind its counter",
    "S29": r"the smallest sum that opens has 50 honest clients, .* 26 are counted on",
    "S34": r"there is no sum: too few live share holders .* could not open what client 5\d sealed for it",
    "S35": "1 honest left out, and with them 1 of the 3 liars",
    "S36": r"sent no second vector .* released its shares for this task 1 time",
    "S37": "every client refused: an exchange that is over",
    "S38": "sent nothing .* released its shares for this task 1 time",
    "S39": "contributed to this task in another series: repeat a lost round in that one",
    "S40": "it cost one task, and 3 of 3 that follow have sums",
    "S41": "there is no sum: step advertise: 19 answered, the round needs 89",
    "S42": "nobody in the part that was cut off was asked; the sum of 30 is right",
    "S43": "the hub asks nobody: the database has gone back: it lacks exchange 4 of series 1",
}
#: Rows whose harm is not a vector.
NOTHING_STOLEN = {"S3", "S10", "S35", "S40", "S42"}
#: As many clients as show it; the command takes a thousand.
SMALLER = {"S2": partial(split_view, clients=60, degree=10.0)}


def run(number: str, defended: bool) -> tuple[Outcome, str]:
    told: list[str] = []
    attack = SMALLER.get(number) or find(number).run
    return attack(defended, told.append), "\n".join(told)


def test_every_row_has_one():
    assert [attack.number for attack in SERVER_ATTACKS] == [f"S{k}" for k in [*range(1, 28), 29, *range(34, 44)]]
    assert STOPPED.keys() == {attack.number for attack in SERVER_ATTACKS}
    numbers = [attack.number for attack in ATTACKS.values() if attack.name != "two-charters"]  # H3 has two
    assert len(numbers) == len(set(numbers)) == len(ATTACKS) - 1


@pytest.mark.parametrize("number", STOPPED)
def test_the_defence_holds(number):
    outcome, told = run(number, defended=True)
    assert not outcome.succeeded
    assert outcome.stolen is None
    assert re.search(STOPPED[number], f"{told}\n{outcome.summary}")


@pytest.mark.parametrize("number", STOPPED)
def test_without_the_defence_it_succeeds(number):
    outcome, _ = run(number, defended=False)
    assert outcome.succeeded
    if number in NOTHING_STOLEN:
        assert outcome.stolen is None
    else:
        assert np.array_equal(outcome.stolen, outcome.victim)
        assert outcome.victim.any()


def test_s2_every_neighbour_of_the_victim_aborts():
    summary = run("S2", defended=True)[0].summary
    aborted, near, held, needed = map(
        int, re.search(r"(\d+) of (\d+) neighbours .* (\d+) of (\d+) shares", summary).groups()
    )
    assert aborted == near
    assert held < needed


@pytest.mark.slow
@pytest.mark.parametrize("defended", [True, False], ids=["on", "off"])
def test_s2_among_a_thousand_clients(defended):
    outcome = split_view(defended, lambda line: None)
    assert outcome.succeeded is not defended
    if defended:
        assert re.search(STOPPED["S2"], outcome.summary)
    else:
        assert np.array_equal(outcome.stolen, outcome.victim)


def test_s6_a_late_vector_leaves_the_sum_as_it_is():
    told = run("S6", defended=True)[1]
    assert "step mask has closed" in told
    assert "unchanged" in told


def test_s35_under_curious_nobody_is_left_out_but_for_the_one_that_is_believed_to_lie():
    assert gang(True, lambda line: None, "curious").summary.startswith("0 honest left out, and with them 0")
    outcome = gang(False, lambda line: None, "curious")
    assert outcome.succeeded
    assert outcome.summary.startswith("1 honest left out, and with them 0")


def test_s9_swapped_keys_and_bundles_are_noticed_too():
    assert "clients 0, 1 aborted: client 2 did not sign its keys" in run("S9", defended=True)[1]


def test_s13_messages_of_another_round_are_noticed_too():
    told = run("S13", defended=True)[1]
    assert "client 0 aborted: a message of another round" in told
    assert "client 1 aborted: it cannot use what clients 2, 3, 4, 5, 6, 7, 8 sealed for it" in told


def test_s25_replayed_mixed_and_repeated_messages_are_refused_too():
    told = run("S25", defended=True)[1]
    assert "client 0 refuses: messages of different exchanges in one envelope" in told
    assert "client 1 refuses: messages of rounds that this client is not in" in told
    assert "client 2 refuses: two messages of round 0 in one envelope" in told


def drawn(kind: Graph, clients: int, colluders: int, seed: int) -> server_cut.Drawn:
    """A graph with the thresholds of the active guard, the last few clients colluding."""
    graph = draw(kind, np.random.default_rng(seed).bytes(32), np.arange(clients))
    near = [sum(1 << int(j) for j in graph.neighbours(i)) for i in range(clients)]
    friends = (1 << clients) - (1 << (clients - colluders))
    counts = [(word.bit_count(), (word & friends).bit_count()) for word in near]
    return server_cut.Drawn(
        near=near,
        mask_near=[sum(1 << int(j) for j in graph.mask_neighbours(i)) for i in range(clients)],
        thresholds=[(d + 1 + c) // 2 + 1 for d, c in counts],
        colluders=friends,
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("colluders", [0, 1, 2])
@pytest.mark.parametrize("kind", [Harary(degree=4), Harary(degree=6), ErdosRenyi(p=0.5)], ids=str)
def test_s18_no_cut_opens_less_than_was_promised(kind, colluders, seed):
    graph = drawn(kind, 11, colluders, seed)
    assert graph.keeps_promise(server_cut.best_cut(graph).group)


@pytest.mark.parametrize("seed", range(3))
def test_s18_with_thin_masks_a_cut_opens_one_client(seed):
    graph = drawn(Harary(degree=6, mask_degree=2), 12, 0, seed)
    cut = server_cut.best_cut(graph)
    assert cut.size == 1
    assert not graph.keeps_promise(cut.group)


def test_taking_away_what_is_not_there_is_refused():
    with pytest.raises(UsageError, match="nothing is taken away"):
        relaxed(active_client.share, check_confirmed=skip)
    with pytest.raises(UsageError, match="does not use _check_due"):  # a method, which no global name hides
        relaxed(Server._receive, _check_due=skip)


def test_an_attack_is_found_by_name_and_by_number():
    assert find("split-view") is find("S2") is find("s2")
    with pytest.raises(UsageError, match="no attack 'S99'"):
        find("S99")


@pytest.mark.parametrize("defended", [True, False], ids=["on", "off"])
def test_s38_holds_under_curious_too(defended):
    outcome = sum_twice(defended, lambda line: None, "curious")
    assert outcome.succeeded is not defended


def test_s39_in_one_series_the_later_vector_ends_the_earlier_round():
    told = run("S39", defended=True)[1]
    assert "a later round has asked for a vector for this task: this round is over" in told
