"""``Plan``, the result of planning: a graph and a threshold rule, what they promise, and what they cost."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ccesa.agreement.config import Floor, RoundConfig, threshold_ratio
from ccesa.crypto.keys import DEFAULT
from ccesa.graphs import Graph
from ccesa.graphs.assumptions import Assumptions, Roster
from ccesa.graphs.bisection import first
from ccesa.graphs.events import Event, either, fewer_honest, more_colluders, unmaskable
from ccesa.graphs.tails import LN2, log2_upwards
from ccesa.graphs.thresholds import Threshold
from ccesa.guards import guard_named
from ccesa.plan.certificate import Certificate, left_out
from ccesa.plan.price import Cost, Shape, price
from ccesa.plan.promises import Offer, Promise, both
from ccesa.privacy.mechanism import Mechanism


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A graph and a threshold rule, what they promise, and what they cost.

    Attributes:
        roster: Which clients a round accepts, and what is assumed about them.
        guard: ``curious`` or ``active``.
        length: Words of a vector.
        bits: Bits of a word.
        privacy_bits: The demand on privacy, as -log2 of a probability.
        reliability_bits: The demand on reliability, as -log2 of a probability.
        graph: The graph.
        threshold: The threshold rule.
        certificate: Bounds on everything that can go wrong.
        notes: What was planned otherwise than asked for, in words.
        survivors: Sums over fewer are not opened, where that is more than ``least_honest`` says.
        agreement: How two clients come to a common secret, ``x25519`` or ``x25519-mlkem768``.
        accept: Whether rounds have the step *accept*.
        mechanism: The noise of every vector; None where none was asked for.
        offers: Denser graphs with less noise, where that is counted on neighbours.
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
        """How many clients there are, drop out and collude."""
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
        """F: a round of fewer is refused, under ``curious`` by its server, under ``active`` by its clients.

        Without colluders nothing rests on it under ``curious``, and nobody refuses.
        """
        return self.roster.least

    @property
    def colluders(self) -> int:
        """So many clients of the whole list may collude.

        Under ``active`` whichever roster of at least ``least_roster`` the server chooses, be they all in it.
        """
        return self.roster.colluders

    @cached_property
    def around(self) -> int:
        """The most colluding neighbours that any honest client has, except with 2^-privacy_bits.

        Under ``active`` in every roster that the server may choose.
        """
        most = self.colluders
        return first(lambda many: self._is_rare(more_colluders(many)), most) or most

    @cached_property
    def least_honest(self) -> int | None:
        """Honest clients in any part of a sum that can be opened, whoever drops out; the least t_i - c_i.

        Except with 2^``least_honest_fails``. None where nobody colludes and the server follows the protocol:
        then nobody chooses dropouts.
        """
        if self.assumptions.colluders == 0:
            return None
        if self.masks_are_thin:
            return 1
        return first(lambda many: not self._is_rare(self._fewer(many + 1)), self.clients) or 1

    @cached_property
    def least_honest_fails(self) -> float | None:
        """The log2 of a bound on P(some part has fewer honest clients than ``least_honest``)."""
        if self.least_honest is None:
            return None
        return -math.inf if self.masks_are_thin else self._log2(self._fewer(self.least_honest))

    @property
    def least_survivors(self) -> int:
        """S: sums over fewer are not opened. No reliable round has fewer.

        Each client that is unmasked has t_i live holders, and t_i is above ``least_honest``. Where clients
        collude under ``curious`` it is F, on which the certificate rests: nothing else refuses a small V1.
        With noise it is the largest number that the demand on reliability allows.
        """
        return max(3, self._least_sum)

    @property
    def _least_sum(self) -> int:
        insisted = self.roster.least if self.colluders and not self.roster.chosen else 0
        return max(self.least_honest or 0, self.survivors, insisted)

    def promised(self, against: str) -> Promise | None:
        """Return how many honest clients are in every sum that a server can open, whose noise counts.

        A server that lies chooses who drops out, and opens any part with ``least_honest`` of them. One that
        follows the protocol opens the sum over S survivors, unless colluders can part the masks.

        Args:
            against: ``follows``, or ``lies``, of which ``curious`` promises nothing: then it is None.
        """
        lies, private = against == "lies", self.certificate.privacy(self.guard)
        if lies and not guard_named(self.guard).chooses_roster:
            return None
        promises = []
        if self.least_honest is not None and self.least_honest_fails is not None:
            promises.append(Promise(self.least_honest, both(private, self.least_honest_fails)))
        if not lies and self.parted <= -self.privacy_bits:
            promises.append(Promise(self.least_survivors - self.colluders, both(private, self.parted)))
        best = max(promises, default=None)
        return best if best and best.honest > 0 else None

    @cached_property
    def parted(self) -> float:
        """The log2 of a bound on P(colluders can part the honest clients' masks, if the server does not lie).

        By garbage for chosen clients they do so at will; with *accept* under ``curious`` it costs edges only.
        """
        if self.assumptions.colluders == 0:
            return -math.inf
        mild = self.accept and not guard_named(self.guard).chooses_roster and not self.masks_are_thin
        complete = self.mask_degree == self.clients - 1
        return left_out(self.graph, self.threshold, self.assumptions) if mild or complete else 0.0

    @property
    def masks_are_thin(self) -> bool:
        """Whether masks run on some edges of the share graph only."""
        return self.mask_degree < self.degree

    def _fewer(self, honest: int) -> Event:
        """Return the event that some part has fewer; t_i - c_i counts only if nobody is unmaskable."""
        few = fewer_honest(honest)
        return either(few, unmaskable) if "unmaskable" in guard_named(self.guard).privacy_events else few

    def _is_rare(self, event: Event) -> bool:
        return self._log2(event) <= -self.privacy_bits

    def _log2(self, event: Event) -> float:
        """Return log2 of a bound on P(the event happens to some honest client)."""
        return log2_upwards(self.graph.degrees(self.clients).around(event, self.threshold, self.roster))

    @property
    def degrees(self) -> tuple[int, ...]:
        """Every number of neighbours that a client has to expect, in rosters from F clients to all.

        Except with the probability that privacy may fail. With a threshold above what its neighbourhood can
        reach nobody takes part.
        """
        rare = -self.privacy_bits * LN2 - math.log(self.clients)
        fewest, _ = self.graph.degrees(self.roster.least).likely(rare)
        _, most = self.graph.degrees(self.clients).likely(rare)
        every, itself = range(fewest, most + 1), guard_named(self.guard).dealer_counts
        return tuple(d for d in every if self.threshold.of(d) <= d + itself) or tuple(every)

    @property
    def floor(self) -> Floor:
        """What a client that knows this plan can insist on under ``curious``, and an honest round has.

        A roster of F clients, the plan's degrees and thresholds even then, and sums over nobody less. It is
        about means: a server that lies needs more than that, and under ``active`` everything is agreed on.
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
        """Demands that the certificate does not meet; a plan has none, a checked configuration may."""
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
        """By how many bits each demand is met, the tightest first; that one decides what the graph costs.

        What the other bounds say may be far above the truth: they need not be close.
        """
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
        """What the cost of a round depends on."""
        return Shape(
            clients=self.clients,
            degree=self.degree,
            mask_degree=self.mask_degree,
            threshold=self.t,
            length=self.length,
            bits=self.bits,
            dropout=self.assumptions.dropout,
            guard=self.guard,
            agreement=self.agreement,
            accept=self.accept,
            per_step=self.assumptions.per_step,
        )

    @property
    def cost(self) -> Cost:
        """What a round costs, in bytes and operations; ``price`` says the seconds too."""
        return price(self.shape)

    def config(self, **others: Any) -> RoundConfig:
        """Return the configuration of one round of this plan, with ``least_survivors`` as ``min_survivors``.

        Args:
            **others: Fields of RoundConfig that the plan does not say, such as ``number``, or says otherwise.

        Raises:
            ConfigError: A field cannot be; under ``active`` a charter makes configurations.
        """
        settings: dict[str, Any] = {
            "clients": self.clients,
            "length": self.length,
            "bits": self.bits,
            "graph": self.graph,
            "threshold": self.threshold,
            "guard": self.guard,
            "agreement": self.agreement,
            "accept": self.accept,
            "min_survivors": self.least_survivors,
        }
        return RoundConfig(**(settings | others))
