"""The server of one round: replies in, requests out, no clock, no socket.

The caller decides when a step closes. Until then replies are taken one by one; a faulty one raises and
changes nothing. Masked vectors go into one running sum and are dropped, so memory is O(m + edges).
"""

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ccesa import labels, words
from ccesa.config import RoundConfig
from ccesa.crypto import keys, primitives, shamir
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES
from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import (
    ConfigError,
    ConflictingMessage,
    Disconnected,
    FaultyClient,
    LateMessage,
    MalformedMessage,
    OrderError,
    RoundFailed,
    TooFewClients,
    Unreliable,
)
from ccesa.evidence import Complained, Evidence
from ccesa.graphs.assignment import Flags, draw
from ccesa.graphs.components import check_scipy
from ccesa.graphs.evolution import Evolution, extended, flags, informative
from ccesa.parts import whole_number
from ccesa.protocol import messages as m
from ccesa.protocol.released_shares import ReleasedShares
from ccesa.protocol.steps import STEPS, Step
from ccesa.protocol.turns import Turns
from ccesa.protocol.unmasking import Unmasking
from ccesa.wire import Data
from ccesa.words import Vector

Requests = dict[int, bytes]
#: Of a node and the head of its message, the request.
MakeRequest = Callable[[int, dict[str, Any]], m.Message]
Bundle = m.AdvertiseReply | m.SignedAdvertiseReply


@dataclass(frozen=True, kw_only=True, eq=False)
class Aggregate:
    """The sum over the survivors V3, and how it came about."""

    vector: Vector = field(repr=False)
    survivors: tuple[int, ...]
    #: Wrong shares and complaints, as pairs of clients of whom one lied, or the network did.
    evidence: Evidence
    evolution: Evolution = field(repr=False)


class Server:
    """One round. ``open`` it, give it every reply, ``close`` each step, until no requests are left.

    Calls must not overlap; one that does is refused, and so is everything after one that was interrupted.
    """

    guard: ClassVar[str] = "curious"

    def __init__(
        self, config: RoundConfig, *, threads: int = 1, random: shamir.Randomness = os.urandom
    ) -> None:
        if config.guard != self.guard:
            raise ConfigError(f"this server has guard = {self.guard}, the round has {config.guard}")
        threads = whole_number("threads", threads)
        if threads < 1:
            raise ConfigError(f"threads must be at least 1, not {threads}")
        check_scipy()  # before a client has sent anything
        self.config = config
        self.context = config.context
        self.aggregate: Aggregate | None = None
        self.failure: RoundFailed | None = None
        self._threads = threads
        self._random = random
        self._turns = Turns("server", fragile=True)
        self._steps = STEPS[config.guard]
        self._places = {kind: place for place, step in enumerate(self._steps) for kind in step.replies}
        self._current = -1
        self._expected: frozenset[int] = frozenset(range(config.clients))
        self._answered: dict[int, bytes] = {}
        #: Who complained of whom, instead of answering.
        self._complaints: set[Complained] = set()
        self._take: dict[str, Callable[[int, Any], None]] = {
            "advertise": self._take_keys,
            "share": self._take_sealed,
            "mask": self._take_vector,
            "unmask": self._take_shares,
        }
        self._close: dict[str, Callable[[], Requests]] = {
            "advertise": self._close_advertise,
            "share": self._close_share,
            "mask": self._close_mask,
            "unmask": self._close_unmask,
        }
        self._advertised: dict[int, Bundle] = {}
        self._public_keys: set[bytes] = set()
        self._total = words.zeros(config.length, config.bits)

    @property
    def step(self) -> Step:
        """The step that is open."""
        if self._current < 0:
            raise OrderError("the round has not been opened")
        if self.finished:
            raise OrderError("the round is over")
        return self._steps[self._current]

    @property
    def finished(self) -> bool:
        return self.aggregate is not None or self.failure is not None

    @property
    def waiting(self) -> frozenset[int]:
        """Clients whose reply is still due in this step."""
        return self._expected - self._answered.keys()

    def open(self) -> Requests:
        """Start step 0: the same request to every client, but for its id."""
        with self._turns:
            if self._current >= 0:
                raise OrderError("the round has been opened already")
            self._current = 0
            return {
                client: m.AdvertiseRequest(context=self.context, client=client).encode()
                for client in sorted(self._expected)
            }

    def receive(self, client: int, reply: bytes) -> None:
        """Take one reply; a faulty one raises FaultyClient and changes nothing."""
        client = whole_number("client id", client)
        view = m.measured(reply, "reply")
        with self._turns:
            self._receive(client, view)

    def close(self) -> Requests:
        """Close the step. Returns the requests of the next one; none when the round is over."""
        with self._turns:
            return self._close_step()

    def result(self) -> Aggregate:
        """The sum, once the round is over; the failure, if there is none."""
        if self.failure is not None:
            raise self.failure
        if self.aggregate is None:
            raise OrderError(f"the round is in step {self.step.name}; there is no sum yet")
        return self.aggregate

    def _receive(self, client: int, reply: Data) -> None:
        step = self.step
        if not 0 <= client < self.config.clients:
            raise FaultyClient(client, "was never enrolled")
        kind = self._due(client, m.named(reply), step)
        try:
            message = m.decode(reply, m.limit(kind, self.config))
        except MalformedMessage as error:
            raise FaultyClient(client, str(error)) from error
        self._check_addressed(client, message, step)
        try:
            kept = self._kept(client, message, reply)
            if self._is_repeated(client, kept, step):
                return
            if isinstance(message, m.Complaint):
                self._take_complaint(client, message)
            else:
                self._take[step.name](client, message)
        except (MalformedMessage, primitives.LowOrderKey, shamir.OutsideField) as error:
            raise FaultyClient(client, str(error)) from error
        self._answered[client] = kept

    def _kept(self, client: int, message: m.Message, reply: Data) -> bytes:
        """What a repeated answer is known by: small ones as they are, vectors by the digest they carry."""
        if isinstance(message, m.MaskReply | m.SignedMaskReply):
            return self._checked_digest(client, message)
        return bytes(reply)

    def _is_repeated(self, client: int, kept: bytes, step: Step) -> bool:
        first = self._answered.get(client)
        if first is not None and first != kept:
            raise ConflictingMessage(client, f"a second, different answer to step {step.name}")
        return first is not None

    def _close_step(self) -> Requests:
        step = self.step
        last = step is self._steps[-1]  # V3 is the sum; of V4 only the shares count
        answered = len(self._staying())
        try:
            if not last:
                self._check_number(answered, "answered")
            requests = self._close[step.name]()
            if not last:
                self._check_number(len(requests), f"of {answered} have enough neighbours left")
        except RoundFailed as failure:
            failure.evidence = replace(failure.evidence, complaints=frozenset(self._complaints))
            self.failure = failure
            raise
        self._current += 1
        self._expected, self._answered = frozenset(requests), {}
        return requests

    def _due(self, client: int, kind: type[m.Message] | None, step: Step) -> type[m.Message]:
        """The kind of this reply, if one of its kind is due now; nothing else is worth being parsed."""
        place = None if kind is None else self._places.get(kind)
        if kind is None or place is None:
            raise FaultyClient(
                client, f"expected {step.reply.__struct_config__.tag}, got no reply of this guard"
            )
        if place < self._current:
            raise LateMessage(client, f"step {self._steps[place].name} has closed")
        if place > self._current:
            raise FaultyClient(client, f"step {self._steps[place].name} has not opened yet")
        return kind

    def _check_addressed(self, client: int, message: m.Message, step: Step) -> None:
        if message.context != self.context:
            raise FaultyClient(client, "a message of another round, or of another configuration")
        if message.client != client:
            raise FaultyClient(client, "a message in the name of", message.client)
        if client not in self._expected:
            raise LateMessage(client, f"it was out before step {step.name}")

    def _check_number(self, left: int, how: str) -> None:
        least = self.config.min_survivors
        if left < least:
            raise TooFewClients(f"step {self.step.name}: {left} {how}, the round needs {least}")

    # Step 0, advertise

    def _take_keys(self, client: int, reply: Bundle) -> None:
        both = (
            m.exactly("sealing_key", reply.sealing_key, PUBLIC_KEY_BYTES),
            m.exactly("mask_key", reply.mask_key, PUBLIC_KEY_BYTES),
        )
        for key in both:
            primitives.check_public_key(key)
        if both[0] == both[1] or not self._public_keys.isdisjoint(both):
            raise MalformedMessage("a public key that was advertised before")
        self._public_keys.update(both)
        self._advertised[client] = reply

    def _close_advertise(self) -> Requests:
        """V1 is complete: draw the graph over it, from a seed that is fixed only now that all keys are in."""
        ids = np.array(sorted(self._advertised), np.int64)
        pairs = [self._advertised[client] for client in ids.tolist()]
        seed = labels.digest(labels.GRAPH_SEED, self.context, self._commit(pairs))
        self._graph = draw(self.config.graph, seed, ids)
        self._nodes = {client: node for node, client in enumerate(ids.tolist())}
        self._mask_keys = [pair.mask_key for pair in pairs]
        self._thresholds = np.array([self.config.threshold.of(d) for d in self._graph.degrees.tolist()])
        self._sealed = [bytes(int(d) * keys.SEALED_BYTES) for d in self._graph.degrees]
        self._commitments = [b""] * ids.size
        return self._requests(self._fit(), self._introductions(pairs))

    def _commit(self, pairs: list[Bundle]) -> bytes:
        """The root: a digest of all that V1 advertised."""
        roster = [labels.client_bytes(pair.client) + pair.sealing_key + pair.mask_key for pair in pairs]
        return labels.digest(labels.ROSTER, self.context, b"".join(roster))

    def _introductions(self, pairs: list[Bundle]) -> MakeRequest:
        """Each client learns its neighbours and their keys."""
        every = np.ones(self._graph.columns.size, bool)
        neighbours = self._ids_by_node(every)
        public_keys = self._of_neighbours([pair.sealing_key + pair.mask_key for pair in pairs])
        masked = self._by_node(every, self._graph.masked.astype(np.uint8))
        return lambda node, head: m.ShareRequest(
            **head, neighbours=neighbours[node], keys=public_keys[node], masked=masked[node]
        )

    # Step 1, share

    def _take_sealed(self, client: int, reply: m.ShareReply) -> None:
        node = self._nodes[client]
        degree = int(self._graph.degrees[node])
        m.exactly("commitment", reply.commitment, keys.COMMITMENT_BYTES)
        m.exactly("sealed", reply.sealed, degree * keys.SEALED_BYTES)
        self._sealed[node] = reply.sealed
        self._commitments[node] = reply.commitment

    def _close_share(self) -> Requests:
        self._v2 = self._pruned(self._answering())
        sealed = np.frombuffer(b"".join(self._sealed), np.uint8).reshape(-1, keys.SEALED_BYTES)
        self._sealed = []
        live = self._v2[self._graph.columns]
        texts = self._by_node(live, np.take(sealed, self._graph.reverse[live], axis=0))
        return self._requests(self._v2, self._deliveries(live, texts))

    def _deliveries(self, live: Flags, texts: list[Any]) -> MakeRequest:
        """Each client learns which neighbours are left, and gets what these sealed for it."""
        dropped = self._ids_by_node(~live)
        return lambda node, head: m.MaskRequest(**head, dropped=dropped[node], sealed=texts[node])

    # Step 2, mask

    def _checked_digest(self, client: int, reply: m.MaskReply | m.SignedMaskReply) -> bytes:
        """A vector that was changed on its way would be a wrong sum."""
        m.exactly("vector", reply.vector, self.config.vector_bytes)
        digest = keys.vector_digest(reply.vector, self.context, client)
        if digest != reply.digest:
            raise MalformedMessage("the masked vector is not the one that its digest was made of")
        return digest

    def _take_vector(self, client: int, reply: m.MaskReply | m.SignedMaskReply) -> None:
        vector = words.from_bytes(reply.vector, self.config.bits)
        np.add(self._total, vector, out=self._total)

    def _take_complaint(self, client: int, reply: m.Complaint) -> None:
        """The client is out of the round, like one that has dropped, and says why."""
        accused = m.unpack_ids("accused", reply.accused, self.config.clients)
        near = self._graph.neighbours(self._nodes[client])
        if not accused.size or not np.isin(accused, self._graph.ids[near[self._v2[near]]]).all():
            raise MalformedMessage("a complaint of nobody, or of somebody whose shares it was not sent")
        self._complaints |= {Complained(client, one) for one in accused.tolist()}

    def _close_mask(self) -> Requests:
        """V3 is known. Whatever would leak or could not succeed fails here, before any share is asked for."""
        self._v3 = self._answering()
        self._check_connected(self._v3)
        self._check_reliable(self._ready(self._v3))
        self._released = ReleasedShares(self._graph, self._v2)
        return self._requests(self._v3, self._news())

    def _news(self) -> MakeRequest:
        """Each client learns which of its neighbours dropped after sharing."""
        far = self._graph.columns
        dropped = self._ids_by_node(self._v2[far] & ~self._v3[far])
        return lambda node, head: m.UnmaskRequest(**head, dropped=dropped[node])

    def _check_connected(self, v3: Flags) -> None:
        components = self._graph.mask_components(v3)
        if len(components) > 1:
            raise Disconnected(self._graph.ids[components[-1]])

    def _check_reliable(self, holders: Flags) -> None:
        known = informative(self._graph, self._thresholds, holders)
        lost = extended(self._graph, self._v3, self._v2) & ~known
        if lost.any():
            raise Unreliable(self._graph.ids[lost])

    # Step 3, unmask

    def _take_shares(self, client: int, reply: m.UnmaskReply) -> None:
        node = self._nodes[client]
        self._released.keep(node, m.exactly("shares", reply.shares, self._released.bytes_from(node)))

    def _close_unmask(self) -> Requests:
        v4 = self._answering()
        self._check_reliable(v4)
        evolution = Evolution(self._graph, self._thresholds, self._v2, self._v3, v4)
        wrong_shares = Unmasking(
            config=self.config,
            context=self.context,
            evolution=evolution,
            mask_keys=self._mask_keys,
            commitments=self._commitments,
            released=self._released,
            threads=self._threads,
            random=self._random,
        ).remove(self._total)
        self.aggregate = Aggregate(
            vector=self._total,
            survivors=evolution.ids(self._v3),
            evidence=Evidence(wrong_shares=wrong_shares, complaints=frozenset(self._complaints)),
            evolution=evolution,
        )
        return {}

    def _staying(self) -> set[int]:
        """Who answered the open step; whoever complained in it did not."""
        return self._answered.keys() - {one.accuser for one in self._complaints}

    def _answering(self) -> Flags:
        """The same as flags of the graph's nodes."""
        return flags(self._graph.size, [self._nodes[client] for client in self._staying()])

    def _fit(self) -> Flags:
        """Who can take part: with one to mask with, enough to share with, and no two sets of t_i holders."""
        graph, thresholds = self._graph, self._thresholds
        masks = graph.live_mask_neighbours(np.ones(graph.size, bool))
        most = np.array([self.config.largest_threshold(degree) for degree in graph.degrees.tolist()])
        holders = graph.degrees + 1
        return (masks >= 1) & (holders <= MAX_HOLDERS) & (thresholds <= most) & (holders < 2 * thresholds)

    def _ready(self, alive: Flags) -> Flags:
        """Who of them would release shares in the end, if nobody else left."""
        return alive

    def _pruned(self, alive: Flags) -> Flags:
        """V2: leave out clients with too few live neighbours to share or to mask with, until none is left."""
        graph = self._graph
        while True:
            enough = informative(graph, self._thresholds, self._ready(alive))
            kept = alive & enough & (graph.live_mask_neighbours(alive) > 0)
            if (kept == alive).all():
                return kept
            alive = kept

    def _requests(self, to: Flags, make: MakeRequest) -> Requests:
        """One request for each of these nodes; ``make`` gets the node and the head of its message."""
        clients = self._graph.ids.tolist()
        return {
            clients[node]: make(node, {"context": self.context, "client": clients[node]}).encode()
            for node in np.flatnonzero(to).tolist()
        }

    def _of_neighbours(self, items: list[bytes]) -> list[Any]:
        """For every node, the items of its neighbours, one after the other; all have the same size."""
        rows = np.frombuffer(b"".join(items), np.uint8).reshape(self._graph.size, -1)
        every = np.ones(self._graph.columns.size, bool)
        return self._by_node(every, np.take(rows, self._graph.columns, axis=0))

    def _ids_by_node(self, edges: Flags) -> list[Any]:
        """For every node, the packed ids at the far ends of those of its edges."""
        return self._by_node(edges, self._graph.ids[self._graph.columns[edges]].astype("<u4"))

    def _by_node(self, edges: Flags, items: NDArray[Any]) -> list[Any]:
        """Packed items, one for each of these edges, cut into one view for every node."""
        width = items.itemsize * (items.shape[1] if items.ndim > 1 else 1)
        places = np.concatenate([[0], np.cumsum(edges)])[self._graph.starts] * width
        packed = items.view(np.uint8).ravel().data
        return [packed[first:last] for first, last in itertools.pairwise(places.tolist())]
