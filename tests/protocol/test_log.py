"""A server that is lost at any moment and replayed from its log gives the same round, or fails it by name."""

import json
import re
import shutil
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import machine
from attacks.stage import changed
from ccesa import files, logfile
from ccesa.crypto import primitives, shamir
from ccesa.errors import (
    CcesaError,
    ConfigError,
    ConflictingMessage,
    DamagedLog,
    FaultyServer,
    LateMessage,
    OrderError,
    OverlappingSums,
    RoundFailed,
    StaleLog,
    TooFewClients,
)
from ccesa.graphs import Complete, Harary
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Advertised, Shared
from ccesa.protocol.log import RoundLog, TaskRow
from ccesa.protocol.series import Series
from ccesa.protocol.steps import steps_of
from ccesa.simulate.enrolment import new_server
from rounds import CONFIGURE, Play, configure, federation_of, read, revectored
from series_rounds import configure_series
from strategies import altered, seeds

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


class LogFolder:
    """A log in a folder that is gone with it, and what was sent in its round."""

    def __init__(self):
        self._folder, self._sent = TemporaryDirectory(), {}
        self.folder = Path(self._folder.name)
        self.log = self.open_log()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.log.close()
        self._folder.cleanup()

    def open_log(self):
        return RoundLog(self.folder / "log", counter=self.folder / "counter")

    def keep(self, name):
        """Copy both files beside them."""
        for file in ("log", "counter"):
            shutil.copy(self.folder / file, self.folder / f"{file}.{name}")

    def put_back(self, name, *files):
        """Open the log again, with these files as they were kept."""
        self.log.close()
        for file in files:
            shutil.copy(self.folder / f"{file}.{name}", self.folder / file)
        self.log = self.open_log()

    def carried(self, client, request, ask):
        """A masked vector is kept by whoever carries it: its client does not repeat it."""
        if (client, request) not in self._sent:
            self._sent[client, request] = ask(client, request)
        return self._sent[client, request]


class LoggedPlay(LogFolder, Play):
    """A round whose server has a log."""

    def __init__(self, config, seed=0, **options):
        LogFolder.__init__(self)
        Play.__init__(self, config, server=self.new, seed=seed, **options)

    def ask(self, client, request):
        return self.carried(client, request, super().ask)

    def new(self, config, **options):
        return new_server(config, federation_of(config), log=self.log, **options)

    def renew(self, **options):
        """The server is lost, and another one goes on; return its requests."""
        self.put_back("")
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
            killed_within(patch, data.draw(st.sampled_from(range(40))), data.draw(st.floats(0, 1)))
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
    write, set_counter = logfile._write, logfile.OpeningCounter.set

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
    patch.setattr(logfile.OpeningCounter, "set", cut_set)


# A process that is killed

SERVER = """
import json, sys
from ccesa import RoundConfig, RoundLog, Server

def say(**what):
    print(json.dumps(what), flush=True)

server = Server(RoundConfig.decode(bytes.fromhex(sys.argv[1])), log=RoundLog("log", counter="counter"))
requests = server.replay() or server.open()
say(requests={client: request.hex() for client, request in requests.items()})
for line in sys.stdin:
    client, _, reply = line.strip().partition(" ")
    if client != "close":
        server.receive(int(client), bytes.fromhex(reply))
        say(taken=client)
        continue
    requests = server.close()
    if requests:
        say(requests={client: request.hex() for client, request in requests.items()})
    else:
        say(vector=server.result().vector.tolist())
"""


class Process:
    """A server in a process of its own; ``said`` is what it said last, None where it was killed."""

    def __init__(self, config, folder):
        command = [sys.executable, "-c", SERVER, config.encode().hex()]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
        self.said = json.loads(self._process.stdout.readline())

    def tell(self, line, killed=False):
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        if killed:
            self._process.kill()
        self.said = None if killed else json.loads(self._process.stdout.readline())

    def end(self):
        self._process.kill()
        self._process.communicate()


@pytest.mark.parametrize("accept", [False, True])
def test_a_server_process_that_is_killed_again_and_again_gives_the_sum(tmp_path, accept):
    """With SIGKILL, right after something was sent to it: before, while or after it writes that down."""
    config = configure(5, accept=accept)
    play, killed, count, sent = Play(config), {1, 9, 15, 21, 29}, 0, {}
    process = Process(config, tmp_path)
    while "vector" not in process.said:
        requests = process.said["requests"]
        for i, request in requests.items():
            if request not in sent:
                sent[request] = f"{i} {play.clients[int(i)].receive(bytes.fromhex(request)).hex()}"
        for line in [*map(sent.get, requests.values()), "close"]:
            count += 1
            process.tell(line, killed=count in killed)
            if process.said is None:
                process.end()
                process = Process(config, tmp_path)
                break
    assert process.said["vector"] == play.expected(range(5)).tolist()
    assert count > max(killed)
    process.end()


# What a replay knows


@each_guard
def test_repeats_are_known_and_conflicts_refused_as_before(guard):
    with LoggedPlay(configured(guard, 6)) as play:
        while play.requests:
            replies = play.replies()
            play.hand_over(0, replies[0])
            play.renew()
            size = (play.folder / "log").stat().st_size
            play.server.receive(0, replies[0])
            assert (play.folder / "log").stat().st_size == size
            with pytest.raises(ConflictingMessage):
                play.server.receive(0, other_than(play.config, replies[0]))
            for client in list(replies)[1:]:
                play.hand_over(client, replies[client])
            play.close()
        assert np.array_equal(play.server.result().vector, play.expected(range(6)))


def other_than(config, reply):
    """An answer that is like this one but for one field."""
    message = read(reply)
    if m.has_vector(type(message)):
        return revectored(config, reply, bytes(config.vector_bytes))
    name = next(iter(m.sizes(type(message))))
    field = getattr(message, name)
    return changed(reply, **{name: bytes([field[0] ^ 1]) + field[1:] if field else bytes(4)})


def test_a_reply_to_a_step_that_closed_before_is_late_after_a_replay():
    with LoggedPlay(configure(6)) as play:
        play.until("mask", {"share": {5}})
        play.renew()
        with pytest.raises(LateMessage):
            play.server.receive(0, play.said["share"][0])


def test_complaints_are_replayed():
    with LoggedPlay(configure(7)) as play:
        play.until("mask")
        complaint = m.Complaint(context=play.config.context, client=0, accused=m.pack_ids(np.array([2])))
        play.server.receive(0, complaint.encode())
        play.requests = play.renew()
        result = play.finish({"mask": {0}})
        assert [tuple(pair) for pair in result.evidence] == [(0, 2)]
        assert result.survivors == (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("guard", ["curious+accept", "active+accept"])
def test_accusations_are_replayed(guard):
    with Interrupted(configured(guard, 9)) as play:
        play.until("accept")
        accused = m.pack_ids(np.array([2]))
        play.step(to_server=lambda i, reply: changed(reply, accused=accused) if i == 0 else reply)
        result = play.finish()
        assert [tuple(pair) for pair in result.evidence] == [(0, 2)]
        assert result.survivors == play.twin.result().survivors
        assert np.array_equal(result.vector, play.expected(result.survivors))


@each_guard
@pytest.mark.parametrize("how", ["made with it", "told"])
def test_the_task_and_who_was_asked_are_replayed(guard, how, tmp_path):
    """Whatever the server that replays was made with."""
    config, asked = configured(guard, 8), range(1, 8)
    clients = Play(config, task=TASK).clients
    given = {"task": TASK} if how == "made with it" else {}
    log = RoundLog(tmp_path / "log", counter=tmp_path / "counter")
    server = new_server(config, federation_of(config), log=log, **given)
    requests = server.open(asked)
    if how == "told":
        server.work_on(TASK)
    while requests:
        log.close()
        log = RoundLog(tmp_path / "log", counter=tmp_path / "counter")
        server = new_server(config, federation_of(config), log=log)
        assert dict(server.replay()) == dict(requests)
        for client, request in requests.items():
            server.receive(client, clients[client].receive(request))
        requests = server.close()
    log.close()
    assert server.result().survivors == tuple(asked)


def test_another_task_can_be_told_after_a_replay_until_clients_know_theirs():
    with LoggedPlay(configure(6)) as play:
        play.until("share")
        play.server.work_on(bytes(32))
        play.requests = play.renew()
        play.server.work_on(TASK)
        play.step()
        assert {read(request).task for request in play.requests.values()} == {TASK}
        play.renew()
        with pytest.raises(OrderError, match="clients already know their task"):
            play.server.work_on(bytes(32))


@given(rounds())
@settings(max_examples=10)
def test_no_secret_of_a_client_is_in_a_log(drawn):
    config, gone, seed = drawn
    secrets = set()
    with LoggedPlay(config, seed) as play:
        with suppress(RoundFailed):
            while play.requests:
                play.step(gone[play.server.step.name])
                secrets |= set().union(*map(secrets_of, play.clients.values()))
        written = (play.folder / "log").read_bytes()
    assert secrets
    assert not [secret for secret in secrets if secret in written]


def secrets_of(client):
    """Private keys, and what shares are made of."""
    state = client._state
    if isinstance(state, Advertised):
        private = state.sealing_private, state.mask_private
        return {shamir.to_bytes(state.mask_secret), *map(primitives.private_bytes, private)}
    return {state.self_secret} if isinstance(state, Shared) else set()


# Every step opens once


@each_closing
def test_s27_a_log_from_before_a_closing_asks_nobody(guard, step):
    with LoggedPlay(configured(guard, 6)) as play:
        play.until(step)
        play.keep("0")
        for client, reply in play.replies().items():
            play.hand_over(client, reply)
        play.keep("6")
        play.close()
        for name in ("0", "6"):
            play.put_back(name, "log")
            play.server = play.new(play.config)
            with pytest.raises(StaleLog, match="is behind its counter") as failure:
                play.server.replay()
            assert play.server.failure is failure.value
            is_over(play.server)


def is_over(server):
    """Nobody is asked any more."""
    assert server.finished
    with pytest.raises(type(server.failure)):
        server.result()
    for call in (server.open, server.close, server.replay):
        with pytest.raises(OrderError):
            call()


@each_closing
def test_s27_of_two_servers_with_copies_of_a_log_one_closes_the_step(guard, step):
    """The other one is stale, also if both have closed it."""
    with LoggedPlay(configured(guard, 6)) as play:
        play.until(step)
        play.keep("before")
        replies = play.replies()
        for client, reply in replies.items():
            play.hand_over(client, reply)
        play.close()
        play.keep("one")
        play.put_back("before", "log", "counter")
        play.server = play.new(play.config)
        play.server.replay()
        for client, reply in replies.items():
            play.server.receive(client, reply)
        play.server.close()
        play.put_back("one", "log")
        with pytest.raises(StaleLog):
            play.new(play.config).replay()


def test_s27_clients_refuse_a_second_different_request():
    """Should the counter be restored with the log, whoever was asked before still gives nothing away."""
    with LoggedPlay(configure(6)) as play:
        play.until("mask")
        replies = play.replies()
        for client in list(replies)[1:]:
            play.hand_over(client, replies[client])
        play.keep("old")
        play.hand_over(0, replies[0])
        play.close()
        play.clients[1].receive(play.requests[1])
        play.put_back("old", "log", "counter")
        play.server = play.new(play.config)
        play.server.replay()
        again = play.server.close()
        with pytest.raises(FaultyServer, match="answers no further request"):
            play.clients[1].receive(again[1])


@each_guard
def test_a_round_that_a_lost_server_opened_is_not_opened_again(guard):
    with LoggedPlay(configured(guard, 6)) as play:
        server = play.new(play.config)
        with pytest.raises(OrderError, match="replay it"):
            server.open()
        play.log.close()
        (play.folder / "log").unlink()
        play.log = play.open_log()
        server = play.new(play.config)
        with pytest.raises(StaleLog):
            server.open()
        is_over(server)


@each_guard
def test_the_last_closing_sends_nothing_and_can_be_repeated(guard):
    with LoggedPlay(configured(guard, 6)) as play:
        play.finish({"mask": {2}})
        vector = play.server.result().vector
        play.renew()
        assert play.server.step.name == "unmask"
        assert play.server.close() == {}
        assert np.array_equal(play.server.result().vector, vector)
        assert play.server.result().survivors == (0, 1, 3, 4, 5)


def test_a_closing_that_failed_has_sent_nothing_and_can_be_repeated():
    with LoggedPlay(configure(6, min_survivors=5)) as play:
        play.until("mask")
        replies = play.replies()
        for client in range(4):
            play.hand_over(client, replies[client])
        with pytest.raises(TooFewClients):
            play.close()
        play.requests = play.renew()
        for client in range(4, 6):
            play.hand_over(client, replies[client])
        play.close()
        assert np.array_equal(play.finish().vector, play.expected(range(6)))


@pytest.mark.parametrize("what", ["row", "count"])
def test_a_step_that_cannot_be_written_down_is_not_opened(what, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    with LoggedPlay(configure(6)) as play:
        play.until("share")
        for client, reply in play.replies().items():
            play.hand_over(client, reply)
        with monkeypatch.context() as patch:
            if what == "row":
                patch.setattr(logfile, "_write", full)
            else:
                patch.setattr(logfile.OpeningCounter, "set", full)
            with pytest.raises(OSError, match="no space"):
                play.server.close()
        with pytest.raises(OrderError, match="interrupted"):
            play.server.close()
        play.requests = play.renew()
        assert play.server.step.name == ("share" if what == "row" else "mask")
        assert np.array_equal(play.finish().vector, play.expected(range(6)))


def test_a_reply_that_cannot_be_written_down_ends_the_server(monkeypatch):
    with LoggedPlay(configure(6)) as play:
        replies = play.replies()
        with monkeypatch.context() as patch:
            patch.setattr(logfile.os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no space left")))
            with pytest.raises(OSError, match="no space"):
                play.hand_over(0, replies[0])
        with pytest.raises(OrderError, match="interrupted"):
            play.hand_over(1, replies[1])
        with pytest.raises(OrderError, match="open the log again"):
            play.log.append(TaskRow(task=TASK))
        play.requests = play.renew()
        assert np.array_equal(play.finish().vector, play.expected(range(6)))


def test_where_there_are_no_locks_the_counter_is_compared(monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    with LoggedPlay(configure(6)) as play:
        play.until("mask")
        shutil.copy(play.folder / "log", play.folder / "copy")
        with RoundLog(play.folder / "copy", counter=play.folder / "counter") as copy:
            other = new_server(play.config, log=copy)
            other.replay()
            for client, reply in play.replies().items():
                play.hand_over(client, reply)
                other.receive(client, reply)
            play.close()
            with pytest.raises(StaleLog, match="another process has changed the counter"):
                other.close()
            is_over(other)


# Other bytes, other files


@pytest.fixture(scope="module")
def kept():
    """A log up to the last step, as bytes, with its counter."""
    with LoggedPlay(configure(4)) as play:
        play.until("unmask")
        play.hand_over(0, play.replies()[0])
        yield play, (play.folder / "log").read_bytes(), (play.folder / "counter").read_bytes()


def replayed(play, written, counted):
    """What a server makes of these bytes: its step and who has answered, or the error."""
    with TemporaryDirectory() as folder:
        for name, data in (("log", written), ("counter", counted)):
            (Path(folder) / name).write_bytes(data)
            (Path(folder) / name).chmod(0o600)
        try:
            with RoundLog(Path(folder) / "log", counter=Path(folder) / "counter") as log:
                server = new_server(play.config, log=log)
                server.replay()
                return server.step.name, set(server.answered)
        except CcesaError as error:
            return type(error)


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_that_is_cut_off_anywhere_is_stale_or_lacks_a_reply(kept, data):
    play, written, counted = kept
    place = data.draw(st.integers(0, len(written) - 1))
    zeros = data.draw(st.integers(0, 200))
    found = replayed(play, written[:place] + bytes(zeros), counted)
    assert found in (StaleLog, DamagedLog, ("unmask", set())), found
    if not zeros:
        assert found is not DamagedLog


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_that_is_damaged_anywhere_is_refused(kept, data):
    """But for the last row, which might not have been written."""
    play, written, counted = kept
    place = data.draw(st.integers(0, len(written) - 1))
    bad = written[:place] + bytes([written[place] ^ data.draw(st.integers(1, 255))]) + written[place + 1 :]
    assert replayed(play, bad, counted) in (DamagedLog, ("unmask", set()))
    assert replayed(play, written, counted) == ("unmask", {0})


@pytest.mark.parametrize("size", [1, 15, 17])
def test_a_counter_of_another_size_is_refused(kept, size):
    play, written, _ = kept
    assert replayed(play, written, bytes(size)) is DamagedLog


def test_a_counter_that_is_behind_is_not_that_of_the_log(kept):
    play, written, _ = kept
    assert replayed(play, written, b"") is DamagedLog


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_log_that_no_server_has_written_fails_by_name(kept, data):
    """With right digests: no exception outside the tree, and nobody is asked who was not asked before."""
    play, written, counted = kept
    with TemporaryDirectory() as folder:
        path, counter = Path(folder) / "log", Path(folder) / "counter"
        path.write_bytes(written)
        counter.write_bytes(counted)
        path.chmod(0o600)
        counter.chmod(0o600)
        with closing(logfile.LogFile(path)) as file:
            rows = list(map(msgspec.msgpack.decode, file))
            file.replace(map(msgspec.msgpack.encode, data.draw(altered(rows).filter(is_list))))
        try:
            with RoundLog(path, counter=counter) as log:
                requests = new_server(play.config, log=log).replay()
        except CcesaError:
            return
        assert set(requests) == set(play.requests)


def is_list(tree):
    return isinstance(tree, list)


def test_of_another_round_and_of_a_series():
    with LoggedPlay(configure(5)) as play:
        other = configure(5)
        for call in (new_server(other, log=play.log).replay, new_server(other, log=play.log).open):
            with pytest.raises((ConfigError, OrderError), match=r"another configuration|replay it"):
                call()
        config = configure_series("curious")
        with pytest.raises(ConfigError, match="another round"):
            Series(config, log=play.log).replay()


def test_one_process_has_a_log_and_a_counter(tmp_path):
    with LoggedPlay(configure(5)) as play, pytest.raises(ConfigError, match=r"another process has .*log"):
        play.open_log()
    with LoggedPlay(configure(5)) as play, pytest.raises(ConfigError, match=r"another process has .*counter"):
        RoundLog(tmp_path / "log", counter=play.folder / "counter")


def test_a_log_that_cannot_be_opened_is_refused_by_name(tmp_path):
    for places in (
        {"path": tmp_path / "none" / "log", "counter": tmp_path / "counter"},
        {"path": tmp_path, "counter": ""},
    ):
        with pytest.raises(ConfigError, match=r"cannot be opened: (No such file|Is a directory)"):
            RoundLog(**places)


def test_others_must_not_read_a_log(tmp_path):
    (tmp_path / "log").touch(0o644)
    (tmp_path / "log").chmod(0o644)
    with pytest.raises(ConfigError, match="is secret, and others can use it"):
        RoundLog(tmp_path / "log", counter=tmp_path / "counter")


def test_only_a_new_server_with_a_log_replays():
    with LoggedPlay(configure(5)) as play:
        play.renew()
        for call in (play.server.replay, play.server.open):
            with pytest.raises(OrderError, match="opened already"):
                call()
    with pytest.raises(ConfigError, match="log=RoundLog"):
        new_server(configure(5)).replay()


def test_a_log_without_an_opening_replays_nothing(tmp_path):
    with RoundLog(tmp_path / "log", counter=tmp_path / "counter") as log:
        server = new_server(configure(5), log=log)
        assert not server.replay()
        assert server.open()


def test_what_is_in_rows_is_not_shown():
    assert repr(TaskRow(task=TASK)) == "TaskRow(...)"


# Several front ends


def all_of(server):
    """What another server takes over."""
    answers = {client: server.recall(client) for client in server.answered}
    return answers, b"" if server.total is None else server.total.tobytes()


def test_nothing_is_recalled_of_whoever_has_not_answered():
    play = Play(configure(4))
    play.hand_over(2, play.replies()[2])
    assert play.server.recall(2)
    with pytest.raises(OrderError, match="client 3 has not answered the open step"):
        play.server.recall(3)


@given(guards, st.data(), seeds)
@settings(max_examples=20)
def test_any_split_over_front_ends_gives_the_same_sum_also_after_a_replay(guard, data, seed):
    clients, count = 7, data.draw(st.integers(1, 3))
    with LoggedPlay(configured(guard, clients, length=24), seed) as play:
        play.until("mask")
        takes = data.draw(st.lists(st.integers(0, count), min_size=clients, max_size=clients))
        ends = [play.server, *(play.beside() for _ in range(count))]
        for (client, reply), end in zip(play.replies({6}).items(), takes, strict=False):
            ends[end].receive(client, reply)
        for end in data.draw(st.permutations(ends[1:])):
            play.server.take_over(*all_of(end))
        if data.draw(st.booleans()):
            play.renew()
        play.close()
        result = play.finish()
        assert result.survivors == tuple(range(6))
        assert np.array_equal(result.vector, play.expected(range(6)))


@given(guards, st.data(), st.sets(st.integers(0, 5), min_size=1), seeds)
@settings(max_examples=20)
def test_nobody_is_taken_over_who_has_answered_here(guard, data, twice, seed):
    step = data.draw(st.sampled_from([step.name for step in steps(guard)]))
    play = Play(configured(guard, 6), seed=seed).until(step)
    other = play.beside()
    for client, reply in play.replies().items():
        play.hand_over(client, reply)
        if client in twice:
            other.receive(client, reply)
    answers = all_of(other)[0]
    total = other.total.tobytes() if step == "mask" else b""
    before = None if play.server.total is None else play.server.total.copy()
    with pytest.raises(OverlappingSums) as error:
        play.server.take_over(answers, total)
    assert error.value.clients == tuple(sorted(twice))
    assert np.array_equal(before, play.server.total)
    assert play.server.waiting == frozenset()
    play.close()
    if step != "unmask":
        play.finish()
    assert np.array_equal(play.server.result().vector, play.expected(range(6)))


def test_who_is_not_taken_over_has_dropped_out():
    play = Play(configure(6)).until("mask")
    other = play.beside()
    for client, reply in play.replies().items():
        (other if client == 4 else play.server).receive(client, reply)
    play.close()
    result = play.finish()
    assert result.survivors == (0, 1, 2, 3, 5)
    assert np.array_equal(result.vector, play.expected(result.survivors))


@pytest.mark.parametrize("size", [9, 11])
def test_a_sum_of_another_length_is_not_taken_over(size):
    play = Play(configure(6)).until("mask")
    with pytest.raises(ConfigError, match="sum: expected 10 bytes"):
        play.server.take_over({}, bytes(size))
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


@each_guard
def test_a_front_end_cannot_speak_for_who_was_not_asked(guard):
    play = Play(configured(guard, 6)).until("mask", {"share": {5}})
    other = play.beside()
    other.receive(0, play.replies()[0])
    with pytest.raises(RoundFailed) as failure:
        play.server.take_over({5: changed(other.recall(0), client=5)}, other.total.tobytes())
    assert isinstance(failure.value.__cause__, LateMessage)
    assert play.server.finished
