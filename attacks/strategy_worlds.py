"""The worlds that are searched: all small ones, or random larger ones; and all strategies in a small one."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from random import Random

import numpy as np

from attacks.strategy_model import Sets, World

#: Of the degree and the colluders in it, the threshold.
Threshold = Callable[[int, int], int]

#: Strategies that are judged at a time.
AT_ONCE = 1 << 16


def in_use(degree: int, colluders: int) -> int:
    """2t > d + 1 + c: a client's own share counts."""
    return (degree + 1 + colluders) // 2 + 1


def smaller(degree: int, colluders: int) -> int:
    """2t > d + c: who lost its s key has released nothing, its own share does not count."""
    return (degree + colluders) // 2 + 1


def joined(honest: int, edges: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return the set of each client's neighbours."""
    near = [0] * honest
    for one, other in edges:
        near[one] |= 1 << other
        near[other] |= 1 << one
    return tuple(near)


def make_world(near: tuple[int, ...], colluders: tuple[int, ...], threshold: Threshold) -> World:
    degrees = [word.bit_count() + c for word, c in zip(near, colluders, strict=True)]
    thresholds = tuple(threshold(d, c) for d, c in zip(degrees, colluders, strict=True))
    return World(near=near, colluders=colluders, thresholds=thresholds)


def small_worlds(honest: int, colluders: int, threshold: Threshold) -> Iterator[World]:
    """Every connected graph of honest clients with up to so many colluders beside each, one of each shape.

    Connected is enough: what a client is shown of clients out of reach can only make digests differ.
    """
    seen = set[tuple[tuple[int, ...], tuple[int, ...]]]()
    pairs = list(itertools.combinations(range(honest), 2))
    orders = list(itertools.permutations(range(honest)))
    for flags in itertools.product((False, True), repeat=len(pairs)):
        near = joined(honest, itertools.compress(pairs, flags))
        if not _connected(near):
            continue
        for beside in itertools.product(range(colluders + 1), repeat=honest):
            shape = min(_renamed(near, beside, order) for order in orders)
            if shape not in seen:
                seen.add(shape)
                world = make_world(near, beside, threshold)
                if _takes_part(world):
                    yield world


def random_world(random: Random, clients: int, threshold: Threshold) -> World:
    """Make a world of so many clients, up to a third of them colluders, with edges between most."""
    while True:
        honest = clients - random.randint(0, clients // 3)
        p = random.uniform(0.4, 1.0)
        pairs = [pair for pair in itertools.combinations(range(clients), 2) if random.random() < p]
        near = joined(honest, (pair for pair in pairs if pair[1] < honest))
        beside = [sum(1 for one, other in pairs if one == i and other >= honest) for i in range(honest)]
        world = make_world(near, tuple(beside), threshold)
        if _connected(near) and _takes_part(world):
            return world


def options(world: World, client: int) -> tuple[Sets, Sets]:
    """Every V2 and V3 that this client accepts."""
    words = np.arange(1 << world.honest, dtype=np.uint16)
    accepted = words[world.accepts(client, words)]
    v2, v3 = (grid.ravel() for grid in np.meshgrid(accepted, accepted, indexing="ij"))
    fits = v3 & ~v2 == 0
    return v2[fits], v3[fits]


def count_strategies(world: World) -> int:
    first = len(_unlike(world))
    return first * int(np.prod([len(options(world, u)[0]) for u in range(1, world.honest)], dtype=np.int64))


def all_strategies(world: World) -> Iterator[tuple[Sets, Sets]]:
    """Every strategy, up to symmetries that leave client 0 where it is."""
    choices = [options(world, u) for u in range(world.honest)]
    kept = _unlike(world)
    choices[0] = (choices[0][0][kept], choices[0][1][kept])
    total = count_strategies(world)
    for first in range(0, total, AT_ONCE):
        rest = np.arange(first, min(first + AT_ONCE, total))
        v2, v3 = np.empty((2, world.honest, rest.size), np.uint16)
        for u, (seconds, thirds) in enumerate(choices):
            rest, place = np.divmod(rest, len(seconds))
            v2[u], v3[u] = seconds[place], thirds[place]
        yield v2, v3


def _unlike(world: World) -> list[int]:
    """Places in the options of client 0, one of each kind."""
    v2, v3 = (words.tolist() for words in options(world, 0))
    orders = [(0, *order) for order in itertools.permutations(range(1, world.honest))]
    here = (world.near, world.colluders)
    same = [order for order in orders if _renamed(*here, order) == here]
    kinds: dict[tuple[int, int], int] = {}
    for place, (second, third) in enumerate(zip(v2, v3, strict=True)):
        kinds.setdefault(min((_moved(second, order), _moved(third, order)) for order in same), place)
    return sorted(kinds.values())


def _takes_part(world: World) -> bool:
    """Nobody has more shares to ask for than there are holders: such a client is left out of a round."""
    degrees = (word.bit_count() + c for word, c in zip(world.near, world.colluders, strict=True))
    return all(t <= degree + 1 for t, degree in zip(world.thresholds, degrees, strict=True))


def _connected(near: tuple[int, ...]) -> bool:
    reached = 1
    for _ in near:
        for client, word in enumerate(near):
            reached |= word if reached >> client & 1 else 0
    return reached == (1 << len(near)) - 1


def _moved(word: int, order: tuple[int, ...]) -> int:
    return sum(1 << new for old, new in enumerate(order) if word >> old & 1)


def _renamed(
    near: tuple[int, ...], beside: tuple[int, ...], order: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the same world with client k called order[k]."""
    words, numbers = [0] * len(near), [0] * len(near)
    for old, new in enumerate(order):
        words[new], numbers[new] = _moved(near[old], order), beside[old]
    return tuple(words), tuple(numbers)
