"""Once the last replies are in, the server rebuilds secrets, checks them and takes the masks off."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ccesa.crypto import keys, masks, primitives
from ccesa.evidence import Evidence, WrongShare
from ccesa.graphs.evolution import Evolution
from ccesa.protocol.rebuilding import Rebuilding, Rebuilt
from ccesa.protocol.server_states import Round, Settled


@dataclass(frozen=True, kw_only=True)
class Unmasking:
    """Opens the sum over V3 with what is public by now."""

    round: Round[Any]
    state: Settled
    evolution: Evolution

    def remove(self) -> frozenset[WrongShare]:
        """Turn the masked total into the sum, in place; return the wrong shares among those that came.

        Raises CorruptShares if a secret cannot be rebuilt, with the wrong shares of all others as evidence.
        """
        rebuilt = self._rebuilt()
        if rebuilt.failure is not None:
            rebuilt.failure.evidence = Evidence(wrong_shares=rebuilt.wrong_shares)
            raise rebuilt.failure
        found = [mask for node, secret in rebuilt.secrets.items() for mask in self._masks(node, secret)]
        masks.add_masks(self.state.total, found, self.round.config.generator, self.round.threads)
        return rebuilt.wrong_shares

    def _rebuilt(self) -> Rebuilt:
        graph, v3 = self.evolution.graph, self.evolution.v3
        dropped = self.evolution.v2 & ~v3 & (graph.live_mask_neighbours(v3) > 0)
        return Rebuilding(
            evolution=self.evolution,
            released=self.state.released,
            is_promised=self._is_promised,
            random=self.round.random,
        ).rebuild(np.concatenate([np.flatnonzero(v3), np.flatnonzero(dropped)]))

    def _is_promised(self, node: int, secret: bytes) -> bool:
        """Tell whether a survivor committed to this secret, or the mask key of who dropped comes from it."""
        client = self._client(node)
        if self.evolution.v3[node]:
            return keys.commitment(secret, self.round.context, client) == self.state.commitments[node]
        private = keys.mask_private_key(secret, self.round.context, client)
        return primitives.public_key(private) == self.state.mask_keys[node]

    def _masks(self, node: int, secret: bytes) -> Iterator[masks.Mask]:
        """Yield what takes the masks behind one secret off the total."""
        graph, client, generator = self.evolution.graph, self._client(node), self.round.config.generator
        if self.evolution.v3[node]:
            yield masks.Mask(keys.self_mask_key(secret, self.round.context, client, generator), -1)
            return
        private = keys.mask_private_key(secret, self.round.context, client)
        near = graph.mask_neighbours(node)
        for neighbour in near[self.evolution.v3[near]].tolist():
            other = self._client(neighbour)  # a survivor, which applied the mask with its own sign
            common = primitives.agree(private, self._loaded_mask_keys[neighbour])
            key = keys.pair_mask_key(common, self.round.context, client, other, generator)
            yield masks.Mask(key, -keys.pair_sign(other, client))

    @cached_property
    def _loaded_mask_keys(self) -> list[primitives.PublicKey]:
        return [primitives.load_public_key(key) for key in self.state.mask_keys]

    def _client(self, node: int) -> int:
        return int(self.evolution.graph.ids[node])
