"""Work that frees the interpreter's lock is done side by side, in as many threads as help."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Done = TypeVar("Done")


def helpful(most: int, worth: int) -> int:
    """Return how many threads to use where so many are worth their start.

    There are at most as many as the caller allows, where 0 stands for the cores that this process may use.
    """
    return max(1, min(worth, most or cores())) if worth > 1 else 1


def side_by_side(work: Callable[[Part], Done], parts: Sequence[Part]) -> list[Done]:
    """Do the first part here and each other one in a thread of its own; return what came of them, in order.

    A pool for each call leaves nothing behind for a fork or the end of the process; it costs a tenth of a
    millisecond.
    """
    first, *others = parts
    if not others:
        return [work(first)]
    with ThreadPoolExecutor(len(others)) as pool:
        running = [pool.submit(work, other) for other in others]
        return [work(first), *(one.result() for one in running)]


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
