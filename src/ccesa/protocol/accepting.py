"""In the step *accept*, under every guard, clients open what was sealed, and say what they cannot use.

An accusation says that one of two lies, never which: a text that does not open was sealed wrong by the one or
is called so by the other. What follows from it is the guard's affair.
"""

from typing import Any

import numpy as np

from ccesa.errors import MalformedMessage
from ccesa.evidence import Accusation
from ccesa.graphs.assignment import AssignmentGraph
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Accepted
from ccesa.protocol.client_states import Round as ClientRound
from ccesa.protocol.server_states import Delivered, Round


def accept_reply(round: ClientRound[Any], state: Accepted) -> m.AcceptReply:
    """Name the neighbours whose texts could not be used."""
    return m.AcceptReply(**round.head, accused=m.pack_ids(np.array(state.accused, np.int64)))


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
