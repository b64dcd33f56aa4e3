"""The shares of step 3 come in by holder and are read by dealer."""

from typing import NamedTuple

import numpy as np

from ccesa.crypto import shamir
from ccesa.graphs.assignment import AssignmentGraph, Flags, Holders, Nodes


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
        rows = np.concatenate([[0], np.cumsum(v2[self._holders.nodes])])
        #: By holder, then dealer in V2: each client's lie together, as they come. This is where.
        self._bounds: list[int] = rows[self._holders.starts].tolist()
        #: By place in a holder's closed neighbourhood: the row of what it holds of the dealer there.
        self._rows = rows[:-1]
        self._elements = np.zeros((self._bounds[-1], shamir.SECRET_ELEMENTS), np.uint16)

    def due(self, holder: int) -> int:
        """Count the shares that one client has to release."""
        return self._bounds[holder + 1] - self._bounds[holder]

    def keep(self, holder: int, shares: bytes) -> None:
        """Keep the shares that one client released, by ascending dealer; raises OutsideField."""
        # By its full shape: numpy would hand a single share on to all dealers.
        rows = shamir.from_bytes(shares).reshape(self.due(holder), shamir.SECRET_ELEMENTS)
        self._elements[self._bounds[holder] : self._bounds[holder + 1]] = rows

    def of(self, dealers: Nodes, v4: Flags, most: int | None = None) -> Shares:
        """Return the shares of these dealers in V2 that came; of each dealer only the first ``most``."""
        rows, places = self._holders.live(dealers, v4, most)
        holders, xs = self._holders.nodes[places], self._holders.xs[places]
        elements = self._elements.take(self._rows[self._holders.reverse[places]], axis=0)
        return Shares(rows, holders, xs, elements)
