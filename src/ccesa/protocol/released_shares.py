"""The shares of step 3 come in by holder and are read by dealer."""

from typing import NamedTuple

import numpy as np

from ccesa.crypto import shamir
from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes
from ccesa.graphs.holders import Holders


class Shares(NamedTuple):
    """Shares of some dealers stand one dealer after the other; ``rows`` says whose each is."""

    rows: Nodes
    holders: Nodes
    xs: Nodes
    elements: shamir.Elements


class ReleasedShares:
    """Every client releases a share of its own secret, and of each of its neighbours' in V2."""

    def __init__(self, graph: AssignmentGraph, v2: Flags) -> None:
        self._holders = Holders.of(graph)
        self._v2 = v2
        #: By holder, then dealer: each client's lie together, as they come.
        self._elements = np.zeros((self._holders.nodes.size, shamir.SECRET_ELEMENTS), np.uint16)

    def keep(self, holder: int, shares: bytes) -> None:
        """Keep the shares that one client released, by ascending dealer; raises OutsideField."""
        held = self._holders.around(holder)
        dealt = self._v2[self._holders.nodes[held]]
        rows = shamir.from_bytes(shares).reshape(int(np.count_nonzero(dealt)), shamir.SECRET_ELEMENTS)
        self._elements[held][dealt] = rows  # as many as there are: numpy would spread a single one over all

    def of(self, dealers: Nodes, v4: Flags, most: int | None = None) -> Shares:
        """Return the shares of these dealers that came; of each dealer only the first ``most``."""
        rows, places = self._holders.live(dealers, v4, most)
        holders, xs = self._holders.nodes[places], self._holders.xs[places]
        return Shares(rows, holders, xs, self._elements.take(self._holders.reverse[places], axis=0))
