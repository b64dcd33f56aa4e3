"""Stand-ins for very many clients make all replies of a round in bulk; a server cannot tell the difference.

Keys, commitments and shares are real, because the server rebuilds secrets from them and agrees with them.
What is sealed for others is random: no server opens it. Masks between two survivors cancel and are left out
of both their vectors; self masks, and masks with clients that drop out, are there, so that the sum is exact
only if the server takes off every one of them.
"""

import os
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ccesa import labels, words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.crypto.keys import AGREEMENTS
from ccesa.graphs.assignment import Holders, draw, flags
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.steps import steps_of
from ccesa.simulate.simulation import Independent
from ccesa.words import Vector

#: Different vectors that clients have.
VECTORS = 64
#: Secrets that are shared at a time.
AT_ONCE = 512

Replies = Iterator[tuple[int, bytes]]


class StandIns:
    """All clients of one round of the guard ``curious``."""

    def __init__(self, config: RoundConfig, dropout: float, seed: int) -> None:
        self.config, self.context = config, config.context
        rng = np.random.default_rng(seed)
        self._lost = Independent(dropout).draw(steps_of(config), config.clients, rng)
        self._vectors = rng.integers(2**config.bits, size=(VECTORS, config.length), dtype=words.dtype(config.bits))
        self._self_secrets, self._mask_secrets = (
            shamir.random_elements(os.urandom, config.clients * shamir.SECRET_ELEMENTS).reshape(config.clients, -1)
            for _ in range(2)
        )
        self._bundles: dict[int, bytes] = {}

    def replies(self, step: str, asked: NDArray[np.int64]) -> Replies:
        """Yield what those who are asked in a step answer, unless they drop out."""
        stay = asked[~np.isin(asked, np.fromiter(self._lost[step], np.int64))]
        yield from getattr(self, f"_{step}")(asked, stay)

    def sum_of(self, survivors: tuple[int, ...]) -> Vector:
        """Return the sum that a server must come to."""
        counts = np.bincount(np.array(survivors) % VECTORS, minlength=VECTORS)
        return (self._vectors * counts[:, None].astype(self._vectors.dtype)).sum(0, dtype=self._vectors.dtype)

    def _advertise(self, asked: NDArray[np.int64], stay: NDArray[np.int64]) -> Replies:
        agreement = AGREEMENTS[self.config.agreement]
        for client in stay.tolist():
            sealing = primitives.public_key(primitives.private_key(os.urandom(32)))
            self._bundles[client] = agreement.bundle(sealing, primitives.public_key(self._private(client)), b"")
            yield client, self._encoded(m.AdvertiseReply, client, keys=self._bundles[client])

    def _share(self, asked: NDArray[np.int64], stay: NDArray[np.int64]) -> Replies:
        entries = (labels.client_bytes(client) + bundle for client, bundle in self._bundles.items())
        root = labels.digest(labels.ROSTER, self.context, b"".join(entries))
        ids = np.array(list(self._bundles), np.int64)
        self._graph = draw(self.config.graph, signed_texts.seed(self.context, root), ids)
        size = AGREEMENTS[self.config.agreement].text_bytes
        for client, node in zip(stay.tolist(), ids.searchsorted(stay).tolist(), strict=True):
            commitment = keys.commitment(self._self_secret(client), self.context, client)
            sealed = os.urandom(size * int(self._graph.degrees[node]))
            yield client, self._encoded(m.ShareReply, client, commitment=commitment, sealed=sealed)

    def _mask(self, asked: NDArray[np.int64], stay: NDArray[np.int64]) -> Replies:
        self._v2, self._v3 = (self._flags(some) for some in (asked, stay))
        common = self._masks_with_lost()
        generator = self.config.generator
        for client in stay.tolist():
            own = masks.Mask(keys.self_mask_key(self._self_secret(client), self.context, client, generator), 1)
            vector = masks.masked(self._vectors[client % VECTORS], [own, *common.pop(client, ())], generator)
            near = self._graph.closed_neighbourhood(self._node(client))
            known = m.pack_ids(self._graph.ids[near[self._v2[near]]])
            yield (
                client,
                self._encoded(
                    m.MaskReply,
                    client,
                    tag=m.MaskReply.fingerprint.make(vector.data, self.context, client),
                    among=signed_texts.among(self.context, client, known),
                    task=m.NO_TASK,
                    vector=vector.tobytes(),
                ),
            )

    def _unmask(self, asked: NDArray[np.int64], stay: NDArray[np.int64]) -> Replies:
        holders = Holders.of(self._graph)
        shares = self._shares(holders)
        for client in stay.tolist():
            node = self._node(client)
            held = slice(holders.starts[node], holders.starts[node + 1])
            places = holders.reverse[held][self._v2[holders.nodes[held]]]
            yield client, self._encoded(m.UnmaskReply, client, shares=shares[places].tobytes())

    def _masks_with_lost(self) -> dict[int, list[masks.Mask]]:
        """Return the masks that survivors have in common with those that have shared and drop out."""
        graph, context, found = self._graph, self.context, defaultdict[int, list[masks.Mask]](list)
        for node in np.flatnonzero(self._v2 & ~self._v3).tolist():
            lost, near = int(graph.ids[node]), graph.mask_neighbours(node)
            private = self._private(lost)
            for client in graph.ids[near[self._v3[near]]].tolist():
                public = AGREEMENTS[self.config.agreement].public_keys(self._bundles[client])[1]
                agreed = primitives.agree(private, primitives.load_public_key(public))
                key = keys.pair_mask_key(agreed, context, client, lost, self.config.generator)
                found[client].append(masks.Mask(key, keys.pair_sign(client, lost)))
        return found

    def _shares(self, holders: Holders) -> NDArray[np.uint16]:
        """Deal each secret that is asked for: a survivor's self mask, or the key of who dropped out."""
        graph = self._graph
        sizes, thresholds = graph.degrees + 1, self.config.threshold.of(graph.degrees)
        shares = np.zeros((holders.nodes.size, shamir.SECRET_ELEMENTS), "<u2")
        for size in np.unique(sizes).tolist():
            alike = np.flatnonzero(sizes == size)
            for nodes in np.array_split(alike, -(-alike.size // AT_ONCE)):
                dealt = self._dealt(nodes, int(thresholds[nodes[0]]), size)
                shares[holders.starts[nodes][:, None] + np.arange(size)] = dealt
        return shares

    def _dealt(self, nodes: NDArray[np.int64], threshold: int, holders: int) -> NDArray[np.uint16]:
        ids, survive = self._graph.ids[nodes], self._v3[nodes][:, None]
        secrets = np.where(survive, self._self_secrets[ids], self._mask_secrets[ids])
        both = shamir.split(secrets.ravel(), threshold, holders, os.urandom)
        return both.reshape(holders, nodes.size, -1).swapaxes(0, 1)

    def _private(self, client: int) -> primitives.PrivateKey:
        return keys.mask_private_key(shamir.to_bytes(self._mask_secrets[client]), self.context, client)

    def _self_secret(self, client: int) -> bytes:
        return shamir.to_bytes(self._self_secrets[client])

    def _encoded(self, kind: type[m.Message], client: int, **fields: bytes) -> bytes:
        return kind(context=self.context, client=client, **fields).encode()

    def _node(self, client: int) -> int:
        return int(self._graph.ids.searchsorted(client))

    def _flags(self, clients: NDArray[np.int64]) -> NDArray[np.bool_]:
        return flags(self._graph.size, self._graph.ids.searchsorted(clients))
