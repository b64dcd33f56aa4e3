"""A server that is lost at any moment and replayed from its log gives the same round, or fails it by name."""

import re
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import machine
from ccesa import logfile
from ccesa.errors import (
    RoundFailed,
)
from ccesa.graphs import Complete, Harary
from ccesa.protocol.log import RoundLog
from ccesa.protocol.steps import steps_of
from ccesa.simulate.enrolment import new_server
from rounds import CONFIGURE, Play, federation_of
from strategies import seeds

#: Guards, with and without the step accept and the hybrid agreement that needs it.
GUARDS = tuple(
    f"{guard}{more}"
    for guard in ("curious", "active")
    for more in ("", "+accept", "+hybrid")
    if more != "+hybrid" or machine.PARTS["ml-kem"].find()
)
TASK = bytes(range(32))


def configured(guard, clients, **options):
    name, _, more = guard.partition("+")
    if more == "hybrid":
        options["agreement"] = "x25519-mlkem768"
    return CONFIGURE[name](clients, **options, accept=bool(more))


def steps(guard):
    return steps_of(configured(guard, 6))


guards = st.sampled_from(GUARDS)
each_guard = pytest.mark.parametrize("guard", GUARDS)
each_closing = pytest.mark.parametrize(
    ("guard", "step"), [(guard, step.name) for guard in GUARDS for step in steps(guard)[:-1]]
)


class LoggedPlay(Play):
    """A round whose server has a log in a folder that is gone with it."""

    def __init__(self, config, seed=0, **options):
        self._folder = TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.log = self.open_log()
        super().__init__(config, server=self.new, seed=seed, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.log.close()
        self._folder.cleanup()

    def open_log(self):
        return RoundLog(self.folder / "log", counter=self.folder / "counter")

    def new(self, config, **options):
        return new_server(config, federation_of(config), log=self.log, **options)

    def keep(self, name):
        """Copy both files beside them."""
        for file in ("log", "counter"):
            shutil.copy(self.folder / file, self.folder / f"{file}.{name}")

    def put_back(self, name, *files):
        self.log.close()
        for file in files:
            shutil.copy(self.folder / f"{file}.{name}", self.folder / file)
        self.log = self.open_log()

    def renew(self, **options):
        """The server is lost, and another one goes on; return its requests."""
        self.log.close()
        self.log = self.open_log()
        self.server = self.new(self.config, **options)
        return self.server.replay()


class Interrupted(LoggedPlay):
    """After every call the server is lost, and another one goes on; a twin is never lost."""

    def __init__(self, config, seed=0):
        super().__init__(config, seed)
        self.twin = new_server(config, federation_of(config))
        assert self.twin.open() == self.requests
        self.check_renewed()

    def check_renewed(self):
        size = (self.folder / "log").stat().st_size
        requests = self.renew()
        assert dict(requests) == dict(self.requests)
        assert list(requests) == list(self.requests)
        assert self.server.waiting == self.twin.waiting
        assert (self.folder / "log").stat().st_size == size

    def hand_over(self, client, reply):
        super().hand_over(client, reply)
        self.twin.receive(client, reply)
        self.check_renewed()

    def close(self):
        try:
            requests = self.twin.close()
        except RoundFailed as failure:
            with pytest.raises(type(failure), match=re.escape(str(failure))):
                super().close()
            raise
        super().close()
        assert dict(self.requests) == dict(requests)
        if requests:
            self.check_renewed()


@st.composite
def rounds(draw):
    clients, guard = draw(st.integers(4, 7)), draw(guards)
    graph = draw(st.sampled_from([Complete(), Harary(degree=4)] if clients > 4 else [Complete()]))
    config = configured(guard, clients, graph=graph, length=24, bits=32)
    ids = st.sets(st.integers(0, clients - 1), max_size=1)
    return config, {step.name: draw(ids) for step in steps(guard)}, draw(seeds)


# The same round


@given(rounds())
@settings(max_examples=15)
def test_a_server_that_is_replayed_after_every_call_gives_the_same_round(drawn):
    """Every byte that leaves it is that of the server that was never lost."""
    config, gone, seed = drawn
    with Interrupted(config, seed) as play:
        with suppress(RoundFailed):  # of both, with the same text: see ``close``
            play.finish(gone)
        assert type(play.server.failure) is type(play.twin.failure)
        result = play.server.aggregate
        if result is None:
            return
        assert np.array_equal(result.vector, play.expected(result.survivors))
        assert np.array_equal(result.vector, play.twin.result().vector)
        assert result.survivors == play.twin.result().survivors
        assert result.evidence == play.twin.result().evidence


class Cut(Exception):
    """Raised where the process ends."""


@given(rounds(), st.data())
@settings(max_examples=40)
def test_a_server_killed_within_any_write_gives_the_same_sum(drawn, data):
    """Whatever was written of a row, or of what is counted after it: clients are asked again, and repeat."""
    config, gone, seed = drawn
    with LoggedPlay(config, seed) as play:
        with suppress(RoundFailed), pytest.MonkeyPatch.context() as patch:
            killed_within(patch, data.draw(st.integers(0, 30)), data.draw(st.floats(0, 1)))
            try:
                play.finish(gone)
            except Cut:
                patch.undo()
                play.requests = play.renew() or play.server.open()
                play.finish(gone)
        plain = never_lost(play)
        assert type(play.server.failure) is type(plain.failure)
        if plain.aggregate is not None:
            result = play.server.result()
            assert np.array_equal(result.vector, play.expected(result.survivors))
            assert np.array_equal(result.vector, plain.result().vector)
            assert result.survivors == plain.result().survivors


def never_lost(play):
    """A server that took the same replies, all of them."""
    server = new_server(play.config, federation_of(play.config))
    server.open()
    for step in play.said.values():
        for client, reply in step.items():
            server.receive(client, reply)
        with suppress(RoundFailed):
            server.close()
    return server


def killed_within(patch, count, part):
    """The write with this number, of a row or of a count, is cut off after this part of it."""
    left = [count]
    write, set_counter = logfile._write, logfile.Counter.set

    def cut_write(file, chain, body):
        left[0] -= 1
        if left[0] != -1:
            return write(file, chain, body)
        at = file.tell()
        write(file, chain, body)
        file.truncate(at + int((file.tell() - at) * part))
        raise Cut

    def cut_set(counter, number, mark):
        left[0] -= 1
        if left[0] == -1:
            raise Cut
        set_counter(counter, number, mark)

    patch.setattr(logfile, "_write", cut_write)
    patch.setattr(logfile.Counter, "set", cut_set)
