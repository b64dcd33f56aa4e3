"""In steps 2 and 3, under every guard, a server adds masked vectors up and takes the masks off."""

from typing import Any

from ccesa import words
from ccesa.errors import Disconnected, MalformedMessage, Unreliable
from ccesa.graphs.assignment import AssignmentGraph, Flags
from ccesa.graphs.evolution import Evolution, extended, informative
from ccesa.protocol import messages as m
from ccesa.protocol.drawing import releasing
from ccesa.protocol.released_shares import ReleasedShares
from ccesa.protocol.server_states import Delivered, Round, Settled, Unmasked, grown
from ccesa.protocol.steps import Requests
from ccesa.protocol.unmasking import Unmasking
from ccesa.wire import Data


def checked_vector(round: Round[Any], client: int, reply: m.Message) -> memoryview | None:
    """Return the masked vector of a reply that has one; refuse one that was changed on its way.

    It is a view of the message: who takes it adds it before the message is gone.
    """
    if not isinstance(reply, m.MaskedVector):
        return None
    name, make = reply.fingerprint
    if make(m.checked(reply, round.config).vector, round.context, client) != getattr(reply, name):
        raise MalformedMessage(f"the masked vector is not the one that its {name} was made of")
    return reply.vector


def check_asked_for(round: Round[Any], reply: m.MaskedVector, among: bytes) -> None:
    """Refuse a vector that was masked among others, or for another task, than this server asked for."""
    if reply.task != round.task:
        raise MalformedMessage("a vector for another task than the one that was asked for")
    if reply.among != among:
        raise MalformedMessage("a vector that was masked among another V2 than the one that was sent")


def add_vector(round: Round[Any], state: Delivered, vector: Data) -> None:
    """Add a masked vector, or a sum of some, to the running sum, straight from its message."""
    words.add(state.total, vector)


def settle(round: Round[Any], state: Delivered, kept: dict[int, Any]) -> Settled:
    """Settle V3. Whatever would leak or could not succeed fails here, before any share is asked for."""
    v3 = state.graph.flags(kept)
    check_connected(state.graph, v3)
    check_reliable(state, v3, releasing(round.config, state, v3))
    return grown(Settled, state, v3=v3, released=ReleasedShares(state.graph, state.v2))


def check_connected(graph: AssignmentGraph, v3: Flags) -> None:
    """Require, after Theorem 2, that no part of the survivors stands alone in the mask graph."""
    components = graph.mask_components(v3)
    if len(components) > 1:
        raise Disconnected(graph.ids[components[-1]])


def check_reliable(state: Delivered, v3: Flags, holders: Flags) -> None:
    """Require, after Theorem 1, that these holders can rebuild all secrets that the sum over V3 needs."""
    known = informative(state.graph, state.thresholds, holders)
    lost = extended(state.graph, v3, state.v2) & ~known
    if lost.any():
        raise Unreliable(state.graph.ids[lost])


def take_shares(round: Round[Any], state: Settled, client: int, reply: m.UnmaskReply) -> None:
    """Keep the shares that a client released: of its own secret, and of each of its neighbours' in V2."""
    node = state.graph.nodes[client]
    neighbours = state.released.due(node) - 1  # one share is of its own secret
    state.released.keep(node, m.checked(reply, round.config, neighbours).shares)


def unmask(round: Round[Any], state: Settled, kept: dict[int, Any]) -> tuple[Unmasked, Requests]:
    """Rebuild the secrets and take the masks off the sum: no request is left."""
    v4 = state.graph.flags(kept)
    check_reliable(state, state.v3, v4)
    evolution = Evolution(state.graph, state.thresholds, state.v2, state.v3, v4)
    wrong_shares = Unmasking(round=round, state=state, evolution=evolution).remove()
    return grown(Unmasked, state, evolution=evolution, wrong_shares=wrong_shares), {}
