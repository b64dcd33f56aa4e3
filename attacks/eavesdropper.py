"""What can be worked out from every byte between the clients and the server.

The paper's eavesdropper reads the wire; a lying server reads the same, and its friends tell it their private
keys. From messages, keys and released shares it rebuilds secrets, takes masks off, and finds the
sets of clients whose remaining masks cancel. It works from those bytes alone and knows nothing of the
theorems; that both agree is tested.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import CcesaError
from ccesa.graphs.assignment import AssignmentGraph, Flags, draw
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.words import Vector

#: Of the self mask b_i, or of the mask key s_i.
Secret = Literal["b", "s"]
Bundle = m.AdvertiseReply | m.SignedAdvertiseReply


class StillHidden(CcesaError):
    """What is missing to open a sum."""


@dataclass
class Seen:
    """What went between the server and one client. Keys are those of c_j, of s_j, and what else there is."""

    bundle: Bundle | None = None
    root: bytes = b""
    neighbours: list[int] = field(default_factory=list)
    mask_neighbours: set[int] = field(default_factory=set)
    shown_keys: dict[int, bytes] = field(default_factory=dict)
    commitment: bytes = b""
    sealed: dict[int, bytes] = field(default_factory=dict)
    deposits: dict[int, bytes] = field(default_factory=dict)
    v2: bytes = b""
    absent: set[int] = field(default_factory=set)
    vector: Vector | None = field(default=None, repr=False)
    masking_signature: bytes = b""
    v3: bytes = b""
    dropped: set[int] = field(default_factory=set)
    confirmation: bytes = b""

    @property
    def keys(self) -> bytes:
        return self.bundle.keys if self.bundle else b""


class Eavesdropper:
    """Give it every message in the order it was sent, then ask what can be opened."""

    def __init__(self, config: RoundConfig) -> None:
        self.config, self.context = config, config.context
        self.agreement = AGREEMENTS[config.agreement]
        self.seen: dict[int, Seen] = {}
        self._shares: dict[tuple[int, Secret], dict[int, bytes]] = {}
        self._private: dict[bytes, primitives.PrivateKey] = {}
        #: Behind public keys of ML-KEM, and behind s_i of clients that told it.
        self._kem_seeds: dict[bytes, bytes] = {}
        self._mask_secrets: dict[int, bytes] = {}
        #: By who gave it and who was given it.
        self._pair_seeds: dict[tuple[int, int], bytes] = {}
        self._graphs: dict[tuple[bytes, bytes], AssignmentGraph] = {}

    def __getitem__(self, client: int) -> Seen:
        return self.seen.setdefault(client, Seen())

    def overhear(self, client: int, message: bytes) -> None:
        """A request to this client, or a reply from it."""
        read, seen = m.decode(message, len(message)), self[client]
        if isinstance(read, m.ShareRequest | m.RosterRequest):
            self._note_neighbours(client, seen, read)
        elif isinstance(read, m.AcceptRequest | m.MaskAtOnceRequest):
            seen.absent = set(self._ids(read.dropped))
        elif isinstance(read, m.MaskRequest):
            seen.absent |= set(self._ids(read.dropped))
        elif isinstance(read, m.MaskAmongRequest | m.MaskAmongAtOnceRequest):
            v2 = self.members("V2", read.v2)
            seen.v2, seen.absent = read.v2, {j for j in seen.neighbours if not v2[j]}
        elif isinstance(read, m.UnmaskRequest):
            seen.dropped = set(self._ids(read.dropped))
        elif isinstance(read, m.ConfirmRequest):
            v3 = self.members("V3", read.v3)
            seen.v3, seen.dropped = read.v3, {j for j in self.holding(client) if not v3[j]}
        else:
            self._note_reply(client, seen, read)

    def learn_key(self, private: primitives.PrivateKey) -> None:
        """Somebody works together with the server, or the server made the key itself."""
        self._private[primitives.public_key(private)] = private

    def learn_kem_seed(self, seed: bytes) -> None:
        """The same for a key of ML-KEM, where the agreement has any."""
        if seed:
            self._kem_seeds[primitives.public_key(primitives.kem_private_key(seed))] = seed

    def learn_mask_secret(self, client: int, secret: bytes) -> None:
        """What the s_i of this client comes from: its private key does not give it away."""
        self._mask_secrets[client] = secret

    def gain(self, dealer: int, secret: Secret, holder: int, share: bytes) -> None:
        """The share of a dealer's secret that was dealt to this holder."""
        closed = sorted({dealer, *self[dealer].neighbours})
        self._shares.setdefault((dealer, secret), {})[closed.index(holder) + 1] = share

    def holding(self, client: int) -> list[int]:
        """Whose shares this client holds, itself included, ascending."""
        seen = self[client]
        return sorted({client, *seen.neighbours} - seen.absent)

    def threshold(self, dealer: int) -> int:
        return self.config.threshold.of(len(self[dealer].neighbours))

    def shares(self, dealer: int, secret: Secret) -> int:
        """How many of them the server has."""
        self._unseal_for_friends(dealer)
        return len(self._shares.get((dealer, secret), {}))

    def secret(self, dealer: int, secret: Secret) -> bytes:
        threshold, count = self.threshold(dealer), self.shares(dealer, secret)
        if count < threshold:
            raise StillHidden(f"the server holds {count} shares of {secret}_{dealer}, it needs {threshold}")
        held = self._shares[dealer, secret]
        xs = sorted(held)[:threshold]
        rows = np.stack([shamir.from_bytes(held[x]) for x in xs])
        return shamir.to_bytes(shamir.join(np.array(xs), rows))

    def open(self, group: Collection[int], *, self_masked: bool = True) -> Vector:
        """The sum of what these clients sent, without their masks; raises StillHidden if one stays on."""
        total = words.zeros(self.config.length, self.config.bits)
        found: list[masks.Mask] = []
        for client in sorted(group):
            vector = self[client].vector
            if vector is None:
                raise StillHidden(f"client {client} sent no vector")
            total += vector
            if self_masked:
                found.append(self._self_mask(client))
            found += self._pair_masks(client, group)
        masks.add_masks(total, found, self.config.generator)
        return total

    def partial_sums(self) -> dict[frozenset[int], Vector]:
        """Return the smallest sets of clients whose sum can be opened, with that sum.

        Every other sum that can be opened is a sum of these.
        """
        groups = {client: frozenset({client}) for client, seen in self.seen.items() if seen.vector is not None}
        for client in groups:
            for other in self._masked_with(client):
                if other in groups and self._together(client, other):
                    merged = groups[client] | groups[other]
                    groups |= dict.fromkeys(merged, merged)
        sums = {}
        for group in set(groups.values()):
            with suppress(StillHidden):
                sums[group] = self.open(group)
        return sums

    def members(self, name: str, packed: bytes) -> Flags:
        return m.unpack_set(name, packed, self.config.clients)

    # What is in the messages

    def _ids(self, packed: bytes) -> list[int]:
        """Also those that a lying server should not have written."""
        return np.frombuffer(packed, "<u4").astype(np.int64).tolist()

    def _note_neighbours(self, client: int, seen: Seen, request: m.ShareRequest | m.RosterRequest) -> None:
        if isinstance(request, m.ShareRequest):
            seen.neighbours = self._ids(request.neighbours)
            flagged = zip(seen.neighbours, request.masked, strict=True)
            seen.mask_neighbours = {neighbour for neighbour, flag in flagged if flag}
        else:
            graph = self._graph(request.v1, request.root)
            node = int(np.searchsorted(graph.ids, client))
            seen.root = request.root
            seen.neighbours = graph.ids[graph.neighbours(node)].tolist()
            seen.mask_neighbours = set(graph.ids[graph.mask_neighbours(node)].tolist())
        size = self.agreement.bundle_bytes
        bundles = [request.keys[k : k + size] for k in range(0, len(request.keys), size)]
        # A lie need not have the right size.
        seen.shown_keys = dict(zip(seen.neighbours, bundles, strict=False))

    def _graph(self, v1: bytes, root: bytes) -> AssignmentGraph:
        if (v1, root) not in self._graphs:
            ids = np.flatnonzero(self.members("V1", v1))
            self._graphs[v1, root] = draw(self.config.graph, signed_texts.seed(self.context, root), ids)
        return self._graphs[v1, root]

    def _note_reply(self, client: int, seen: Seen, reply: m.Message) -> None:
        if isinstance(reply, m.AdvertiseReply | m.SignedAdvertiseReply):
            seen.bundle = reply
        elif isinstance(reply, m.ShareReply):
            texts = m.each(reply, "sealed", self.config)
            seen.commitment, seen.sealed = reply.commitment, dict(zip(seen.neighbours, texts, strict=True))
        elif isinstance(reply, m.AcceptReply) and reply.deposits:
            size, shared = self.agreement.deposit_bytes, [j for j in self.holding(client) if j != client]
            deposits = m.items("deposits", reply.deposits, len(shared), size)
            seen.deposits = dict(zip(shared, deposits, strict=True))
        elif isinstance(reply, m.MaskReply | m.SignedMaskReply):
            seen.vector = words.from_bytes(reply.vector, self.config.bits)
            seen.masking_signature = getattr(reply, "signature", b"")
        elif isinstance(reply, m.ConfirmReply):
            seen.confirmation = reply.signature
        elif isinstance(reply, m.UnmaskReply):
            self._note_shares(client, seen, reply)

    def _note_shares(self, holder: int, seen: Seen, reply: m.UnmaskReply) -> None:
        dealers = self.holding(holder)
        shares = m.items("shares", reply.shares, len(dealers), shamir.SHARE_BYTES)
        for dealer, share in zip(dealers, shares, strict=True):
            self.gain(dealer, "s" if dealer in seen.dropped else "b", holder, share)

    # What follows from it

    def _unseal_for_friends(self, dealer: int) -> None:
        """What this dealer sealed for anyone whose keys the server has."""
        seen = self[dealer]
        for holder, text in seen.sealed.items():
            sealing_key, _, *kem = self.agreement.public_keys(seen.shown_keys[holder])
            private, kem_seed = self._private.get(sealing_key), self._kem_seeds.get(b"".join(kem), b"")
            if private is None or len(kem_seed) != self.agreement.kem_seed_bytes:
                continue
            public = primitives.load_public_key(self.agreement.public_keys(seen.keys)[0])
            shown, masked = seen.shown_keys[holder], holder in seen.mask_neighbours
            ends = keys.Ends(dealer, holder, seen.keys, shown, masked, seen.commitment)
            sealing = self.agreement.sealing(primitives.agree(private, public), self.context, holder, dealer)
            (secret,) = self.agreement.decapsulate_each(kem_seed, [text])
            try:
                opened = self.agreement.unseal(sealing, secret, text, self.context, ends)
            except primitives.SealBroken:  # friends may seal garbage for each other, too
                continue
            self.gain(dealer, "b", holder, opened.shares[: shamir.SHARE_BYTES])
            self.gain(dealer, "s", holder, opened.shares[shamir.SHARE_BYTES :])
            self._pair_seeds[dealer, holder] = opened.seed

    def _self_mask(self, client: int) -> masks.Mask:
        secret = self.secret(client, "b")
        return masks.Mask(keys.self_mask_key(secret, self.context, client, self.config.generator), -1)

    def _pair_masks(self, client: int, group: Collection[int]) -> list[masks.Mask]:
        """Those that do not cancel within the group."""
        others = self._masked_with(client)
        return [self._pair_mask(client, j) for j in others if not (j in group and self._cancels(client, j))]

    def _masked_with(self, client: int) -> list[int]:
        return sorted(self[client].mask_neighbours - self[client].absent)

    def _together(self, one: int, other: int) -> bool:
        """Whether the mask between the two stays on, with both signs: they open together or not at all."""
        if not self._cancels(one, other):
            return False
        try:
            self._pair_mask(one, other)
        except StillHidden:
            return True
        return False

    def _cancels(self, one: int, other: int) -> bool:
        """Both masked with each other, and neither was shown a false key."""
        mutual = one in self._masked_with(other)
        true_keys = (
            self[one].shown_keys.get(other) == self[other].keys,
            self[other].shown_keys.get(one) == self[one].keys,
        )
        return mutual and all(true_keys)

    def _pair_mask(self, client: int, other: int) -> masks.Mask:
        _, own, *_ = self.agreement.public_keys(self[client].keys)
        _, shown, *_ = self.agreement.public_keys(self[client].shown_keys[other])
        given, received = self._pair_seed(client, other), self._pair_seed(other, client)
        for private, public in ((self._mask_key(other, shown), own), (self._mask_key(client, own), shown)):
            if private is not None and given is not None and received is not None:
                agreed = primitives.agree(private, primitives.load_public_key(public))
                here, there = keys.Half(client, own, given), keys.Half(other, shown, received)
                secret = self.agreement.pair_secret(agreed, self.context, here, there)
                key = keys.pair_mask_key(secret, self.context, client, other, self.config.generator)
                return masks.Mask(key, -keys.pair_sign(client, other))
        raise StillHidden(f"the mask between clients {client} and {other} stays on")

    def _pair_seed(self, giver: int, receiver: int) -> bytes | None:
        """The seed that one client gave another: opened, or from the secret of one of the two."""
        if not self.agreement.deposit_bytes:
            return b""
        self._unseal_for_friends(giver)
        if (giver, receiver) in self._pair_seeds:
            return self._pair_seeds[giver, receiver]
        given, received = self._mask_secret(giver), self._mask_secret(receiver)
        if given is not None:
            return self.agreement.pair_seed(given, self.context, giver, receiver)
        left = self[receiver].deposits.get(giver)
        if received is not None and left is not None:
            return self.agreement.withdraw(received, left, self.context, receiver, giver)
        return None

    def _mask_secret(self, client: int) -> bytes | None:
        """What the s_i of a client comes from: told, or rebuilt from shares."""
        if client not in self._mask_secrets:
            with suppress(StillHidden):
                self.learn_mask_secret(client, self.secret(client, "s"))
        return self._mask_secrets.get(client)

    def _mask_key(self, client: int, public: bytes) -> primitives.PrivateKey | None:
        """The private key behind this public one: told, or rebuilt from shares."""
        if public not in self._private and self.shares(client, "s") >= self.threshold(client):
            self.learn_key(keys.mask_private_key(self.secret(client, "s"), self.context, client))
        return self._private.get(public)
