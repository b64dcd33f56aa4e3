"""Two ways to look for a strategy that wins: try all of them, or start anywhere and improve."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.strategy_model import SIZES, Opened, Rules, Sets, World, count_shares, has, judge
from attacks.strategy_worlds import all_strategies

Costs = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Win:
    """A strategy that opens what it must not, in its world."""

    world: World
    rules: Rules
    v2: tuple[int, ...]
    v3: tuple[int, ...]
    #: Honest clients in the smallest sum that opens.
    size: int

    def judge(self) -> Opened:
        return judge(
            self.world, self.rules, np.array(self.v2, np.uint16)[:, None], np.array(self.v3, np.uint16)[:, None]
        )


@dataclass(kw_only=True)
class Record:
    """What was searched so far, and what was found."""

    rules: Rules
    worlds: int = 0
    strategies: int = 0
    wins: int = 0
    #: The win with the smallest sum.
    best: Win | None = field(default=None, repr=False)
    #: By how many honest clients the smallest sum that opened exceeds what was promised, at least.
    spare: int | None = None

    def note(self, world: World, v2: Sets, v3: Sets, opened: Opened) -> None:
        self.strategies += v2.shape[1]
        sizes = SIZES[opened.sums]
        found = opened.sums > 0
        if found.any():
            spare = int((sizes - np.array(world.minimum)[:, None])[found].min())
            self.spare = spare if self.spare is None else min(self.spare, spare)
        won = np.flatnonzero(opened.won)
        self.wins += won.size
        if won.size:
            smallest = np.where(found, sizes, world.honest)[:, won].min(axis=0)
            place = int(won[smallest.argmin()])
            size = int(smallest.min())
            if self.best is None or size < self.best.size:
                shown = (tuple(sets[:, place].tolist()) for sets in (v2, v3))
                self.best = Win(world=world, rules=self.rules, v2=next(shown), v3=next(shown), size=size)


def exhaust(worlds: Iterable[World], rules: Rules) -> Record:
    """Every strategy in each of these worlds."""
    record = Record(rules=rules)
    for world in worlds:
        record.worlds += 1
        for v2, v3 in all_strategies(world):
            record.note(world, v2, v3, judge(world, rules, v2, v3))
    return record


def climb(
    record: Record, world: World, generator: Generator, *, camps: int = 2, steps: int = 150, chains: int = 2048
) -> None:
    """Many walks at once, until one wins. A step towards that is taken, one away from it sometimes.

    The server tells as many different stories as there are camps.
    """
    record.worlds += 1
    told = _start(world, generator, camps, chains)
    target = _targets(world, generator, chains)
    cost = np.full(chains, np.inf)
    for step in range(steps):
        changed = _changed(world, generator, told)
        v2, v3 = _shown(world, changed)
        opened = judge(world, record.rules, v2, v3)
        record.note(world, v2, v3, opened)
        if opened.won.any():
            return
        new_cost = _cost(world, target, v2, v3, opened)
        warmth = 0.05 + 0.6 * (1 - step / steps)
        gain = np.clip((cost - new_cost) / warmth, -50, 0)
        taken = generator.random(chains) < np.exp(gain)
        cost = np.where(taken, new_cost, cost)
        told = tuple(np.where(taken, new, old) for new, old in zip(changed, told, strict=True))


#: In each chain: every camp's V2, every camp's V3, and in which camp each client is.
#: Single clients gain nothing from lies of their own: signatures of others have to fit.
_Camps = tuple[NDArray[Any], ...]


def _start(world: World, generator: Generator, camps: int, chains: int) -> _Camps:
    everyone = (1 << world.honest) - 1
    v2 = np.full((camps, chains), everyone, np.uint16)
    out = generator.integers(0, everyone + 1, (2, camps, chains), np.uint16)
    home = generator.integers(0, camps, (world.honest, chains), np.uint8)
    return v2, v2 & ~(out[0] & out[1]), home


def _changed(world: World, generator: Generator, told: _Camps) -> _Camps:
    """One to three changes in each chain: a client in or out of a set, or in another camp."""
    v2, v3, home = (part.copy() for part in told)
    camps, chains = v2.shape
    for likely in (1.0, 0.5, 0.3):
        kind = np.where(generator.random(chains) < likely, generator.integers(0, 3, chains), -1)
        who, camp = generator.integers(0, [[world.honest], [camps]], (2, chains))
        for part, columns in ((v2, kind == 0), (v3, kind == 1)):
            part[camp[columns], np.flatnonzero(columns)] ^= np.uint16(1) << who[columns].astype(np.uint16)
        home[who[kind == 2], np.flatnonzero(kind == 2)] = camp[kind == 2]
    return v2, v3, home


def _shown(world: World, told: _Camps) -> tuple[Sets, Sets]:
    """What each client sees: its camp's sets, or everyone where it would not accept those."""
    views2, views3, home = told
    columns = np.arange(views2.shape[1])
    v2, v3 = (np.full(home.shape, (1 << world.honest) - 1, np.uint16) for _ in range(2))
    for u in range(world.honest):
        second = views2[home[u], columns]
        third = views3[home[u], columns] & second
        fine2 = world.accepts(u, second)
        v2[u] = np.where(fine2, second, v2[u])
        v3[u] = np.where(fine2 & world.accepts(u, third), third, v2[u])
    return v2, v3


def _targets(world: World, generator: Generator, chains: int) -> Sets:
    """Choose whose sum each chain tries to open: a client and some of its neighbours, too few of them."""
    first = generator.integers(0, world.honest, chains)
    target = np.uint16(1) << first.astype(np.uint16)
    near, least = np.array(world.near, np.uint16)[first], np.array(world.minimum)[first]
    for size in range(2, max(world.minimum)):
        other = np.uint16(1) << generator.integers(0, world.honest, chains).astype(np.uint16)
        grows = (size < least) & (other & near != 0) & (generator.random(chains) < 0.7)
        target = np.where(grows, target | other, target)
    return target


def _cost(world: World, target: Sets, v2: Sets, v3: Sets, opened: Opened) -> Costs:
    """What the server still lacks to open the sum of the target: shares, then the signatures to get them."""
    everyone = np.ones(opened.b.shape, bool)
    asked = count_shares(world, everyone, v2, v3)
    cost = 0.3 * opened.lacking.sum(axis=0)
    thresholds = np.array(world.thresholds)[:, None]
    for b_shares, s_shares in ((opened.b_shares, opened.s_shares), asked):
        b, s = np.maximum(thresholds - b_shares, 0), np.maximum(thresholds - s_shares, 0)
        for i in range(world.honest):
            inside = has(target, i)
            cost += inside * b[i]
            for w in world.neighbours(i):
                alone = ~has(target, w) | ~has(v2[w], i)
                cost += (inside & has(v2[i], w) & alone) * np.minimum(s[i], s[w])
    return cost
