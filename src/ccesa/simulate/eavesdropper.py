"""The paper's adversary: someone who reads every byte between the clients and the server.

From a complete transcript (public keys, sealed shares, masked vectors, revealed shares, who survived) it
rebuilds every secret it has enough shares for, takes off every mask it then knows, and finds all sets of
clients whose remaining masks cancel. It works from bytes alone and knows nothing of the theorems; that
both agree is tested.
"""

from dataclasses import dataclass, field

import numpy as np

from ccesa import words
from ccesa.config import RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.protocol import messages as m
from ccesa.words import Vector


@dataclass
class _Seen:
    """What the transcript says about one client."""

    keys: m.AdvertiseReply | None = None
    neighbours: list[int] = field(default_factory=list)
    mask_neighbours: list[int] = field(default_factory=list)
    absent: set[int] = field(default_factory=set)
    in_v2: bool = False
    vector: Vector | None = None
    dropped: set[int] = field(default_factory=set)


class Eavesdropper:
    """Give it every message in the order it was sent, then ask for the partial sums."""

    def __init__(self, config: RoundConfig) -> None:
        self._config = config
        self._context = config.context
        self._seen: dict[int, _Seen] = {}
        #: (dealer, kind of secret) -> {x-coordinate: share}
        self._shares: dict[tuple[int, str], dict[int, bytes]] = {}

    def overhear(self, client: int, message: bytes) -> None:
        """A request to this client, or a reply from it."""
        seen = self._seen.setdefault(client, _Seen())
        match m.decode(message, len(message)):
            case m.AdvertiseReply() as reply:
                seen.keys = reply
            case m.ShareRequest() as request:
                seen.neighbours = self._ids(request.neighbours)
                flagged = zip(seen.neighbours, request.masked, strict=True)
                seen.mask_neighbours = [neighbour for neighbour, flag in flagged if flag]
            case m.MaskRequest() as request:
                seen.in_v2, seen.absent = True, set(self._ids(request.dropped))
            case m.MaskReply() as reply:
                seen.vector = words.from_bytes(reply.vector, self._config.bits).copy()
            case m.UnmaskRequest() as request:
                seen.dropped = set(self._ids(request.dropped))
            case m.UnmaskReply() as reply:
                self._note_shares(client, seen, reply)

    def partial_sums(self) -> dict[frozenset[int], Vector]:
        """The smallest sets of survivors whose sum can be computed, with that sum.

        Every other sum that can be computed is a sum of these.
        """
        survivors = {client: seen for client, seen in self._seen.items() if seen.vector is not None}
        mask_secrets = {client: self._mask_secret(client) for client, s in self._seen.items() if s.in_v2}
        groups = {client: {client} for client in survivors}
        hidden: set[int] = set()
        vectors: dict[int, Vector] = {}
        for client, seen in survivors.items():
            self_secret = self._self_secret(client)
            known = [] if self_secret is None else [self._self_mask(client, self_secret)]
            if self_secret is None:
                hidden.add(client)
            for other in seen.mask_neighbours:
                if other in seen.absent:
                    continue
                mask = self._pair_mask(client, other, mask_secrets)
                if mask is not None:
                    known.append(mask)
                elif other in survivors:
                    _unite(groups, client, other)  # the same mask with the other sign: together or not at all
                else:
                    hidden.add(client)
            vectors[client] = self._without(seen, known)
        return {
            frozenset(group): np.add.reduce(
                [vectors[client] for client in sorted(group)], dtype=words.dtype(self._config.bits)
            )
            for group in {id(group): group for group in groups.values()}.values()
            if not group & hidden
        }

    def _ids(self, packed: bytes) -> list[int]:
        return m.unpack_ids("ids", packed, self._config.clients).tolist()

    def _note_shares(self, holder: int, seen: _Seen, reply: m.UnmaskReply) -> None:
        dealers = sorted({holder, *seen.neighbours} - seen.absent)
        shares = m.items("shares", reply.shares, len(dealers), shamir.SHARE_BYTES)
        for dealer, share in zip(dealers, shares, strict=True):
            closed = sorted({dealer, *self._seen[dealer].neighbours})
            kind = "mask" if dealer in seen.dropped else "self"
            self._shares.setdefault((dealer, kind), {})[closed.index(holder) + 1] = share

    def _secret(self, dealer: int, kind: str) -> bytes | None:
        held = self._shares.get((dealer, kind), {})
        threshold = self._config.threshold.of(len(self._seen[dealer].neighbours))
        if len(held) < threshold:
            return None
        xs = sorted(held)[:threshold]
        rows = np.stack([shamir.from_bytes(held[x]) for x in xs])
        return shamir.to_bytes(shamir.join(np.array(xs), rows))

    def _self_secret(self, client: int) -> bytes | None:
        return self._secret(client, "self")

    def _mask_secret(self, client: int) -> primitives.PrivateKey | None:
        secret = self._secret(client, "mask")
        return None if secret is None else keys.mask_private_key(secret, self._context, client)

    def _self_mask(self, client: int, secret: bytes) -> masks.Mask:
        return masks.Mask(keys.self_mask_key(secret, self._context, client, self._config.generator), -1)

    def _pair_mask(
        self, client: int, other: int, secrets: dict[int, primitives.PrivateKey | None]
    ) -> masks.Mask | None:
        """The mask between the two, if one of their keys is known, with the sign that takes it off client."""
        for owner, peer in ((client, other), (other, client)):
            private, seen = secrets.get(owner), self._seen[peer].keys
            if private is not None and seen is not None:
                agreed = primitives.agree(private, primitives.load_public_key(seen.mask_key))
                key = keys.pair_mask_key(agreed, self._context, client, other, self._config.generator)
                return masks.Mask(key, -keys.pair_sign(client, other))
        return None

    def _without(self, seen: _Seen, known: list[masks.Mask]) -> Vector:
        vector = words.zeros(self._config.length, self._config.bits)
        if seen.vector is not None:
            vector += seen.vector
        masks.add_masks(vector, known, self._config.generator)
        return vector


def _unite(groups: dict[int, set[int]], one: int, other: int) -> None:
    if groups[one] is not groups[other]:
        merged = groups[one] | groups[other]
        for client in merged:
            groups[client] = merged
