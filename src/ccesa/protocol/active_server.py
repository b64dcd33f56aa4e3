"""The steps of a server under the guard ``active``, whose clients need not trust it.

An honest server checks every signature itself: it refuses a bad one at once, before the neighbours abort. Functions
that are the same under every guard are in ``drawing`` and ``summing``.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeAlias

from ccesa.agreement.charter import Charter
from ccesa.crypto import merkle, primitives
from ccesa.crypto.primitives import SIGNATURE_BYTES
from ccesa.errors import MalformedMessage, TooFewClients
from ccesa.evidence import Accusation
from ccesa.graphs.assignment import Flags
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.drawing import accused_edges, deliver, draw_graph, fit, hold_together, note_keys, releasing, stack
from ccesa.protocol.server_states import Advertising, Delivered, Requests, ServerRound, Settled, Sharing, grow, ids_near
from ccesa.protocol.summing import check_asked_for, check_reliable, settle

#: The round of a server with a charter.
Round: TypeAlias = ServerRound[Charter]


@dataclass(frozen=True, kw_only=True, eq=False)
class Committed(Sharing):
    """After step 0 the graph is drawn from a root that commits to V1 and everyone's keys."""

    root: bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class Among(Delivered):
    """Everyone masks among this V2; with *accept* it is those who have shared until that step closes."""

    root: bytes
    packed_v2: bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class Confirming(Settled):
    """After step 2 V3 is known, and has to be confirmed before shares are asked for."""

    #: The text that everyone signs in step 2c.
    text: bytes
    #: The signatures of the members of V3 in step 2.
    signatures: dict[int, bytes]


def check_signed(round: Round, client: int, signature: bytes, text: bytes) -> None:
    """Refuse a bad signature at once: its neighbours would abort over it."""
    try:
        primitives.verify(round.own.admission.key(client), signature, text)
    except primitives.BadSignature as error:
        raise MalformedMessage(str(error)) from error


def take_keys(round: Round, state: Advertising, client: int, reply: m.SignedAdvertiseReply) -> m.SignedAdvertiseReply:
    """Step 0: keep the public keys of a client with its signature."""
    m.check(reply, round.config)
    text = signed_texts.bundle_text(round.context, client, reply.keys)
    check_signed(round, client, reply.signature, text)
    note_keys(round, state, reply)
    return reply


def close_advertise(
    round: Round, state: Advertising, kept: dict[int, m.SignedAdvertiseReply]
) -> tuple[Committed, Requests]:
    """Commit to the roster; show each client V1 and the root, and its neighbours' signed keys with the proof."""
    check_roster(round, len(kept))
    bundles = {client: kept[client].keys for client in sorted(kept)}
    v1 = m.pack_members(kept, round.config.clients)
    tree = merkle.levels([signed_texts.leaf(round.context, *one) for one in bundles.items()])
    root = signed_texts.root(round.context, v1, tree[-1].tobytes())
    drawn = draw_graph(round, root, bundles)
    graph = drawn.graph
    public_keys = stack(bundles.values())
    signatures = stack(kept[client].signature for client in bundles)

    def make(node: int, head: dict[str, Any]) -> m.Message:
        near = graph.neighbours(node)
        return m.RosterRequest(
            **head,
            v1=v1,
            root=root,
            keys=public_keys.take(near, axis=0).tobytes(),
            signatures=signatures.take(near, axis=0).tobytes(),
            proof=merkle.prove(tree, graph.closed_neighbourhood(node)),
        )

    return grow(Committed, drawn, root=root), round.requests(graph, fit(round.config, drawn), make)


def check_roster(round: Round, answered: int) -> None:
    """Refuse a roster that every client would refuse."""
    least = round.own.least_roster
    if answered < least:
        raise TooFewClients(f"step advertise: {answered} answered, the charter demands {least}")


def close_share(round: Round, state: Committed, kept: dict[int, None]) -> tuple[Among, Requests]:
    """Step 1: hand on sealed shares; show each client its neighbours that shared, without *accept* all of V2."""
    delivered, texts = deliver(round, state, kept)
    graph, shared = state.graph, settle_v2(round, delivered, state.root, delivered.v2)
    packed_v2, dropped = shared.packed_v2, ids_near(graph, ~shared.v2)

    def make(node: int, head: dict[str, Any]) -> m.Message:
        if round.config.accept:
            return m.AcceptRequest(**head, dropped=dropped(node), **texts(node))
        return m.MaskAmongAtOnceRequest(**head, v2=packed_v2, **texts(node), task=round.task)

    return shared, round.requests(graph, shared.v2, make)


def settle_v2(round: Round, state: Delivered, root: bytes, v2: Flags) -> Among:
    packed = m.pack_members(state.graph.ids[v2], round.config.clients)
    return grow(Among, state, root=root, v2=v2, packed_v2=packed)


def close_accept(round: Round, state: Among, kept: dict[int, frozenset[Accusation]]) -> tuple[Among, Requests]:
    """Step accept: settle V2, and show it to everyone in it.

    V2 is one set, so of every accusation at least one end has to go. A client in more accusations than can be liars
    around an honest one is a liar and goes alone. In the other pairs both ends of a maximal matching go: each has a
    liar in it, so n liars cost at most n honest clients. (A smallest set that meets every accusation would let two
    liars evict any neighbour they have in common.) Privacy does not depend on this: clients check V2 themselves.
    """
    graph = state.graph
    edges = accused_edges(graph, frozenset().union(*kept.values()))
    answered = graph.flags(kept)
    liars = max(1, round.own.certificate.around)  # an accusation is the work of one, whatever was certified
    answered[list(leave_out(edges, liars))] = False
    settled = settle_v2(round, state, state.root, hold_together(round.config, state, answered))
    v2, task = settled.packed_v2, round.task
    return settled, round.requests(graph, settled.v2, lambda node, head: m.MaskAmongRequest(**head, v2=v2, task=task))


def leave_out(edges: set[tuple[int, int]], liars: int) -> set[int]:
    """Return the nodes that go, if at most this many of anyone's neighbours lie."""
    accusations = Counter(node for edge in edges for node in edge)
    out = {node for node, count in accusations.items() if count > liars}
    for edge in sorted(edges):
        if out.isdisjoint(edge):
            out.update(edge)
    return out


def take_vector(round: Round, state: Among, client: int, reply: m.SignedMaskReply) -> bytes:
    """Step 2: check a vector before it is added to the sum, and keep the signature for the neighbours."""
    check_asked_for(round, reply, signed_texts.among(round.context, client, state.packed_v2))
    what = (round.context, state.root, state.packed_v2, round.task)
    check_signed(round, client, reply.signature, signed_texts.masking_text(*what))
    check_signed(round, client, reply.receipt, signed_texts.receipt_text(*what, reply.digest))
    return reply.signature


def close_mask(round: Round, state: Among, kept: dict[int, bytes]) -> tuple[Confirming, Requests]:
    """Show each client all of V3."""
    settled = settle(round, state, kept)
    v3 = m.pack_members(kept, round.config.clients)
    text = signed_texts.confirmed_text(round.context, state.root, state.packed_v2, round.task, v3)
    requests = round.requests(state.graph, settled.v3, lambda node, head: m.ConfirmRequest(**head, v3=v3))
    return grow(Confirming, settled, text=text, signatures=kept), requests


def take_confirmation(round: Round, state: Confirming, client: int, reply: m.ConfirmReply) -> bytes:
    """Step 2c: keep a signature on V3."""
    check_signed(round, client, m.check(reply, round.config).signature, state.text)
    return reply.signature


def close_confirm(round: Round, state: Confirming, kept: dict[int, bytes]) -> tuple[Settled, Requests]:
    """Show each client the signatures of its neighbours, and ask for shares; with too few it would refuse."""
    graph, v3 = state.graph, state.v3
    confirmed = graph.flags(kept)
    ready = releasing(round.config, state, confirmed)
    check_reliable(state, v3, ready)
    best = state.signatures | kept  # a confirmation says more than the signature it replaces
    signatures = stack(best.get(client, bytes(SIGNATURE_BYTES)) for client in graph.ids.tolist())

    def make(node: int, head: dict[str, Any]) -> m.Message:
        near = graph.neighbours(node)
        live = near[v3[near]]
        signed = signatures.take(live, axis=0).tobytes()
        return m.SignedUnmaskRequest(**head, confirmed=confirmed[live].tobytes(), signatures=signed)

    return state, round.requests(graph, ready, make)
