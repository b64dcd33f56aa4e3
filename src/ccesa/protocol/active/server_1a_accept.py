"""Step *accept*, server side: V2 is one set, so of every accusation at least one end has to go.

Who is in more accusations than can be liars around an honest client is a liar and goes alone. Of the others
both ends of a maximal matching go: each pair has a liar in it, so so many liars cost no more honest clients
than they are. (A smallest set that meets every accusation would let two liars evict any neighbour they have
in common.) Privacy does not depend on any of this: clients hold V2 to what they opened and signed.
"""

from collections import Counter

from ccesa.agreement.charter import Charter
from ccesa.evidence import Accusation
from ccesa.protocol import messages as m
from ccesa.protocol.accepting import accused_edges, take_acceptance
from ccesa.protocol.active.server_1_share import Among, among
from ccesa.protocol.drawing import held_together
from ccesa.protocol.server_states import Round
from ccesa.protocol.steps import Requests

take = take_acceptance


def close(
    round: Round[Charter], state: Among, kept: dict[int, frozenset[Accusation]]
) -> tuple[Among, Requests]:
    """Settle V2, and show it to everyone in it."""
    graph = state.graph
    edges = accused_edges(graph, frozenset().union(*kept.values()))
    answered = graph.flags(kept)
    liars = max(1, round.own.certificate.around)  # an accusation is the work of one, whatever was certified
    answered[list(left_out(edges, liars))] = False
    settled = among(round, state, state.root, held_together(round.config, state, answered))
    packed_v2, task = settled.packed_v2, round.task
    return settled, round.requests(
        graph, settled.v2, lambda node, head: m.MaskAmongRequest(**head, v2=packed_v2, task=task)
    )


def left_out(edges: set[tuple[int, int]], liars: int) -> set[int]:
    """Return who goes, if at most so many of anyone's neighbours lie."""
    accusations = Counter(node for edge in edges for node in edge)
    out = {node for node, count in accusations.items() if count > liars}
    for edge in sorted(edges):
        if out.isdisjoint(edge):
            out.update(edge)
    return out
