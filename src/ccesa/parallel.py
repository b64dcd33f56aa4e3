"""``map`` over threads, in as many runs as there are threads.

The work here is key agreements of some 40 µs that release the interpreter lock: handing them out one by
one would cost as much as doing them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(threads: int, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    if threads == 1 or len(items) < 2 * threads:
        return [work(item) for item in items]
    size = -(-len(items) // threads)
    runs = [items[first : first + size] for first in range(0, len(items), size)]
    with ThreadPoolExecutor(len(runs)) as pool:
        done = pool.map(lambda run: [work(item) for item in run], runs)
        return [result for run in done for result in run]
