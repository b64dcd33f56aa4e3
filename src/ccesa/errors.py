"""All exceptions of the package form one tree.

::

    CcesaError
    ├── UsageError (ValueError)    your mistake; nothing was sent, nothing changed
    │   ├── ConfigError            parameters that cannot work, or cannot work safely
    │   │   ├── ImpossiblePlan     demands that no graph can meet
    │   │   └── TaskSpent          this client has contributed to this task as often as it may
    │   ├── VectorError            input of the wrong length, type or range
    │   └── OrderError             a call that the current step does not allow
    ├── MalformedMessage           bytes that are not a message; Client and Server raise one of the next two
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

from ccesa.evidence import Evidence, Naming, by_id


def shown(text: str, most: int = 80) -> str:
    """Return text from others for errors and logs: one line of printable ASCII, cut to ``most`` characters.

    Other characters become Python's escapes; what is cut is counted.
    """
    pieces = [c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text[:most]]
    kept = sum(end <= most for end in accumulate(map(len, pieces)))
    cut = len(text) - kept
    return "".join(pieces[:kept]) + (f"... and {cut} more characters" if cut else "")


def quoted(value: object) -> str:
    """Return a value from others for errors, text in quotes; ``repr`` would give all of it, or fail."""
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to write thousands of digits
        return f"a number of {value.bit_length()} bits"
    return shown(repr(value))


class CcesaError(Exception):
    """Base of everything this package raises on purpose."""

    def described(self, naming: Naming) -> str:
        """Return the text with clients named in another way; what it says about them is in fields."""
        return str(self)

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
        super().__init__(self.described(by_id))

    def described(self, naming: Naming) -> str:
        return (
            f"cannot use the shares sealed in the name of {naming(self.clients)}: sealed wrong, or the "
            "server passed on others; this client has complained and is out of the round"
        )


class FaultyClient(CcesaError):
    """A client sent what an honest client never sends; ``other`` is the client in whose name it did."""

    def __init__(self, client: int, what: str, other: int | None = None) -> None:
        self.client, self.what, self.other = client, what, other
        super().__init__(self.described(by_id))

    def reason(self, naming: Naming) -> str:
        """Return what it sent, without its own name."""
        return self.what if self.other is None else f"{self.what} {naming([self.other])}"

    def described(self, naming: Naming) -> str:
        return f"{naming([self.client])}: {self.reason(naming)}"


class LateMessage(FaultyClient):
    """The step of this message has closed."""


class ConflictingMessage(FaultyClient):
    """A second answer that differs from the first; the first is kept."""


class RoundFailed(CcesaError):
    """The round ended without a sum.

    ``evidence`` has what is known about clients that lied. Where there is none, nobody need be at fault.
    """

    evidence: Evidence = Evidence()

    def described(self, naming: Naming) -> str:
        text = self._told(naming)
        return f"{text}; {self.evidence.described(naming)}" if self.evidence else text

    def __str__(self) -> str:
        return self.described(by_id)

    def _told(self, naming: Naming) -> str:
        """Return why the round failed, without the evidence."""
        return super().__str__()


class TooFewClients(RoundFailed):
    """Fewer clients are left than the configuration demands."""


class Unreliable(RoundFailed):
    """Theorem 1 fails: these clients' secrets cannot be rebuilt from the live holders."""

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = tuple(sorted(int(client) for client in clients))
        super().__init__(self._told(by_id))

    def _told(self, naming: Naming) -> str:
        return (
            f"too few live share holders for {naming(self.clients)}; "
            "run the round again; if this happens often, plan for more dropout (see ccesa plan)"
        )


class Disconnected(RoundFailed):
    """Theorem 2 fails: the mask graph of the survivors falls apart."""

    def __init__(self, component: Iterable[int]) -> None:
        self.component = tuple(sorted(int(client) for client in component))
        super().__init__(self._told(by_id))

    def _told(self, naming: Naming) -> str:
        return (
            "the survivors' mask graph is disconnected, so unmasking would open a partial sum; "
            f"apart from the others: {naming(self.component)}; "
            "run the round again; if this happens often, plan for more dropout, or mask with more neighbours"
        )


class CorruptShares(RoundFailed):
    """The secret of one client cannot be rebuilt: it dealt wrong shares, or too many holders sent such."""

    def __init__(self, client: int, what: str) -> None:
        self.client, self.what = client, what
        super().__init__(self._told(by_id))

    def _told(self, naming: Naming) -> str:
        return (
            f"the secret of {naming([self.client])} cannot be rebuilt: {self.what}; it dealt wrong shares, "
            "or too many of its neighbours sent wrong ones"
        )


class AttemptsSpent(RoundFailed):
    """Too few clients are left that may contribute to this task once more."""


class RoundsLost(RoundFailed):
    """A training came to nothing: all of its rounds failed, or too many in a row."""
