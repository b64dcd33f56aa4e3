"""Does a second thread help? Where it does not, ``threads=2`` must cost nothing.

Masks of a short vector and of a long one and a client's agreements, with one thread and with two in turn, and
how much the library's keystreams gain from a second thread: two rounds of work in a row, over two at once.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import numpy as np

from ccesa.crypto import masks, primitives
from ccesa.protocol.dealing import agree_each

AGREEMENTS, STREAM_BYTES, MASKS = 50, 2 << 20, 51
#: By words of the vector, how often it is masked with each number of threads.
LENGTHS = {10_000: 400, 1_000_000: 25}


def compare() -> dict[str, Any]:
    """Measure masks and agreements with both numbers of threads, and the gain of keystreams."""
    return {
        "masks": MASKS,
        "lengths": {str(length): _masked(length, times) for length, times in LENGTHS.items()},
        "agreements": AGREEMENTS,
        "agreed": _agreed(),
        "keystreams_gain": gain(_keystreams),
    }


def _masked(length: int, times: int) -> dict[str, float]:
    vector = np.zeros(length, np.uint32)
    every = [masks.Mask(os.urandom(16), 1) for _ in range(MASKS)]
    return _in_turn(lambda threads: masks.masked(vector, every, "aes128-ctr", threads), times)


def _agreed() -> dict[str, float]:
    private = primitives.private_key(os.urandom(32))
    public = [primitives.public_key(primitives.private_key(os.urandom(32))) for _ in range(AGREEMENTS)]
    return _in_turn(lambda threads: agree_each(private, public, threads), 200)


def _in_turn(work: Callable[[int], object], times: int) -> dict[str, float]:
    """Return medians with one thread and with two, and how long two take over one."""
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(times):
        for threads, taken in found.items():
            start = time.perf_counter()
            work(threads)
            taken.append((time.perf_counter() - start) * 1e3)
    one, two = (median(taken) for taken in found.values())
    return {"one_ms": one, "two_ms": two, "ratio": two / one}


def gain(work: Callable[[], object]) -> float:
    """Time of two rounds of work in a row, over that of two at once: 2 is perfect, 1 is no gain."""
    with ThreadPoolExecutor(1) as pool:

        def both() -> None:
            other = pool.submit(work)
            work()
            other.result()

        return 2 * _ms(work) / _ms(both)


def _ms(work: Callable[[], object], times: int = 15) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) * 1e3)
    return median(found)


def _keystreams() -> None:
    blank, buffer = bytes(STREAM_BYTES), memoryview(bytearray(STREAM_BYTES + 16))
    for _ in range(20):
        primitives.aes128_ctr(os.urandom(16), 0).update_into(blank, buffer)


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    cases = {f"masks, {int(length):,} words": one for length, one in found["lengths"].items()}
    cases[f"{found['agreements']} agreements"] = found["agreed"]
    rows = [
        f"| {name} | {one['one_ms']:.2f} | {one['two_ms']:.2f} | {one['ratio']:.2f} |" for name, one in cases.items()
    ]
    return (
        f"{found['masks']} masks on words of 32 bits, and the agreements of a client, `threads=1` and "
        "`threads=2` in turn (`bench/protocol/threads.py`). A number of threads is the most that work: a "
        "short vector has one in any case, and so have agreements where libsodium is not installed. With a "
        f"second thread the library's keystreams are {found['keystreams_gain']:.2f} times as fast.\n\n"
        "| | one, ms | two, ms | two / one |\n|---|--:|--:|--:|\n" + "\n".join(rows)
    )
