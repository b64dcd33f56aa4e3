"""Whole rounds with everything switched on that could print: no secret shows, in any form, under any guard.

Secrets are recorded where they are made, at the one file that calls the cryptographic library, so that none
is forgotten. What could show them: log records of any package, the output of the command line, and ``repr``,
``str`` and ``format`` of every object of the package that can be reached from clients, servers and
exceptions, and tracebacks with all local variables of what a faulty server causes in a client.
"""

import base64
import contextlib
import gc
import hashlib
import logging
import sys
import traceback
import warnings
from concurrent.futures import Executor, Future
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest

import ccesa
import rounds
from active_rounds import secrets_of
from assisted_rounds import AssistedPlay, Home
from assisted_series import AssistedSeries
from ccesa import workers
from ccesa.agreement.identity import Identity
from ccesa.cli.app import app
from ccesa.crypto import primitives
from ccesa.errors import CcesaError, FaultyClient, FaultyServer, TaskSpent, VectorError
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.spending import Spending
from ccesa.simulate.enrolment import Enrolment, make_charter, new_client
from rounds import CONFIGURE, Play, changed, federation_of, read
from series_rounds import SeriesPlay

#: Of the arguments and the result of each primitive, those that are secret.
RECORDED = {
    "private_key": lambda arguments, result: [arguments[0]],
    "signing_key": lambda arguments, result: [arguments[0]],
    "agree": lambda arguments, result: [result],
    "derive": lambda arguments, result: [arguments[0], result],
    "seal": lambda arguments, result: [arguments[0], arguments[2][:32], arguments[2][32:]],
    "unseal": lambda arguments, result: [arguments[0], result[:32], result[32:]],
}
IDENTITIES = [Identity(hashlib.sha256(bytes([place])).digest()) for place in range(5)]
PACKAGE = Path(ccesa.__file__).parent
#: Known to show what it holds, the shares that the server was given: see the test at the end.
SHOWING: set[str] = set()
LEAST = 12  # bytes of a secret in a row that count as seen


guards = pytest.mark.parametrize("make", CONFIGURE.values(), ids=CONFIGURE)


@pytest.fixture
def secrets(monkeypatch):
    """Every secret from now on, as it is made, and the seeds of identities that look like none other."""
    monkeypatch.setattr(rounds, "identity", IDENTITIES.__getitem__)
    monkeypatch.setattr(rounds, "charter", rounds.charter.__wrapped__)
    found = {one.seed for one in IDENTITIES}

    def watch(name, chosen):
        original = getattr(primitives, name)

        def watched(*arguments):
            result = original(*arguments)
            found.update(chosen(arguments, result))
            return result

        monkeypatch.setattr(primitives, name, watched)

    for name, chosen in RECORDED.items():
        watch(name, chosen)
    return found


def forms(secret: bytes) -> list[str]:
    """The ways in which the beginning of a secret could be printed."""
    head = secret[:LEAST]
    words = np.frombuffer(head, "<u2").tolist()
    return [
        head.hex(),
        head.hex().upper(),
        head.hex(" "),
        head.hex(":"),
        base64.b64encode(head).decode(),
        base64.urlsafe_b64encode(head).decode(),
        repr(head)[2:-1],
        str(list(head))[1:-1],
        " ".join(map(str, head)),
        str(words)[1:-1],
        " ".join(map(str, words)),
        str(int.from_bytes(secret, "little")),
        str(int.from_bytes(secret, "big")),
    ]


def seen(secrets: set[bytes], text: str) -> list[bytes]:
    text = "\n".join(set(text.splitlines()))  # tracebacks repeat themselves
    return [secret for secret in secrets if len(secret) >= LEAST and any(f in text for f in forms(secret))]


def shown(*roots: object, passed_over: set[str] = SHOWING) -> str:
    """What every object of the package says of itself that can be reached from these."""
    texts, known, left = set(), set(), list(roots)
    while left:
        one = left.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            left += one
        if type(one).__module__.startswith("ccesa"):
            if type(one).__name__ in passed_over:
                continue
            texts |= {repr(one), str(one), f"{one}"}
            left += [getattr(one, name) for name in getattr(one, "__struct_fields__", ())]
            left += list(getattr(one, "__dict__", {}).values())
    return "\n".join(texts)


def with_locals(error: BaseException, home: Path = PACKAGE) -> str:
    """The traceback as a crash reporter prints it, with the variables of every frame of the package."""
    texts, chain = [without_locals(error)], [error]
    while chain:
        one = chain.pop()
        chain += [other for other in (one.__cause__, one.__context__) if other is not None]
        for frame, _ in traceback.walk_tb(one.__traceback__):
            if Path(frame.f_code.co_filename).is_relative_to(home):
                texts += [f"{name} = {value!r}" for name, value in frame.f_locals.items()]
    return "\n".join(texts)


def without_locals(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))


def bad_requests(request: bytes) -> list[bytes]:
    """A request with each of its fields spoilt in turn, cut off, or for someone else."""
    message = read(request)
    names = [name for name in message.__struct_fields__ if name not in ("context", "client")]
    spoilt = []
    for name in names:
        value = getattr(message, name)
        if value:
            spoilt += [
                changed(request, **{name: bytes([value[0] ^ 1]) + value[1:]}),
                changed(request, **{name: value[:-1]}),
            ]
    return [*spoilt, request[:-1], changed(request, client=message.client + 1)]


def lying_server(play: Play, texts: list[str]) -> None:
    """Each client of this round gets another bad request, and aborts."""
    for i, request in play.requests.items():
        bad = bad_requests(request)
        for data in (bad[i % len(bad)], request):
            try:
                texts.append(shown(play.clients[i], read(play.clients[i].receive(data))))
            except CcesaError as error:
                texts += [with_locals(error), shown(play.clients[i], error)]


def lying_clients(play: Play, replies: dict[int, bytes], texts: list[str]) -> None:
    for i, reply in replies.items():
        for bad in (changed(reply, client=(i + 1) % len(play.clients)), reply[:-1], reply + b"\0"):
            try:
                play.server.receive(i, bad)
            except CcesaError as error:
                texts.append(without_locals(error))


@pytest.fixture
def every_log(caplog):
    """All loggers say all they have; warnings too."""
    caplog.set_level(logging.DEBUG)
    for name in list(logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, name)
    return caplog


@guards
def test_rounds(make, secrets, every_log, capsys):
    config = make(5, length=3)
    texts: list[str] = []
    play = Play(config)
    while play.requests:
        name = play.server.step.name
        for _ in range(2):
            lying_server(Play(make(5, length=3)).until(name), texts)
        texts.append(shown(play.server, play.clients, play.requests))
        replies = play.replies({4} if name == "mask" else ())
        texts.append(shown(play.server, play.clients))
        lying_clients(play, replies, texts)
        for i, reply in replies.items():
            if i in play.server.waiting:
                play.server.receive(i, reply)
        play.requests = play.server.close()
    texts.append(shown(play.server, play.clients, play.server.result()))
    assert len(secrets) > 300
    everything = "\n".join(texts) + every_log.text + "".join(capsys.readouterr())
    assert "Client" in everything
    assert seen(secrets, everything) == []


@guards
def test_failures_of_the_server(make, secrets, every_log):
    """Of each kind: too few clients, too few holders, wrong shares."""
    texts = []
    for gone, at in (({0, 1, 2, 3}, "share"), ({0, 1, 2}, "mask"), ({0, 1, 2}, "unmask")):
        play = Play(make(5, length=3, min_survivors=2))
        with pytest.raises(CcesaError) as failure:
            play.finish({at: gone})
        texts += [without_locals(failure.value), shown(play.server, play.clients, failure.value)]
    play = Play(make(5, length=3)).until("unmask")
    for i, reply in play.replies().items():
        shares = read(reply).shares
        play.server.receive(i, changed(reply, shares=shares[32:] + shares[:32]))
    with pytest.raises(CcesaError) as failure:
        play.server.close()
    texts += [without_locals(failure.value), shown(play.server, failure.value)]
    assert seen(secrets, "\n".join(texts) + every_log.text) == []


def garbled(client: Client, request: bytes) -> None:
    """One text does not open: the client complains."""
    sealed = read(request).sealed
    client.receive(changed(request, sealed=sealed[:-1] + bytes([sealed[-1] ^ 1])))


def cut_short(client: Client, request: bytes) -> TracebackType | None:
    """One byte is missing: the client aborts."""
    with pytest.raises(FaultyServer) as failure:
        client.receive(changed(request, sealed=read(request).sealed[:-1]))
    return failure.value.__traceback__


def bytes_within(left: list[object]) -> set[bytes]:
    """All that can be reached from these."""
    found, known = set(), set()
    while left:
        one = left.pop()
        if isinstance(one, bytes):
            found.add(one)
        elif id(one) not in known and not isinstance(one, type):
            known.add(id(one))
            if type(one).__module__.startswith(("ccesa", "builtins")) and not callable(one):
                left += gc.get_referents(one)
    return found


@guards
@pytest.mark.parametrize("lie", [garbled, cut_short])
def test_a_client_that_has_left_keeps_no_secret_alive(make, lie, secrets):
    """Neither itself nor its exception leads to one any more, however deep one looks."""
    play = Play(make(5, length=3)).until("mask")
    client = play.clients[0]
    held = set(secrets_of(client._state))
    assert len(bytes_within([vars(client)]) & held) > 3
    secrets.clear()
    frame = lie(client, play.requests[0])
    assert client.done
    own = held | {one for one in secrets if len(one) >= LEAST}
    left = [vars(client), vars(client._state)]
    while frame is not None:
        if "/ccesa/protocol/" in frame.tb_frame.f_code.co_filename:
            left.append(dict(frame.tb_frame.f_locals))
        frame = frame.tb_next
    assert not bytes_within(left) & own


class Own(Exception):
    """What a caller's function raises."""


def raising(error):
    def raise_it(*_):
        raise error

    return raise_it


def too_short():
    return np.zeros(1, np.uint16)


@guards
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        (None, TaskSpent),
        (too_short, VectorError),
        (raising(Own("no data")), Own),
        (raising(KeyboardInterrupt()), KeyboardInterrupt),
    ],
)
def test_what_keeps_a_vector_from_leaving_leads_to_no_secret(make, ahead, vector, expected, secrets, monkeypatch):
    """A crash reporter ships the variables of all frames; the lines of the traceback stay."""
    config = make(5, length=3)
    play = Play(config)
    if vector is None:
        monkeypatch.setattr(Spending, "check", raising(TaskSpent("as often as it may")))
    else:
        play.clients[0] = new_client(config, 0, vector, federation_of(config))
    play.until("mask")
    client = play.clients[0]
    if ahead:
        client.prepare()
    held = {one for one in secrets | set(secrets_of(client._state)) if len(one) >= LEAST}
    with pytest.raises(expected) as failure:
        client.receive(play.requests[0])
    frames = [
        frame
        for frame, _ in traceback.walk_tb(failure.value.__traceback__)
        if Path(frame.f_code.co_filename).is_relative_to(PACKAGE)
    ]
    names = {frame.f_code.co_name for frame in frames}
    assert {"receive", "_answer", "mask", "mask_vector"} <= names
    left = [{name: one for name, one in frame.f_locals.items() if name != "self"} for frame in frames]
    assert not bytes_within(left) & held


def test_command_line(secrets, every_log, capsys, tmp_path, monkeypatch):
    """In this process, so that the recorder sees the rounds; with every debugging switch that Python has."""
    for name in (
        "DEBUG",
        "CCESA_DEBUG",
        "CCESA_LOG",
        "LOG_LEVEL",
        "PYTHONDEBUG",
        "PYTHONVERBOSE",
        "TYPER_STANDARD_TRACEBACK",
    ):
        monkeypatch.setenv(name, "1")
    key = tmp_path / "hospital-a"
    texts = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for command in (
            ["identity", "new", str(key)],
            ["identity", "show", str(key)],
            ["identity", "new", str(key)],
            ["simulate", "--clients", "6", "--length", "4", "--graph", "complete", "--seed", "1"],
            ["simulate", "--clients", "6", "--length", "4", "--graph", "complete", "--seed", "1", "--json"],
            ["simulate", "--clients", "6", "--length", "4", "--graph", "complete", "--dropout", "0.6", "--seed", "2"],
        ):
            monkeypatch.setattr(sys, "argv", ["ccesa", *command])
            try:
                app(command, standalone_mode=False)
            except CcesaError as error:
                texts.append(without_locals(error))
    secrets.add(Identity.load(key).seed)
    output = capsys.readouterr()
    assert len(secrets) > 100
    assert "hospital-a" in output.out
    assert texts, "a second identity in the same file is refused"
    assert seen(secrets, output.out + output.err + every_log.text + "\n".join(texts)) == []


def test_identities_and_messages_show_no_seed():
    one = Identity(bytes(range(100, 132)))
    for text in (repr(one), str(one), f"{one}", without_locals(_refusal(one))):
        assert seen({one.seed}, text) == []


def _refusal(one: Identity) -> BaseException:
    with pytest.raises(CcesaError) as refused:
        Identity(one.seed + b"more")
    return refused.value


@pytest.mark.parametrize("form", range(len(forms(bytes(range(32))))))
def test_the_scan_finds_every_form(form):
    secret = bytes(range(60, 92))
    assert seen({secret}, f"oops: {forms(secret)[form]} …") == [secret]


def test_the_scan_finds_what_a_message_shows():
    """Messages are public and do show their fields: the walk reaches them."""
    message = m.UnmaskReply(context=bytes(32), client=3, shares=bytes(range(60, 92)))
    assert seen({bytes(range(60, 92))}, shown({"in": [message]}))


def test_locals_are_in_the_text_of_a_traceback():
    def broken(secret):
        raise CcesaError("no")

    with pytest.raises(CcesaError) as failure:
        broken(bytes(range(60, 92)))
    assert seen({bytes(range(60, 92))}, with_locals(failure.value, Path(__file__).parent))


# Known faults: each of these passes as soon as the package is mended, and then the mark goes


@guards
def test_the_shares_that_the_server_holds(make, secrets):
    play = Play(make(5, length=3)).until("unmask")
    for i, reply in play.replies().items():
        play.server.receive(i, reply)
    assert seen(secrets, shown(play.server, passed_over=set())) == []


@guards
def test_a_vector_that_cannot_be_made(make, secrets):
    """The caller's own function fails in the middle of step 2: a crash reporter may print the locals."""
    play = Play(make(5, length=3)).until("mask")

    def training():
        raise MemoryError("the caller's own fault")

    client = play.clients[0]
    object.__setattr__(client._round, "vector", training)
    with pytest.raises(MemoryError) as failure:
        client.receive(play.requests[0])
    assert seen(secrets, with_locals(failure.value)) == []


class Telling(Executor):
    """Fails with all that it was given in the text, or is interrupted."""

    def __init__(self, interrupted):
        self.interrupted, self.tasks = interrupted, []

    def submit(self, work, /, task):
        self.tasks.append(task)
        if self.interrupted and len(self.tasks) == 3:
            raise KeyboardInterrupt
        future = Future()
        future.set_exception(ValueError(f"{task.keys!r} {task.keys.hex()}"))
        if len(self.tasks) % 2:
            raise future.exception()
        return future


@guards
@pytest.mark.parametrize("interrupted", [False, True])
def test_executors(make, interrupted, secrets, every_log, monkeypatch):
    monkeypatch.setattr(workers, "PART_BYTES", 64)
    monkeypatch.setattr(workers, "PART_STREAM_BYTES", 64)
    executor, texts = Telling(interrupted), []
    play = Play(make(5, length=300))
    object.__setattr__(play.server._round, "executor", executor)
    try:
        play.to_the_end({"mask": {4}})
    except KeyboardInterrupt as error:
        texts.append(with_locals(error))
    texts.append(shown(play.server, executor.tasks))
    assert seen(secrets, repr(executor.tasks[0].keys)), "keys are what a worker gets"
    assert interrupted or "10 of 10 sums of masks did not come" in every_log.text
    assert not seen(secrets, "\n".join(texts) + every_log.text)


@pytest.mark.parametrize("guard", CONFIGURE)
def test_series(guard, secrets, every_log, capsys):
    """Faults, failures and what is prepared, with every envelope spoilt on its way once."""
    play, texts = SeriesPlay(guard, clients=5, rounds=3), []
    while not play.series.finished:
        for i, request in play.open().items():
            for spoilt in (request[:-1], request + b"\0", request[:9] + b"\xff" + request[10:]):
                try:
                    play.clients[4].receive(spoilt)
                except CcesaError as error:
                    texts.append(with_locals(error))
                texts.append(shown(play.clients[4], play.clients[4].faults))
            play.clients[i].prepare()
            reply = play.clients[i].receive(request)
            texts.append(shown(play.series, play.clients))
            with contextlib.suppress(FaultyClient):
                play.series.receive(i, reply)
            with pytest.raises(FaultyClient) as error:
                play.series.receive(i, reply + b"\1")
            texts.append(without_locals(error.value))
        texts.append(shown(play.series.close()))
    assert len(secrets) > 250
    everything = "\n".join(texts) + every_log.text + "".join(capsys.readouterr())
    assert not seen(secrets, everything)


HELPING = [Identity(hashlib.sha256(bytes([100 + place])).digest()) for place in range(2)]


def helped(secrets: set[bytes], **agreed) -> Enrolment:
    secrets |= {one.seed for one in HELPING}
    charter = make_charter(IDENTITIES, helpers=HELPING, bits=16, **agreed)
    return Enrolment(identities=IDENTITIES, helpers=HELPING, charter=charter)


def refusals(play: AssistedPlay, requests: dict[int, bytes], texts: list[str]) -> None:
    """Every party gets bad requests, with its memory and its keys as they are now, and the right one again."""
    for party, request in requests.items():
        for bad in bad_requests(request):
            one = play.new_helper(party) if party in play.helpers else play.new_member(party)
            try:
                texts.append(shown(one, read(one.receive(bad))))
            except CcesaError as error:
                texts += [with_locals(error), shown(one, error)]


@pytest.mark.parametrize("agreement", ["x25519", pytest.param("x25519-mlkem768", marks=pytest.mark.needs("ml-kem"))])
def test_rounds_with_helpers(agreement, secrets, every_log, capsys, tmp_path):
    """Members, helpers that are made anew for each request, their folders, and the hub."""
    homes = {helper: Home(tmp_path / str(helper)) for helper in (5, 6)}
    play, texts = AssistedPlay(federated=helped(secrets, agreement=agreement), homes=homes), []
    while play.requests:
        replies = play.replies()
        refusals(play, play.requests, texts)
        for party, reply in replies.items():
            for bad in (reply[:-1], reply + b"\0", changed(reply, client=party + 1)):
                with pytest.raises(FaultyClient) as fault:
                    play.server.receive(party, bad)
                texts.append(without_locals(fault.value))
            play.server.receive(party, reply)
        texts.append(shown(play.server, play.members, play.helpers, play.requests, homes))
        asked = dict(play.server.ask_helpers())
        refusals(play, asked, texts)
        for helper, request in asked.items():
            play.server.receive(helper, play.ask(helper, request))
        texts.append(shown(play.server, play.members, play.helpers))
        play.close()
    play.check_sum()
    names = [path.name for path in tmp_path.rglob("*")]
    everything = "\n".join([*texts, *names]) + every_log.text + "".join(capsys.readouterr())
    assert "Helper" in everything
    assert len(secrets) > 30
    assert seen(secrets, everything) == []


@pytest.mark.parametrize("broken", ["keys", "memory", "sum"])
def test_a_helper_that_fails_leads_to_no_secret(broken, secrets, monkeypatch):
    """A disk that is full, or a fault of our own, in the middle of an answer: frames are shipped by crash reporters."""
    play = AssistedPlay(federated=helped(secrets)).until("unmask")
    helper, question = play.helpers[5], play.requests[5]
    failing = raising(OSError(28, "No space left on device"))
    if broken == "sum":
        monkeypatch.setattr("ccesa.protocol.assisted_helper.add_masks_by", failing)
    elif broken == "keys":
        monkeypatch.setattr(play.homes[5].keys, "put", failing)
    else:
        monkeypatch.setattr(play.homes[5].memory, "add", failing)
    with pytest.raises(OSError, match="No space") as failure:
        helper.receive(question)
    assert len(secrets) > 20
    assert seen(secrets, with_locals(failure.value) + shown(helper)) == []


def test_series_with_helpers(secrets, every_log, capsys):
    play, texts = AssistedSeries(federated=helped(secrets)), []
    while not play.series.finished:
        requests = play.open()
        while requests:
            for party, request in requests.items():
                for spoilt in (request[:-1], request + b"\0", request[:9] + b"\xff" + request[10:]):
                    one = (play.helpers | play.members)[party]
                    try:
                        one.receive(spoilt)
                    except CcesaError as error:
                        texts.append(with_locals(error))
                    texts.append(shown(one, one.faults))
                play.series.receive(party, play.ask(party, request))
                texts.append(shown(play.series, play.members, play.helpers))
            requests = dict(play.series.ask_helpers())
        texts.append(shown(play.series.close()))
    everything = "\n".join(texts) + every_log.text + "".join(capsys.readouterr())
    assert len(secrets) > 50
    assert seen(secrets, everything) == []
