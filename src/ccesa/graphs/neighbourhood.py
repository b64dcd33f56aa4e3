"""Every step of a client reads its closed neighbourhood: itself among its neighbours."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbourhood:
    """A neighbourhood has a client and its neighbours by ascending id, and says on which edges masks run.

    The x-coordinate of a member among the holders of this client's shares is 1 + its place in the whole
    neighbourhood. Both sides count it themselves; no message says it.
    """

    client: int
    #: The client itself is one of them.
    members: Ids
    #: Whether masks run on the edge to each member; never on the client's place.
    carries_masks: Flags

    @classmethod
    def around(cls, client: int, neighbours: Ids, carries_masks: Flags) -> "Neighbourhood":
        """Put a client among its neighbours, which ascend."""
        place = int(np.searchsorted(neighbours, client))
        return cls(
            client=client,
            members=np.concatenate([neighbours[:place], [client], neighbours[place:]]),
            carries_masks=np.concatenate([carries_masks[:place], [False], carries_masks[place:]]),
        )

    @property
    def place(self) -> int:
        """Return the client's own rank."""
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
        """Leave out the members that are not live."""
        return Neighbourhood(client=self.client, members=self.members[live], carries_masks=self.carries_masks[live])
