"""A server rebuilds the secrets behind the masks, and finds the wrong shares among all that came."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ccesa.crypto import shamir
from ccesa.errors import CorruptShares
from ccesa.evidence import WrongShare
from ccesa.graphs.assignment import Flags, Nodes
from ccesa.graphs.evolution import Evolution, flags
from ccesa.protocol.released_shares import ReleasedShares, Shares

#: Shares that are joined or checked together; bounds the memory.
AT_ONCE = 1 << 15
#: A wrong share is missed with a probability of about 2^-32. If it is among those that are joined, the secret
#: is not the promised one, and the wrong shares are looked for once more.
TRIES = 2


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """Holds the secrets by node, the wrong shares of all of them, and the first failure if one is missing."""

    secrets: dict[int, bytes] = field(repr=False)
    wrong_shares: frozenset[WrongShare]
    failure: CorruptShares | None


@dataclass(frozen=True, kw_only=True)
class Rebuilding:
    """Joins the first t_i shares of each secret; where these or others do not fit, finds the wrong ones."""

    evolution: Evolution
    released: ReleasedShares
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
            # Too many shares are wrong to be told apart, but their senders may be known from other secrets.
            shares = self._shares(node)
            secret = self._join(node, shares, liars[shares.holders])
            if secret is not None:
                secrets[node] = secret
        lost = (failure for node, failure in failures.items() if node not in secrets)
        return Rebuilt(secrets=secrets, wrong_shares=self._named(wrong), failure=next(lost, None))

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
        """Find the nodes whose shares do not all lie on one polynomial, if there are shares to spare.

        Secrets are checked together where none has twice as many to spare as another: half of them is what
        can be told apart anyway.
        """
        some = needed[self._spare[needed] > 0]
        found: set[int] = set()
        for kind, nodes in self._groups(some, np.frexp(self._spare.astype(np.float64))[1]):
            shares = self.released.of(nodes, self.evolution.v4)
            fits = shamir.fit_each(shares.rows, shares.xs, shares.elements, 1 << (kind - 1), self.random)
            found.update(nodes[~fits].tolist())
        return found

    def _correct(self, node: int) -> tuple[bytes, Nodes]:
        """Return the promised secret from right shares, and who sent wrong ones; raises CorruptShares."""
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

    def _join(self, node: int, shares: Shares, wrong: Flags) -> bytes | None:
        """Join the first t_i shares that are not wrong; None if they do not give the promised secret."""
        used = np.flatnonzero(~wrong)[: self.evolution.thresholds[node]]
        if used.size < self.evolution.thresholds[node]:
            return None
        secret = shamir.to_bytes(shamir.join(shares.xs[used], shares.elements[used]))
        return secret if self.is_promised(node, secret) else None

    def _shares(self, node: int) -> Shares:
        return self.released.of(np.array([node]), self.evolution.v4)

    def _named(self, wrong: dict[int, Nodes]) -> frozenset[WrongShare]:
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
