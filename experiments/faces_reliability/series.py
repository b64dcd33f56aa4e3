"""The series that are compared: graphs and thresholds, and what is told of each."""

from dataclasses import dataclass
from typing import Any

from ccesa.graphs import ErdosRenyi, Graph
from ccesa.graphs.thresholds import Fixed, Majority, Threshold
from ccesa.simulate import usual_plan

CONNECTIONS = (1.0, 0.7, 0.5, 0.3)
#: What the planned graph is made for, whatever happens.
PLANNED_FOR = 0.1


@dataclass(frozen=True, kw_only=True)
class Series:
    name: str
    graph: Graph
    threshold: Threshold


def all_series(clients: int) -> list[Series]:
    """The paper's with its t, 21 of 40; its p with our rule for t; and what the planner chooses."""
    t = Fixed(t=common_threshold(clients))
    paper = [Series(name=named(p, clients), graph=ErdosRenyi(p=p), threshold=t) for p in CONNECTIONS]
    majority = Series(name="p = 0.7, t_i a majority", graph=ErdosRenyi(p=0.7), threshold=Majority())
    made = usual_plan(clients, PLANNED_FOR)
    return [*paper, majority, Series(name="planned", graph=made.graph, threshold=made.threshold)]


def common_threshold(clients: int) -> int:
    return clients // 2 + 1


def named(p: float, clients: int) -> str:
    return f"{'SA' if p == 1 else 'CCESA'}, p = {p:g}, t = {common_threshold(clients)}"


def history(name: str, accuracy: list[float], outcomes: list[str]) -> dict[str, Any]:
    """Return a series as it is kept: accuracy after every round, and the numbers of those that were lost."""
    lost = [number for number, outcome in enumerate(outcomes, 1) if outcome != "aggregate"]
    return {"name": name, "accuracy": [round(value, 6) for value in accuracy], "lost": lost}
