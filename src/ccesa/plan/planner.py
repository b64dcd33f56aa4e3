"""``plan``: say how many clients there are, vanish and collude; get the cheapest graph with a certificate."""

from dataclasses import replace

import numpy as np

from ccesa.config import Complete, ErdosRenyi, Graph, Harary, RoundConfig
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.plan import search
from ccesa.plan.certify import certify
from ccesa.plan.cheapest import Found, cheapest
from ccesa.plan.demand import Demand, people
from ccesa.plan.impossible import everyone, explain, reachable
from ccesa.plan.made import Plan
from ccesa.plan.rules import thresholds

__all__ = ["GRAPHS", "Plan", "check", "plan", "plan_or_complete"]

GRAPHS = ("best", "harary", "erdos-renyi", "complete")


def plan(
    clients: int,
    dropout: float,
    collusion: float | None = None,
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
    the guard have 2^-privacy_bits together (by default 40, under ``active`` 128). By default nobody colludes,
    under ``active`` a tenth does, and never fewer than one.

    Raises ImpossiblePlan where no graph will do; its ``options`` are what would.
    """
    demand = Demand.of(
        people(clients, dropout, collusion, guard, exact=exact_dropout), guard, privacy_bits, reliability_bits
    )
    if graph not in GRAPHS:
        raise ConfigError(f"graph must be one of {', '.join(GRAPHS)}, not {graph!r}")
    RoundConfig(clients=clients, length=length, bits=bits, graph=Harary(degree=2))  # type: ignore[arg-type]
    found, demand = _search(demand, graph, gives_way=reliability_bits is None)
    if guard == "curious" and demand.population.colluders == 0:
        found = replace(found, graph=_thin(demand, found.graph))
    return _judged(demand, length, bits, found)


def check(
    config: RoundConfig,
    dropout: float,
    collusion: float | None = None,
    privacy_bits: float | None = None,
    reliability_bits: float | None = None,
    exact_dropout: bool = False,
) -> Plan:
    """Certify a configuration that somebody else chose; ``shortfalls`` says what it does not keep."""
    population = people(config.clients, dropout, collusion, config.guard, exact=exact_dropout)
    demand = Demand.of(population, config.guard, privacy_bits, reliability_bits)
    return _judged(demand, config.length, config.bits, Found(config.graph, config.threshold))


def plan_or_complete(
    clients: int,
    dropout: float,
    collusion: float | None = None,
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
        demand = Demand.of(people(clients, dropout, collusion, guard, exact=False), guard)
        found = everyone(demand)
        if found is None:
            raise
        made = _judged(demand, length, bits, replace(found, notes=(str(error),)))
        if not made.is_private:
            raise
        return made


def _search(demand: Demand, graph: str, *, gives_way: bool) -> tuple[Found, Demand]:
    """The cheapest graph for the demand; or for a lower reliability, where nobody asked for the default."""
    found = cheapest(demand, graph)
    if found is not None:
        return found, demand
    failure = explain(demand, graph)
    # Only a default gives way, and only in reliability: a lost round can be run again.
    lower = _lowered(demand) if gives_way else None
    all_with_all = None if lower is None else search.complete(lower)
    if lower is None or all_with_all is None:
        raise failure
    note = f"{failure}; planned with {lower.reliability_bits:.3g} bits, everyone with everyone"
    return Found(*all_with_all, notes=(note,)), lower


def _lowered(demand: Demand) -> Demand | None:
    """The same with as much reliability as there is; none where that is less than a bit."""
    bits = reachable(demand)
    return (
        None
        if bits is None or bits < 1
        else demand.changed(reliability_bits=min(demand.reliability_bits, bits))
    )


def _judged(demand: Demand, length: int, bits: int, found: Found) -> Plan:
    """A graph and a rule with their certificate."""
    made = Plan(
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
    return _promising_more(demand, made) if demand.roster.chosen and made.is_private else made


def _promising_more(demand: Demand, made: Plan) -> Plan:
    """The same plan, about more colluders than a fraction γ of the smallest roster, where it bears them."""
    surely = min(_bearable(demand, made), demand.population.colluders)
    if surely <= made.colluders:
        return made
    roster = replace(demand.roster, anywhere=surely)
    certificate = certify(made.graph, made.threshold, demand.population, roster)
    return replace(made, roster=roster, certificate=certificate)


def _bearable(demand: Demand, made: Plan) -> int:
    """With so many colluders no event can happen, wherever they are; none where degrees are random."""
    if isinstance(made.graph, ErdosRenyi):
        return 0
    degrees = np.array(made.degrees)
    t = thresholds(made.threshold, degrees)
    return min(int(event(t, degrees).min()) for event in demand.events) - 1


def _thin(demand: Demand, graph: Graph) -> Graph:
    """The same graph with the thinnest mask subgraph, where nobody colludes."""
    population = demand.population
    if isinstance(graph, ErdosRenyi):
        mask_p = search.edge_masks(population, demand.log_private, graph.p)
        return graph if mask_p == graph.p else ErdosRenyi(p=graph.p, mask_p=mask_p)
    width = graph.max_degree(population.clients)
    masks = search.circle_masks(population, demand.log_private, width)
    if masks >= width:
        return graph
    return (
        Harary(degree=width, mask_degree=masks) if isinstance(graph, Harary) else Complete(mask_degree=masks)
    )
