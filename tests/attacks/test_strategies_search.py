"""The search over a lying server's strategies: nothing with all rules, S2 and S19 by itself with one off."""

import itertools
from random import Random

import numpy as np
import pytest

from attacks.strategies import describe, exposed_leaf, exposed_pair, search_large, search_small, tell
from attacks.strategy_model import Rules, World, judge, members
from attacks.strategy_search import Record, climb, exhaust
from attacks.strategy_worlds import count_strategies, in_use, options, random_world, small_worlds, smaller

THRESHOLDS = [in_use, smaller]


# A second judgement, with sets and linear algebra instead of bits and components.


def opened_slowly(world: World, rules: Rules, v2: list[set[int]], v3: list[set[int]]):
    """(both secrets of someone open, sizes of the supports that a sum can be reduced to, for each client)"""
    clients = range(world.honest)
    near = [set(world.neighbours(u)) for u in clients]

    def accepts(w, shown):
        return w in shown and len(shown & near[w]) + world.colluders[w] + 1 >= world.thresholds[w]

    def confirms(w, u):
        same = v3[w] == v3[u] if rules.one_confirmation else accepts(w, v3[u])
        return v2[w] == v2[u] and same

    def releases(u):
        living = near[u] & v3[u]
        if rules.same_v2 and any(v2[w] != v2[u] for w in living):
            return False
        number = sum(confirms(w, u) for w in living) + world.colluders[u]
        return number >= world.thresholds[u] or not rules.count_confirmations

    released = {u for u in clients if releases(u)}
    b, s = set(), set()
    for i in clients:
        holders = [u for u in released & near[i] if i in v2[u]]
        of_b = sum(i in v3[u] for u in holders) + (i in released) + world.colluders[i]
        of_s = sum(i not in v3[u] for u in holders) + world.colluders[i]
        b |= {i} if of_b >= world.thresholds[i] else set()
        s |= {i} if of_s >= world.thresholds[i] else set()
    unknown = [("b", i) for i in clients if i not in b]
    unknown += [("p", i, w) for i, w in itertools.combinations(clients, 2) if w in near[i] and not {i, w} & s]
    masks = np.zeros((len(unknown), world.honest))
    for row, (kind, *who) in enumerate(unknown):
        for sign, i in zip((1, -1), who, strict=False):
            masks[row, i] = sign if kind == "b" or (set(who) - {i}) <= v2[i] else 0
    return bool(b & s), {i: smallest_sum(masks, i, world.honest) for i in clients}


def smallest_sum(masks: np.ndarray, client: int, honest: int) -> int:
    """How many vectors a combination without masks needs if this client's is in it; 0 if there is none."""
    others = [i for i in range(honest) if i != client]
    for size in range(honest):
        for chosen in itertools.combinations(others, size):
            columns = masks[:, [client, *chosen]]
            rest = columns[:, 1:]
            if np.linalg.matrix_rank(columns) == (np.linalg.matrix_rank(rest) if size else 0):
                return size + 1
    return 0


@pytest.mark.parametrize("threshold", THRESHOLDS, ids=["in-use", "smaller"])
@pytest.mark.parametrize("flags", list(itertools.product((True, False), repeat=3)), ids=str)
def test_bits_and_linear_algebra_agree(flags, threshold):
    rules = Rules(one_confirmation=flags[0], count_confirmations=flags[1], same_v2=flags[2])
    rng, random = np.random.default_rng(1), Random(1)
    for _ in range(4):
        world = random_world(random, random.randint(4, 6), threshold)
        views = [options(world, u) for u in range(world.honest)]
        # Few different views, or no signature would ever fit.
        picks = [rng.integers(0, min(len(v[0]), 4), 12) - 1 for v in views]
        v2 = np.stack([v[0][p] for v, p in zip(views, picks, strict=True)])
        v3 = np.stack([v[1][p] for v, p in zip(views, picks, strict=True)])
        opened = judge(world, rules, v2, v3)
        for k in range(v2.shape[1]):
            seen = [[set(members(int(word))) for word in sets[:, k]] for sets in (v2, v3)]
            both, sizes = opened_slowly(world, rules, *seen)
            assert both == opened.both[:, k].any()
            assert [int(word).bit_count() for word in opened.sums[:, k]] == list(sizes.values())


def test_s2_s19_nothing_is_found_with_all_rules_in_all_small_worlds():
    record = search_small(Rules(), in_use)
    assert (record.wins, record.worlds, record.strategies) == (0, 63, 647_823)
    assert record.spare >= 0
    assert "nothing" in describe(record)


def test_s2_s19_nothing_is_found_with_the_smaller_threshold_in_all_small_worlds():
    record = search_small(Rules(), smaller)
    assert (record.wins, record.worlds, record.strategies) == (0, 63, 6_011_132)
    assert record.spare >= 0


@pytest.mark.parametrize("threshold", THRESHOLDS, ids=["in-use", "smaller"])
@pytest.mark.parametrize("world", [exposed_pair, exposed_leaf])
def test_s2_s19_climbing_finds_nothing_with_all_rules_where_it_finds_both_without(world, threshold):
    record = Record(rules=Rules())
    climb(record, world(threshold), np.random.default_rng(0), steps=60, chains=512)
    assert record.wins == 0
    assert record.strategies == 30_720


def test_s2_is_found_where_clients_confirm_several_v3():
    record = Record(rules=Rules(one_confirmation=False))
    found_by_climbing(record, exposed_leaf(in_use))
    assert record.best.size == 1
    assert len(set(record.best.v3)) > 1
    assert "the sum of {7} opens" in tell(record.best)


def test_s2_is_found_among_five_clients_where_no_confirmation_is_counted():
    fewest = min(small_worlds(5, 0, in_use), key=count_strategies)
    record = exhaust([fewest], Rules(count_confirmations=False))
    assert (record.wins, record.best.size) == (224, 1)


def test_s19_is_found_where_v2_is_not_signed():
    record = Record(rules=Rules(same_v2=False))
    found_by_climbing(record, exposed_pair(in_use))
    assert record.best.size == 2
    assert len(set(record.best.v2)) > 1
    assert "was promised 3 honest ones" in tell(record.best)


def test_without_r2_the_smaller_threshold_loses_both_secrets_of_a_client():
    record = exhaust(small_worlds(4, 0, smaller), Rules(one_confirmation=False))
    assert record.best.size == 1
    assert record.best.judge().both.any()


def test_colluders_change_nothing_but_the_threshold():
    """Each adds one to t and one to every count: the same strategies, the same sums."""
    for one, other in zip(small_worlds(3, 0, in_use), small_worlds(3, 0, in_use), strict=True):
        world = World(near=other.near, colluders=(2,) * 3, thresholds=tuple(t + 2 for t in other.thresholds))
        assert exhaust([one], Rules()) == exhaust([world], Rules())


@pytest.mark.slow
@pytest.mark.parametrize("threshold", THRESHOLDS, ids=["in-use", "smaller"])
def test_s2_s19_nothing_is_found_in_ten_minutes(threshold):
    record = search_large(Rules(), threshold, clients=10, seconds=300)
    assert record.wins == 0
    assert record.spare >= 0


@pytest.mark.slow
def test_s2_s19_nothing_is_found_among_any_five_honest_clients():
    record = exhaust(small_worlds(5, 0, in_use), Rules())
    assert (record.wins, record.worlds) == (0, 21)


def found_by_climbing(record: Record, world: World) -> None:
    generator = np.random.default_rng(0)
    for _ in range(8):
        climb(record, world, generator, steps=120, chains=1500)
        if record.best is not None:
            return
    raise AssertionError("not found")
