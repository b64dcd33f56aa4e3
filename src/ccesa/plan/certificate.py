"""Upper bounds on the probability of each bad event: the certificate of a configuration.

Tails are exact, and clients are joined by union bounds. docs/planning.md derives every line.
"""

import math
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import logsumexp

from ccesa.graphs import Kind
from ccesa.graphs.assumptions import Assumptions, Roster, exposed, unmaskable
from ccesa.graphs.tails import LN2, log2_upwards
from ccesa.graphs.thresholds import Rule
from ccesa.guards import CURIOUS, guard_named
from ccesa.protocol.server import DROPOUT


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Upper bounds on the probability of each bad event, as log2; minus infinity if it is impossible.

    Attributes:
        unreliable: Some client has fewer than t_i live share holders when it is unmasked, or too few clients join.
        disconnected: The mask graph of the honest survivors falls apart, so that a partial sum could be opened.
        exposed: Colluding neighbours hold t_i shares of an honest client, together with the client itself.
        unmaskable: Two disjoint sets of t_i shares of an honest client can exist, with colluders in both.
    """

    unreliable: float
    disconnected: float
    exposed: float
    unmaskable: float

    def privacy(self, guard: str = CURIOUS.name) -> float:
        """Return log2 of the sum of the bounds on all privacy events of a guard.

        Args:
            guard: ``curious`` or ``active``.

        Raises:
            ConfigError: The guard does not exist.
        """
        logs = [getattr(self, name) * LN2 for name in guard_named(guard).privacy_events]
        return min(0.0, float(logsumexp(logs)) / LN2)

    def as_dict(self) -> dict[str, float]:
        """Return all bounds by the names of their events."""
        return asdict(self)


def certify(graph: Kind, rule: Rule, assumptions: Assumptions, roster: Roster | None = None) -> Certificate:
    """Bound every event for this graph and threshold rule.

    With a ``roster`` a round that fewer clients join counts as unreliable. If a lying server chooses the roster, the
    privacy events are bounded for every roster that it may choose.
    """
    if roster is None:
        roster = Roster(assumptions=assumptions, least=assumptions.clients)
    degrees, nobody = graph.degrees(assumptions.clients), assumptions.colluders == 0
    lost = np.logaddexp(degrees.unreliable(rule, assumptions), roster.log_short)
    opened = -math.inf if nobody else degrees.around(exposed, rule, roster)
    safe = nobody and rule.follows_degree  # such a rule exceeds half of every neighbourhood
    twice = -math.inf if safe else degrees.around(unmaskable, rule, roster)
    return Certificate(
        unreliable=log2_upwards(lost),
        disconnected=log2_upwards(log_disconnected(graph, rule, assumptions, roster)),
        exposed=log2_upwards(opened),
        unmaskable=log2_upwards(twice),
    )


def log_disconnected(graph: Kind, rule: Rule, assumptions: Assumptions, roster: Roster) -> float:
    """Bound *disconnected*, including clients that are left out after *share*."""
    degrees, masks = graph.degrees(assumptions.clients), graph.masks(assumptions.clients)
    apart = masks.log_apart(assumptions, roster)
    if roster.chosen:
        return apart  # the server chooses dropouts too, and nothing rests on this event
    torn = masks.log_torn(lambda leaving: degrees.few_holders(rule, leaving), assumptions)
    return float(np.logaddexp(apart, torn))


def left_out(graph: Kind, rule: Rule, assumptions: Assumptions) -> float:
    """Bound P(colluders can leave an honest client out, and so part the honest masks), as log2."""
    if graph.mean_mask_degree(assumptions.clients) == assumptions.clients - 1:
        return -math.inf  # nothing parts the masks of the complete graph
    spare = max(assumptions.dropout, DROPOUT)
    return log2_upwards(graph.degrees(assumptions.clients).left_out(rule, assumptions, spare))
