"""``plan``: say how many clients there are, vanish and collude; get the cheapest graph with a certificate."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ccesa.config import (
    MAX_HOLDERS,
    Complete,
    ErdosRenyi,
    Floor,
    Graph,
    Harary,
    Majority,
    RoundConfig,
    Threshold,
    threshold_share,
)
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.plan import search
from ccesa.plan.calibration import calibrate
from ccesa.plan.certify import Certificate, certify, check_guard
from ccesa.plan.compare import Paper, conventional, paper_rule
from ccesa.plan.connectivity import window
from ccesa.plan.cost import Cost, Shape, cost
from ccesa.plan.impossible import explain, reachable
from ccesa.plan.population import Population
from ccesa.plan.roster import LN2, Roster, roster
from ccesa.plan.search import Demand
from ccesa.plan.tails import Binomial

GRAPHS = ("best", "harary", "erdos-renyi", "complete")
#: A lying server draws as many rosters as it likes until the graph suits it; 40 bits are not enough then.
PRIVACY_BITS = {"curious": 40.0, "active": 80.0}
RELIABILITY_BITS = 20.0
MAX_BITS = 128


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A graph and a threshold rule, what they promise, and what they cost."""

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

    @property
    def population(self) -> Population:
        return self.roster.population

    @property
    def clients(self) -> int:
        return self.population.clients

    @property
    def degree(self) -> float:
        """Neighbours of a client in the share graph; the mean where it varies."""
        return self.graph.mean_degree(self.clients)

    @property
    def mask_degree(self) -> float:
        """Neighbours that a client shares a mask with; the mean where it varies."""
        mask_p = getattr(self.graph, "mask_p", None)
        if mask_p is not None:
            return mask_p * (self.clients - 1)
        return getattr(self.graph, "mask_degree", None) or self.degree

    @property
    def t(self) -> int:
        """The threshold of a client of mean degree."""
        return self.threshold.of(int(self.degree))

    @property
    def colluders(self) -> int:
        """So many clients of the whole list may collude.

        Under ``active`` whichever roster of at least ``floor.clients`` the server chooses, be they all in it.
        """
        return self.roster.colluders if self.roster.chosen else self.population.colluders

    @property
    def degrees(self) -> tuple[int, ...]:
        """Every number of neighbours that a client has to expect, in rosters from F clients to all.

        Except with the probability that privacy may fail.
        """
        n, least = self.clients, self.roster.least
        if not isinstance(self.graph, ErdosRenyi):
            return tuple(range(self.graph.max_degree(least), self.graph.max_degree(n) + 1))
        fewest, most = (self._likely(size) for size in (least, n))
        every = range(fewest[0], most[-1] + 1)
        # With a threshold above d + 1 nobody can share: such a client is left out.
        return tuple(d for d in every if self.threshold.of(d) <= d + 1) or tuple(every)

    def _likely(self, size: int) -> list[int]:
        """Degrees that are not too unlikely in a roster of this size, for all its clients."""
        degrees, logs, _ = window(Binomial(getattr(self.graph, "p", 1.0)), size - 1)
        rare = -self.privacy_bits * LN2 - math.log(self.clients)
        fewer, more = np.logaddexp.accumulate(logs), np.logaddexp.accumulate(logs[::-1])[::-1]
        return [int(degree) for degree in degrees[(fewer > rare) & (more > rare)]]

    @property
    def least_honest(self) -> int | None:
        """Honest clients in any sum that can be opened, even if the server chooses who vanishes (active).

        t_i - c_i, with as many colluders as can be without being *unmaskable*, for the least favourable
        degree that somebody has.
        """
        if self.guard != "active":
            return None
        return min(self._least_around(degree) for degree in self.degrees)

    def _least_around(self, degree: int) -> int:
        t = self.threshold.of(degree)
        most_colluders = min(2 * t - degree - 2, self.population.colluders)  # one more would be unmaskable
        return t - max(most_colluders, 0)

    @property
    def floor(self) -> Floor:
        """What a client that knows this plan can insist on, and an honest round has.

        A roster of F clients, the plan's degrees and thresholds even then, and sums over nobody less.
        """
        varies = isinstance(self.graph, ErdosRenyi)
        degree = int(self.degree) if varies else self.graph.max_degree(self.roster.least)
        return Floor(
            clients=self.roster.least,
            degree=degree,
            mask_degree=min(int(self.mask_degree), degree),
            threshold=self.threshold.of(degree),
            threshold_share=min(2.0, *(threshold_share(self.threshold.of(d), d) for d in self.degrees)),
            survivors=max(2, self.least_honest or 0),
        )

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Demands that the certificate does not meet; a plan has none, a checked configuration may."""
        found = []
        if self.certificate.unreliable > -self.reliability_bits:
            found.append(
                f"reliability: {-self.certificate.unreliable:.1f} bits instead of {self.reliability_bits:g}"
            )
        private = -self.certificate.privacy(self.guard)
        if private < self.privacy_bits:
            found.append(f"privacy: {private:.1f} bits instead of {self.privacy_bits:g}")
        return tuple(found)

    @property
    def shape(self) -> Shape:
        return Shape(
            clients=self.clients,
            degree=self.degree,
            mask_degree=self.mask_degree,
            threshold=self.t,
            length=self.length,
            bits=self.bits,
            dropout=self.population.dropout,
            guard=self.guard,
        )

    @cached_property
    def cost(self) -> Cost:
        """What a round costs, with times from a quick calibration of this machine."""
        return cost(self.shape, calibrate())

    @cached_property
    def paper(self) -> Paper:
        """What the paper's rule would choose, and its cost."""
        return paper_rule(self.shape)

    @cached_property
    def conventional(self) -> Cost:
        """What conventional secure aggregation would cost."""
        return conventional(self.shape)

    def config(self, **others: Any) -> RoundConfig:
        """A ready configuration; ``round_id``, ``task`` and so on may be given.

        ``min_survivors`` is what ``floor`` insists on. No reliable round has fewer: each client that is
        unmasked has t_i live neighbours, and no floor is above every t_i.
        """
        settings: dict[str, Any] = {
            "clients": self.clients,
            "length": self.length,
            "bits": self.bits,
            "graph": self.graph,
            "threshold": self.threshold,
            "guard": self.guard,
            "min_survivors": max(3, self.floor.survivors or 0),
        }
        return RoundConfig(**(settings | others))


def plan(
    clients: int,
    dropout: float,
    collusion: float = 0.0,
    guard: str = "curious",
    length: int = 1_000_000,
    bits: int = 32,
    privacy_bits: float | None = None,
    reliability_bits: float | None = None,
    graph: str = "best",
    exact_dropout: bool = False,
) -> Plan:
    """The cheapest graph of which all promises hold.

    A round fails for want of share holders with probability 2^-reliability_bits at most (by default 20, or
    what the complete graph reaches, with a note, where that is less), and all privacy events that count under
    the guard have 2^-privacy_bits together (by default 40, under ``active`` 80).
    """
    population = Population(clients=clients, dropout=dropout, collusion=collusion, exact=exact_dropout)
    demand = _demand(population, guard, privacy_bits, reliability_bits)
    if graph not in GRAPHS:
        raise ConfigError(f"graph must be one of {', '.join(GRAPHS)}, not {graph!r}")
    RoundConfig(clients=clients, length=length, bits=bits, graph=Harary(degree=2))  # type: ignore[arg-type]
    found, demand = _search(demand, graph, gives_way=reliability_bits is None)
    shares = _thin(demand, found.graph, found.threshold) if guard == "curious" else found.graph
    return _judged(demand, length, bits, replace(found, graph=shares))


def check(
    config: RoundConfig,
    dropout: float,
    collusion: float = 0.0,
    privacy_bits: float | None = None,
    reliability_bits: float | None = None,
    exact_dropout: bool = False,
) -> Plan:
    """Certify a configuration that somebody else chose; ``shortfalls`` says what it does not keep."""
    population = Population(clients=config.clients, dropout=dropout, collusion=collusion, exact=exact_dropout)
    demand = _demand(population, config.guard, privacy_bits, reliability_bits)
    return _judged(demand, config.length, config.bits, Found(config.graph, config.threshold))


def plan_or_complete(
    clients: int,
    dropout: float,
    collusion: float = 0.0,
    guard: str = "curious",
    length: int = 1,
    bits: int = 32,
    graph: str = "best",
) -> Plan:
    """The plan; or, where most rounds would be lost whatever the graph, everyone with everyone and a note.

    Only reliability gives way. Privacy that cannot be had stays an error.
    """
    try:
        return plan(clients, dropout, collusion, guard, length, bits, graph=graph)
    except ImpossiblePlan as error:
        if clients > MAX_HOLDERS:
            raise
        population = Population(clients=clients, dropout=dropout, collusion=collusion)
        demand = _demand(population, guard, None, None)
        made = _judged(demand, length, bits, Found(Complete(), Majority(), (str(error),)))
        if -made.certificate.privacy(guard) < made.privacy_bits:
            raise
        return made


@dataclass(frozen=True)
class Found:
    """A graph and a rule, and what the user has to know about them."""

    graph: Graph
    threshold: Threshold
    notes: tuple[str, ...] = ()


def _search(demand: Demand, graph: str, *, gives_way: bool) -> tuple[Found, Demand]:
    """The cheapest graph for the demand; or for a lower reliability, where nobody asked for the default."""
    found = _cheapest(demand, graph)
    if found is not None:
        return found, demand
    failure = explain(demand, graph)
    if not gives_way:
        raise failure
    lower = _lowered(demand)
    if lower is None:
        raise failure
    # Only a default gives way, and only in reliability: a lost round can be run again.
    everyone = search.complete(lower)
    if everyone is None:
        raise failure
    return Found(*everyone, notes=(str(failure),)), lower


def _cheapest(demand: Demand, graph: str) -> Found | None:
    """Of the kind that was asked for; everyone with everyone where no sparse graph will do."""
    sparse = None if graph == "complete" else _sparse(demand, graph)
    if sparse is not None:
        return Found(*sparse)
    everyone = search.complete(demand)
    if everyone is None or graph == "complete":
        return None if everyone is None else Found(*everyone)
    note = f"{demand.population.clients} clients are too few for a sparse graph: everyone with everyone"
    return Found(*everyone, notes=(note,))


def _lowered(demand: Demand) -> Demand | None:
    """The same with as much reliability as there is; none where that is less than a bit."""
    bits = min(demand.reliability_bits, reachable(demand.population))
    if bits < 1:
        return None
    return _demand(demand.population, demand.guard, demand.privacy_bits, bits)


def _judged(demand: Demand, length: int, bits: int, found: Found) -> Plan:
    """A graph and a rule with their certificate."""
    return Plan(
        roster=demand.roster,
        guard=demand.guard,
        length=length,
        bits=bits,
        privacy_bits=demand.privacy_bits,
        reliability_bits=demand.reliability_bits,
        graph=found.graph,
        threshold=found.threshold,
        certificate=certify(found.graph, found.threshold, demand.population, demand.roster),
        notes=found.notes,
    )


def _demand(
    population: Population, guard: str, privacy_bits: float | None, reliability_bits: float | None
) -> Demand:
    check_guard(guard)
    reliability_bits = RELIABILITY_BITS if reliability_bits is None else reliability_bits
    privacy_bits = PRIVACY_BITS[guard] if privacy_bits is None else privacy_bits
    for name, value in (("privacy_bits", privacy_bits), ("reliability_bits", reliability_bits)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_BITS:
            raise ConfigError(f"{name} must lie above 0 and be at most {MAX_BITS}, not {value!r}")
    return Demand(
        reliability_bits=reliability_bits,
        privacy_bits=privacy_bits,
        guard=guard,
        roster=roster(population, reliability_bits, chosen=guard == "active"),
    )


def _sparse(demand: Demand, graph: str) -> tuple[Graph, Threshold] | None:
    """Harary is best wherever it will do: for the same promises varying degrees need more neighbours."""
    found = search.ring(demand)
    if found is None or graph != "erdos-renyi":
        return found
    return search.edges(demand, found[0].max_degree(demand.population.clients))


def _thin(demand: Demand, graph: Graph, threshold: Threshold) -> Graph:
    """The same graph with the thinnest mask subgraph for what the shares leave of the privacy budget."""
    population = demand.population
    exposed = certify(graph, threshold, population, demand.roster).exposed * LN2
    budget = demand.log_private + float(np.log1p(-np.exp(exposed - demand.log_private)))
    if isinstance(graph, ErdosRenyi):
        mask_p = search.edge_masks(population, budget, graph.p)
        return graph if mask_p == graph.p else ErdosRenyi(p=graph.p, mask_p=mask_p)
    width = graph.max_degree(population.clients)
    masks = search.ring_masks(population, budget, width)
    if masks >= width:
        return graph
    return (
        Harary(degree=width, mask_degree=masks) if isinstance(graph, Harary) else Complete(mask_degree=masks)
    )
