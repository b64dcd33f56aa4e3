"""Searches everything that a hub can have opened in one round by showing different survivors to different helpers (H2).

Helpers that work with the hub have no secrets from it, so they are left out, and so are members that do. What is left
are honest members, each with a mask for each honest helper, and one sum of masks for each question. The hub may ask
about any set that has enough honest members in it. Of all that it has then every linear combination without masks is
looked at: the one over the fewest members must have as many as were promised.
``tests/attacks/test_helper_search.py`` runs it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

#: The members that a question is about.
Group = frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Honest members and helpers, and the rules that they follow."""

    members: int
    helpers: int
    #: The fewest honest members in a question: ``min_survivors`` less the colluders.
    promised: int
    #: How many questions a helper answers in a round.
    questions: int = 1
    #: Whether each helper has masks of its own.
    own_masks: bool = True

    @property
    def groups(self) -> list[Group]:
        """All that a helper may be asked about."""
        sizes = range(self.promised, self.members + 1)
        return [frozenset(group) for size in sizes for group in combinations(range(self.members), size)]

    def rounds(self) -> Iterator[Sequence[tuple[int, Group]]]:
        """Yield every choice of questions, each with the helper that it goes to."""
        each = list(combinations(self.groups, self.questions))
        for chosen in product(each, repeat=self.helpers):
            yield [(helper, group) for helper, groups in enumerate(chosen) for group in groups]


def smallest(setting: Setting, asked: Sequence[tuple[int, Group]]) -> int | None:
    """Return how many members the smallest combination without masks covers; None where nothing is opened."""
    inputs, masks = _seen(setting, asked)
    opened = _null_space(masks) @ inputs
    rank = _rank(opened)
    if not rank:
        return None
    everyone = range(setting.members)
    for size in everyone:
        for rest in combinations(everyone, setting.members - size):
            if _rank(opened[:, list(rest)]) < rank:
                return size
    return setting.members


def _seen(setting: Setting, asked: Sequence[tuple[int, Group]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, for each masked vector and each sum of masks, which inputs and which masks are in it."""
    members, helpers = setting.members, setting.helpers
    rows = members + len(asked)
    inputs, masks = np.zeros((rows, members)), np.zeros((rows, helpers, members))
    for member in range(members):
        inputs[member, member] = 1
        masks[member, :, member] = 1
    for row, (helper, group) in enumerate(asked, start=members):
        masks[row, helper, list(group)] = 1
    if not setting.own_masks:
        masks = masks.sum(axis=1, keepdims=True)
    return inputs, masks.reshape(rows, -1)


def _null_space(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a basis of the combinations of these rows that are zero."""
    left, values, _ = np.linalg.svd(rows)
    rank = int((values > 1e-9).sum())
    return left[:, rank:].T


def _rank(rows: NDArray[np.float64]) -> int:
    return int(np.linalg.matrix_rank(rows, tol=1e-9)) if rows.size else 0


def search(setting: Setting) -> tuple[int, int, int]:
    """Return how many choices of questions there are, how many open something, and the fewest members of a sum."""
    found = [smallest(setting, asked) for asked in setting.rounds()]
    opened = [size for size in found if size is not None]
    return len(found), len(opened), min(opened, default=setting.members)


SETTINGS = (
    Setting(members=3, helpers=1, promised=2),
    Setting(members=3, helpers=2, promised=2),
    Setting(members=4, helpers=2, promised=2),
    Setting(members=5, helpers=2, promised=3),
    Setting(members=4, helpers=3, promised=2),
)
