"""What the server does once the last replies are in: rebuild secrets, check them, take the masks off."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccesa.config import RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.errors import CorruptShares
from ccesa.graphs.evolution import Evolution
from ccesa.parallel import each
from ccesa.ring import Vector


@dataclass(frozen=True, kw_only=True)
class Released:
    """The shares as they came, by holder: for each edge (i, j) the share that i holds of j, and i's own."""

    on_edges: NDArray[np.uint16]
    own: NDArray[np.uint16]


@dataclass(frozen=True, kw_only=True)
class Unmasking:
    """Everything that is public by now, and needed to open the sum over V3."""

    config: RoundConfig
    context: bytes
    evolution: Evolution
    mask_keys: list[bytes]
    commitments: list[bytes]
    released: Released
    threads: int

    def remove(self, total: Vector) -> frozenset[int]:
        """Turn the masked total into the sum, in place; returns the senders of corrected wrong shares."""
        graph, v3 = self.evolution.graph, self.evolution.v3
        culprits: set[int] = set()
        found = [masks.Mask(self._self_mask_key(node, culprits), -1) for node in np.flatnonzero(v3).tolist()]
        dropped = self.evolution.v2 & ~v3 & (graph.live_mask_neighbours(v3) > 0)
        for node in np.flatnonzero(dropped).tolist():
            found += self._pair_masks(node, culprits)
        masks.add_masks(total, found, self.config.generator, self.threads)
        return frozenset(culprits)

    def _self_mask_key(self, node: int, culprits: set[int]) -> bytes:
        client = int(self.evolution.graph.ids[node])

        def fits(secret: bytes) -> bool:
            return keys.commitment(secret, self.context, client) == self.commitments[node]

        secret = self._rebuild(node, fits, culprits)
        return keys.self_mask_key(secret, self.context, client, self.config.generator)

    def _pair_masks(self, node: int, culprits: set[int]) -> list[masks.Mask]:
        """The masks that the survivors applied for one dropped client, with the signs that undo them."""
        graph = self.evolution.graph
        client = int(graph.ids[node])

        def fits(secret: bytes) -> bool:
            private = keys.mask_private_key(secret, self.context, client)
            return primitives.public_key(private) == self.mask_keys[node]

        secret = self._rebuild(node, fits, culprits)
        private = keys.mask_private_key(secret, self.context, client)

        def undo(neighbour: int) -> masks.Mask:
            other = int(graph.ids[neighbour])
            agreed = primitives.agree(private, self.mask_keys[neighbour])
            key = keys.pair_mask_key(agreed, self.context, client, other, self.config.generator)
            return masks.Mask(key, -keys.pair_sign(other, client))

        near = graph.mask_neighbours(node)
        return each(self.threads, undo, near[self.evolution.v3[near]].tolist())

    def _rebuild(self, node: int, fits: Callable[[bytes], bool], culprits: set[int]) -> bytes:
        """The secret of one client; wrong shares are corrected and blamed if enough right ones exist."""
        threshold = int(self.evolution.thresholds[node])
        _, xs, shares = self._shares_of(node, threshold)
        secret = shamir.to_bytes(shamir.join(xs, shares))
        if fits(secret):
            return secret
        dealer = int(self.evolution.graph.ids[node])
        holders, xs, shares = self._shares_of(node)
        try:
            elements, wrong = shamir.correct(xs, shares, threshold)
        except shamir.TooManyWrong as error:
            raise CorruptShares(dealer, str(error)) from error
        secret = shamir.to_bytes(elements)
        if not fits(secret):
            raise CorruptShares(dealer, "they rebuild a secret that is not the one it promised")
        culprits.update(self.evolution.graph.ids[holders[wrong]].tolist())
        return secret

    def _shares_of(
        self, node: int, most: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint16]]:
        """Live holders of this client's shares, their x-coordinates, and the shares.

        The x-coordinate is 1 + rank in the sorted closed neighbourhood, never read from a message.
        """
        graph, v4 = self.evolution.graph, self.evolution.v4
        near = graph.neighbours(node)
        below = int(np.searchsorted(near, node))
        ranks = np.flatnonzero(v4[near])[:most]
        xs = ranks + 1 + (ranks >= below)
        shares = self.released.on_edges[graph.reverse[graph.edges(node)][ranks]]
        if not v4[node] or ranks.size == most:
            return near[ranks], xs, shares
        own = self.released.own[node : node + 1]
        return np.append(near[ranks], node), np.append(xs, below + 1), np.concatenate([shares, own])
