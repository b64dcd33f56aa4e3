"""A series that is lost at any moment and replayed from its log goes on, and asks nobody twice."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError, OrderError, OverlappingSums, RoundFailed, StaleLog
from ccesa.protocol.series import Series
from series_rounds import GUARDS, SeriesPlay, configure_series, task_of
from test_log import Cut, LogFolder, killed_within

each_guard = pytest.mark.parametrize("guard", GUARDS)


class LoggedSeries(LogFolder, SeriesPlay):
    """A series with a log."""

    def __init__(self, guard="curious", clients=6, rounds=3):
        LogFolder.__init__(self)
        SeriesPlay.__init__(self, guard, clients=clients, rounds=rounds)
        self.rounds, self.ended, self.series = rounds, {}, self.new(rounds)

    def new(self, rounds=3):
        return Series(self.config, server=self.new_server, rounds=rounds, log=self.log)

    def renew(self):
        """The series is lost, and another one goes on; return its requests."""
        self.put_back("")
        self.series = self.new(self.rounds)
        self.requests = self.series.replay()
        return self.requests

    def reply(self, client, request):
        return self.carried(client, request, lambda client, request: self.clients[client].receive(request))

    def answer(self, missing=()):
        """Everyone answers the open exchange, and it closes."""
        for client, request in self.requests.items():
            if client not in missing:
                self.series.receive(client, self.reply(client, request))
        for one in self.series.close():
            self.check(one)
            self.ended[one.number] = one

    def exchange(self, missing=()):
        self.open()
        self.answer(missing)

    def finish(self):
        while not self.series.finished:
            self.exchange()
        return self.ended

    def shown(self):
        return {n: one.aggregate and one.aggregate.survivors for n, one in sorted(self.ended.items())}


@each_guard
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_a_series_that_is_replayed_after_every_call_is_the_same_series(guard, data):
    with LoggedSeries(guard) as play, LoggedSeries(guard) as other:
        other.config, other.series = play.config, Series(play.config, server=play.new_server, rounds=3)
        other.clients, other._sent = play.clients, play._sent
        while not play.series.finished:
            missing = data.draw(st.sets(st.integers(0, 5), max_size=1))
            if data.draw(st.integers(0, 4)) == 0:
                play.series.members = other.series.members = set(data.draw(st.sets(st.integers(0, 5), min_size=4)))
            play.open()
            assert dict(other.open()) == dict(play.requests)
            assert dict(play.renew()) == dict(other.requests)
            for client, request in other.requests.items():
                if client not in missing:
                    play.series.receive(client, play.reply(client, request))
                    other.series.receive(client, play.reply(client, request))
                    play.renew()
                    assert play.series.waiting == other.series.waiting
            play.answer(missing)
            other.answer(missing)
            members = play.series.members
            play.renew()  # the exchange is open again, and gives the same
            play.answer(missing)
            play.series.members = members
        assert other.series.finished
        assert play.shown() == other.shown()
        assert play.shown().keys() == {0, 1, 2}


@each_guard
@given(count=st.sampled_from(range(90)), part=st.floats(0, 1))
@settings(max_examples=10, deadline=None)
def test_a_series_killed_within_any_write_loses_nothing(guard, count, part):
    with LoggedSeries(guard) as play, pytest.MonkeyPatch.context() as patch:
        killed_within(patch, count, part)
        with suppress(Cut):
            play.finish()
        patch.undo()
        if play.renew():
            play.answer()
        play.finish()
        assert play.shown() == dict.fromkeys(range(3), tuple(range(6)))


@each_guard
def test_a_log_of_a_series_has_no_rounds_that_are_over(guard):
    """It grows no further, however long the series is; and what is left can be replayed."""
    with LoggedSeries(guard, rounds=9) as play:
        sizes = []
        while not play.series.finished:
            play.exchange()
            sizes.append((play.folder / "log").stat().st_size)
            if len(sizes) % 4 == 0:
                play.renew()
                play.answer()
        assert max(sizes[:9]) == pytest.approx(max(sizes[9:]), rel=0.2)
        assert play.shown() == dict.fromkeys(range(9), tuple(range(6)))
        assert not (play.folder / "log.new").exists()


@pytest.mark.parametrize("call", ["Path.unlink", "os.replace", "files.sync_folder"])
def test_a_series_killed_while_its_log_is_cut_goes_on(call, monkeypatch):
    with LoggedSeries(rounds=3) as play:
        while not play.ended:
            play.exchange()
        with monkeypatch.context() as patch:
            patch.setattr(f"ccesa.logfile.{call}", die)
            with pytest.raises(Cut):
                play.open()
        if play.renew():
            play.answer()
        assert play.finish().keys() == {0, 1, 2}


def die(*_, **__):
    raise Cut


def test_numbers_that_went_unused_are_unused_after_a_replay():
    with LoggedSeries(rounds=4) as play:
        play.exchange()
        play.exchange()
        play.requests = play.series.open(start=False)
        play.renew()
        play.answer()
        assert play.finish().keys() == {0, 2, 3}


@each_guard
@pytest.mark.parametrize("before", range(1, 6))
def test_s27_an_old_log_of_a_series_ends_it(guard, before):
    with LoggedSeries(guard) as play:
        for _ in range(before):
            play.exchange()
        play.keep("old")
        play.exchange()
        play.put_back("old", "log")
        series = play.series = play.new()
        with pytest.raises(StaleLog, match="begin a new series"):
            series.replay()
        assert series.finished
        for call in (series.open, series.close):
            with pytest.raises(OrderError):
                call()


def test_what_another_series_took_is_replayed():
    with LoggedSeries(rounds=1) as play:
        other = Series(play.config, server=play.new_server, rounds=1)
        while not play.series.finished:
            task = task_of(0)
            requests = play.series.open(task)
            other.open(task)
            replies = {client: play.reply(client, request) for client, request in requests.items()}
            for client, reply in replies.items():
                (other if client % 2 else play.series).receive(client, reply)
            own, theirs = ({i: one.recall(i) for i in replies if one.recall(i)} for one in (play.series, other))
            totals = [b"" if one.total is None else one.total.tobytes() for one in (play.series, other)]
            if play.series._summing is None:
                totals = [b"", b""]
            play.series.take_over(theirs, totals[1])
            play.renew()
            with pytest.raises(OverlappingSums):
                play.series.take_over(theirs, totals[1])
            other.take_over(own, totals[0])
            other.close()
            for one in play.series.close():
                play.check(one)
                play.ended[one.number] = one
        assert play.shown() == {0: tuple(range(6))}


def test_what_is_refused():
    with LoggedSeries() as play:
        play.exchange()
        with pytest.raises(OrderError, match="opened already"):
            play.series.replay()
        with pytest.raises(OrderError, match="replay it"):
            play.new().open()
        other = Series(configure_series("curious"), log=play.log)
        with pytest.raises(ConfigError, match="another configuration"):
            other.replay()
        with pytest.raises(ConfigError, match="another series"):
            play.new_server(play.config).__class__(play.config, log=play.log).replay()
        with pytest.raises(ConfigError, match="log=RoundLog"):
            Series(play.config).replay()


def test_a_replay_that_asks_others_ends_the_series(monkeypatch):
    with LoggedSeries() as play:
        play.exchange()
        play.open()
        monkeypatch.setattr(Series, "_all_asked", lambda series: {0: [0, 1]})
        with pytest.raises(RoundFailed, match="does not fit this server"):
            play.renew()
        assert play.series.finished
        assert np.all(list(play.series.stop()) == list(range(6)))
