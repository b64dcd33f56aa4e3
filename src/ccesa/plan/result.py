"""``Plan``, the result of planning: a graph and a threshold rule, what they promise, and what they cost."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ccesa.agreement.config import Floor, RoundConfig, threshold_ratio
from ccesa.crypto.keys import DEFAULT
from ccesa.graphs import Graph
from ccesa.graphs.assumptions import Assumptions, Demand, Event, Roster, fewer_honest, more_colluders, unmaskable
from ccesa.graphs.reliability import log_fewer
from ccesa.graphs.tails import LN2, find_first, log2_upwards
from ccesa.graphs.thresholds import Threshold
from ccesa.guards import Guard, guard_named
from ccesa.plan.certificate import Certificate, certify, left_out
from ccesa.plan.price import Cost, Shape, price
from ccesa.plan.search import Found
from ccesa.privacy import Mechanism


class Promise(NamedTuple):
    """The number of honest clients in every sum that can be opened, except with 2^``fails`` in a round."""

    honest: int
    fails: float


class Offer(NamedTuple):
    """A denser graph for the same demand: its noise in an expected sum beside a trusted curator's, and its cost."""

    graph: Graph
    degree: int
    #: H, the honest clients whose noise is counted on.
    honest: int
    ratio: float
    sent_bytes: float
    agreements: float


def noise_ratio(mechanism: Mechanism, survivors: int) -> float:
    """Return the noise of a sum over this number of survivors, divided by that of a trusted curator."""
    return mechanism.noise(survivors) / mechanism.curator


def _add_log2(one: float, other: float) -> float:
    """Return log2 of the sum of two probabilities that are given as log2."""
    return min(0.0, float(np.logaddexp2(one, other)))


#: Fields of ``Shape`` that a plan has under the same name.
_SHAPE = ("clients", "degree", "mask_degree", "length", "bits", "guard", "agreement", "accept")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A graph and a threshold rule, what they promise, and what they cost.

    Attributes:
        roster: The clients that a round accepts, and what is assumed about them.
        guard: ``curious`` or ``active``.
        length: Words of a vector.
        bits: Bits of a word.
        privacy_bits: The demand on privacy, as -log2 of a probability.
        reliability_bits: The demand on reliability, as -log2 of a probability.
        graph: The graph.
        threshold: The threshold rule.
        certificate: Bounds on everything that can go wrong.
        notes: Remarks, such as differences between the plan and the request.
        survivors: Sums over fewer are not opened, if that is more than ``least_honest`` says.
        agreement: How two clients agree on a common secret, ``x25519`` or ``x25519-mlkem768``.
        accept: Whether rounds have the step *accept*.
        mechanism: The noise of every vector, if it was asked for.
        offers: Denser graphs with less noise, if the noise depends on neighbours.
    """

    roster: Roster
    guard: str
    length: int
    bits: int
    privacy_bits: float
    reliability_bits: float
    graph: Graph
    threshold: Threshold
    certificate: Certificate
    notes: tuple[str, ...] = ()
    survivors: int = 0
    agreement: str = DEFAULT
    accept: bool = False
    mechanism: Mechanism | None = None
    offers: tuple[Offer, ...] = ()

    @property
    def assumptions(self) -> Assumptions:
        """The number of clients, and how many of them drop out and collude."""
        return self.roster.assumptions

    @property
    def clients(self) -> int:
        """How many clients are enrolled."""
        return self.assumptions.clients

    @property
    def degree(self) -> float:
        """Neighbours of a client in the share graph; the mean where it varies."""
        return self.graph.mean_degree(self.clients)

    @property
    def mask_degree(self) -> float:
        """Neighbours that a client shares a mask with; the mean where it varies."""
        return self.graph.mean_mask_degree(self.clients)

    @property
    def t(self) -> int:
        """The threshold of a client of mean degree."""
        return self.threshold.of(int(self.degree))

    @property
    def least_roster(self) -> int:
        """F: smaller rounds are refused, by clients under ``active``, with colluders also by a ``curious`` server."""
        return self.roster.least

    @property
    def colluders(self) -> int:
        """How many of all clients may collude, even if all of them are in a roster of ``least_roster``."""
        return self.roster.colluders

    @cached_property
    def around(self) -> int:
        """The most colluding neighbours of any honest client, in every roster, except with 2^-privacy_bits."""
        most = self.colluders
        return find_first(lambda many: self._is_rare(more_colluders(many)), most) or most

    @cached_property
    def least_honest(self) -> int | None:
        """The honest clients in any part of a sum that can be opened, for any dropouts: the smallest t_i - c_i.

        This fails with 2^``least_honest_fails``. It is None if nobody can choose dropouts, because nobody colludes and
        the server follows the protocol.
        """
        if self.assumptions.colluders == 0:
            return None
        if self.masks_are_thin:
            return 1
        return find_first(lambda many: not self._is_rare(self._fewer(many + 1)), self.clients) or 1

    @cached_property
    def least_honest_fails(self) -> float | None:
        """The log2 of a bound on P(some part has fewer honest clients than ``least_honest``)."""
        if self.least_honest is None:
            return None
        return -math.inf if self.masks_are_thin else self._log2(self._fewer(self.least_honest))

    @property
    def min_survivors(self) -> int:
        """S: sums over fewer are not opened. No reliable round has fewer.

        With colluders under ``curious`` it is at least F, because nothing else keeps V1 as large as the certificate
        needs. With noise it is the largest number that the demand on reliability allows.
        """
        return max(3, self._least_sum)

    @property
    def _least_sum(self) -> int:
        insisted = self.roster.least if self.colluders and not self.roster.chosen else 0
        return max(self.least_honest or 0, self.survivors, insisted)

    def promise(self, against: str) -> Promise | None:
        """Return how many honest clients, whose noise counts, are in every sum that a server can open.

        A server that lies chooses the dropouts and opens any part with ``least_honest`` of them. A server that follows
        the protocol opens the sum over S survivors, unless colluders can part the masks.

        Args:
            against: ``follows`` or ``lies``. Under ``curious`` nothing is promised against ``lies``: it is None.
        """
        lies, private = against == "lies", self.certificate.privacy(self.guard)
        if lies and not self._guard.chooses_roster:
            return None
        promises = []
        if self.least_honest is not None and self.least_honest_fails is not None:
            promises.append(Promise(self.least_honest, _add_log2(private, self.least_honest_fails)))
        if not lies and self.parted <= -self.privacy_bits:
            promises.append(Promise(self.min_survivors - self.colluders, _add_log2(private, self.parted)))
        best = max(promises, default=None)
        return best if best and best.honest > 0 else None

    @cached_property
    def parted(self) -> float:
        """The log2 of a bound on P(colluders can part the honest clients' masks, if the server does not lie).

        They can send garbage to chosen clients. With *accept* under ``curious`` that only removes edges.
        """
        if self.assumptions.colluders == 0:
            return -math.inf
        mild = self.accept and not self._guard.chooses_roster and not self.masks_are_thin
        complete = self.mask_degree == self.clients - 1
        return left_out(self.graph, self.threshold, self.assumptions) if mild or complete else 0.0

    @property
    def masks_are_thin(self) -> bool:
        """Whether masks run on some edges of the share graph only."""
        return self.mask_degree < self.degree

    def _fewer(self, honest: int) -> Event:
        """Return the event that some part has fewer. If clients are unmaskable, t_i - c_i says nothing."""
        few = fewer_honest(honest)
        if "unmaskable" not in self._guard.privacy_events:
            return few
        return lambda t, degrees: np.minimum(few(t, degrees), unmaskable(t, degrees))

    @property
    def _guard(self) -> Guard:
        return guard_named(self.guard)

    def _is_rare(self, event: Event) -> bool:
        return self._log2(event) <= -self.privacy_bits

    def _log2(self, event: Event) -> float:
        """Return log2 of a bound on P(the event happens to some honest client)."""
        return log2_upwards(self.graph.degrees(self.clients).around(event, self.threshold, self.roster))

    @property
    def degrees(self) -> tuple[int, ...]:
        """The numbers of neighbours that a client can have in rosters of F or more, except with 2^-privacy_bits.

        Clients whose neighbourhood cannot reach the threshold do not take part.
        """
        rare = -self.privacy_bits * LN2 - math.log(self.clients)
        fewest, _ = self.graph.degrees(self.roster.least).likely(rare)
        _, most = self.graph.degrees(self.clients).likely(rare)
        every, itself = range(fewest, most + 1), self._guard.dealer_counts
        return tuple(d for d in every if self.threshold.of(d) <= d + itself) or tuple(every)

    @property
    def floor(self) -> Floor:
        """The minimum that a client with this plan can insist on under ``curious``. Honest rounds reach it.

        It concerns means, so it is too weak against a server that lies. Under ``active`` the charter has everything.
        """
        degree = int(self.degree) if self.graph.varies else self.graph.max_degree(self.roster.least)
        return Floor(
            clients=self.roster.least,
            degree=degree,
            mask_degree=min(int(self.mask_degree), degree),
            threshold=self.threshold.of(degree),
            threshold_ratio=min(2.0, *(threshold_ratio(self.threshold.of(d), d) for d in self.degrees)),
            survivors=max(2, self._least_sum),
        )

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """The demands that the certificate does not meet. Only a checked configuration can have some."""
        found = []
        reliable = 0 - self.certificate.unreliable  # never -0.0
        if reliable < self.reliability_bits:
            found.append(f"reliability: {reliable:.1f} bits instead of {self.reliability_bits:g}")
        private = 0 - self.certificate.privacy(self.guard)
        if private < self.privacy_bits:
            found.append(f"privacy: {private:.1f} bits instead of {self.privacy_bits:g}")
        if self.masks_are_thin and self.assumptions.colluders:
            found.append(
                f"privacy: a client masks with {self.mask_degree:.4g} of {self.degree:.4g} neighbours, and "
                "colluders can make just these drop out and open its vector; leave out mask_degree and mask_p"
            )
        return tuple(found)

    @property
    def spare_bits(self) -> dict[str, float]:
        """The bits by which each demand is exceeded. The first has the fewest and decides the cost of the graph."""
        spare = {
            "reliability": -self.certificate.unreliable - self.reliability_bits,
            "privacy": -self.certificate.privacy(self.guard) - self.privacy_bits,
        }
        return dict(sorted(spare.items(), key=lambda one: one[1]))

    @property
    def is_private(self) -> bool:
        """Whether the certificate meets the demand on privacy."""
        return not any(line.startswith("privacy") for line in self.shortfalls)

    @property
    def shape(self) -> Shape:
        """The properties of a round that its cost depends on."""
        return Shape(
            threshold=self.t,
            dropout=self.assumptions.dropout,
            per_step=self.assumptions.per_step,
            **{name: getattr(self, name) for name in _SHAPE},
        )

    @property
    def cost(self) -> Cost:
        """The cost of a round in bytes and operations. ``price`` adds seconds."""
        return price(self.shape)

    def config(self, **others: Any) -> RoundConfig:
        """Return the configuration of one round of this plan, with its ``min_survivors``.

        Args:
            **others: More fields of RoundConfig, such as ``number``, or other values for fields of the plan.

        Raises:
            ConfigError: A field is out of range, or the guard is ``active``, where charters make configurations.
        """
        shared = ("clients", "length", "bits", "graph", "threshold", "guard", "agreement", "accept")
        settings: dict[str, Any] = {name: getattr(self, name) for name in shared}
        settings["min_survivors"] = self.min_survivors
        return RoundConfig(**(settings | others))


def make_plan(demand: Demand, found: Found, **terms: Any) -> Plan:
    """Return the plan of a graph and a rule, with their certificate and ``terms``, its other fields."""
    made = Plan(
        roster=demand.roster,
        guard=demand.guard.name,
        privacy_bits=demand.privacy_bits,
        reliability_bits=demand.reliability_bits,
        graph=found.graph,
        threshold=found.threshold,
        certificate=certify(found.graph, found.threshold, demand.assumptions, demand.roster),
        notes=found.notes,
        **terms,
    )
    return _promise_more(demand, made) if demand.roster.chosen and made.is_private else made


def insist_on(made: Plan, least: int) -> Plan:
    """Return the plan of a round that opens no sum over fewer than ``least`` or the plan's own minimum."""
    if least <= made.min_survivors:
        return made
    made, bounds = replace(made, survivors=least), made.certificate
    if least <= made.threshold.of(min(made.degrees)):
        return made  # rounds with fewer than t survivors lack share holders and are lost anyway
    lost = np.logaddexp(bounds.unreliable * LN2, log_fewer(made.assumptions, least))
    return replace(made, certificate=replace(bounds, unreliable=log2_upwards(lost)))


def _promise_more(demand: Demand, made: Plan) -> Plan:
    """Return the plan for more colluders than a fraction γ of the smallest roster, if it bears them."""
    if made.graph.varies:
        return made
    degrees = np.array(made.degrees)
    t = made.threshold.of(degrees)
    impossible = min(int(event(t, degrees).min()) for event in demand.events) - 1  # colluders, in any places
    surely = min(impossible, demand.assumptions.colluders)
    if surely <= made.colluders:
        return made
    roster = replace(demand.roster, anywhere=surely)
    certificate = certify(made.graph, made.threshold, demand.assumptions, roster)
    return replace(made, roster=roster, certificate=certificate)
