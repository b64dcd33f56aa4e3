"""Several servers of one series, each reached by some clients, that follow one log stay one server."""

from collections import ChainMap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import words
from ccesa.errors import ConfigError, MalformedMessage, OrderError, OverlappingSums
from ccesa.protocol.series import Series
from series_rounds import GUARDS, SeriesPlay, task_of


class Replicas:
    """A play whose clients each reach one of several servers of the same series."""

    def __init__(self, play: SeriesPlay, count: int) -> None:
        self.play = play
        self.every = [self.new() for _ in range(count)]
        self.sums = {}

    def new(self) -> Series:
        return Series(self.play.config, server=self.play.new_server, rounds=2)

    def exchange(self, reached: list[int | None]) -> None:
        """One exchange: client i reaches server ``reached[i]``, or none."""
        masking = self.every[0].masking
        task = task_of(0 if masking is None else masking)
        requests = [dict(one.open(task)) for one in self.every]
        assert all(one == requests[0] for one in requests)
        replies = {}
        for client, request in requests[0].items():
            if reached[client % len(reached)] is not None:
                replies[client] = self.play.clients[client].receive(request)
        owner = {client: self.every[reached[client % len(reached)]] for client in replies}
        for client, reply in replies.items():
            owner[client].receive(client, reply)
        saved = [{client: one.recall(client) for client in replies if owner[client] is one} for one in self.every]
        totals = [None if one.total is None else one.total.copy() for one in self.every]
        for place, one in enumerate(self.every):
            others = dict(ChainMap(*saved[:place], *saved[place + 1 :]))
            assert one.take_over(others, sum_of(totals[:place] + totals[place + 1 :])) == []
        ended = [one.close() for one in self.every]
        assert all(shown(one) == shown(ended[0]) for one in ended)
        self.sums |= {one.number: one for one in ended[0]}


def sum_of(totals) -> bytes:
    """The sum of those that are there, as bytes."""
    there = [one for one in totals if one is not None]
    if not there:
        return b""
    summed = there[0].copy()
    for one in there[1:]:
        words.add(summed, one.data)
    return summed.tobytes()


def shown(ended) -> list:
    """What two servers have to agree on."""
    return [
        (one.number, str(one.failure))
        if one.aggregate is None
        else (one.number, one.aggregate.survivors, one.aggregate.vector.tolist())
        for one in ended
    ]


@pytest.mark.parametrize("guard", GUARDS)
@given(
    reached=st.lists(st.lists(st.sampled_from([0, 0, 1, 1, 2, None]), min_size=6, max_size=6), min_size=1, max_size=12)
)
def test_servers_that_follow_one_log_stay_one_server(guard, reached):
    play = SeriesPlay(guard, clients=6, rounds=2)
    replicas = Replicas(play, 3)
    place = 0
    while not replicas.every[0].finished:
        replicas.exchange(reached[place % len(reached)])
        place += 1
    assert set(replicas.sums) == {0, 1}
    for number, ended in replicas.sums.items():
        if ended.aggregate is not None:
            plain = sum(play.vector(i, number).astype(object) for i in ended.aggregate.survivors)
            mask = (1 << play.config.bits) - 1
            assert [int(one) & mask for one in plain] == ended.aggregate.vector.tolist()


def test_what_cannot_be_taken_over():
    play = SeriesPlay(rounds=1)
    series = play.series
    with pytest.raises(OrderError):
        series.take_over({})
    requests = series.open()
    assert series.total is None
    with pytest.raises(ConfigError, match="asks for none"):
        series.take_over({}, b"\0" * 20)
    with pytest.raises(MalformedMessage):
        series.take_over({0: b"\0"})
    reply = play.clients[0].receive(requests[0])
    series.receive(0, reply)
    assert series.recall(0) == reply
    assert series.recall(1) == b""


def test_two_answers_that_do_not_go_together_are_reported():
    """Each was right where it came, and the second to be taken is left out, by name."""
    play = SeriesPlay(rounds=1)
    first, second = play.series, Series(play.config, server=play.new_server, rounds=1)
    requests = first.open()
    second.open()
    reply = play.clients[0].receive(requests[0])
    first.receive(0, reply)
    copied = bytearray(reply)
    # The same keys in the name of client 1: only the id differs.
    honest = play.clients[1].receive(requests[1])
    at = next(i for i in range(len(reply)) if reply[i] != honest[i])
    copied[at] = honest[at]
    second.receive(1, bytes(copied))
    (fault,) = first.take_over({1: second.recall(1)})
    assert fault.client == 1
    assert first.recall(1) == b""


def test_a_vector_that_two_have_taken_is_not_added_twice():
    """Nothing has changed, of no round of the exchange: without that client's, the others' are taken."""
    play = SeriesPlay(rounds=2)
    replicas = Replicas(play, 2)
    while replicas.every[0].masking is None:
        replicas.exchange([0, 1])
    first, second = replicas.every
    task = task_of(first.masking)
    requests = dict(first.open(task))
    second.open(task)
    for client, request in requests.items():
        reply = play.clients[client].receive(request)
        first.receive(client, reply)
        if client == 1:
            second.receive(client, reply)
    before = [first.recall(client) for client in requests], first.total.copy()
    with pytest.raises(OverlappingSums, match="client 1"):
        first.take_over({1: second.recall(1)}, second.total.tobytes())
    assert [first.recall(client) for client in requests] == before[0]
    assert (first.total == before[1]).all()
