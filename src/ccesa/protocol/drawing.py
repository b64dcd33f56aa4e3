"""Steps 0, 1 and *accept* of a server, under every guard: it draws the graph and hands on sealed shares.

An accusation says that one of two clients lies, never which. The guard decides about the consequences.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import AGREEMENTS, COMMITMENT_BYTES
from ccesa.errors import MalformedMessage
from ccesa.evidence import Accusation
from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes, draw, flags, informative
from ccesa.guards import guard_named
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.server_states import Advertising, Delivered, Drawn, PairSeeds, Rows, ServerRound, Sharing, grow

#: The round of a server under any guard.
Round: TypeAlias = ServerRound[object]


def note_keys(round: Round, state: Advertising, reply: m.AnyAdvertiseReply) -> None:
    """Step 0: refuse keys that nobody can have, and keys that anybody advertised before."""
    agreement = AGREEMENTS[round.config.agreement]
    public = agreement.public_keys(reply.keys)
    agreement.check_keys(*public)
    if len(set(public)) != len(public) or not state.public_keys.isdisjoint(public):
        raise MalformedMessage("a public key that was advertised before")
    state.public_keys.update(public)


def draw_graph(round: Round, root: bytes, bundles: dict[int, bytes]) -> Sharing:
    """Draw the graph over V1, from a seed that is fixed only now that all keys are in."""
    ids = np.array(list(bundles), np.int64)
    graph = draw(round.config.graph, signed_texts.seed(round.context, root), ids)
    agreement = AGREEMENTS[round.config.agreement]
    return Sharing(
        graph=graph,
        thresholds=round.config.threshold.of(graph.degrees),
        mask_keys=[agreement.public_keys(bundle)[1] for bundle in bundles.values()],
        commitments=np.zeros((graph.size, COMMITMENT_BYTES), np.uint8),
        sealed=np.zeros((graph.columns.size, agreement.text_bytes), np.uint8),
    )


def stack(items: Iterable[bytes]) -> Rows:
    items = list(items)
    return np.frombuffer(b"".join(items), np.uint8).reshape(len(items), -1)


def fit(config: RoundConfig, drawn: Drawn) -> Flags:
    """Flag the nodes that can take part: one to mask with, enough to share with, no two sets of t_i holders."""
    has_mask: Flags = drawn.graph.live_mask_neighbours(np.ones(drawn.graph.size, bool)) >= 1
    return has_mask & config.can_share(drawn.graph.degrees)


def releasing(config: RoundConfig, drawn: Drawn, alive: Flags) -> Flags:
    """Flag the live nodes that would release shares: if the dealer does not count, t_i neighbours have to confirm."""
    if guard_named(config.guard).dealer_counts:
        return alive
    return alive & (drawn.graph.live_neighbours(alive) >= drawn.thresholds)


def hold_together(config: RoundConfig, drawn: Drawn, alive: Flags, spare: Nodes | int = 0) -> Flags:
    """Settle V2: prune, and of masks that have fallen apart keep the largest part, until nobody is left out.

    A smaller part would lose the round once its vectors were sent. ``spare`` are holders needed beyond the threshold.
    """
    while True:
        kept = prune(config, drawn, alive, spare)
        parts = drawn.graph.mask_components(kept)
        if len(parts) < 2:
            return kept
        alive = flags(drawn.graph.size, min(parts, key=lambda part: (-part.size, part[0])))


def prune(config: RoundConfig, drawn: Drawn, alive: Flags, spare: Nodes | int = 0) -> Flags:
    """Leave out clients with too few live neighbours to share or mask with, until nobody is left out."""
    graph = drawn.graph
    while True:
        enough = informative(graph, drawn.thresholds + spare, releasing(config, drawn, alive))
        kept = alive & enough & (graph.live_mask_neighbours(alive) > 0)
        if (kept == alive).all():
            return kept
        alive = kept


def take_sealed(round: Round, state: Sharing, client: int, reply: m.ShareReply) -> None:
    """Step 1: keep the texts of a client, if they have the right size; only the neighbours can check more."""
    node = state.graph.nodes[client]
    edges = state.graph.edges(node)
    m.check(reply, round.config, edges.stop - edges.start)
    for rows, first, data in ((state.sealed, edges.start, reply.sealed), (state.commitments, node, reply.commitment)):
        start = first * rows.shape[1]
        rows.data.cast("B")[start : start + len(data)] = data


def deliver(round: Round, state: Sharing, kept: dict[int, None]) -> tuple[Delivered, Callable[[int], dict[str, Any]]]:
    """Settle the clients that have shared, V2 unless somebody is accused; return their texts, by node."""
    graph, sealed, commitments = state.graph, state.sealed, state.commitments
    v2, reverse = hold_together(round.config, state, graph.flags(kept)), graph.reverse
    for rows in (sealed, commitments):
        rows.flags.writeable = False  # requests are made from them, whenever they are asked for

    def texts(node: int) -> dict[str, Any]:
        near, edges = graph.neighbours(node), reverse[graph.edges(node)]
        live = v2.take(near)
        return {
            "commitments": commitments.take(near[live], axis=0).tobytes(),
            "sealed": sealed.take(edges[live], axis=0).tobytes(),
        }

    delivered = grow(
        Delivered,
        state,
        v2=v2,
        seeds=PairSeeds(AGREEMENTS[round.config.agreement], graph, sealed),
        total=words.zeros(round.config.length, round.config.bits),
    )
    return delivered, texts


def take_acceptance(round: Round, state: Delivered, client: int, reply: m.AcceptReply) -> frozenset[Accusation]:
    """Step accept: read a client's accusations, and keep its deposits, one for each neighbour that has shared."""
    accusations, node = take_accusations(round, state, client, reply), state.graph.nodes[client]
    shared = state.v2[state.graph.neighbours(node)]
    m.check(reply, round.config, int(shared.sum()))
    state.seeds.keep(node, shared, reply.deposits)
    return accusations


def take_complaint(round: Round, state: Delivered, client: int, reply: m.Complaint) -> frozenset[Accusation]:
    """Without *accept*: read the accusations of a client that is out of the round, like one that has dropped."""
    if not reply.accused:
        raise MalformedMessage("the complaint names no client")
    return take_accusations(round, state, client, reply)


def take_accusations(round: Round, state: Delivered, client: int, reply: m.Accusing) -> frozenset[Accusation]:
    graph = state.graph
    accused = m.unpack_ids("accused", reply.accused, round.config.clients)
    near = graph.neighbours(graph.nodes[client])
    if not np.isin(accused, graph.ids[near[state.v2[near]]]).all():
        raise MalformedMessage("it accuses a client whose shares it was not sent")
    return frozenset(Accusation(client, one) for one in accused.tolist())


def accused_edges(graph: AssignmentGraph, accusations: Iterable[Accusation]) -> set[tuple[int, int]]:
    pairs = ((graph.nodes[one.accuser], graph.nodes[one.dealer]) for one in accusations)
    return {(min(pair), max(pair)) for pair in pairs}
