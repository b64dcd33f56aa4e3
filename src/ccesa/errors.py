"""All exceptions of the package form one tree.

::

    CcesaError
    ├── UsageError (ValueError)    your mistake; nothing was sent, nothing changed
    │   ├── ConfigError            parameters that cannot work, or cannot work safely
    │   │   ├── ImpossiblePlan     demands that no graph can meet
    │   │   ├── TaskSpent          this client may send no more vectors for this task
    │   │   ├── BudgetSpent        one more vector would exceed the budget of the site
    │   │   ├── DamagedLedger (.line)  a ledger that was changed, or an older copy
    │   │   └── DamagedLog         a server's log that was changed
    │   ├── VectorError            input of the wrong length, type or range
    │   ├── OrderError             a call that the current step does not allow
    │   └── OverlappingSums (.clients) partial sums that contain the same clients
    ├── MalformedMessage           bytes that are not a message; Client and Server raise one of the next two
    ├── FaultyServer               seen by a client: it has aborted, no share leaves it any more
    ├── FaultyNeighbour (.clients) seen by a client: these, or the server in their name; it has complained
    ├── FaultyClient (.client)     seen by the server: it refuses the message, the round goes on
    │   ├── LateMessage            its step has closed
    │   └── ConflictingMessage     it answered before, differently; the first answer is kept
    └── RoundFailed (.evidence)    the round ended without a sum; pairs of clients of whom one may have lied
        ├── TooFewClients
        ├── Unreliable (.clients)  a secret has too few live share holders
        ├── Disconnected (.component)  unmasking would open a partial sum
        ├── CorruptShares (.client)    the secret of one client cannot be rebuilt from its shares
        │   └── CorruptSeeds           it can be rebuilt, and shows that this client lied about seeds
        ├── HelpersMissing (.helpers)  helpers that did not answer, without whom there is no sum
        ├── CorruptSum         the check words of the sum do not fit
        ├── StaleLog           a server's log is an older copy: clients may have been asked since
        ├── AttemptsSpent      too few clients may contribute to the task again
        └── RoundsLost         a training is over: all its rounds failed, or too many in a row
"""

from collections.abc import Callable, Iterable
from itertools import accumulate
from traceback import format_exception_only
from typing import Any, TypeVar

from ccesa.evidence import Evidence, Naming, by_id

__all__ = [
    "AttemptsSpent", "BudgetSpent", "CcesaError", "ConfigError", "ConflictingMessage", "CorruptSeeds",
    "CorruptShares", "CorruptSum", "DamagedLedger", "DamagedLog", "Disconnected", "FaultyClient", "FaultyNeighbour",
    "FaultyServer", "HelpersMissing", "ImpossiblePlan", "LateMessage", "MalformedMessage", "OrderError",
    "OverlappingSums", "RoundFailed", "RoundsLost", "StaleLog", "TaskSpent", "TooFewClients", "Unreliable",
    "UsageError", "VectorError",
]  # fmt: skip

Error = TypeVar("Error", bound="CcesaError")


def shown(text: str, most: int = 80) -> str:
    """Return text from others for errors and logs: one line of escaped ASCII of at most ``most`` characters."""
    pieces = [c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text[:most]]
    kept = sum(end <= most for end in accumulate(map(len, pieces)))
    cut = len(text) - kept
    return "".join(pieces[:kept]) + (f"... and {cut} more characters" if cut else "")


def quoted(value: object) -> str:
    """Return a value from others for errors, text in quotes; ``repr`` would give all of it, or fail."""
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to write thousands of digits
        return f"a number of {value.bit_length()} bits"
    return shown(repr(value))


def without_frames(error: Error) -> Error:
    """Return the error without traceback and causes, whose frames hold on to states: it may be kept."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def own_failure(error: BaseException) -> "VectorError":
    """Return the error of a caller's own function, with its line, as a new error that holds no frames."""
    if isinstance(error, CcesaError):
        return VectorError(shown(str(error), 300))
    said = shown(format_exception_only(error)[-1].strip(), 300)  # also of an error that has no text
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = f" ({shown(last.tb_frame.f_code.co_filename)}, line {last.tb_lineno})" if last else ""
    return VectorError(f"the site's own function failed: {said}{place}")


class CcesaError(Exception):
    """Base of every exception that this package raises on purpose; it is never raised itself."""

    def described(self, naming: Naming) -> str:
        """Return the text of the error, with other names for clients than their ids.

        Args:
            naming: A function from client ids to the words that stand for them.
        """
        return str(self)

    def __reduce__(self) -> tuple[Callable[..., "CcesaError"], tuple[Any, ...], dict[str, Any]]:
        """Let errors travel between processes, whatever their constructors take."""
        return _made, (type(self), *self.args), self.__dict__


def _ascending(clients: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(int(client) for client in clients))


def _made(kind: type[CcesaError], *arguments: Any) -> CcesaError:
    return kind.__new__(kind, *arguments)


class UsageError(CcesaError, ValueError):
    """Raised if the caller is at fault: a subclass, or this class for a message that is not bytes."""


class ConfigError(UsageError):
    """Raised for parameters or files that cannot work, or cannot work safely.

    The caller is to blame, or the server that proposed a round below a client's floor or against its charter.
    """


class ImpossiblePlan(ConfigError):
    """Raised by ``plan`` for demands on reliability or privacy that no graph can meet; the demands are at fault.

    Args:
        message: The text of the error.

    Attributes:
        options: Dicts of arguments of ``plan``, mostly one each, with values that would do; others stay.
    """

    def __init__(self, message: str, options: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)


class TaskSpent(ConfigError):
    """Raised by ``Client.receive`` when the client may not contribute to the task in this round.

    It has used up its vectors, sent one in another series or a later round, or released shares. Perhaps nobody is at
    fault.
    """


class BudgetSpent(ConfigError):
    """Raised when one more vector would exceed a ledger's budget, or the number that its noise is made for.

    No vector leaves and nothing was charged. Perhaps nobody is at fault. The text says how much is used up.
    """


class DamagedLedger(ConfigError):
    """Raised for a ledger that was changed, or that is an older copy.

    A disk, an editor or a restored backup is to blame. No vector leaves.

    Args:
        name: Name of the ledger's file.

    Attributes:
        line: Number of the first line that is wrong, 1 or greater.
        what: The fault in it.
    """

    def __init__(self, line: int, what: str, name: str = "the ledger") -> None:
        self.line, self.what = line, what
        copy = "Put back the newest copy of it and of its .head"
        new = "without a copy, make a new ledger with what is left of the budget by your own records"
        super().__init__(f"line {line} of {name} is damaged: {what}. {copy}; {new}")


class VectorError(UsageError):
    """Raised for vectors, models and weights of the wrong length, type or range; the caller is at fault."""


class DamagedLog(ConfigError):
    """Raised for a server's log, or its counter, that a disk or a person has changed, who is to blame."""


class OrderError(UsageError):
    """Raised for a call that the current step does not allow, or that overlaps with another; the caller is at fault."""


class OverlappingSums(UsageError):
    """Raised by ``take_over`` for answers of clients that this server has already taken; nothing has changed.

    The caller is at fault: it let two servers take replies of the same client.

    Attributes:
        clients: Ids of the clients that are in both, ascending.
    """

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = _ascending(clients)
        super().__init__(self.described(by_id))

    def described(self, naming: Naming) -> str:
        return f"two servers have taken a reply of {naming(self.clients)}; their sums cannot be added up"


class MalformedMessage(CcesaError):
    """Raised for bytes that are not a configuration or a message of the expected kind; the sender is at fault."""


class FaultyServer(CcesaError):
    """Raised by ``Client.receive`` when the server sent something that an honest server never sends.

    The server is to blame, or the network between. The client has dropped its secrets and answers nothing more.
    """


class FaultyNeighbour(CcesaError):
    """Raised by a client that could not use some neighbours' shares, and has complained of them.

    These neighbours are to blame, or the server in their name; nothing is proved against any of them.

    Attributes:
        clients: Ids of these neighbours, ascending.
    """

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = _ascending(clients)
        super().__init__(self.described(by_id))

    def described(self, naming: Naming) -> str:
        out = "sealed wrong, or the server passed on others; this client has complained and is out of the round"
        return f"cannot use the shares sealed in the name of {naming(self.clients)}: {out}"


class FaultyClient(CcesaError):
    """Raised by ``Server.receive`` when a client sent something that an honest client never sends.

    The client is to blame, or a transport that let another speak for it. The message is refused.

    Attributes:
        client: Id of the sender, as the transport gave it.
        what: The fault, without names of clients.
        other: Id of another client in whose name it spoke, if it did.
    """

    def __init__(self, client: int, what: str, other: int | None = None) -> None:
        self.client, self.what, self.other = client, what, other
        super().__init__(self.described(by_id))

    def reason(self, naming: Naming) -> str:
        """Return the fault of the message, without the sender's own name.

        Args:
            naming: A function from client ids to the words that stand for them.
        """
        return self.what if self.other is None else f"{self.what} {naming([self.other])}"

    def described(self, naming: Naming) -> str:
        return f"{naming([self.client])}: {self.reason(naming)}"


class LateMessage(FaultyClient):
    """Raised by ``Server.receive`` for a message that is too late; perhaps nobody is at fault."""


class ConflictingMessage(FaultyClient):
    """Raised by ``Server.receive`` for a second, different answer; the client is to blame, or a transport."""


class RoundFailed(CcesaError):
    """Raised when a round ended without a sum; without evidence perhaps nobody is at fault.

    Attributes:
        evidence: Pairs of clients of which one may have lied, as ``Evidence``; empty if nothing is known.
    """

    evidence: Evidence = Evidence()

    def described(self, naming: Naming) -> str:
        text = self._reason(naming)
        return f"{text}; {self.evidence.described(naming)}" if self.evidence else text

    def __str__(self) -> str:
        return self.described(by_id)

    def _reason(self, naming: Naming) -> str:
        return super().__str__()


class TooFewClients(RoundFailed):
    """Raised when fewer clients are left than ``min_survivors`` demands; perhaps nobody is at fault."""


class Unreliable(RoundFailed):
    """Raised when too few live holders have shares of some clients' secrets: the paper's Theorem 1 fails.

    Perhaps nobody is at fault.

    Attributes:
        clients: Ids of the clients whose secrets cannot be rebuilt, ascending.
    """

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = _ascending(clients)
        super().__init__(self._reason(by_id))

    def _reason(self, naming: Naming) -> str:
        again = "run the round again; if this happens often, plan for more dropout (see ccesa plan)"
        return f"too few live share holders for {naming(self.clients)}; {again}"


class Disconnected(RoundFailed):
    """Raised when the mask graph of the survivors falls apart: the paper's Theorem 2 fails.

    Perhaps nobody is at fault, and no partial sum was opened.

    Attributes:
        component: Ids of the smallest part that is separate from the others, ascending.
    """

    def __init__(self, component: Iterable[int]) -> None:
        self.component = _ascending(component)
        super().__init__(self._reason(by_id))

    def _reason(self, naming: Naming) -> str:
        return (
            "the survivors' mask graph is disconnected, so unmasking would open a partial sum; "
            f"apart from the others: {naming(self.component)}; "
            "run the round again; if this happens often, plan for more dropout, or mask with more neighbours"
        )


class CorruptShares(RoundFailed):
    """Raised when the secret of one client cannot be rebuilt from the shares that came.

    This client dealt wrong shares and is to blame, or too many of its neighbours sent some.

    Attributes:
        client: Id of the client that the secret belongs to.
        what: The fault of the shares.
    """

    def __init__(self, client: int, what: str) -> None:
        self.client, self.what = client, what
        super().__init__(self._reason(by_id))

    def _reason(self, naming: Naming) -> str:
        liars = "it dealt wrong shares, or too many of its neighbours sent wrong ones"
        return f"the secret of {naming([self.client])} cannot be rebuilt: {self.what}; {liars}"


class HelpersMissing(RoundFailed):
    """Raised when helpers have not answered: without one of them there is no sum.

    Perhaps nobody is at fault. Wait for them, and run the round again. In the last step keep the step open until they
    are back: those that have answered refuse the task in another round.

    Attributes:
        helpers: Ids of the helpers in the round, ascending; they follow those of the members.
    """

    def __init__(self, helpers: Iterable[int]) -> None:
        self.helpers = _ascending(helpers)
        super().__init__(self._reason(by_id))

    def _reason(self, naming: Naming) -> str:
        return f"no answer from {naming(self.helpers)}: every helper is needed; run the round again when it is back"


class CorruptSum(RoundFailed):
    """Raised when the check words of a sum do not fit it, under the guard ``assisted``.

    A helper or a member is to blame, or an accident; nobody knows which. The helpers have answered about the task, so
    without noise they refuse it in another round: go on with another task.
    """


class StaleLog(RoundFailed):
    """Raised for a server's log that lacks an opening: it is an older copy, or another server went on.

    Perhaps nobody is at fault. Asking clients otherwise now could reveal both secrets of one client.
    """


class CorruptSeeds(CorruptShares):
    """Raised when the masks of a client that dropped out rest on other seeds than were promised.

    It occurs only under ``x25519-mlkem768``. This client is to blame, or a network that changes messages.

    Attributes:
        client: Id of the client that the seeds belong to.
        what: The fault of the seeds.
    """

    def __init__(self, client: int) -> None:
        super().__init__(client, "a pair seed or a deposit is not what was promised")

    def _reason(self, naming: Naming) -> str:
        whose = naming([self.client])
        return f"the masks of {whose} cannot be rebuilt: {self.what}; it lied, or the network changed what it sent"


class AttemptsSpent(RoundFailed):
    """Raised by ``SecureGrid`` when too few nodes may contribute to this task again; perhaps nobody is at fault."""


class RoundsLost(RoundFailed):
    """Raised by ``SecureGrid`` when all rounds of a training failed, or too many in a row; the text counts reasons."""
