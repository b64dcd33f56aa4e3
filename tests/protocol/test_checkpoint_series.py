"""A series that is lost at any moment and restored elsewhere goes on, and asks nobody twice."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError, OrderError, RoundFailed, StaleCheckpoint
from ccesa.protocol.schedule import numbered
from ccesa.protocol.series import Series
from ccesa.protocol.series_client import SeriesClient
from ccesa.simulate.enrolment import new_client, new_server
from rounds import CONFIGURE, federation_of, inputs

CLIENTS = 7
each_guard = pytest.mark.parametrize("guard", ["curious", "active"])


def first_of(guard, clients=CLIENTS):
    return msgspec.structs.replace(CONFIGURE[guard](clients, length=6), accept=True)


class DurableSeries:
    """A series in memory with clients of its own, of which one call at a time is made."""

    def __init__(self, config, rounds, seed=0):
        self.config, self.rounds, self.seed = config, rounds, seed
        self.openings, self.ended = set(), {}
        self.series, self.requests = self.new(), {}
        self.clients = {i: SeriesClient(config, lambda one, i=i: self.client(one, i)) for i in range(CLIENTS)}

    def new(self, openings=None):
        openings = self.openings if openings is None else openings
        return Series(
            self.config,
            server=lambda config: new_server(config, federation_of(config), openings=openings),
            rounds=self.rounds,
        )

    def vectors(self, config):
        return inputs(config, self.seed + config.number)

    def client(self, config, i):
        return new_client(config, i, self.vectors(config)[i], federation_of(config))

    def open(self):
        self.requests = self.series.open()

    def hand_over(self, client, reply):
        self.series.receive(client, reply)

    def close(self):
        self.note(self.series.close())

    def note(self, ended):
        self.ended |= {one.number: one for one in ended}

    def exchange(self, gone=()):
        self.open()
        for client, request in self.requests.items():
            if client not in gone:
                self.hand_over(client, self.clients[client].receive(request))
        self.close()

    def restore(self, data):
        self.series = self.new()
        return self.series.restore(data)

    def finish(self):
        while not self.series.finished:
            self.exchange()
        return self.ended

    def is_right(self, number):
        result = self.ended[number].result()
        vectors = self.vectors(numbered(self.config, number))
        return np.array_equal(result.vector, sum(vectors[i] for i in result.survivors))


class Interrupted(DurableSeries):
    """After every call the series is lost, and another one goes on; a twin is never lost."""

    def __init__(self, config, rounds, seed=0):
        super().__init__(config, rounds, seed)
        self.twin = self.new(openings=set())

    def renew(self):
        data = self.series.checkpoint()
        assert self.restore(data) == (self.requests if self.series._is_open else {}) == self.requests
        assert self.series.checkpoint() == data
        assert (self.series.waiting, self.series.masking) == (self.twin.waiting, self.twin.masking)

    def open(self):
        super().open()
        assert self.requests == self.twin.open()
        self.renew()

    def hand_over(self, client, reply):
        super().hand_over(client, reply)
        self.twin.receive(client, reply)
        self.renew()

    def close(self):
        ended, expected = self.series.close(), self.twin.close()
        assert [(one.number, str(one.failure)) for one in ended] == [
            (one.number, str(one.failure)) for one in expected
        ]
        self.note(ended)
        self.requests = {}
        self.renew()


@given(st.sampled_from(["curious", "active"]), st.integers(1, 4), st.data(), st.integers(0, 1000))
@settings(max_examples=12)
def test_a_series_that_is_restored_after_every_call_is_the_same_series(guard, rounds, data, seed):
    play = Interrupted(first_of(guard), rounds, seed)
    while not play.series.finished:
        if data.draw(st.integers(0, 5)) == 0:
            play.series.members = play.twin.members = set(data.draw(st.sets(st.integers(0, 6), min_size=5)))
        play.exchange(data.draw(st.sets(st.integers(0, CLIENTS - 1), max_size=1)))
    assert play.twin.finished
    assert sorted(play.ended) == list(range(rounds))
    assert all(play.is_right(number) for number, one in play.ended.items() if one.failure is None)


@each_guard
@pytest.mark.parametrize("call", ["open", "close"])
@pytest.mark.parametrize("before", range(7))
def test_a_series_lost_before_it_was_saved_loses_the_rounds_that_went_on_and_no_other(guard, call, before):
    play = DurableSeries(first_of(guard), 5)
    for _ in range(before):
        play.exchange()
    if call == "close":
        play.open()
        for client, request in play.requests.items():
            play.hand_over(client, play.clients[client].receive(request))
    data, ended, known = play.series.checkpoint(), dict(play.ended), set(play.openings)
    getattr(play, call)()
    went_on = {entry[:32] for entry in play.openings - known}
    play.ended = ended
    requests = play.restore(data)
    assert bool(requests) is (call == "close" and bool(play.series._servers))
    if call == "close":
        play.close()
    play.finish()
    assert sorted(play.ended) == list(range(5))
    lost = {number: one.failure for number, one in play.ended.items() if one.failure}
    assert lost.keys() == {one for one in range(5) if numbered(play.config, one).context in went_on}
    assert all(isinstance(failure, StaleCheckpoint) for failure in lost.values())
    # Frames of a server hold on to shares.
    assert all(failure.__traceback__ is failure.__context__ is None for failure in lost.values())
    assert all(play.is_right(number) for number in play.ended.keys() - lost.keys())


@each_guard
def test_s27_an_old_checkpoint_costs_all_rounds_since_and_no_more(guard):
    play = DurableSeries(first_of(guard), 6)
    play.exchange()
    old = play.series.checkpoint()
    while len(play.ended) < 2:
        play.exchange()
    play.restore(old)
    play.ended.clear()
    play.finish()
    lost = [number for number, one in play.ended.items() if isinstance(one.failure, StaleCheckpoint)]
    assert lost == list(range(len(lost)))  # and none twice, whatever became of it before
    assert 2 < len(lost) < 6
    assert all(play.is_right(number) for number in range(len(lost), 6))


def test_a_round_that_was_lost_and_not_told_of_is_told_of_after_a_restore():
    play = DurableSeries(first_of("curious"), 1)
    for _ in range(2):
        play.exchange()
    play.open()
    play.close()  # nobody answered accept
    play.open()
    assert play.series._ended
    assert play.restore(play.series.checkpoint()) == {}
    (ended,) = play.series.close()
    assert type(ended.failure) is RoundFailed
    assert "step accept: 0 answered" in str(ended.failure)
    assert play.series.finished


def test_what_is_refused():
    play = DurableSeries(first_of("curious"), 2)
    play.exchange()
    data = play.series.checkpoint()
    with pytest.raises(OrderError, match="opened already"):
        play.series.restore(data)
    with pytest.raises(ConfigError, match="damaged"):
        play.restore(data[:-1])
    with pytest.raises(ConfigError, match="another configuration"):
        DurableSeries(first_of("curious"), 2).restore(data)
    with pytest.raises(ConfigError, match="do not have this round"):
        play.new(openings=set()).restore(data)
    server = new_server(play.config, openings=play.openings)
    with pytest.raises(ConfigError, match="of this kind"):
        server.restore(data)
    plain = Series(play.config)
    plain.open()
    with pytest.raises(ConfigError, match="openings"):
        plain.checkpoint()
