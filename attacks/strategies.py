"""Which lies of a server could work? A search over all it may show to whom, in a model without cryptography.

    python -m attacks.strategies --clients 10 --seconds 60

With the rules R1 to R3 of docs/security.md it finds nothing. With one of them off it finds the attack that
the rule is there for: different V3 (S2) without R2 or R3's count, different V2 (S19) without its signature.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from random import Random

import numpy as np

from attacks.base import Tell
from attacks.strategy_model import Rules, World, members
from attacks.strategy_search import Record, Win, climb, exhaust
from attacks.strategy_worlds import Threshold, in_use, joined, make_world, random_world, small_worlds, smaller

VARIANTS: dict[str, tuple[Rules, Threshold]] = {
    "all rules": (Rules(), in_use),
    "all rules, smaller threshold 2t > d + c": (Rules(), smaller),
    "R2 off: a client confirms several V3": (Rules(one_confirmation=False), in_use),
    "R3 off: no confirmations are counted": (Rules(count_confirmations=False), in_use),
    "V2 signature off: neighbours may hold another V2": (Rules(same_v2=False), in_use),
}


def exposed_pair(threshold: Threshold) -> World:
    """The smallest graph known for S19. 0 and 1 are the victims, 4 to 8 know each other well.

    2 and 3 mask with the victims, and 5 to 8 are told that both dropped; 4 holds shares of the victims and is
    not in the V2 that those are shown.
    """
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (0, 4), (1, 4)]
    pairs += list(itertools.product((2, 3), (5, 6, 7, 8)))
    pairs += list(itertools.combinations(range(4, 9), 2))
    return make_world(joined(9, pairs), (0,) * 9, threshold)


def exposed_leaf(threshold: Threshold) -> World:
    """Nine honest clients, a colluder beside some: 7 has two neighbours, which S2 lets drop for others."""
    near = (492, 364, 379, 311, 44, 287, 391, 65, 111)
    return make_world(near, (0, 1, 0, 1, 1, 1, 0, 0, 1), threshold)


def search_small(rules: Rules, threshold: Threshold, honest: int = 4) -> Record:
    """Everything the server can do to up to so many honest clients, with up to one colluder beside each.

    More colluders would be no news: each adds one to t and one to every count.
    """
    worlds = (small_worlds(number, 1, threshold) for number in range(2, honest + 1))
    return exhaust(itertools.chain.from_iterable(worlds), rules)


def search_large(rules: Rules, threshold: Threshold, clients: int, seconds: float, seed: int = 0) -> Record:
    """Climb in the two graphs that are known to be hard, then in random ones, until the time is over."""
    record, generator = Record(rules=rules), np.random.default_rng(seed)
    deadline = time.monotonic() + seconds
    for place, world in enumerate(_large_worlds(threshold, clients, seed)):
        climb(record, world, generator, camps=2 + place // 2 % 2)
        if time.monotonic() > deadline:
            break
    return record


def _large_worlds(threshold: Threshold, clients: int, seed: int) -> Iterator[World]:
    random = Random(seed)  # noqa: S311 - a search that can be repeated
    hard = [exposed_pair(threshold), exposed_leaf(threshold)]
    yield from hard * 4
    while True:
        yield random_world(random, random.randint(min(5, clients), clients), threshold)


def describe(record: Record) -> str:
    found = f"{record.strategies:,} strategies in {record.worlds} graphs: "
    if record.best is None:
        least = "no sum opened" if record.spare is None else f"every sum {record.spare} or more above its minimum"
        return f"{found}nothing opened that must not ({least})"
    return f"{found}{record.wins:,} of them win, the best one so:\n{tell(record.best)}"


def tell(win: Win) -> str:
    """A winning strategy in words."""
    opened, world = win.judge(), win.world
    lines = []
    for u in range(world.honest):
        doing = "releases its shares" if opened.released[u, 0] else "releases nothing"
        near = f"neighbours {_names(world.near[u])} and {world.colluders[u]} colluding"
        shown = f"V2 = {_names(win.v2[u])}, V3 = {_names(win.v3[u])}"
        lines.append(f"    client {u} ({near}, t = {world.thresholds[u]}) is shown {shown}; it {doing}")
    lost = np.flatnonzero(opened.both[:, 0]).tolist()
    lines += [f"    client {u} loses both secrets" for u in lost]
    for u in np.flatnonzero(opened.short[:, 0]).tolist():
        names = _names(int(opened.sums[u, 0]))
        lines.append(f"    the sum of {names} opens; client {u} was promised {world.minimum[u]} honest ones")
    return "\n".join(lines)


def _names(word: int) -> str:
    return "{" + ", ".join(map(str, members(word))) + "}"


def main(arguments: list[str] | None = None, say: Tell = lambda line: print(line, flush=True)) -> None:  # noqa: T201
    """Search for strategies of a lying server, with all rules and with one of them off."""
    options = _options().parse_args(arguments)
    for name, (rules, threshold) in VARIANTS.items():
        say(name)
        small = search_small(rules, threshold, options.honest)
        say(f"  everything up to {options.honest} honest clients: {describe(small)}")
        large = search_large(rules, threshold, options.clients, options.seconds / len(VARIANTS), options.seed)
        say(f"  climbing, up to {options.clients} clients: {describe(large)}")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attacks.strategies", description=main.__doc__)
    parser.add_argument("--clients", type=int, default=10, help="most clients of a random graph, up to 12")
    parser.add_argument("--seconds", type=float, default=60, help="time for the random search")
    parser.add_argument("--honest", type=int, default=4, help="try everything up to here; 5 takes long")
    parser.add_argument("--seed", type=int, default=0, help="of the random search")
    return parser


if __name__ == "__main__":
    main()
