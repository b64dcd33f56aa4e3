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
)
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.plan import search
from ccesa.plan.calibration import calibrate
from ccesa.plan.certify import LN2, Certificate, Degrees, certify, check_guard
from ccesa.plan.compare import Paper, conventional, paper_rule
from ccesa.plan.cost import Cost, Shape, cost
from ccesa.plan.impossible import explain, reachable
from ccesa.plan.population import Population
from ccesa.plan.search import Demand

GRAPHS = ("best", "harary", "erdos-renyi", "complete")
#: A lying server draws as many rosters as it likes until the graph suits it; 40 bits are not enough then.
PRIVACY_BITS = {"curious": 40.0, "active": 80.0}
RELIABILITY_BITS = 20.0
MAX_BITS = 128


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A graph and a threshold rule, what they promise, and what they cost."""

    population: Population
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
    def least_honest(self) -> int | None:
        """Honest clients in any sum that can be opened, even if the server chooses who vanishes (active).

        t_i - c_i, with as many colluders as can be without being *unmaskable*, for the least favourable
        degree that somebody has, except with the probability that privacy may fail.
        """
        if self.guard != "active":
            return None
        degrees = Degrees.of(self.graph, self.clients, 1.0 - self.population.dropout)
        likely = np.logaddexp.accumulate(degrees.logs) + math.log(self.clients) > -self.privacy_bits * LN2
        return min(self._least_around(int(degree)) for degree in degrees.values[likely])

    def _least_around(self, degree: int) -> int:
        t = self.threshold.of(degree)
        most_colluders = min(2 * t - degree - 2, self.population.colluders)  # one more would be unmaskable
        return t - max(most_colluders, 0)

    @property
    def floor(self) -> Floor:
        """What a client that knows this plan can insist on."""
        varies = isinstance(self.graph, ErdosRenyi)
        present = math.floor(self.clients * (1.0 - self.population.dropout))
        return Floor(
            clients=max(3, present),
            degree=1 if varies else min(int(self.degree), max(present - 1, 1)),
            mask_degree=1 if varies else min(int(self.mask_degree), max(present - 1, 1)),
            threshold=2 if varies else self.threshold.of(min(int(self.degree), max(present - 1, 1))),
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
        """A ready configuration; ``round_id``, ``task`` and so on may be given."""
        return RoundConfig(
            clients=self.clients,
            length=self.length,
            bits=self.bits,  # type: ignore[arg-type]  # checked by the configuration itself
            graph=self.graph,
            threshold=self.threshold,
            guard=self.guard,  # type: ignore[arg-type]  # the same
            **others,
        )


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
    demand = _demand(guard, privacy_bits, reliability_bits)
    if graph not in GRAPHS:
        raise ConfigError(f"graph must be one of {', '.join(GRAPHS)}, not {graph!r}")
    RoundConfig(clients=clients, length=length, bits=bits, graph=Harary(degree=2))  # type: ignore[arg-type]
    notes: tuple[str, ...] = ()
    found = None if graph == "complete" else _sparse(population, demand, graph)
    if found is None:
        if graph != "complete":
            notes = (f"{clients} clients are too few for a sparse graph: everyone with everyone",)
        found = _complete(population, demand)
    if found is None:
        failure = explain(population, demand)
        # Only a default gives way, and only in reliability: a lost round can be run again.
        demand = replace(demand, reliability_bits=min(demand.reliability_bits, reachable(population)))
        if reliability_bits is None and demand.reliability_bits >= 1:
            found = _complete(population, demand)
        if found is None:
            raise failure
        notes = (str(failure),)
    shares, threshold = found
    if guard == "curious":
        shares = _thin(population, demand, shares, threshold)
    return _judged(population, guard, demand, length, bits, shares, threshold, notes)


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
    demand = _demand(config.guard, privacy_bits, reliability_bits)
    return _judged(
        population, config.guard, demand, config.length, config.bits, config.graph, config.threshold
    )


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
        population = Population(clients=clients, dropout=dropout, collusion=collusion)
        demand = _demand(guard, None, None)
        if clients > MAX_HOLDERS:
            raise
        made = _judged(population, guard, demand, length, bits, Complete(), Majority(), (str(error),))
        if -made.certificate.privacy(guard) < made.privacy_bits:
            raise
        return made


def _judged(
    population: Population,
    guard: str,
    demand: Demand,
    length: int,
    bits: int,
    graph: Graph,
    threshold: Threshold,
    notes: tuple[str, ...] = (),
) -> Plan:
    """A graph and a rule with their certificate."""
    return Plan(
        population=population,
        guard=guard,
        length=length,
        bits=bits,
        privacy_bits=demand.privacy_bits,
        reliability_bits=demand.reliability_bits,
        graph=graph,
        threshold=threshold,
        certificate=certify(graph, threshold, population),
        notes=notes,
    )


def _demand(guard: str, privacy_bits: float | None, reliability_bits: float | None) -> Demand:
    check_guard(guard)
    reliability_bits = RELIABILITY_BITS if reliability_bits is None else reliability_bits
    privacy_bits = PRIVACY_BITS[guard] if privacy_bits is None else privacy_bits
    for name, value in (("privacy_bits", privacy_bits), ("reliability_bits", reliability_bits)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_BITS:
            raise ConfigError(f"{name} must lie above 0 and be at most {MAX_BITS}, not {value!r}")
    return Demand(privacy_bits=privacy_bits, reliability_bits=reliability_bits, unmaskable=guard == "active")


def _sparse(population: Population, demand: Demand, graph: str) -> tuple[Graph, Threshold] | None:
    """Harary is best wherever it will do: for the same promises varying degrees need more neighbours."""
    found = search.ring(population, demand)
    if found is None:
        return None
    if graph == "erdos-renyi":
        return search.edges(population, demand)
    return Harary(degree=found[0]), search.rule_for(population, *found)


def _complete(population: Population, demand: Demand) -> tuple[Graph, Threshold] | None:
    others = population.clients - 1
    if others >= MAX_HOLDERS:
        return None
    t = search.OneDegree(population, others).threshold(demand, -math.inf)
    return None if t is None else (Complete(), search.rule_for(population, others, t))


def _thin(population: Population, demand: Demand, graph: Graph, threshold: Threshold) -> Graph:
    """The same graph with the thinnest mask subgraph for what the shares leave of the privacy budget."""
    exposed = certify(graph, threshold, population).exposed * LN2
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
