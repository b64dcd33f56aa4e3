"""In the step *accept*, under every guard, clients open what was sealed, and say what they cannot use.

An accusation says that one of two lies, never which: a text that does not open was sealed wrong by the one or
is called so by the other. What follows from it is the guard's affair.
"""

from typing import Any

import numpy as np

from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import MalformedMessage
from ccesa.evidence import Accusation
from ccesa.graphs.assignment import AssignmentGraph
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Accepted, Shared
from ccesa.protocol.client_states import Round as ClientRound
from ccesa.protocol.server_states import Delivered, Round


def accept_reply(round: ClientRound[Any], state: Shared, accepted: Accepted) -> m.AcceptReply:
    """Name the neighbours whose texts could not be used, and deposit the seeds of all others."""
    agreement, accused = AGREEMENTS[round.config.agreement], accepted.accused
    deposits = [
        bytes(agreement.deposit_bytes)
        if other in accused
        else agreement.deposit(state.mask_secret, received, round.context, round.client, other)
        for other, (_, received) in accepted.seeds.items()
    ]
    return m.AcceptReply(
        **round.head, accused=m.pack_ids(np.array(accused, np.int64)), deposits=b"".join(deposits)
    )


def take_acceptance(
    round: Round[Any], state: Delivered, client: int, reply: m.AcceptReply
) -> frozenset[Accusation]:
    """Read whom a client accuses, and keep its deposits, one for each neighbour that has shared."""
    accusations, node = take_accusations(round, state, client, reply), state.graph.nodes[client]
    shared = state.v2[state.graph.neighbours(node)]
    m.checked(reply, round.config, int(shared.sum()))
    state.seeds.keep(node, shared, reply.deposits)
    return accusations


def take_accusations(
    round: Round[Any], state: Delivered, client: int, reply: m.AcceptReply | m.Complaint
) -> frozenset[Accusation]:
    """Read whom a client accuses: neighbours that have shared, and nobody else."""
    graph = state.graph
    accused = m.unpack_ids("accused", reply.accused, round.config.clients)
    near = graph.neighbours(graph.nodes[client])
    if not np.isin(accused, graph.ids[near[state.v2[near]]]).all():
        raise MalformedMessage("it accuses somebody whose shares it was not sent")
    return frozenset(Accusation(client, one) for one in accused.tolist())


def take_complaint(
    round: Round[Any], state: Delivered, client: int, reply: m.Complaint
) -> frozenset[Accusation]:
    """Read whom a client accuses that is out of the round, like one that has dropped."""
    if not reply.accused:
        raise MalformedMessage("a complaint about nobody")
    return take_accusations(round, state, client, reply)


def accused_edges(graph: AssignmentGraph, accusations: frozenset[Accusation]) -> set[tuple[int, int]]:
    """Return the edges between accuser and dealer, as nodes, the smaller first."""
    return {
        (min(pair), max(pair))
        for pair in ((graph.nodes[one.accuser], graph.nodes[one.dealer]) for one in accusations)
    }
