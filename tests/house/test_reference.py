"""Every public name says its parameters, what it returns and what it raises, in Google's style."""

import builtins
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

import ccesa
from ccesa import (
    Admission,
    Charter,
    Client,
    Complete,
    Fixed,
    Floor,
    Harary,
    Identity,
    Linear,
    Member,
    Quantizer,
    RoundConfig,
    Server,
    errors,
    plan,
    statistics,
)
from ccesa.graphs import Kind
from ccesa.memory import RELEASE, Entry, ProcessMemory
from ccesa.protocol import messages as m
from ccesa.service import errors as service_errors
from ccesa.simulate.models import AggregatedModels
from ccesa.values.quantize import Mean, Quantized
from rounds import Play, changed, configure, configure_active, read

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises")
PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


class Documented(NamedTuple):
    """A class, a function, a method or a property."""

    name: str
    thing: Any

    @property
    def text(self) -> str:
        """The docstring; a method without one has that of the method it overrides."""
        return inspect.getdoc(self.thing) or ""

    @property
    def sections(self) -> dict[str, list[str]]:
        """The lines of each section, without those that go on from the line above."""
        found: dict[str, list[str]] = {}
        current: list[str] = []
        for line in self.text.splitlines():
            if is_header(line):
                current = found.setdefault(line.removesuffix(":"), [])
            elif line[:1].strip():
                current = []  # text again
            elif re.match(r"    \S", line):
                current.append(line.strip())
        return found

    def named(self, section: str) -> set[str]:
        """What a section is about: the words before the colons."""
        return {line.partition(":")[0].lstrip("*") for line in self.sections.get(section, [])}

    def __str__(self) -> str:
        return self.name


def is_header(line: str) -> bool:
    return line.endswith(":") and line.removesuffix(":") in SECTIONS


def public_names() -> Iterator[Documented]:
    """Everything that is exported, and the records that come out of it."""
    yield from (Documented(name, getattr(ccesa, name)) for name in ccesa.__all__ if name != "plan")
    yield from (Documented(f"plan.{name}", getattr(plan, name)) for name in plan.__all__)
    yield from (Documented(kind.__name__, kind) for kind in (AggregatedModels, Mean, Quantized))
    yield from (Documented(f"statistics.{name}", getattr(statistics, name)) for name in statistics.__all__)
    try:
        from ccesa import service
    except ImportError:
        return
    yield from (Documented(f"service.{name}", getattr(service, name)) for name in service.__all__)
    try:
        from ccesa import flower
    except ImportError:
        return
    yield from (Documented(f"flower.{name}", getattr(flower, name)) for name in flower.__all__)


def is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "ccesa"


def is_called(thing: object) -> bool:
    return inspect.isfunction(thing) or inspect.ismethod(thing)


def members(kind: type) -> Iterator[Documented]:
    """Public methods and properties that the package itself defines, in the class or its bases."""
    for name in dir(kind):
        homes = [base for base in kind.__mro__ if name in vars(base)]
        thing = vars(homes[0])[name]
        thing = getattr(kind, name) if isinstance(thing, classmethod | staticmethod) else thing
        foreign = not all(map(is_ours, homes))  # and documented there, unless there is more to say
        if name.startswith("_") or not is_ours(homes[0]) or (foreign and not thing.__doc__):
            continue
        if is_called(thing) or isinstance(thing, property | cached_property):
            yield Documented(f"{kind.__name__}.{name}", thing)


def everything() -> Iterator[Documented]:
    for one in public_names():
        yield one
        if inspect.isclass(one.thing) and one.thing is not plan.Assumptions:  # whose methods the planner asks
            yield from members(one.thing)


EVERYTHING = list(everything())
FUNCTIONS = [one for one in EVERYTHING if is_called(one.thing)]
CLASSES = [one for one in EVERYTHING if inspect.isclass(one.thing)]
ERRORS = [one for one in CLASSES if issubclass(one.thing, Exception)]
every = pytest.mark.parametrize("one", EVERYTHING, ids=str)
every_function = pytest.mark.parametrize("one", FUNCTIONS, ids=str)


def test_the_walk_finds_what_it_should():
    names = {str(one) for one in EVERYTHING}
    assert {"Client.receive", "Server.waiting", "Charter.load", "Harary.neighbours", "Plan.config"} <= names
    assert {"Identity.public", "Quantizer.for_model", "FaultyClient.reason", "aggregate"} <= names
    assert not {"CcesaError.add_note", "RoundConfig.clients"} & names


@every
def test_first_line_is_a_sentence_that_stands_alone(one):
    first = one.text.partition("\n")[0]
    assert first.endswith(".")
    assert re.match(r"[A-Z]|``", first)
    assert not first.startswith(("Of ", "The same "))


@every
def test_sections_stand_apart_in_order_and_are_not_empty(one):
    lines = ["", *one.text.splitlines(), ""]
    for place, line in enumerate(lines):
        if is_header(line):
            assert lines[place - 1] == "", line
            assert lines[place + 1].startswith("    "), line
    assert list(one.sections) == [name for name in SECTIONS if name in one.sections]
    for name in ("Args", "Attributes", "Raises"):
        assert all(re.match(r"\**\w+: \S", line) for line in one.sections.get(name, [])), name


@every_function
def test_every_parameter_is_explained(one):
    """In its own docstring. The parameters of graphs are explained once for all methods, in that of their base."""
    of_graphs = one.text == inspect.getdoc(getattr(Kind, one.thing.__name__, None))
    explained, expected = one.named("Args"), inspect.signature(one.thing).parameters.keys() - {"self"}
    assert expected <= Documented("Kind", Kind).named("Args") if of_graphs else expected == explained


def parameters(kind: type) -> set[str]:
    """What a class is made with: the fields of a record, or what its own constructor takes."""
    if issubclass(kind, msgspec.Struct):
        return set(kind.__struct_fields__)
    if dataclasses.is_dataclass(kind):
        return {one.name for one in dataclasses.fields(kind)}
    return set(inspect.signature(kind).parameters) if "__init__" in vars(kind) else set()


@pytest.mark.parametrize("one", CLASSES, ids=str)
def test_everything_that_a_class_is_made_with_is_explained(one):
    expected = parameters(one.thing)
    assert expected <= one.named("Args") | one.named("Attributes")
    assert one.named("Args") <= expected


@every_function
def test_what_is_returned_is_said(one):
    """In a section, which Google's style leaves out where the first line begins with ``Return``."""
    said = bool({"Returns", "Yields"} & one.sections.keys()) or one.text.startswith("Return ")
    assert said == (inspect.signature(one.thing).return_annotation not in (None, "None"))


@every
def test_what_is_raised_exists(one):
    for name in one.named("Raises"):
        [kind] = {vars(one)[name] for one in (errors, service_errors, builtins) if name in vars(one)}
        assert isinstance(kind, type), name
        assert issubclass(kind, Exception), name


@pytest.mark.parametrize("one", ERRORS, ids=str)
def test_an_error_says_when_it_is_raised_and_who_is_at_fault(one):
    assert re.search(r"\b[Rr]aised\b", one.text)
    if one.thing not in (errors.CcesaError, errors.RoundsLost):  # of everything; of many rounds
        assert re.search(r"\bfault\b|[Tt]o blame", one.text)


def test_the_sizes_of_messages_are_those_of_the_page():
    """Where ``Client.receive`` says they are, and as long as ``Server.open`` says the first one is."""
    assert "docs/protocol.md, section 7" in inspect.getdoc(Client.receive)
    assert re.search(r"^## 7\. Messages$", PAGE.read_text(), re.MULTILINE)
    longest = m.AdvertiseRequest(context=bytes(32), client=2**32 - 1, number=bytes(4)).encode()
    assert f"at most {len(longest)} bytes" in inspect.getdoc(Server.open)


# What is claimed, and a call that shows it.

CONFIG = configure(8)
ZEROS = np.zeros(CONFIG.length, np.uint16)
KEY = Identity(bytes(32), "a")
ARRAYS = [np.zeros(3)]


def quantizer(**settings) -> Quantizer:
    return Quantizer.for_model(ARRAYS, **{"clients": 8, "clip": 1.0, **settings})


def joined() -> Client:
    """A client that has answered step 0."""
    client = Client(CONFIG, 0, ZEROS)
    client.receive(Server(CONFIG).open()[0])
    return client


def spent() -> None:
    """A client that has contributed to the task before is asked again."""
    play, task = Play(CONFIG, task=b"m" * 32), b"m" * 32
    tasks = ProcessMemory()
    tasks.add(Entry(RELEASE, task + CONFIG.series_id, 0))
    play.clients[0] = Client(CONFIG, 0, ZEROS, task=task, tasks=tasks)
    play.until("mask").replies()


def made_wrong() -> None:
    """A client whose function makes a vector of another length is asked for it."""
    client, play = Client(CONFIG, 0, lambda: ZEROS[1:]), Play(CONFIG)
    play.clients[0] = client
    play.until("mask")
    client.receive(play.requests[0])


def complained() -> None:
    """A client that has complained of a neighbour is asked to unmask."""
    play = Play(CONFIG).until("mask")
    sealed = read(play.requests[0]).sealed
    play.clients[0].receive(changed(play.requests[0], sealed=bytes(80) + sealed[80:]))
    play.clients[0].receive(play.requests[1])


def received(client: object = 0, reply: object = b"") -> None:
    server = Server(CONFIG)
    server.open()
    server.receive(client, reply)  # type: ignore[arg-type]


def closed_early(result: bool = False) -> None:
    server = Server(CONFIG)
    server.open()
    try:
        server.close()
    except errors.TooFewClients:
        if not result:
            raise
    server.result()


CLAIMS: list[tuple[Any, str, Callable[[], object]]] = [
    (RoundConfig, "ConfigError", lambda: RoundConfig(clients=2, length=1)),
    (RoundConfig.decode, "MalformedMessage", lambda: RoundConfig.decode(b"")),
    (Floor, "ConfigError", lambda: Floor(threshold_ratio=3.0)),
    (Floor.check, "ConfigError", lambda: Floor(clients=9).check(CONFIG)),
    (Harary, "ConfigError", lambda: Harary(degree=3)),
    (Harary.check, "ConfigError", lambda: Harary(degree=8).check(8)),
    (Complete, "ConfigError", lambda: Complete(mask_p=0.5, mask_degree=2)),
    (ccesa.ErdosRenyi, "ConfigError", lambda: ccesa.ErdosRenyi(p=0.0)),
    (Linear, "ConfigError", lambda: Linear(slope=1025, base=0)),
    (Fixed, "ConfigError", lambda: Fixed(t=1)),
    (Identity, "ConfigError", lambda: Identity(b"short")),
    (Identity.load, "OSError", lambda: Identity.load("/nowhere/at/all")),
    (Identity.save, "ConfigError", lambda: KEY.save("/nowhere/at/all")),
    (Member.parse, "ConfigError", lambda: Member.parse("a name")),
    (Admission, "ConfigError", lambda: Admission([Member("a", KEY.public)] * 2)),
    (Admission.parse, "ConfigError", lambda: Admission.parse("a\0b")),
    (Admission.load, "OSError", lambda: Admission.load("/nowhere/at/all")),
    (Admission.key, "IndexError", lambda: Admission([]).key(0)),
    (Admission.id_of, "ConfigError", lambda: Admission([]).id_of(KEY.public)),
    (Charter.parse, "ConfigError", lambda: Charter.parse("serial = 1")),
    (Charter.load, "OSError", lambda: Charter.load("/nowhere/at/all")),
    (Quantizer, "ConfigError", lambda: quantizer(field_bits=8, clients=200)),
    (Quantizer.for_model, "VectorError", lambda: Quantizer.for_model([np.array(["a"])], clients=3, clip=1.0)),
    (Quantizer.encode, "VectorError", lambda: quantizer().encode(ARRAYS, weight=2.0)),
    (Quantizer.decode, "VectorError", lambda: quantizer().decode(np.zeros(quantizer().length, np.uint64))),
    (Client, "ConfigError", lambda: Client(CONFIG, 8, ZEROS)),
    (Client, "ConfigError", lambda: Client(configure_active(8), 0, ZEROS)),
    (Client, "VectorError", lambda: Client(CONFIG, 0, ZEROS[1:])),
    (Client.receive, "FaultyServer", lambda: Client(CONFIG, 0, ZEROS).receive(b"")),
    (Client.receive, "UsageError", lambda: Client(CONFIG, 0, ZEROS).receive("text")),  # type: ignore[arg-type]
    (Client.receive, "TaskSpent", spent),
    (Client.receive, "FaultyNeighbour", complained),
    (Client.receive, "VectorError", made_wrong),
    (Client.resume, "OrderError", lambda: joined().resume(b"")),
    (Client.resume, "ConfigError", lambda: Client(CONFIG, 0, ZEROS).resume(b"")),
    (Server, "ConfigError", lambda: Server(CONFIG, threads=-1)),
    (Server.open, "OrderError", lambda: [server.open() for server in [Server(CONFIG)] * 2]),
    (Server.receive, "FaultyClient", received),
    (Server.receive, "OrderError", lambda: Server(CONFIG).receive(0, b"")),
    (Server.receive, "ConfigError", lambda: received(client="a")),
    (Server.receive, "UsageError", lambda: received(reply=None)),
    (Server.close, "TooFewClients", closed_early),
    (Server.close, "OrderError", lambda: Server(CONFIG).close()),
    (Server.result, "RoundFailed", lambda: closed_early(result=True)),
    (Server.result, "OrderError", lambda: Server(CONFIG).result()),
    (plan.plan, "ImpossiblePlan", lambda: plan.plan(10, 0.5, 0.5)),
    (plan.plan, "ConfigError", lambda: plan.plan(100, 1.0)),
    (plan.check, "ConfigError", lambda: plan.check(CONFIG, -0.1)),
    (plan.charter, "ConfigError", lambda: plan.charter(plan.plan(8, 0.1), Admission([]), expires=1)),
    (ccesa.aggregate, "VectorError", lambda: ccesa.aggregate([ARRAYS] * 4, weights=[1.0])),
    (ccesa.aggregate, "ConfigError", lambda: ccesa.aggregate([ARRAYS] * 2)),
    (ccesa.aggregate, "RoundFailed", lambda: ccesa.aggregate([ARRAYS] * 4, dropout=0.999, seed=0)),
]


@pytest.mark.parametrize(
    ("thing", "name", "call"), CLAIMS, ids=[f"{thing.__qualname__}-{name}" for thing, name, _ in CLAIMS]
)
def test_what_is_claimed_is_raised(thing, name, call):
    assert name in Documented("", thing).named("Raises")
    with pytest.raises(getattr(errors, name, None) or getattr(builtins, name)):
        call()
