"""Rounds and series with helpers replay from their logs: lost at every row, they go on with the same bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assisted_rounds import NOW, TASK, AssistedPlay, Home, read
from assisted_series import AssistedSeries
from ccesa.errors import ConfigError, FaultyClient, HelpersMissing
from ccesa.protocol.log import AskRow, OpenRow, ReplyRow, RoundLog
from ccesa.protocol.series import Ended, Series
from ccesa.simulate.enrolment import new_server
from series_rounds import task_of


class Logged:
    """A log in a folder, opened again as after a crash."""

    def __init__(self, folder) -> None:
        self.folder, self.log = folder, None

    def open(self, **_) -> RoundLog:
        if self.log is not None:
            self.log.close()
        self.log = RoundLog(self.folder / "log", counter=self.folder / "counter")
        return self.log

    def rows(self) -> list[object]:
        return list(self.log._rows())


@pytest.fixture
def logged(tmp_path):
    found = Logged(tmp_path)
    yield found
    if found.log is not None:
        found.log.close()


class LostRound(AssistedPlay):
    """After each call that is chosen the server is lost, and another one goes on from the log."""

    def __init__(self, logged: Logged, lost, **options) -> None:
        self.logged, self.lost, self.calls, self.replays = logged, lost, 0, 0
        self.sent: dict[bytes, bytes] = {}
        super().__init__(server=lambda config: self.new_server(log=logged.open()), **options)
        self.after_call()

    def after_call(self) -> None:
        self.calls += 1
        if not self.lost(self.calls) or self.server.finished:
            return
        before = self.server
        self.server = self.new_server(log=self.logged.open())
        requests = dict(self.server.replay())
        self.replays += 1
        assert requests == self.requests
        for name in ("waiting", "taken", "held", "asked"):
            assert getattr(self.server, name) == getattr(before, name)
        one, other = (getattr(server._state, "total", np.zeros(0)) for server in (self.server, before))
        assert np.array_equal(one, other)

    def ask(self, party: int, request: bytes) -> bytes:
        """A masked vector is kept by whoever carries it."""
        if request not in self.sent:
            self.sent[request] = super().ask(party, request)
        return self.sent[request]

    def receive(self, party: int, reply: bytes) -> None:
        self.server.receive(party, reply)
        self.after_call()

    def play(self, gone=()) -> None:
        while self.requests:
            for party, request in self.requests.items():
                if party not in gone or self.server.step.name != "mask":
                    self.receive(party, self.ask(party, request))
                    self.confirm_some(party)
            self.requests = dict(self.server.close())
            self.after_call()

    def confirm_some(self, party: int) -> None:
        """After every second vector, and after the last one."""
        if self.server.step.name != "mask" or not (party % 2 or party == max(self.members)):
            return
        requests = self.server.ask_helpers()
        self.after_call()
        for helper, request in requests.items():
            self.receive(helper, self.ask(helper, request))


def calls_of_a_round(tmp_path) -> int:
    logged = Logged(tmp_path)
    play = LostRound(logged, lambda call: False)
    play.play()
    logged.log.close()
    return play.calls


@pytest.mark.parametrize("agreement", ["x25519", pytest.param("x25519-mlkem768", marks=pytest.mark.needs("ml-kem"))])
def test_a_server_that_is_lost_after_every_call(logged, agreement):
    play = LostRound(logged, lambda call: True, agreement=agreement)
    play.play({2})
    play.check_sum((0, 1, 3))
    assert play.replays > 15
    rows = [type(row) for row in logged.rows()]
    assert rows.count(AskRow) == 2
    assert rows.count(OpenRow) == 3
    assert rows.count(ReplyRow) == 2 + 3 + 4 + 2


@pytest.mark.parametrize("place", range(1, 19))
def test_a_server_that_is_lost_once(logged, place):
    play = LostRound(logged, lambda call: call == place)
    play.play()
    play.check_sum()
    assert play.replays == (place < play.calls)


def test_those_are_all_the_places(tmp_path):
    assert calls_of_a_round(tmp_path) == 18


def test_members_that_were_not_asked_stay_so(logged):
    play = AssistedPlay()
    play.server = play.new_server(log=logged.open())
    play.requests = dict(play.server.open([1, 2, 3]))
    play.server = play.new_server(log=logged.open())
    assert dict(play.server.replay()) == play.requests
    play.step()
    assert sorted(play.requests) == [1, 2, 3]
    play.finish()
    play.check_sum((1, 2, 3))


def test_refused_replies_are_not_in_the_log(logged):
    play = AssistedPlay()
    play.server = play.new_server(log=logged.open())
    play.requests = dict(play.server.open())
    reply = play.ask(4, play.requests[4])
    before = len(logged.rows())
    for bad in (reply[:-1], reply[:60] + b"\0" + reply[61:]):
        with pytest.raises(FaultyClient):
            play.server.receive(4, bad)
    play.server.receive(4, reply)
    play.server.receive(4, reply)
    assert len(logged.rows()) == before + 1


def test_asking_for_nothing_is_not_in_the_log(logged):
    play = AssistedPlay()
    play.server = play.new_server(log=logged.open())
    play.requests = dict(play.server.open())
    play.step()
    before = len(logged.rows())
    assert play.server.ask_helpers() == {}
    assert len(logged.rows()) == before


@pytest.mark.parametrize("other", ["helpers", "charter", "series"])
def test_the_log_of_another_round_is_refused(logged, other):
    play = AssistedPlay()
    play.new_server(log=logged.open()).open()
    there = {
        "helpers": lambda: AssistedPlay(helpers=3),
        "charter": lambda: AssistedPlay(serial=2),
        "series": lambda: AssistedPlay(config=play.charter.config(length=5, series_id=bytes([1]) * 32)),
    }[other]()
    again = new_server(there.config, there.federation, task=TASK, now=NOW, log=logged.open())
    with pytest.raises(ConfigError, match="another"):
        again.replay()


def test_a_round_that_was_lost_stays_lost(logged):
    play = AssistedPlay()
    play.server = play.new_server(log=logged.open())
    play.requests = dict(play.server.open())
    play.server.receive(4, play.ask(4, play.requests[4]))
    with pytest.raises(HelpersMissing):
        play.server.close()
    again = play.new_server(log=logged.open())
    again.replay()
    with pytest.raises(HelpersMissing):
        again.close()


# Series


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_a_series_that_is_lost_at_any_moment(tmp_path_factory, data):
    """After any call: the rounds in flight go on with the same bytes, helpers' keys and all."""
    logged = Logged(tmp_path_factory.mktemp("series"))
    lost = data.draw(st.sets(st.integers(1, 90), max_size=12))
    play = LostSeries(logged, lost.__contains__)
    ended = play.play(3)
    logged.log.close()
    assert [one.number for one in ended] == [0, 1, 2]
    assert all(one.aggregate is not None for one in ended)


def test_a_series_that_is_lost_after_every_call(logged):
    play = LostSeries(logged, lambda call: True)
    ended = play.play(3)
    assert [one.result().survivors for one in ended] == [tuple(range(4))] * 3
    assert play.replays == play.calls > 30
    assert any(isinstance(row, AskRow) for row in logged.rows())


class LostSeries(AssistedSeries):
    """After each call that is chosen the series is lost, and another one goes on from the log."""

    def __init__(self, logged: Logged, lost) -> None:
        self.logged, self.lost, self.calls, self.replays = logged, lost, 0, 0
        self.sent: dict[bytes, bytes] = {}
        super().__init__()

    def new_series(self, rounds: int | None) -> Series:
        return Series(self.config, server=self.new_server, rounds=rounds, log=self.logged.open())

    def after_call(self, requests: dict[int, bytes]) -> None:
        self.calls += 1
        if not self.lost(self.calls):
            return
        before, self.series = self.series, self.new_series(self.rounds)
        assert dict(self.series.replay()) == requests
        self.replays += 1
        for name in ("waiting", "rounds", "steps", "finished"):
            assert getattr(self.series, name) == getattr(before, name)

    def ask(self, party: int, request: bytes) -> bytes:
        if (party, request) not in self.sent:
            self.sent[party, request] = super().ask(party, request)
        return self.sent[party, request]

    def play(self, rounds: int) -> list[Ended]:
        ended: list[Ended] = []
        while not self.series.finished:
            working = self.series.masking
            opening = dict(self.series.open(*([] if working is None else [task_of(working)])))
            self.after_call(opening)
            requests = opening
            while requests:
                for party, request in requests.items():
                    self.series.receive(party, self.ask(party, request))
                    self.after_call(opening)
                requests = dict(self.series.ask_helpers())
                if requests:
                    self.after_call(opening)
            for one in self.series.close():
                self.check(one)
                ended.append(one)
        assert len(ended) == rounds == self.rounds
        return ended


def test_homes_are_where_answers_come_from(tmp_path):
    """The log of a server has nothing of a helper's secrets in it."""
    logged = Logged(tmp_path)
    play = LostRound(logged, lambda call: False, homes={4: Home(), 5: Home()})
    secrets = []
    for step in range(2):
        for party, request in play.requests.items():
            play.receive(party, play.ask(party, request))
            play.confirm_some(party)
        if not step:
            secrets = [play.homes[helper].keys.get(play.config.context).secret for helper in (4, 5)]
        play.requests = dict(play.server.close())
    written = (tmp_path / "log").read_bytes()
    assert all(read(request).context in written for request in play.requests.values())
    assert not any(secret in written for secret in secrets)
    logged.log.close()
