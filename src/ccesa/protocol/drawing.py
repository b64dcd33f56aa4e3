"""In steps 0 and 1, under every guard, a server draws the graph and leaves out who cannot take part."""

from typing import Any

import numpy as np

from ccesa import words
from ccesa.config import RoundConfig
from ccesa.crypto.agreements import AGREEMENTS
from ccesa.crypto.keys import COMMITMENT_BYTES
from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import MalformedMessage
from ccesa.graphs.assignment import Flags, Nodes, draw
from ccesa.graphs.evolution import informative
from ccesa.guards import guard_named
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.pair_seeds import PairSeeds
from ccesa.protocol.server_states import Delivered, Drawn, Opened, Round, grown


def note_keys(round: Round[Any], state: Opened, reply: m.AnyAdvertiseReply) -> None:
    """Refuse keys that nobody can have, and keys that anybody advertised before."""
    agreement = AGREEMENTS[round.config.agreement]
    public = agreement.public_keys(reply.keys)
    agreement.check_keys(*public)
    if len(set(public)) != len(public) or not state.public_keys.isdisjoint(public):
        raise MalformedMessage("a public key that was advertised before")
    state.public_keys.update(public)


def draw_graph(round: Round[Any], root: bytes, bundles: dict[int, bytes]) -> Drawn:
    """Draw the graph over V1, from a seed that is fixed only now that all keys are in."""
    ids = np.array(list(bundles), np.int64)
    graph = draw(round.config.graph, signed_texts.seed(round.context, root), ids)
    agreement = AGREEMENTS[round.config.agreement]
    return Drawn(
        graph=graph,
        thresholds=np.array([round.config.threshold.of(degree) for degree in graph.degrees.tolist()]),
        mask_keys=[agreement.public_keys(bundle)[1] for bundle in bundles.values()],
    )


def fit(config: RoundConfig, drawn: Drawn) -> Flags:
    """Flag who can take part: with one to mask with, enough to share with, no two sets of t_i holders."""
    graph, thresholds = drawn.graph, drawn.thresholds
    masks = graph.live_mask_neighbours(np.ones(graph.size, bool))
    most = np.array([config.largest_threshold(degree) for degree in graph.degrees.tolist()])
    holders = graph.degrees + 1
    return (masks >= 1) & (holders <= MAX_HOLDERS) & (thresholds <= most) & (holders < 2 * thresholds)


def releasing(config: RoundConfig, drawn: Drawn, alive: Flags) -> Flags:
    """Flag who of them would release shares in the end, if nobody else left.

    Where the dealer does not count, t_i of its neighbours have to confirm before a client releases any.
    """
    if guard_named(config.guard).dealer_counts:
        return alive
    return alive & (drawn.graph.live_neighbours(alive) >= drawn.thresholds)


def pruned(config: RoundConfig, drawn: Drawn, alive: Flags, spare: Nodes | int = 0) -> Flags:
    """Settle V2: leave out clients with too few live neighbours to share or mask with, until none is left.

    ``spare`` are holders that a client must have beyond its threshold.
    """
    graph = drawn.graph
    while True:
        enough = informative(graph, drawn.thresholds + spare, releasing(config, drawn, alive))
        kept = alive & enough & (graph.live_mask_neighbours(alive) > 0)
        if (kept == alive).all():
            return kept
        alive = kept


def take_sealed(round: Round[Any], drawn: Drawn, client: int, reply: m.ShareReply) -> m.ShareReply:
    """Check the sizes of what a client dealt; nobody but the neighbours can check more."""
    return m.checked(reply, round.config, int(drawn.graph.degrees[drawn.graph.nodes[client]]))


def deliver(
    round: Round[Any], drawn: Drawn, kept: dict[int, m.ShareReply]
) -> tuple[Delivered, list[dict[str, Any]]]:
    """Settle who has shared, V2 unless somebody is accused; hand each client what they sealed for it."""
    graph, agreement = drawn.graph, AGREEMENTS[round.config.agreement]
    size = agreement.text_bytes
    v2 = pruned(round.config, drawn, graph.flags(kept))
    replies = [kept.get(client) for client in graph.ids.tolist()]
    sealed = b"".join(
        reply.sealed if reply else bytes(degree * size)
        for reply, degree in zip(replies, graph.degrees.tolist(), strict=True)
    )
    live = v2[graph.columns]
    rows = np.frombuffer(sealed, np.uint8).reshape(-1, size)
    texts = graph.cut(live, np.take(rows, graph.reverse[live], axis=0))
    commitments = [reply.commitment if reply else bytes(COMMITMENT_BYTES) for reply in replies]
    promised = graph.of_neighbours(commitments, v2)
    delivered = grown(
        Delivered,
        drawn,
        v2=v2,
        commitments=commitments,
        seeds=PairSeeds(agreement, graph, rows),
        total=words.zeros(round.config.length, round.config.bits),
    )
    return delivered, [
        {"commitments": one, "sealed": text} for one, text in zip(promised, texts, strict=True)
    ]
