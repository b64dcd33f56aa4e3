"""What the server does once the last replies are in: rebuild secrets, check them, take the masks off."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ccesa.config import RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.errors import CorruptShares
from ccesa.evidence import Evidence, WrongShare
from ccesa.graphs.assignment import Flags
from ccesa.graphs.evolution import Evolution, flags
from ccesa.protocol.released import AT_ONCE, Holdings, Released
from ccesa.words import Vector

#: Of a node and a secret, whether it is the one that the node promised.
Fits = Callable[[int, bytes], bool]


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

    def remove(self, total: Vector) -> frozenset[WrongShare]:
        """Turn the masked total into the sum, in place; returns the wrong shares among those that came.

        Where a secret cannot be rebuilt the failure has the wrong shares of all the others as evidence.
        """
        graph, v3 = self.evolution.graph, self.evolution.v3
        dropped = self.evolution.v2 & ~v3 & (graph.live_mask_neighbours(v3) > 0)
        wrong: set[WrongShare] = set()
        secrets, failure = self._secrets(v3, dropped, wrong)
        if failure is not None:
            failure.evidence = Evidence(wrong_shares=self._holdings.wrong(secrets, wrong))
            raise failure
        found = [
            mask
            for node, secret in secrets.items()
            for mask in (self._self_mask(node, secret) if v3[node] else self._pair_masks(node, secret))
        ]
        masks.add_masks(total, found, self.config.generator, self.threads)
        return self._holdings.wrong(secrets, wrong)

    def _secrets(
        self, v3: Flags, dropped: Flags, wrong: set[WrongShare]
    ) -> tuple[dict[int, bytes], CorruptShares | None]:
        """All secrets that can be rebuilt, and the first failure."""
        likely = self._join_first(v3 | dropped)
        secrets: dict[int, bytes] = {}
        failure: CorruptShares | None = None
        for members, fits in ((v3, self._fits_commitment), (dropped, self._fits_mask_key)):
            for node in np.flatnonzero(members).tolist():
                try:
                    secrets[node] = self._secret(node, fits, likely.get(node), wrong)
                except CorruptShares as error:
                    failure = failure or error
        return secrets, failure

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
            for some in np.array_split(nodes, -(-nodes.size * threshold // AT_ONCE)):
                member = flags(graph.size, some)
                edges = np.flatnonzero(chosen & member[graph.rows])
                shares = self._holdings.on_edges(edges)
                shape = (some.size, threshold)
                joined = shamir.join_each(self._holdings.xs(edges).reshape(shape), shares.reshape(*shape, -1))
                secrets |= zip(some.tolist(), map(shamir.to_bytes, joined), strict=True)
        return secrets

    @cached_property
    def _loaded_mask_keys(self) -> list[primitives.PublicKey]:
        return [primitives.load_public_key(key) for key in self.mask_keys]

    @cached_property
    def _holdings(self) -> Holdings:
        return Holdings(evolution=self.evolution, released=self.released)

    def _client(self, node: int) -> int:
        return int(self.evolution.graph.ids[node])

    def _fits_commitment(self, node: int, secret: bytes) -> bool:
        return keys.commitment(secret, self.context, self._client(node)) == self.commitments[node]

    def _fits_mask_key(self, node: int, secret: bytes) -> bool:
        private = keys.mask_private_key(secret, self.context, self._client(node))
        return primitives.public_key(private) == self.mask_keys[node]

    def _secret(self, node: int, fits: Fits, likely: bytes | None, wrong: set[WrongShare]) -> bytes:
        return likely if likely and fits(node, likely) else self._rebuild(node, fits, wrong)

    def _self_mask(self, node: int, secret: bytes) -> list[masks.Mask]:
        key = keys.self_mask_key(secret, self.context, self._client(node), self.config.generator)
        return [masks.Mask(key, -1)]

    def _pair_masks(self, node: int, secret: bytes) -> list[masks.Mask]:
        """The masks that the survivors applied for one dropped client, with the signs that undo them."""
        graph, client = self.evolution.graph, self._client(node)
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

    def _rebuild(self, node: int, fits: Fits, wrong: set[WrongShare]) -> bytes:
        """The secret from all its shares; wrong ones are corrected and noted if enough are right."""
        ids, dealer, threshold = self.evolution.graph.ids, self._client(node), self.evolution.thresholds[node]
        holders, xs, shares = self._holdings.of(node)
        # One liar spoils the shares of all its neighbours: once it is known, its shares are passed over.
        doubted = np.isin(ids[holders], [one.sender for one in wrong])
        trusted = np.flatnonzero(~doubted)[:threshold]
        if trusted.size == threshold:
            secret = shamir.to_bytes(shamir.join(xs[trusted], shares[trusted]))
            if fits(node, secret):
                return secret
        try:
            elements, places = shamir.correct(xs, shares, int(threshold))
        except shamir.TooManyWrong as error:
            raise CorruptShares(dealer, str(error)) from error
        secret = shamir.to_bytes(elements)
        if not fits(node, secret):
            raise CorruptShares(dealer, "its shares fit together, but not the secret that it promised")
        sure = (holders.size - int(threshold)) // 2
        wrong.update(WrongShare(sender, dealer, sure) for sender in ids[holders[places]].tolist())
        return secret
