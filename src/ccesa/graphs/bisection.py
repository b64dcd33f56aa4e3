"""Searches among whole numbers: the first that is enough."""

from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
#: Steps that a search goes up first.
_STRIDE = 64


def leftmost(
    low: int, high: int, found: Callable[[int], Answer | None], possible: Callable[[int, int], bool]
) -> Answer | None:
    """Return what is found at the smallest of low .. high; ``possible`` says where it is worth looking.

    It tries 1, 2, 4, ... numbers at a time, and divides in two what may hold something.
    """
    width = 1
    while low <= high:
        last = min(low + width - 1, high)
        answer = _within(low, last, found, possible)
        if answer is not None:
            return answer
        low, width = last + 1, 2 * width
    return None


def _within(
    low: int, high: int, found: Callable[[int], Answer | None], possible: Callable[[int, int], bool]
) -> Answer | None:
    if not possible(low, high):
        return None
    if low == high:
        return found(low)
    middle = (low + high) // 2
    return _within(low, middle, found, possible) or _within(middle + 1, high, found, possible)


def first(enough: Callable[[int], bool], most: int, start: int = 1) -> int | None:
    """Return the smallest of 1 .. most that is enough, where everything above it is enough as well."""
    if most < 1:
        return None
    low, high = 0, max(1, min(start, most))
    step = max(1, min(start // 8, _STRIDE))
    while not enough(high):
        if high == most:
            return None
        low, high, step = high, min(high + step, most), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
