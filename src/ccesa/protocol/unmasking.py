"""What the server does once the last replies are in: rebuild secrets, check them, take the masks off."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ccesa.config import RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.errors import CorruptShares
from ccesa.graphs.assignment import Flags
from ccesa.graphs.evolution import Evolution, flags
from ccesa.ring import Vector

#: Shares that are joined at a time; bounds the memory.
_AT_ONCE = 1 << 17


@dataclass(frozen=True, kw_only=True)
class Released:
    """The shares as they came, by holder: for each edge (i, j) the share that i holds of j, and i's own."""

    on_edges: NDArray[np.uint16] = field(repr=False)
    own: NDArray[np.uint16] = field(repr=False)


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
        dropped = self.evolution.v2 & ~v3 & (graph.live_mask_neighbours(v3) > 0)
        likely = self._join_first(v3 | dropped)
        culprits: set[int] = set()
        found = [
            masks.Mask(self._self_mask_key(node, likely.get(node), culprits), -1)
            for node in np.flatnonzero(v3).tolist()
        ]
        for node in np.flatnonzero(dropped).tolist():
            found += self._pair_masks(node, likely.get(node), culprits)
        masks.add_masks(total, found, self.config.generator, self.threads)
        return frozenset(culprits)

    def _join_first(self, needed: Flags) -> dict[int, bytes]:
        """What the first t_i neighbours' shares of each needed secret give, many secrets at a time."""
        graph, thresholds = self.evolution.graph, self.evolution.thresholds
        live = self.evolution.v4[graph.columns]
        so_far = np.concatenate([[0], np.cumsum(live)])
        place = so_far[1:] - so_far[graph.starts[graph.rows]]  # 1 for the first live one of its row
        chosen = live & (place <= thresholds[graph.rows])
        enough = needed & (so_far[graph.starts[1:]] - so_far[graph.starts[:-1]] >= thresholds)
        secrets: dict[int, bytes] = {}
        for threshold in np.unique(thresholds[enough]).tolist():
            nodes = np.flatnonzero(enough & (thresholds == threshold))
            for some in np.array_split(nodes, -(-nodes.size * threshold // _AT_ONCE)):
                member = flags(graph.size, some)
                edges = np.flatnonzero(chosen & member[graph.rows])
                shares = self.released.on_edges[graph.reverse[edges]]
                shape = (some.size, threshold)
                joined = shamir.join_each(self._xs(edges).reshape(shape), shares.reshape(*shape, -1))
                secrets |= zip(some.tolist(), map(shamir.to_bytes, joined), strict=True)
        return secrets

    def _xs(self, edges: NDArray[np.int64]) -> NDArray[np.int64]:
        """The x-coordinate of the neighbour at the end of each edge among the holders of its start.

        It is 1 + rank in the sorted closed neighbourhood, never read from a message.
        """
        graph = self.evolution.graph
        rows = graph.rows[edges]
        return edges - graph.starts[rows] + 1 + (graph.columns[edges] > rows)

    @cached_property
    def _loaded_mask_keys(self) -> list[primitives.PublicKey]:
        return [primitives.load_public_key(key) for key in self.mask_keys]

    def _self_mask_key(self, node: int, likely: bytes | None, culprits: set[int]) -> bytes:
        client = int(self.evolution.graph.ids[node])

        def fits(secret: bytes) -> bool:
            return keys.commitment(secret, self.context, client) == self.commitments[node]

        secret = likely if likely and fits(likely) else self._rebuild(node, fits, culprits)
        return keys.self_mask_key(secret, self.context, client, self.config.generator)

    def _pair_masks(self, node: int, likely: bytes | None, culprits: set[int]) -> list[masks.Mask]:
        """The masks that the survivors applied for one dropped client, with the signs that undo them."""
        graph = self.evolution.graph
        client = int(graph.ids[node])

        def fits(secret: bytes) -> bool:
            private = keys.mask_private_key(secret, self.context, client)
            return primitives.public_key(private) == self.mask_keys[node]

        secret = likely if likely and fits(likely) else self._rebuild(node, fits, culprits)
        private = keys.mask_private_key(secret, self.context, client)
        near = graph.mask_neighbours(node)
        near = near[self.evolution.v3[near]]
        loaded = [self._loaded_mask_keys[neighbour] for neighbour in near.tolist()]
        agreed = [primitives.agree(private, key) for key in loaded]
        return [
            masks.Mask(
                keys.pair_mask_key(common, self.context, client, other, self.config.generator),
                -keys.pair_sign(other, client),
            )
            for common, other in zip(agreed, graph.ids[near].tolist(), strict=True)
        ]

    def _rebuild(self, node: int, fits: Callable[[bytes], bool], culprits: set[int]) -> bytes:
        """The secret from all its shares; wrong ones are corrected and blamed if enough are right."""
        dealer, threshold = int(self.evolution.graph.ids[node]), int(self.evolution.thresholds[node])
        holders, xs, shares = self._shares_of(node)
        # One liar spoils the shares of all its neighbours: once it is known, its shares are passed over.
        trusted = np.flatnonzero(~np.isin(self.evolution.graph.ids[holders], list(culprits)))[:threshold]
        if trusted.size == threshold:
            secret = shamir.to_bytes(shamir.join(xs[trusted], shares[trusted]))
            if fits(secret):
                return secret
        try:
            elements, wrong = shamir.correct(xs, shares, threshold)
        except shamir.TooManyWrong as error:
            raise CorruptShares(dealer, str(error)) from error
        secret = shamir.to_bytes(elements)
        if not fits(secret):
            raise CorruptShares(dealer, "they rebuild a secret that is not the one it promised")
        culprits.update(self.evolution.graph.ids[holders[wrong]].tolist())
        return secret

    def _shares_of(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint16]]:
        """Live holders of this client's shares, their x-coordinates, and the shares; its own comes last."""
        graph, v4 = self.evolution.graph, self.evolution.v4
        edges = np.arange(graph.starts[node], graph.starts[node + 1])[v4[graph.neighbours(node)]]
        holders, xs = graph.columns[edges], self._xs(edges)
        shares = self.released.on_edges[graph.reverse[edges]]
        if not v4[node]:
            return holders, xs, shares
        own_x = 1 + int(np.count_nonzero(graph.neighbours(node) < node))
        own = self.released.own[node : node + 1]
        return np.append(holders, node), np.append(xs, own_x), np.concatenate([shares, own])
