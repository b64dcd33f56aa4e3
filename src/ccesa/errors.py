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
    """Raised if the caller is at fault: a subclass, or this class for a message that is not bytes.

    Nothing was sent and nothing has changed. Correct the call.
    """


class ConfigError(UsageError):
    """Raised for parameters or files that cannot work, or cannot work safely.

    The caller is to blame, or the server that proposed a round below a client's floor or against its charter.
    The text names the value and the limit. Choose another value, or stay out of the round.
    """


class ImpossiblePlan(ConfigError):
    """Raised by ``plan`` for demands on reliability or privacy that no graph can meet.

    The demands are at fault, not the round. Relax one of them as ``options`` says.

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

    It has used up its vectors, sent one in another series or a later round, or released shares. No vector leaves.
    Perhaps nobody is at fault. Wait for another task, such as the next model.
    """


class BudgetSpent(ConfigError):
    """Raised when one more vector would exceed a ledger's budget, or the number that its noise is made for.

    No vector leaves and nothing was charged. Perhaps nobody is at fault. The text says how much is used up. Take no
    part in further rounds with the same data, or only in rounds with more noise.
    """


class DamagedLedger(ConfigError):
    """Raised for a ledger that was changed, or that is an older copy.

    A disk, an editor or a restored backup is to blame. No vector leaves. Put back the newest copy of both of its
    files. Without a copy, make a new ledger with what is left of the budget by your own records.

    Args:
        name: Name of the ledger's file.

    Attributes:
        line: Number of the first line that is wrong, 1 or greater.
        what: The fault in it.
    """

    def __init__(self, line: int, what: str, name: str = "the ledger") -> None:
        self.line, self.what = line, what
        super().__init__(
            f"line {line} of {name} is damaged: {what}. Put back the newest copy of it and of its .head; without a "
            "copy, make a new ledger with what is left of the budget by your own records"
        )


class VectorError(UsageError):
    """Raised for vectors, models and weights of the wrong length, type or range.

    The caller is at fault, or the function that made the vector. The text says what was expected.
    """


class DamagedLog(ConfigError):
    """Raised for a server's log, or the counter beside it, that has changed.

    A disk or a person is to blame. The missing rows may have asked clients: run a new round, or begin a new series.
    """


class OrderError(UsageError):
    """Raised for a call that the current step does not allow, or that overlaps with another.

    The caller is at fault. After an interrupted call, or an abort, make a new object for the next round.
    """


class OverlappingSums(UsageError):
    """Raised by ``take_over`` for answers of clients that this server has already taken.

    The caller is at fault: it let two servers take replies of the same client. Nothing has changed. Clients of the
    other sum alone count as dropped out, unless that sum is taken over.

    Attributes:
        clients: Ids of the clients that are in both, ascending.
    """

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = _ascending(clients)
        super().__init__(self.described(by_id))

    def described(self, naming: Naming) -> str:
        return f"two servers have taken a reply of {naming(self.clients)}; their sums cannot be added up"


class MalformedMessage(CcesaError):
    """Raised for bytes that are not a configuration or a message of the expected kind.

    The sender is at fault. ``Client`` and ``Helper`` raise FaultyServer in its place, and ``Server`` FaultyClient.
    """


class FaultyServer(CcesaError):
    """Raised by ``receive`` of a client or helper when the server sent something that an honest server never sends.

    The server is to blame, or the network between. A client has dropped its secrets and answers nothing more; in a
    helper nothing has changed. Tell people, and join another round only when they know why.
    """


class FaultyNeighbour(CcesaError):
    """Raised by a client that could not use some neighbours' shares, and has complained of them.

    These neighbours are to blame, or the server in their name; nothing is proved against any of them. Join the next
    round. In a round with *accept* the client would accuse them and stay.

    Attributes:
        clients: Ids of these neighbours, ascending.
    """

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = _ascending(clients)
        super().__init__(self.described(by_id))

    def described(self, naming: Naming) -> str:
        return (
            f"cannot use the shares sealed in the name of {naming(self.clients)}: sealed wrong, or the server passed "
            "on others; this client has complained and is out of the round"
        )


class FaultyClient(CcesaError):
    """Raised by ``Server.receive`` when a client sent something that an honest client never sends.

    The client is to blame, or a transport that let another speak for it. The message is refused and nothing
    has changed: go on with the replies of the others.

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
    """Raised by ``Server.receive`` for a message whose step has closed, or whose sender is already out.

    Perhaps nobody is at fault: the client was slow. It counts as dropped out. Ignore the message.
    """


class ConflictingMessage(FaultyClient):
    """Raised by ``Server.receive`` for a second answer that differs from the first, which is kept.

    The client is to blame, or a transport that mixes up clients. Go on with the replies of the others.
    """


class RoundFailed(CcesaError):
    """Raised by ``Server.close`` and ``Server.result`` when the round ended without a sum.

    Without evidence perhaps nobody is at fault: run a new round.

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
    """Raised when fewer clients are left than ``min_survivors`` demands.

    Perhaps nobody is at fault: wait longer for replies, or plan for more dropout.
    """


class Unreliable(RoundFailed):
    """Raised when too few live holders have shares of some clients' secrets: the paper's Theorem 1 fails.

    Perhaps nobody is at fault. Run the round again; if this happens often, plan for more dropout.

    Attributes:
        clients: Ids of the clients whose secrets cannot be rebuilt, ascending.
    """

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = _ascending(clients)
        super().__init__(self._reason(by_id))

    def _reason(self, naming: Naming) -> str:
        return (
            f"too few live share holders for {naming(self.clients)}; run the round again; if this happens often, plan "
            "for more dropout (see ccesa plan)"
        )


class Disconnected(RoundFailed):
    """Raised when the mask graph of the survivors falls apart: the paper's Theorem 2 fails.

    Perhaps nobody is at fault, and no partial sum was opened: run the round again.

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

    This client dealt wrong shares and is to blame, or too many of its neighbours sent some. Run the round again
    without the clients that ``evidence.suspects`` names.

    Attributes:
        client: Id of the client that the secret belongs to.
        what: The fault of the shares.
    """

    def __init__(self, client: int, what: str) -> None:
        self.client, self.what = client, what
        super().__init__(self._reason(by_id))

    def _reason(self, naming: Naming) -> str:
        return (
            f"the secret of {naming([self.client])} cannot be rebuilt: {self.what}; it dealt wrong shares, or too many "
            "of its neighbours sent wrong ones"
        )


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
        return f"no answer from {naming(self.helpers)}: every helper is needed: wait until it is back"


class CorruptSum(RoundFailed):
    """Raised when the check words of a sum do not fit it, under the guard ``assisted``.

    A helper or a member is to blame, or an accident; nobody knows which. The helpers have answered about the task, so
    without noise they refuse it in another round: go on with another task.
    """


class StaleLog(RoundFailed):
    """Raised for a server's log that lacks an opening: it is an older copy, or another server went on.

    Perhaps nobody is at fault. Clients may have been asked since. Asking them otherwise now could reveal both secrets
    of one client, so nobody is asked any more: run a new round, or begin a new series.
    """


class CorruptSeeds(CorruptShares):
    """Raised when the masks of a client that dropped out rest on other seeds than were promised.

    It occurs only under the agreement ``x25519-mlkem768``. This client is to blame, or a network that changes
    messages: the seeds that it gave and accepted follow from its rebuilt secret. Run the round again without it.

    Attributes:
        client: Id of the client that the seeds belong to.
        what: The fault of the seeds.
    """

    def __init__(self, client: int) -> None:
        super().__init__(client, "a pair seed or a deposit is not what was promised")

    def _reason(self, naming: Naming) -> str:
        return (
            f"the masks of {naming([self.client])} cannot be rebuilt: {self.what}; it lied, or the network changed "
            "what it sent"
        )


class AttemptsSpent(RoundFailed):
    """Raised by ``SecureGrid`` when too few nodes may contribute to this task again.

    Perhaps nobody is at fault. Nodes keep to the first run of a model: start from another model.
    """


class RoundsLost(RoundFailed):
    """Raised by ``SecureGrid`` when all rounds of a training failed, or too many in a row.

    The text counts the reasons of the rounds: most often too many nodes drop out, or take too long.
    """
