"""The server under the guard ``active``: it commits to the roster and hands signatures on.

Nothing here is trusted by the clients. An honest server checks every signature itself, so that a client that
signs badly is refused at once instead of making its neighbours abort.
"""

import os
from typing import Any

import numpy as np

from ccesa.charter import Charter
from ccesa.config import RoundConfig
from ccesa.crypto import merkle, primitives, shamir
from ccesa.crypto.primitives import SIGNATURE_BYTES
from ccesa.errors import MalformedMessage, TooFewClients
from ccesa.graphs.assignment import Flags
from ccesa.protocol import messages as m
from ccesa.protocol import roster
from ccesa.protocol.server import Bundle, MakeRequest, Requests, Server


class ActiveServer(Server):
    """One round with clients that need not trust it."""

    guard = "active"

    def __init__(
        self,
        config: RoundConfig,
        charter: Charter,
        *,
        threads: int = 1,
        now: float | None = None,
        random: shamir.Randomness = os.urandom,
    ) -> None:
        charter.check_current(now)
        charter.check(config)
        super().__init__(config, threads=threads, random=random)
        self._charter = charter
        self._take["confirm"] = self._take_confirmation
        self._close["confirm"] = self._close_confirm

    # Step 0, advertise

    def _take_keys(self, client: int, reply: Bundle) -> None:
        signature = m.expect(reply, m.SignedAdvertiseReply).signature
        text = roster.bundle_text(self.context, client, reply.sealing_key + reply.mask_key)
        self._verify(client, signature, text)
        super()._take_keys(client, reply)

    def _close_advertise(self) -> Requests:
        """A roster that every client would refuse is not shown to anyone."""
        least = self._charter.least_roster
        if len(self._advertised) < least:
            raise TooFewClients(
                f"step advertise: {len(self._advertised)} answered, the charter demands {least}"
            )
        return super()._close_advertise()

    def _commit(self, pairs: list[Bundle]) -> bytes:
        self._v1_packed = self._pack(np.array([pair.client for pair in pairs]))
        self._tree = merkle.levels(
            [roster.leaf(self.context, pair.client, pair.sealing_key + pair.mask_key) for pair in pairs]
        )
        self._root = roster.root(self.context, self._v1_packed, self._tree[-1].tobytes())
        return self._root

    def _introductions(self, pairs: list[Bundle]) -> MakeRequest:
        public_keys = self._of_neighbours([pair.sealing_key + pair.mask_key for pair in pairs])
        signatures = self._of_neighbours([m.expect(pair, m.SignedAdvertiseReply).signature for pair in pairs])

        def make(node: int, head: dict[str, Any]) -> m.Message:
            neighbours = self._graph.neighbours(node)
            closed = np.insert(neighbours, int(np.searchsorted(neighbours, node)), node)
            return m.RosterRequest(
                **head,
                v1=self._v1_packed,
                root=self._root,
                keys=public_keys[node],
                signatures=signatures[node],
                proof=merkle.prove(self._tree, closed),
            )

        return make

    # Step 1, share

    def _deliveries(self, live: Flags, texts: list[Any]) -> MakeRequest:
        self._v2_packed = self._pack(self._graph.ids[self._v2])
        self._masking_text = roster.masking_text(self.context, self._root, self._v2_packed)
        self._signatures = [b""] * self._graph.size
        return lambda node, head: m.MaskAmongRequest(**head, v2=self._v2_packed, sealed=texts[node])

    # Step 2, mask

    def _take_vector(self, client: int, reply: m.MaskReply | m.SignedMaskReply) -> None:
        signature = m.expect(reply, m.SignedMaskReply).signature
        self._verify(client, signature, self._masking_text)
        super()._take_vector(client, reply)
        self._signatures[self._nodes[client]] = signature

    def _news(self) -> MakeRequest:
        self._v3_packed = self._pack(self._graph.ids[self._v3])
        self._confirmed_text = roster.confirmed_text(
            self.context, self._root, self._v2_packed, self._v3_packed
        )
        return lambda node, head: m.ConfirmRequest(**head, v3=self._v3_packed)

    # Step 2c, confirm

    def _take_confirmation(self, client: int, reply: m.ConfirmReply) -> None:
        self._verify(client, reply.signature, self._confirmed_text)
        self._signatures[self._nodes[client]] = reply.signature  # it says more than the one it replaces

    def _close_confirm(self) -> Requests:
        """Shares are asked of those only who can be shown enough confirmations: others would refuse."""
        confirmed = self._answering()
        ready = self._ready(confirmed)
        self._check_reliable(ready)
        near = self._v3[self._graph.columns]
        flags = self._by_node(near, confirmed[self._graph.columns[near]].astype(np.uint8))
        rows = np.frombuffer(
            b"".join(signature or bytes(SIGNATURE_BYTES) for signature in self._signatures), np.uint8
        )
        each = rows.reshape(-1, SIGNATURE_BYTES)[self._graph.columns[near]]
        signatures = self._by_node(near, each)
        return self._requests(
            ready,
            lambda node, head: m.SignedUnmaskRequest(
                **head, confirmed=flags[node], signatures=signatures[node]
            ),
        )

    def _ready(self, alive: Flags) -> Flags:
        """A client releases nothing before t_i of its neighbours have confirmed; itself does not count."""
        return alive & (self._graph.live_neighbours(alive) >= self._thresholds)

    def _pack(self, ids: np.typing.NDArray[np.int64]) -> bytes:
        members = np.zeros(self.config.clients, bool)
        members[ids] = True
        return m.pack_set(members)

    def _verify(self, client: int, signature: bytes, text: bytes) -> None:
        m.exactly("signature", signature, SIGNATURE_BYTES)
        try:
            primitives.verify(self._charter.admission.key(client), signature, text)
        except primitives.BadSignature as error:
            raise MalformedMessage(str(error)) from error
