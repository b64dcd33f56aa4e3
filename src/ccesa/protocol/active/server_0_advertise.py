"""Step 0, server side: collect signed keys, commit to the roster, draw the graph from that."""

from dataclasses import dataclass
from typing import Any

from ccesa.agreement.charter import Charter
from ccesa.crypto import merkle, primitives
from ccesa.errors import MalformedMessage, TooFewClients
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.drawing import draw_graph, fit, note_keys, stacked
from ccesa.protocol.server_states import Opened, Round, Sharing, grown
from ccesa.protocol.steps import Requests


@dataclass(frozen=True, kw_only=True, eq=False)
class Committed(Sharing):
    """After step 0 the graph is drawn from a root that commits to V1 and everyone's keys."""

    root: bytes


def take(
    round: Round[Charter], state: Opened, client: int, reply: m.SignedAdvertiseReply
) -> m.SignedAdvertiseReply:
    """Keep the public keys of a client with its signature."""
    m.checked(reply, round.config)
    text = signed_texts.bundle_text(round.context, client, reply.keys)
    check_signed(round, client, reply.signature, text)
    note_keys(round, state, reply)
    return reply


def check_signed(round: Round[Charter], client: int, signature: bytes, text: bytes) -> None:
    """Refuse a bad signature at once: its neighbours would abort over it."""
    try:
        primitives.verify(round.own.admission.key(client), signature, text)
    except primitives.BadSignature as error:
        raise MalformedMessage(str(error)) from error


def close(
    round: Round[Charter], state: Opened, kept: dict[int, m.SignedAdvertiseReply]
) -> tuple[Committed, Requests]:
    """Tell each client V1 and the root, and its neighbours' signed keys with the proof of them."""
    check_roster(round, len(kept))
    bundles = {client: kept[client].keys for client in sorted(kept)}
    v1 = m.pack_members(kept, round.config.clients)
    tree = merkle.levels([signed_texts.leaf(round.context, *one) for one in bundles.items()])
    root = signed_texts.root(round.context, v1, tree[-1].tobytes())
    drawn = draw_graph(round, root, bundles)
    graph = drawn.graph
    public_keys = stacked(bundles.values())
    signatures = stacked(kept[client].signature for client in bundles)

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

    return grown(Committed, drawn, root=root), round.requests(graph, fit(round.config, drawn), make)


def check_roster(round: Round[Charter], answered: int) -> None:
    """Refuse a roster that every client would refuse."""
    least = round.own.least_roster
    if answered < least:
        raise TooFewClients(f"step advertise: {answered} answered, the charter demands {least}")
