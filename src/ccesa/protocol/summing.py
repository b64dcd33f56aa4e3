"""Steps 2 and 3 of a server, under every guard: it adds masked vectors up and takes the masks off the sum."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from ccesa.crypto import keys, masks, primitives, shamir
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import CorruptSeeds, CorruptShares, Disconnected, MalformedMessage, Unreliable
from ccesa.evidence import Evidence, WrongShare
from ccesa.graphs.assignment import AssignmentGraph, Evolution, Flags, Nodes, extended, flags, informative
from ccesa.protocol import messages as m
from ccesa.protocol import server_states as states
from ccesa.protocol.drawing import releasing
from ccesa.protocol.server_states import Delivered, Requests, ServerRound, Settled, grow
from ccesa.workers import add_masks_by

#: The round of a server under any guard.
Round: TypeAlias = ServerRound[object]
#: Shares that are joined or checked together; bounds the memory.
AT_ONCE = 1 << 15
#: Searches for wrong shares. One misses a share with a probability of about 2^-32; then the secret is not promised.
TRIES = 2


def check_vector(round: Round, client: int, reply: m.Message) -> memoryview | None:
    """Return the masked vector of a reply, a view of the message; refuse one that was changed on its way."""
    if not isinstance(reply, m.VectorReply):
        return None
    name, make = reply.fingerprint
    if make(m.check(reply, round.config).vector, round.context, client) != getattr(reply, name):
        raise MalformedMessage(f"the masked vector is not the one that its {name} was made of")
    return reply.vector


def check_asked_for(round: Round, reply: m.SummedVector, among: bytes) -> None:
    """Refuse a vector that was masked among others, or for another task, than this server asked for."""
    if reply.task != round.task:
        raise MalformedMessage("a vector for another task than the one that was asked for")
    if reply.among != among:
        raise MalformedMessage("a vector that was masked among another V2 than the one that was sent")


def settle(round: Round, state: Delivered, kept: Iterable[int]) -> Settled:
    """Settle V3. A round that would leak or could not succeed fails here, before any share is asked for."""
    v3 = state.graph.flags(kept)
    check_connected(state.graph, v3)
    check_reliable(state, v3, releasing(round.config, state, v3))
    return grow(Settled, state, v3=v3, released=states.ReleasedShares(state.graph, state.v2))


def check_connected(graph: AssignmentGraph, v3: Flags) -> None:
    """Require, after Theorem 2, that no part of the survivors stands alone in the mask graph."""
    components = graph.mask_components(v3)
    if len(components) > 1:
        raise Disconnected(graph.ids[components[-1]])


def check_reliable(state: Delivered, v3: Flags, holders: Flags) -> None:
    """Require, after Theorem 1, that these holders can rebuild all secrets that the sum over V3 needs."""
    known = informative(state.graph, state.thresholds, holders)
    lost = extended(state.graph, v3, state.v2) & ~known
    if lost.any():
        raise Unreliable(state.graph.ids[lost])


def take_shares(round: Round, state: Settled, client: int, reply: m.UnmaskReply) -> None:
    """Step 3: keep the shares that a client released: of its own secret, and of each of its neighbours' in V2."""
    node = state.graph.nodes[client]
    neighbours = state.released.due(node) - 1  # one share is of its own secret
    state.released.keep(node, m.check(reply, round.config, neighbours).shares)


def unmask(round: Round, state: Settled, kept: Iterable[int]) -> tuple[states.Unmasked, Requests]:
    """Rebuild the secrets and take the masks off the sum: no request is left."""
    v4 = state.graph.flags(kept)
    check_reliable(state, state.v3, v4)
    evolution = Evolution(state.graph, state.thresholds, state.v2, state.v3, v4)
    wrong_shares = Unmasking(round, state, evolution).remove()
    return grow(states.Unmasked, state, evolution=evolution, wrong_shares=wrong_shares), {}


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """The secrets by node, the wrong shares of all of them, and the first failure if one is missing."""

    secrets: dict[int, bytes] = field(repr=False)
    wrong_shares: frozenset[WrongShare]
    failure: CorruptShares | None


@dataclass(frozen=True, kw_only=True)
class Rebuilding:
    """Joins the first t_i shares of each secret; finds the wrong shares if some do not fit."""

    evolution: Evolution
    released: states.ReleasedShares
    #: Whether a secret is the one that a node promised.
    is_promised: Callable[[int, bytes], bool]
    random: shamir.Randomness

    def rebuild(self, needed: Nodes) -> Rebuilt:
        """Rebuild the secrets of these nodes; one that cannot be rebuilt does not stop the others."""
        secrets = {node: one for node, one in self._join_first(needed) if self.is_promised(node, one)}
        misfits = self._misfits(needed)
        wrong: dict[int, Nodes] = {}
        failures: dict[int, CorruptShares] = {}
        for node in needed.tolist():
            if node not in secrets or node in misfits:
                try:
                    secrets[node], wrong[node] = self._correct(node)
                except CorruptShares as failure:
                    failures[node] = failure
        liars = flags(self.evolution.graph.size, np.concatenate([needed[:0], *wrong.values()]))
        for node in failures.keys() - secrets.keys():
            # Too many shares are wrong to be separated, but their senders may be known from other secrets.
            shares = self._shares(node)
            secret = self._join(node, shares, liars[shares.holders])
            if secret is not None:
                secrets[node] = secret
        lost = (failure for node, failure in failures.items() if node not in secrets)
        return Rebuilt(secrets=secrets, wrong_shares=self._name_wrong(wrong), failure=next(lost, None))

    def _join_first(self, needed: Nodes) -> Iterator[tuple[int, bytes]]:
        """Join the shares of the first t_i live holders of each secret, many secrets at a time."""
        enough = needed[self._spare[needed] >= 0]
        for threshold, nodes in self._groups(enough, self.evolution.thresholds):
            shares = self.released.of(nodes, self.evolution.v4, threshold)
            shape = (nodes.size, threshold)
            joined = shamir.join_each(shares.xs.reshape(shape), shares.elements.reshape(*shape, -1))
            secrets = shamir.to_bytes(joined)
            for place, node in enumerate(nodes.tolist()):
                yield node, secrets[place * shamir.SHARE_BYTES : (place + 1) * shamir.SHARE_BYTES]

    def _misfits(self, needed: Nodes) -> set[int]:
        """Find the nodes whose shares do not all fit; secrets with about as many to spare are checked together."""
        some, misfits = needed[self._spare[needed] > 0], set[int]()
        for kind, nodes in self._groups(some, np.frexp(self._spare.astype(np.float64))[1]):
            shares = self.released.of(nodes, self.evolution.v4)
            fits = shamir.fit_each(shares.rows, shares.xs, shares.elements, 1 << (kind - 1), self.random)
            misfits.update(nodes[~fits].tolist())
        return misfits

    def _correct(self, node: int) -> tuple[bytes, Nodes]:
        """Return the promised secret from right shares, and the senders of wrong ones; raises CorruptShares."""
        dealer, shares = int(self.evolution.graph.ids[node]), self._shares(node)
        threshold = int(self.evolution.thresholds[node])
        for _ in range(TRIES):
            try:
                wrong = shamir.wrong_places(shares.xs, shares.elements, threshold, self.random)
            except shamir.TooManyWrong as error:
                raise CorruptShares(dealer, str(error)) from error
            secret = self._join(node, shares, wrong)
            if secret is not None:
                return secret, shares.holders[wrong]
        raise CorruptShares(dealer, "its shares fit together, but not the secret that it promised")

    def _join(self, node: int, shares: states.Shares, wrong: Flags) -> bytes | None:
        """Join the first t_i shares that are not wrong; None if they do not give the promised secret."""
        used = np.flatnonzero(~wrong)[: self.evolution.thresholds[node]]
        if used.size < self.evolution.thresholds[node]:
            return None
        secret = shamir.to_bytes(shamir.join(shares.xs[used], shares.elements[used]))
        return secret if self.is_promised(node, secret) else None

    def _shares(self, node: int) -> states.Shares:
        return self.released.of(np.array([node]), self.evolution.v4)

    def _name_wrong(self, wrong: dict[int, Nodes]) -> frozenset[WrongShare]:
        ids = self.evolution.graph.ids
        return frozenset(
            WrongShare(sender, int(ids[node]), int(self._spare[node]) // 2)
            for node, senders in wrong.items()
            for sender in ids[senders].tolist()
        )

    def _groups(self, nodes: Nodes, kinds: Nodes) -> Iterator[tuple[int, Nodes]]:
        """Yield the nodes of each kind, in parts of about AT_ONCE shares."""
        for kind in np.unique(kinds[nodes]).tolist():
            some = nodes[kinds[nodes] == kind]
            shares = (self._spare + self.evolution.thresholds)[some].sum()
            for part in np.array_split(some, -(-int(shares) // AT_ONCE)):
                yield kind, part

    @cached_property
    def _spare(self) -> Nodes:
        """Count the shares of every node that came beyond its threshold."""
        graph, v4 = self.evolution.graph, self.evolution.v4
        return graph.live_neighbours(v4) + v4 - self.evolution.thresholds


class Unmasking:
    """Opens the sum over V3 with secrets that are public by now."""

    def __init__(self, round: Round, state: Settled, evolution: Evolution) -> None:
        self.round, self.state, self.evolution = round, state, evolution
        self._agreement = AGREEMENTS[round.config.agreement]
        self._clients: list[int] = evolution.graph.ids.tolist()
        self._survived: list[bool] = evolution.v3.tolist()
        #: The keys behind promised secrets, which were made to check these.
        self._private_keys: dict[int, primitives.PrivateKey] = {}

    def remove(self) -> frozenset[WrongShare]:
        """Turn the masked total into the sum, in place; return the wrong shares, or raise CorruptShares with them."""
        rebuilt = self._rebuilt()
        failure = rebuilt.failure or self._broken_promise(rebuilt.secrets)
        if failure is not None:
            failure.evidence = Evidence(wrong_shares=rebuilt.wrong_shares)
            raise failure
        every = [mask for node, secret in rebuilt.secrets.items() for mask in self._masks_of(node, secret)]
        add_masks_by(self.round.executor, self.state.total, every, self.round.config.generator, self.round.threads)
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
        """Tell whether a survivor committed to this secret, or the mask key of a dropout comes from it."""
        client = self._clients[node]
        if self._survived[node]:
            commitment = self.state.commitments[node].tobytes()
            return keys.commitment(secret, self.round.context, client) == commitment
        self._private_keys[node] = keys.mask_private_key(secret, self.round.context, client)
        return primitives.public_key(self._private_keys[node]) == self.state.mask_keys[node]

    def _masks_of(self, node: int, secret: bytes) -> Iterator[masks.Mask]:
        """Yield the masks that take a survivor's self mask off the total, or a dropout's masks with survivors."""
        client, context, generator = self._clients[node], self.round.context, self.round.config.generator
        if self._survived[node]:
            yield masks.Mask(keys.self_mask_key(secret, context, client, generator), -1)
            return
        mask_keys, near = self.state.mask_keys, self._masked_with(node)
        every = primitives.agree_each(self._private_keys[node], [mask_keys[neighbour] for neighbour in near])
        for neighbour, agreed in zip(near, every, strict=True):
            other = self._clients[neighbour]  # a survivor, which applied the mask with its own sign
            given, received = self._seeds(node, neighbour, secret)
            here, there = (keys.Half(client, mask_keys[node], given), keys.Half(other, mask_keys[neighbour], received))
            common = self._agreement.pair_secret(agreed, context, here, there)
            key = keys.pair_mask_key(common, context, client, other, generator)
            yield masks.Mask(key, -keys.pair_sign(other, client))

    def _masked_with(self, node: int) -> list[int]:
        near = self.evolution.graph.mask_neighbours(node)
        return near[self.evolution.v3[near]].tolist()

    def _broken_promise(self, secrets: dict[int, bytes]) -> CorruptSeeds | None:
        """Find a node that dropped out and broke its promises of seeds or deposits: nobody else can have done this."""
        if not self._agreement.commitment_bytes:
            return None
        dropped = (node for node in secrets if not self._survived[node])
        liar = next((node for node in dropped if not self._keeps_promises(node, secrets[node])), None)
        return None if liar is None else CorruptSeeds(self._clients[liar])

    def _keeps_promises(self, node: int, secret: bytes) -> bool:
        """Tell whether the seeds that a node gave and was given match the commitments to them."""
        client, promised = self._clients[node], self.state.seeds.commitment
        bound = partial(self._agreement.seed_commitment, context=self.round.context)
        for neighbour in self._masked_with(node):
            other = self._clients[neighbour]
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
        between = self.round.context, self._clients[node], self._clients[neighbour]
        deposit = self.state.seeds.deposit(node, neighbour)
        return self._agreement.pair_seed(secret, *between), self._agreement.withdraw(secret, deposit, *between)
