"""A scheme under test: how its clients are joined, and how many shares open a secret."""

from dataclasses import dataclass

from ccesa.graphs import Graph
from ccesa.graphs.thresholds import Threshold


@dataclass(frozen=True, kw_only=True)
class Scheme:
    key: str
    name: str
    graph: Graph
    threshold: Threshold
