"""A client and its neighbours, its closed neighbourhood, hold the shares of its secret."""

from dataclasses import dataclass

import numpy as np

from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes


@dataclass(frozen=True, eq=False)
class Holders:
    """Every share has a place. Those of dealer i stand from ``starts[i]`` to ``starts[i + 1]``, by holder.

    ``nodes`` are the holders. ``reverse`` has for the share that i dealt to j the place of what j dealt to i.
    """

    starts: Nodes
    nodes: Nodes
    reverse: Nodes
    #: x-coordinates: 1 + rank in the dealer's sorted closed neighbourhood, never read from a message.
    xs: Nodes

    @classmethod
    def of(cls, graph: AssignmentGraph) -> "Holders":
        """Lay out the closed neighbourhoods of a graph, one after the other."""
        everyone, after, edges = np.arange(graph.size), graph.columns > graph.rows, _edge_places(graph)
        own = graph.starts[1:] + everyone - np.bincount(graph.rows, after, graph.size).astype(np.int64)
        nodes, reverse = np.empty((2, edges.size + own.size), np.int64)
        nodes[own], nodes[edges] = everyone, graph.columns
        reverse[own], reverse[edges] = own, edges[graph.reverse]
        starts = graph.starts + np.arange(graph.size + 1)
        xs = 1 + _counted(np.diff(starts))
        if graph.drawn is not None:
            whole, left = graph.drawn
            dealt = cls.of(whole)
            still = np.ones(dealt.nodes.size, bool)
            still[_edge_places(whole)] = left
            xs = dealt.xs[still]
        return cls(starts, nodes, reverse, xs)

    def live(self, dealers: Nodes, alive: Flags, most: int | None = None) -> tuple[Nodes, Nodes]:
        """Find the shares of these dealers whose holders are alive; of each dealer only the first ``most``.

        Returns whose each is, as a position in ``dealers``, and its place.
        """
        sizes = self.starts[dealers + 1] - self.starts[dealers]
        rows = np.repeat(np.arange(dealers.size), sizes)
        places = self.starts[dealers[rows]] + _counted(sizes)
        live = alive[self.nodes[places]]
        rows, places = rows[live], places[live]
        if most is None:
            return rows, places
        first = _counted(np.bincount(rows, minlength=dealers.size)) < most
        return rows[first], places[first]


def _edge_places(graph: AssignmentGraph) -> Nodes:
    """Return the places of the shares that go over each edge; everyone's own stand between them."""
    return np.arange(graph.columns.size) + graph.rows + (graph.columns > graph.rows)


def _counted(sizes: Nodes) -> Nodes:
    """Count 0, 1, 2, … within each of several groups of these sizes."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
