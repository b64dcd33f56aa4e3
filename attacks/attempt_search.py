"""Searches everything that a liar can have opened for one task over a few attempts, on small complete graphs.

In an attempt an honest client is in one part, or in none, and releases shares or not. A part is opened if it
has, with all colluders, enough members that release: each part has a roster of its own, as small as it can
be, which is more than a liar can have. Of the sums that are opened every linear combination is looked at:
the one over the fewest honest clients must have as many as were promised. Honest clients differ in what they
do only, so it is enough to count how many do what. ``tests/attacks/test_attempt_search.py`` runs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product

import numpy as np

#: In which part a client is in each attempt (0 is none), and in which attempts it releases shares.
Conduct = tuple[tuple[int, ...], frozenset[int]]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A complete graph with the threshold of ``majority``, raised for colluders as a planner would."""

    honest: int
    colluders: int
    attempts: int
    #: Parts of one attempt; they are disjoint.
    parts: int
    least_roster: int

    def threshold(self, roster: int) -> int:
        """Return the least t with 2 t > d + c + 1."""
        return (roster + self.colluders) // 2 + 1

    @property
    def promised(self) -> int:
        """The fewest honest clients in a sum that is opened, whatever the roster."""
        rosters = range(max(self.least_roster, self.colluders + 1), self.honest + self.colluders + 1)
        return min(self.threshold(roster) - self.colluders for roster in rosters)

    def opens(self, members: int, releasing: int) -> bool:
        """Tell whether a part is opened by so many of its honest members."""
        roster = max(self.least_roster, members + self.colluders)
        return releasing + self.colluders >= self.threshold(roster)


def conducts(setting: Setting, *, once: bool, in_order: bool) -> list[Conduct]:
    """Return all that an honest client may do: to release once, and to go forward only, are the rules."""
    found = []
    for places in product(range(setting.parts + 1), repeat=setting.attempts):
        sent = [attempt for attempt, part in enumerate(places) if part]
        for count in range(min(len(sent), 1 if once else len(sent)) + 1):
            found += [
                (places, frozenset(released))
                for released in combinations(sent, count)
                if not in_order or all(attempt == sent[-1] for attempt in released)
            ]
    return found


def smallest(setting: Setting, crowd: Sequence[Conduct]) -> int | None:
    """Return how many honest clients the smallest combination covers; None where nothing is opened."""
    rows = []
    for attempt, part in product(range(setting.attempts), range(1, setting.parts + 1)):
        inside = [places[attempt] == part for places, _ in crowd]
        releasing = sum(attempt in released for (_, released), one in zip(crowd, inside, strict=True) if one)
        if sum(inside) and setting.opens(sum(inside), releasing):
            rows.append(inside)
    return _smallest(np.array(rows, np.int64)) if rows else None


def _smallest(sums: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> int:
    """Return the fewest clients in a combination of these sums that is not zero.

    Clients that are in the same sums stand for one. A combination is zero at some of these exactly if the
    sums there have a lower rank.
    """
    columns, weights = np.unique(sums, axis=1, return_counts=True)
    rank = np.linalg.matrix_rank(columns)
    best = int(sums.shape[1])
    for size in range(columns.shape[1]):
        for zero in combinations(range(columns.shape[1]), size):
            if not zero or np.linalg.matrix_rank(columns[:, zero]) < rank:
                best = min(best, int(weights.sum() - weights[list(zero)].sum()))
    return best


def search(setting: Setting, *, once: bool = True, in_order: bool = True) -> tuple[int, int]:
    """Return in how many ways sums were opened, and the fewest honest clients that a combination covers."""
    ways, fewest = 0, setting.honest
    every = conducts(setting, once=once, in_order=in_order)
    for crowd in combinations_with_replacement(every, setting.honest):
        found = smallest(setting, crowd)
        if found is not None:
            ways, fewest = ways + 1, min(fewest, found)
    return ways, fewest


#: Two attempts with two parts each, and three attempts; half a minute in all.
SETTINGS = (
    Setting(honest=6, colluders=0, attempts=2, parts=1, least_roster=5),
    Setting(honest=6, colluders=1, attempts=2, parts=1, least_roster=6),
    Setting(honest=7, colluders=0, attempts=2, parts=1, least_roster=5),
    Setting(honest=5, colluders=0, attempts=2, parts=2, least_roster=3),
    Setting(honest=6, colluders=1, attempts=2, parts=2, least_roster=6),
    Setting(honest=6, colluders=0, attempts=3, parts=1, least_roster=5),
)
