"""Once the last replies are in, the server rebuilds secrets, checks them and takes the masks off."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ccesa.crypto import keys, masks, primitives
from ccesa.crypto.keys import AGREEMENTS, X25519
from ccesa.errors import CorruptSeeds
from ccesa.evidence import Evidence, WrongShare
from ccesa.graphs.evolution import Evolution
from ccesa.protocol.rebuilding import Rebuilding, Rebuilt
from ccesa.protocol.server_states import Round, Settled
from ccesa.workers import add_masks_by


@dataclass(frozen=True, kw_only=True)
class Unmasking:
    """Opens the sum over V3 with what is public by now."""

    round: Round[Any]
    state: Settled
    evolution: Evolution

    def remove(self) -> frozenset[WrongShare]:
        """Turn the masked total into the sum, in place; return the wrong shares among those that came.

        Raises CorruptShares if a secret or what rests on it cannot be rebuilt, with the wrong shares of all
        others as evidence.
        """
        rebuilt = self._rebuilt()
        failure = rebuilt.failure or self._broken_promise(rebuilt.secrets)
        if failure is not None:
            failure.evidence = Evidence(wrong_shares=rebuilt.wrong_shares)
            raise failure
        found = [*self._self_masks(rebuilt.secrets), *self._pair_masks(rebuilt.secrets)]
        add_masks_by(
            self.round.executor, self.state.total, found, self.round.config.generator, self.round.threads
        )
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
        if self._survived[node]:
            commitment = self.state.commitments[node].tobytes()
            return keys.commitment(secret, self.round.context, client) == commitment
        private = keys.mask_private_key(secret, self.round.context, client)
        promised = primitives.public_key(private) == self.state.mask_keys[node]
        if promised:
            self._private_keys[node] = private
        return promised

    def _self_masks(self, secrets: dict[int, bytes]) -> list[masks.Mask]:
        """Return what takes the self masks of all survivors off the total."""
        context, generator, clients = self.round.context, self.round.config.generator, self._clients
        survived = self._survived
        return [
            masks.Mask(keys.self_mask_key(secret, context, clients[node], generator), -1)
            for node, secret in secrets.items()
            if survived[node]
        ]

    def _pair_masks(self, secrets: dict[int, bytes]) -> Iterator[masks.Mask]:
        """Yield what takes the masks of all nodes that dropped out off the total."""
        for node, secret in secrets.items():
            if not self._survived[node]:
                yield from self._masks_of(node, secret)

    def _masks_of(self, node: int, secret: bytes) -> Iterator[masks.Mask]:
        """Yield what takes the masks off that a node which dropped out has in common with survivors."""
        client, generator = self._client(node), self.round.config.generator
        mask_keys, near = self.state.mask_keys, self._masked_with(node)
        agreed = primitives.agree_each(self._private_keys[node], [mask_keys[neighbour] for neighbour in near])
        for neighbour, agreed_on in zip(near, agreed, strict=True):
            other = self._client(neighbour)  # a survivor, which applied the mask with its own sign
            given, received = self._seeds(node, neighbour, secret)
            common = self._agreement.pair_secret(
                agreed_on,
                self.round.context,
                keys.Half(client, mask_keys[node], given),
                keys.Half(other, mask_keys[neighbour], received),
            )
            key = keys.pair_mask_key(common, self.round.context, client, other, generator)
            yield masks.Mask(key, -keys.pair_sign(other, client))

    def _masked_with(self, node: int) -> list[int]:
        """Return the survivors that share a mask with a node."""
        near = self.evolution.graph.mask_neighbours(node)
        return near[self.evolution.v3[near]].tolist()

    def _broken_promise(self, secrets: dict[int, bytes]) -> CorruptSeeds | None:
        """Find a node that dropped out and whose seeds or deposits are not what was promised.

        The secret is the right one by now, and each end has accepted the seed that it was given. So nobody
        else can have brought this about.
        """
        if not self._agreement.commitment_bytes:
            return None
        for node, secret in secrets.items():
            if not self.evolution.v3[node] and not self._keeps_promises(node, secret):
                return CorruptSeeds(self._client(node))
        return None

    def _keeps_promises(self, node: int, secret: bytes) -> bool:
        """Tell whether the seeds that a node gave and was given are those that were committed to."""
        client, promised = self._client(node), self.state.seeds.commitment
        bound = partial(self._agreement.seed_commitment, context=self.round.context)
        for neighbour in self._masked_with(node):
            other = self._client(neighbour)
            try:
                given, received = self._seeds(node, neighbour, secret)
            except primitives.SealBroken:
                return False
            if bound(given, client=client, other=other) != promised(node, neighbour):
                return False
            if bound(received, client=other, other=client) != promised(neighbour, node):
                return False
        return True

    def _seeds(self, node: int, neighbour: int, secret: bytes) -> tuple[bytes, bytes]:
        """Return the seed that a node gave a neighbour and the one that it was given; raises SealBroken."""
        if not self._agreement.commitment_bytes:
            return b"", b""
        between = self.round.context, self._client(node), self._client(neighbour)
        deposited = self.state.seeds.deposit(node, neighbour)
        return (
            self._agreement.pair_seed(secret, *between),
            self._agreement.withdraw(secret, deposited, *between),
        )

    @property
    def _agreement(self) -> X25519:
        return AGREEMENTS[self.round.config.agreement]

    @cached_property
    def _private_keys(self) -> dict[int, primitives.PrivateKey]:
        """Keeps the keys behind promised secrets, which were made to check these."""
        return {}

    @cached_property
    def _survived(self) -> list[bool]:
        return self.evolution.v3.tolist()

    @cached_property
    def _clients(self) -> list[int]:
        return self.evolution.graph.ids.tolist()

    def _client(self, node: int) -> int:
        return self._clients[node]
