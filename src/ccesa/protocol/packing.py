"""What a server says about the neighbours of each node is packed for all of them at once, and cut."""

from collections.abc import Callable

import numpy as np

from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes
from ccesa.protocol import messages as m

#: Returns what is said about one node.
ByNode = Callable[[int], bytes]


def cut(packed: bytes, sizes: Nodes) -> ByNode:
    """Cut these bytes, which stand one node's after the other, so many for each."""
    ends = [0, *np.cumsum(sizes).tolist()]
    return lambda node: packed[ends[node] : ends[node + 1]]


def ids_near(graph: AssignmentGraph, chosen: Flags) -> ByNode:
    """Pack the ids of those neighbours of each node that are among the chosen nodes."""
    picked = chosen[graph.columns]
    return cut(m.pack_ids(graph.ids[graph.columns[picked]]), m.ID_BYTES * graph.count(picked))


def ids_around(graph: AssignmentGraph, chosen: Flags) -> ByNode:
    """Pack the same ids, and each node's own among them, ascending."""
    picked = chosen[graph.columns]
    counts, before = (graph.count(edges) for edges in (picked, picked & (graph.columns < graph.rows)))
    own = np.cumsum(counts) - counts + before
    ids = np.insert(graph.ids[graph.columns[picked]], own, graph.ids)
    return cut(m.pack_ids(ids), m.ID_BYTES * (counts + 1))
