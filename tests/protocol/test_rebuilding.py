"""Secrets rebuilt from all that came: what is found is what decoding element by element gives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.crypto import columns
from ccesa.crypto import shamir
from ccesa.crypto.shamir import FIELD, TooManyWrong
from ccesa.evidence import WrongShare
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import Evolution, draw
from ccesa.protocol.server_states import ReleasedShares
from ccesa.protocol.summing import Rebuilding
from strategies import randomness, seeds

GRAPHS = st.sampled_from([Complete(), ErdosRenyi(p=0.7), Harary(degree=8)])


class Tale:
    """Every secret of a round with its shares as they came, and what was promised."""

    def __init__(self, kind, size: int, liars: float, crooks: float, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        graph = draw(kind, self.rng.bytes(32), np.sort(self.rng.permutation(100)[:size]))
        thresholds = (graph.degrees + 1) // 2 + 1
        v4 = self.rng.random(size) < 0.9
        v2 = v4 | (self.rng.random(size) < 0.5)
        self.evolution = Evolution(graph, thresholds, v2, v4, v4)
        self.near = [sorted([i, *graph.neighbours(i).tolist()]) for i in range(size)]
        self.promised = [shamir.random_elements(self.rng.bytes, 16) for _ in range(size)]
        self.shares = [self._dealt(i, self.rng.random() < crooks) for i in range(size)]
        self._lie(np.flatnonzero(self.rng.random(size) < liars))
        self.released = ReleasedShares(graph, v2)
        for holder in np.flatnonzero(v4).tolist():
            rows = [self._share(dealer, holder) for dealer in self.near[holder] if v2[dealer]]
            self.released.keep(holder, b"".join(map(shamir.to_bytes, rows)))

    def _dealt(self, node: int, crooked: bool) -> np.ndarray:
        threshold, holders = int(self.evolution.thresholds[node]), len(self.near[node])
        secret, kind = self.promised[node], self.rng.integers(3) if crooked else 3
        if kind == 0:  # on no polynomial
            return self.rng.integers(0, FIELD, (holders, 16)).astype(np.uint16)
        if kind == 1:  # of another secret
            secret = shamir.random_elements(self.rng.bytes, 16)
        if holders < threshold:
            return np.zeros((holders, 16), np.uint16)
        shares = shamir.split(secret, threshold, holders, self.rng.bytes)
        if kind == 2:  # a few of them wrong
            shares[self.rng.random(holders) < 0.15, 5] = 7
        return shares

    def _share(self, dealer: int, holder: int) -> np.ndarray:
        return self.shares[dealer][self.near[dealer].index(holder)]

    def _lie(self, liars: np.ndarray) -> None:
        for liar in liars.tolist():
            part, only = self.rng.choice([0.1, 0.6, 1.0]), self.rng.random() < 0.5
            for dealer in self.near[liar]:
                if self.rng.random() < part:
                    share = self._share(dealer, liar)
                    words = slice(3, 4) if only else slice(None)
                    share[words] = (share[words].astype(np.int64) + 1 + 5 * liar) % FIELD

    def rebuilt(self, needed):
        return Rebuilding(
            evolution=self.evolution,
            released=self.released,
            is_promised=lambda node, secret: secret == shamir.to_bytes(self.promised[node]),
            random=randomness(1),
        ).rebuild(np.array(needed, np.int64))

    def expected(self, needed):
        """By hand: the first shares; all of them decoded; those beside the liars that other secrets show."""
        known, wrong = set(), set()
        for node in needed:
            known |= {node} if self._gives(node, []) else set()
            places = self._wrong(node)
            if places is not None and self._gives(node, places):
                known.add(node)
                ids, live, t = self.evolution.graph.ids, self.live(node), int(self.evolution.thresholds[node])
                sure = (len(live) - t) // 2
                wrong |= {WrongShare(int(ids[live[place]]), int(ids[node]), sure) for place in places}
        liars = {one.sender for one in wrong}
        for node in needed:
            doubted = [k for k, one in enumerate(self.live(node)) if self.evolution.graph.ids[one] in liars]
            known |= {node} if self._gives(node, doubted) else set()
        return known, wrong

    @property
    def is_hard(self) -> bool:
        """Whether some first shares do not give the secret, and all secrets can be had."""
        needed = np.flatnonzero(self.evolution.v3).tolist()
        return self.expected(needed)[0] == set(needed) and not all(self._gives(one, []) for one in needed)

    def live(self, node: int) -> list[int]:
        return [holder for holder in self.near[node] if self.evolution.v4[holder]]

    def _given(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        xs = np.array([self.near[node].index(holder) + 1 for holder in self.live(node)], np.int64)
        return xs, self.shares[node][xs - 1]

    def _wrong(self, node: int) -> list[int] | None:
        try:
            found = columns.wrong_places(*self._given(node), int(self.evolution.thresholds[node]))
        except TooManyWrong:
            return None
        return np.flatnonzero(found).tolist()

    def _gives(self, node: int, without: list[int]) -> bool:
        (xs, shares), t = self._given(node), int(self.evolution.thresholds[node])
        used = np.delete(np.arange(xs.size), without)[:t]
        return used.size == t and bool((shamir.join(xs[used], shares[used]) == self.promised[node]).all())


PARTS = st.sampled_from([0.0, 0.1, 0.3])


@settings(max_examples=80)
@given(GRAPHS, st.integers(9, 24), PARTS, PARTS, seeds)
def test_secrets_and_wrong_shares_are_those_found_element_by_element(kind, size, liars, crooks, seed):
    tale = Tale(kind, size, liars, crooks, seed)
    v3, v2 = tale.evolution.v3, tale.evolution.v2
    needed = [*np.flatnonzero(v3).tolist(), *np.flatnonzero(v2 & ~v3).tolist()]
    known, wrong = tale.expected(needed)
    found = tale.rebuilt(needed)
    assert found.secrets == {node: shamir.to_bytes(tale.promised[node]) for node in known}
    assert found.wrong_shares == wrong
    lost = [node for node in needed if node not in known]
    assert (found.failure is None) == (not lost)
    if found.failure is not None:
        assert found.failure.client == tale.evolution.graph.ids[lost[0]]


def test_a_wrong_share_that_hides_once_is_looked_for_again(monkeypatch):
    """Two combinations miss a wrong share with a probability of about 2^-32, here at the first try."""
    tale = next(tale for tale in (Tale(Complete(), 20, 0.1, 0.0, seed) for seed in range(99)) if tale.is_hard)
    needed, tried, located = np.flatnonzero(tale.evolution.v3).tolist(), set(), shamir.wrong_places

    def blind_at_first(xs, elements, threshold, random):
        if elements.tobytes() in tried:
            return located(xs, elements, threshold, random)
        tried.add(elements.tobytes())
        return np.zeros(xs.size, bool)

    monkeypatch.setattr(shamir, "wrong_places", blind_at_first)
    found = tale.rebuilt(needed)
    assert tried
    assert found.failure is None
    assert found.secrets == {node: shamir.to_bytes(tale.promised[node]) for node in needed}
