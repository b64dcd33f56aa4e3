"""The cheapest graph for a demand, of every kind that may do."""

from dataclasses import dataclass

from ccesa.config import Graph, Threshold
from ccesa.plan import search
from ccesa.plan.demand import Demand


@dataclass(frozen=True)
class Found:
    """A graph and a rule, and what the user has to know about them."""

    graph: Graph
    threshold: Threshold
    notes: tuple[str, ...] = ()


def cheapest(demand: Demand, graph: str) -> Found | None:
    """Of the kind that was asked for; everyone with everyone where no sparse graph will do."""
    sparse = None if graph == "complete" else _sparse(demand, graph)
    if sparse is not None:
        return Found(*sparse)
    everyone = search.complete(demand)
    if everyone is None or graph == "complete":
        return None if everyone is None else Found(*everyone)
    note = f"{demand.population.clients} clients are too few for a sparse graph: everyone with everyone"
    return Found(*everyone, notes=(note,))


def _sparse(demand: Demand, graph: str) -> tuple[Graph, Threshold] | None:
    """Harary is best wherever it will do: for the same promises varying degrees need more neighbours."""
    found = search.circle(demand)
    if found is None or graph != "erdos-renyi":
        return found
    return search.edges(demand, found[0].max_degree(demand.population.clients))
