"""The order of the steps: one table per guard, without and with *accept*.

Only these tables say which message is legal when. A client in the state of a row accepts its request and nothing else;
a server whose step is open accepts its replies and nothing else. Drivers loop until the server has no requests left
and never count steps.

Without *accept* the mask step starts with the first half of that step, in one exchange: its request carries the sealed
texts, the client opens them, and if it cannot, it complains in place of its vector.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ccesa.evidence import Accusation
from ccesa.guards import guard_named
from ccesa.helper_keys import HelperKey
from ccesa.protocol import (
    active_client,
    active_server,
    assisted_client,
    assisted_helper,
    assisted_server,
    curious_client,
    curious_server,
)
from ccesa.protocol import messages as m
from ccesa.protocol.active_client import AcceptedAmong, Confirmed, Rostered, SignedV2
from ccesa.protocol.client_states import Accepted, Advertised, ClientRound, Holding, Joined, Shared
from ccesa.protocol.drawing import take_acceptance, take_sealed
from ccesa.protocol.server_states import Requests as Requests
from ccesa.protocol.server_states import ServerRound
from ccesa.protocol.summing import take_shares, unmask

Request = TypeVar("Request", bound=m.Message)
Reply = TypeVar("Reply", bound=m.Message)
#: The round of a client or helper, and the server's agreement.
Round = TypeVar("Round", bound=ClientRound[Any] | assisted_helper.HelperRound)
Agreed = TypeVar("Agreed")
#: The state of a client before a request, the state of a server while replies come, and its part of a reply.
State = TypeVar("State")
Open = TypeVar("Open")
Kept = TypeVar("Kept")


class Beside(NamedTuple):
    """An exchange with helpers while a step is open, about what has come until then."""

    name: str
    request: type[m.Message]
    reply: type[m.Message]
    #: Server: (round, state, whether requests may have been lost) -> requests by helper.
    ask: Callable[[ServerRound[Any], Any, bool], Requests]
    #: Server: (round, state, helper, reply) -> accusations; None if it is known. A faulty reply leaves no trace.
    take: Callable[[ServerRound[Any], Any, int, Any], frozenset[Accusation] | None]
    #: Server: (round, state, client, reply without its vector) -> None. All helpers confirmed it, and it is in a sum.
    settle: Callable[[ServerRound[Any], Any, int, Any], None]


class TypedStep(NamedTuple, Generic[Request, Reply, Round, State, Agreed, Open, Kept]):
    """A step is one row of a guard's table. Functions take and return frozen states."""

    name: str
    request: type[Request]
    reply: type[Reply]
    #: The state of a client before the request; of a helper, its key.
    state: type[State]
    #: Client: (round, state, request) -> (next state, reply). Helper: (round, key, request) -> reply.
    answer: Callable[[Round, State, Request], Any]
    #: Server: (round, state, client, reply) -> the part to keep. A faulty reply leaves no trace.
    take: Callable[[ServerRound[Agreed], Open, int, Reply], Kept]
    #: Server: (round, state, kept parts by client) -> (next state, requests of the next step).
    close: Callable[[ServerRound[Agreed], Open, dict[int, Kept]], tuple[object, Requests]]
    #: The answer of a client that cannot go on, in place of the reply; it is out of the round then.
    instead: type[m.Complaint] | None = None
    #: Whether the row is for rounds with *accept*; None stands for both kinds.
    accept: bool | None = None
    #: Whether helpers answer this step, and not clients.
    by_helpers: bool = False
    beside: Beside | None = None

    @property
    def replies(self) -> tuple[type[m.Message], ...]:
        return (self.reply,) if self.instead is None else (self.reply, self.instead)

    @property
    def all_replies(self) -> tuple[type[m.Message], ...]:
        """Those of clients, and those of helpers beside them."""
        return self.replies if self.beside is None else (*self.replies, self.beside.reply)


# fmt: off
_CURIOUS = (
    TypedStep("advertise", m.AdvertiseRequest, m.AdvertiseReply, Joined,
        curious_client.advertise, curious_server.take_keys, curious_server.close_advertise),
    TypedStep("share", m.ShareRequest, m.ShareReply, Advertised,
        curious_client.share, take_sealed, curious_server.close_share),
    TypedStep("accept", m.AcceptRequest, m.AcceptReply, Shared,
        curious_client.accept, take_acceptance, curious_server.close_accept, accept=True),
    TypedStep("mask", m.MaskRequest, m.MaskReply, Accepted,
        curious_client.mask, curious_server.take_vector, curious_server.close_mask, accept=True),
    TypedStep("mask", m.MaskAtOnceRequest, m.MaskReply, Shared,
        curious_client.mask_at_once, curious_server.take_vector, curious_server.close_mask,
        accept=False, instead=m.Complaint),
    TypedStep("unmask", m.UnmaskRequest, m.UnmaskReply, Holding,
        curious_client.unmask, take_shares, unmask),
)

_ACTIVE = (
    TypedStep("advertise", m.AdvertiseRequest, m.SignedAdvertiseReply, Joined,
        active_client.advertise, active_server.take_keys, active_server.close_advertise),
    TypedStep("share", m.RosterRequest, m.ShareReply, Advertised,
        active_client.share, take_sealed, active_server.close_share),
    TypedStep("accept", m.AcceptRequest, m.AcceptReply, Rostered,
        active_client.accept, take_acceptance, active_server.close_accept, accept=True),
    TypedStep("mask", m.MaskAmongRequest, m.SignedMaskReply, AcceptedAmong,
        active_client.mask, active_server.take_vector, active_server.close_mask, accept=True),
    TypedStep("mask", m.MaskAmongAtOnceRequest, m.SignedMaskReply, Rostered,
        active_client.mask_at_once, active_server.take_vector, active_server.close_mask,
        accept=False, instead=m.Complaint),
    TypedStep("confirm", m.ConfirmRequest, m.ConfirmReply, SignedV2,
        active_client.confirm, active_server.take_confirmation, active_server.close_confirm),
    TypedStep("unmask", m.SignedUnmaskRequest, m.UnmaskReply, Confirmed,
        active_client.unmask, take_shares, unmask),
)

_ASSISTED = (
    TypedStep("key", m.HelperKeysRequest, m.HelperKeysReply, HelperKey,
        assisted_helper.show_keys, assisted_server.take_helper_keys, assisted_server.close_key, by_helpers=True),
    TypedStep("mask", m.MaskForHelpersRequest, m.BoxedMaskReply, Joined,
        assisted_client.mask, assisted_server.take_vector, assisted_server.close_mask,
        beside=Beside("confirm", m.ConfirmBoxesRequest, m.ConfirmBoxesReply,
            assisted_server.ask_boxes, assisted_server.take_confirmation, assisted_server.take_summed)),
    TypedStep("unmask", m.UnmaskSumRequest, m.UnmaskSumReply, HelperKey,
        assisted_helper.unmask, assisted_server.take_sum, assisted_server.close_unmask, by_helpers=True),
)
# fmt: on

#: A row of any types. Above, each row is checked by its own types; tests show that it fits the row before.
Step: TypeAlias = TypedStep[Any, Any, Any, Any, Any, Any, Any]

#: By guard.
TABLES: dict[str, tuple[Step, ...]] = {"curious": _CURIOUS, "active": _ACTIVE, "assisted": _ASSISTED}


class HasSteps(Protocol):
    """The fields of a round that determine its steps."""

    @property
    def guard(self) -> str: ...
    @property
    def accept(self) -> bool: ...


def steps_of(round: HasSteps) -> tuple[Step, ...]:
    return steps_under(round.guard, round.accept)


@cache
def steps_under(guard: str, accept: bool = False) -> tuple[Step, ...]:
    """Return the steps of a guard in their order, with *accept* or without."""
    return tuple(row for row in TABLES[guard_named(guard).name] if row.accept in (None, accept))
