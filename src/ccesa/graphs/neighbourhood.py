"""The closed neighbourhood of a client, which it uses in every step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbourhood:
    """A client among its neighbours by ascending id, with the edges that carry masks.

    The x-coordinate of a member among the holders of this client's shares is 1 + its place in the whole neighbourhood.
    Both sides compute it. No message contains it.
    """

    client: int
    members: Ids
    #: Whether masks run on the edge to each member; false at the client's own place.
    carries_masks: Flags

    @classmethod
    def around(cls, client: int, neighbours: Ids, carries_masks: Flags) -> "Neighbourhood":
        """Put a client among its neighbours, which ascend."""
        place = np.searchsorted(neighbours, client)
        members, flags = np.insert(neighbours, place, client), np.insert(carries_masks, place, False)
        return cls(client=client, members=members, carries_masks=flags)

    @property
    def place(self) -> int:
        """The rank of the client itself."""
        return int(np.searchsorted(self.members, self.client))

    @property
    def degree(self) -> int:
        return self.members.size - 1

    @property
    def neighbours(self) -> list[int]:
        return self.members[self.members != self.client].tolist()

    @property
    def mask_neighbours(self) -> list[int]:
        return self.members[self.carries_masks].tolist()

    def among(self, live: Flags) -> "Neighbourhood":
        """Return the neighbourhood without the members that are not live."""
        return Neighbourhood(client=self.client, members=self.members[live], carries_masks=self.carries_masks[live])
