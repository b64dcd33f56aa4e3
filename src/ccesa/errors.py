"""Every exception of the package, in one tree.

::

    CcesaError
    ├── UsageError (ValueError)    your mistake; nothing was sent, nothing changed
    │   ├── ConfigError            parameters that cannot work, or cannot work safely
    │   │   ├── ImpossiblePlan     demands that no graph can meet
    │   │   └── TaskSpent          this client has contributed to this task as often as it may
    │   ├── VectorError            input of the wrong length, type or range
    │   └── OrderError             a call that the current step does not allow
    ├── MalformedMessage           bytes that are no message; Client and Server raise one of the next two
    ├── FaultyServer               seen by a client: it has aborted, no share leaves it any more
    ├── FaultyNeighbour (.clients) seen by a client: these, or the server in their name; it has complained
    ├── FaultyClient (.client)     seen by the server: the message is refused, the round goes on
    │   ├── LateMessage            its step has closed
    │   └── ConflictingMessage     it answered before, differently; the first answer is kept
    └── RoundFailed (.evidence)    the round ended without a sum; pairs of clients of whom one may have lied
        ├── TooFewClients
        ├── Unreliable (.clients)  a secret has too few live share holders
        ├── Disconnected (.component)  unmasking would open a partial sum
        ├── CorruptShares (.client)    the secret of one client cannot be rebuilt from what came
        ├── AttemptsSpent      too few clients may contribute to the task once more
        └── RoundsLost         a training is over: all its rounds failed, or too many in a row
"""

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

from ccesa.evidence import Evidence


def shown(text: str, most: int = 80) -> str:
    """Text from others as errors and logs show it: one line of printable ASCII, cut to ``most`` characters.

    Other characters become Python's escapes; what is cut is counted.
    """
    pieces = [c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text[:most]]
    kept = sum(end <= most for end in accumulate(map(len, pieces)))
    cut = len(text) - kept
    return "".join(pieces[:kept]) + (f"... and {cut} more characters" if cut else "")


def quoted(value: object) -> str:
    """Any value from others as errors show it, text in quotes; ``repr`` would give all of it, or fail."""
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to write thousands of digits
        return f"a number of {value.bit_length()} bits"
    return shown(repr(value))


class CcesaError(Exception):
    """Base of everything this package raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., "CcesaError"], tuple[Any, ...]]:
        """Errors travel between processes, whatever their constructors take."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[CcesaError], arguments: tuple[Any, ...], fields: dict[str, Any]) -> CcesaError:
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__.update(fields)
    return error


class UsageError(CcesaError, ValueError):
    """The caller's mistake."""


class ConfigError(UsageError):
    """Parameters that cannot work, or cannot work safely."""


class ImpossiblePlan(ConfigError):
    """Demands on reliability or privacy that no graph over these clients can meet.

    Each of ``options`` is an argument of ``plan`` with a value that would do, all others as they were.
    """

    def __init__(self, message: str, options: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)


class TaskSpent(ConfigError):
    """This client has contributed to the task as often as it may."""


class VectorError(UsageError):
    """Input of the wrong length, type or range."""


class OrderError(UsageError):
    """A call that the current step does not allow."""


class MalformedMessage(CcesaError):
    """Bytes that are not a message of the expected kind."""


class FaultyServer(CcesaError):
    """The server sent what an honest server never sends."""


class FaultyNeighbour(CcesaError):
    """Shares that cannot be used: one of these neighbours sealed them so, or the server in its name did.

    ``clients`` has their ids. It is not proof against any of them: the client cannot tell who it was.
    """

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = tuple(sorted(int(client) for client in clients))
        named = ", ".join(map(str, self.clients[:8])) + (", ..." if len(self.clients) > 8 else "")
        super().__init__(
            f"cannot use the shares sealed in the name of client(s) {named}: they sealed them wrong, or the "
            "server passed on others; this client has complained and is out of the round"
        )


class FaultyClient(CcesaError):
    """A client sent what an honest client never sends."""

    def __init__(self, client: int, what: str) -> None:
        super().__init__(f"client {client}: {what}")
        self.client = client


class LateMessage(FaultyClient):
    """The step of this message has closed."""


class ConflictingMessage(FaultyClient):
    """A second answer that differs from the first; the first is kept."""


class RoundFailed(CcesaError):
    """The round ended without a sum.

    ``evidence`` has what is known about clients that lied. Where there is none, nobody need be at fault.
    """

    evidence: Evidence = Evidence()

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}; {self.evidence}" if self.evidence else text


class TooFewClients(RoundFailed):
    """Fewer clients are left than the configuration demands."""


class Unreliable(RoundFailed):
    """Theorem 1 fails: these clients' secrets cannot be rebuilt from the live holders."""

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = tuple(sorted(int(client) for client in clients))
        shown = ", ".join(map(str, self.clients[:8])) + (", ..." if len(self.clients) > 8 else "")
        super().__init__(
            f"too few live share holders for {len(self.clients)} client(s): {shown}; "
            "run the round again; if this happens often, plan for more dropout (see ccesa plan)"
        )


class Disconnected(RoundFailed):
    """Theorem 2 fails: the mask graph of the survivors falls apart."""

    def __init__(self, component: Iterable[int]) -> None:
        self.component = tuple(sorted(int(client) for client in component))
        super().__init__(
            f"the survivors' mask graph is disconnected: {len(self.component)} client(s) stand apart, "
            "so unmasking would open their sum alone; "
            "run the round again; if this happens often, plan for more dropout, or mask with more neighbours"
        )


class CorruptShares(RoundFailed):
    """The secret of one client cannot be rebuilt: it dealt wrong shares, or too many holders sent such."""

    def __init__(self, client: int, what: str) -> None:
        super().__init__(
            f"the secret of client {client} cannot be rebuilt: {what}; it dealt wrong shares, or too many of "
            "its neighbours sent wrong ones"
        )
        self.client = client


class AttemptsSpent(RoundFailed):
    """Too few clients are left that may contribute to this task once more."""


class RoundsLost(RoundFailed):
    """A training came to nothing: all of its rounds failed, or too many in a row."""
