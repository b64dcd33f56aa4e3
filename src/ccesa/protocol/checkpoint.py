"""A server becomes bytes, and another one goes on from them as if nothing had happened.

A checkpoint is a log: the answers to each step as they came. A server draws no randomness that decides
anything, so a replay of the log is the same server, whatever its states look like. No masked vector is in it:
an answer is logged without its vector, which its tag or digest stands for, and all vectors are in one sum.

Every step of a round opens once, whichever server opens it. A memory that outlives them all says which have
been: going on from before the opening of a step would ask clients a second, different question.
"""

import hashlib
from collections.abc import Iterator, MutableSet
from contextlib import contextmanager
from threading import Lock
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from ccesa import wire
from ccesa.errors import (
    CcesaError,
    ConfigError,
    OverlappingSums,
    RoundFailed,
    StaleCheckpoint,
    quoted,
)
from ccesa.protocol import messages as m
from ccesa.wire import Data
from ccesa.words import Vector

VERSION: Final = 1
_DIGEST_BYTES = hashlib.sha256().digest_size
#: Servers in other threads may have the same memory.
_LOCK = Lock()


class Saved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Saves something that has a configuration."""

    version: Literal[1] = VERSION
    context: bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class SavedServer(Saved, frozen=True, kw_only=True):
    """Saves a server while a step is open."""

    #: Name of the open step.
    step: str
    #: Who was asked to take part, and what else is decided outside of messages, as ``Server`` has it.
    asked: list[int]
    task: bytes
    dropout: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    #: By step, up to the open one: what was answered, without masked vectors, in the order in which it came.
    answers: list[dict[int, bytes]]
    #: The sum of all vectors that were taken; empty before the step that takes them. Read where it lies.
    total: memoryview


class SavedSeries(Saved, frozen=True, kw_only=True):
    """Saves a series between two calls, as ``Series`` has it."""

    members: list[int]
    left: int
    number: int
    exchange: int
    is_open: bool
    asked: list[int]
    #: Checkpoints of the rounds in flight, and of which the requests have not been handed over.
    rounds: dict[int, bytes]
    due: list[int]
    #: Why rounds were lost, in words, of which nobody was told yet.
    lost: dict[int, str]


S = TypeVar("S", bound=Saved)


def encode(saved: Saved) -> bytes:
    """Return what is saved behind its digest."""
    body = msgspec.msgpack.encode(saved)
    return hashlib.sha256(body).digest() + body


def decode(data: Data, kind: type[S], context: bytes) -> S:
    """Read what was saved of this configuration; raise ConfigError for anything else."""
    view = memoryview(m.measured(data, "checkpoint"))
    digest, body = view[:_DIGEST_BYTES], view[_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise ConfigError(
            "these bytes are not a checkpoint, or are damaged: take another copy of the newest one, or run a "
            "new round"
        )
    try:
        saved = msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        if str(error).endswith("`$.version`"):
            text = "a checkpoint of another version of ccesa: end the round with that one, or run a new round"
            raise ConfigError(text) from None
        raise ConfigError("these bytes are not a checkpoint of this kind, or not of this version") from None
    if saved.context != context:
        raise ConfigError(
            "a checkpoint of another round, or of another configuration: give the configuration that it was "
            "opened with"
        )
    return saved


def without_vector(message: m.Message, data: Data) -> bytes:
    """Return a message as it is logged and known again: what it has beside its vector stands for that.

    ``data`` is its encoding, which is not copied if it is bytes.
    """
    return wire.emptied(message) if m.has_vector(type(message)) else bytes(data)


@contextmanager
def replaying() -> Iterator[None]:
    """Fail the round where the log of another server cannot be followed, of which some is done by then."""
    try:
        yield
    except (CcesaError, TypeError) as error:
        raise RoundFailed(
            "this checkpoint does not have what a server of this round can have taken; run a new round"
        ) from error


class Log:
    """The log of one server, and the memory of which steps any server of the round has opened."""

    def __init__(self, context: bytes, openings: MutableSet[bytes] | None, names: tuple[str, ...]) -> None:
        if openings is not None and not callable(getattr(openings, "add", None)):
            raise ConfigError("openings is a set, or what can be added to and asked like one")
        self._context, self._openings, self._names = context, openings, names
        #: By step, the answers of each client, without masked vectors.
        self.answers: list[dict[int, bytes]] = []
        #: So many were opened by the server that this one is restored from.
        self._before = 0

    def begin(self) -> dict[int, bytes]:
        """Note that the next step opens, before a request of it leaves; return where its answers go.

        Raises StaleCheckpoint if another server has opened it.
        """
        place = len(self.answers)
        if self._openings is None:
            self.answers.clear()  # nobody will ask for them
        elif place >= self._before:
            with _LOCK:
                self._check_unopened(self._openings, place)
                self._openings.add(self._entry(place))
        self.answers.append({})
        return self.answers[-1]

    def end(self) -> dict[int, bytes]:
        """Forget all answers: shares go with the round. Return that there are none."""
        self.answers = []
        return {}

    def encode(self, *, total: Vector | None, **fields: Any) -> bytes:
        """Return the log with the running sum and these fields, behind their digest."""
        self._remembered()
        content = memoryview(b"") if total is None else total.data  # encoded without another copy
        return encode(SavedServer(context=self._context, answers=self.answers, total=content, **fields))

    def follow(self, data: bytes) -> SavedServer:
        """Read what this server goes on from; raise StaleCheckpoint if a later step has been opened."""
        openings, saved = self._remembered(), self._decode(data)
        opened = len(saved.answers)
        for place in range(opened, len(self._names)):
            self._check_unopened(openings, place)
        if not all(self._entry(place) in openings for place in range(opened)):
            raise ConfigError(
                "these openings do not have this round: give those that it was opened with; if they are lost "
                "nobody knows what clients were asked since, so run a new round"
            )
        self._before = opened
        return saved

    def beside(self, data: bytes) -> SavedServer:
        """Read what another server took in the same step; raise OverlappingSums if of the same clients."""
        saved = self._decode(data)
        if saved.answers[:-1] != self.answers[:-1]:
            raise ConfigError(
                f"a checkpoint in step {saved.step}, or of a server that opened this step for other clients: "
                "merge servers that were restored from one checkpoint in this step"
            )
        common = self.answers[-1].keys() & saved.answers[-1].keys()
        if common:
            raise OverlappingSums(common)
        return saved

    def _decode(self, data: bytes) -> SavedServer:
        saved = decode(data, SavedServer, self._context)
        if saved.step not in self._names or len(saved.answers) != self._names.index(saved.step) + 1:
            raise ConfigError(
                f"a checkpoint in step {quoted(saved.step)} with {len(saved.answers)} steps in it"
            )
        return saved

    def _remembered(self) -> MutableSet[bytes]:
        if self._openings is None:
            raise ConfigError("a server that is saved or restored has to be made with openings=...")
        return self._openings

    def _check_unopened(self, openings: MutableSet[bytes], place: int) -> None:
        if self._entry(place) in openings:
            raise StaleCheckpoint(self._names[place])

    def _entry(self, place: int) -> bytes:
        return self._context + bytes([place])
