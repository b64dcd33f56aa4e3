"""A server keeps of each edge what its ends said about their pair seeds: whoever drops out is held to it."""

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto.keys import X25519
from ccesa.graphs.assignment import AssignmentGraph, Flags


class PairSeeds:
    """Commitments come with the sealed texts, deposits when these are accepted; both by the graph as drawn.

    Where an agreement has no pair seeds, all of them are empty.
    """

    def __init__(self, agreement: X25519, graph: AssignmentGraph, sealed: NDArray[np.uint8]) -> None:
        self._graph = graph
        #: What is sealed ends in the commitment to the seed in it.
        self._commitments = sealed[:, agreement.text_bytes - agreement.commitment_bytes :].copy()
        self._deposits = np.zeros((len(sealed), agreement.deposit_bytes), np.uint8)

    def keep(self, node: int, given: Flags, deposits: bytes) -> None:
        """Keep the deposits of one node, of the seeds that these of its neighbours gave it."""
        rows = np.frombuffer(deposits, np.uint8).reshape(int(given.sum()), self._deposits.shape[1])
        self._deposits[self._graph.edges(node)][given] = rows

    def commitment(self, node: int, neighbour: int) -> bytes:
        """Return what binds a node to the seed that it gave this neighbour."""
        return self._commitments[self._graph.edge(node, neighbour)].tobytes()

    def deposit(self, node: int, neighbour: int) -> bytes:
        """Return what a node deposited of the seed that this neighbour gave it."""
        if not self._deposits.shape[1]:  # an edge takes time to find
            return b""
        return self._deposits[self._graph.edge(node, neighbour)].tobytes()
