"""Does a second thread help? ``python -m bench.threads``: key agreements, keystreams, and whole masks."""

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median

import numpy as np

from ccesa.crypto import masks, primitives

AGREEMENTS, STREAM_BYTES, LENGTH, MASKS = 200, 2 << 20, 1_000_000, 51


def gain(work: Callable[[], None]) -> float:
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


def _agreements() -> None:
    private = primitives.private_key(os.urandom(32))
    public = primitives.private_key(os.urandom(32)).public_key()
    for _ in range(AGREEMENTS):
        primitives.agree(private, public)


def _keystreams() -> None:
    blank, buffer = bytes(STREAM_BYTES), memoryview(bytearray(STREAM_BYTES + 16))
    for _ in range(20):
        primitives.aes128_ctr(os.urandom(16), 0).update_into(blank, buffer)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    vector = np.zeros(LENGTH, np.uint32)
    every = [masks.Mask(os.urandom(16), 1) for _ in range(MASKS)]
    one, two = (_ms(partial(masks.masked, vector, every, "aes128-ctr", threads)) for threads in (1, 2))
    print(f"X25519 agreements: {gain(_agreements):.2f} times faster with two threads")
    print(f"AES-CTR keystreams: {gain(_keystreams):.2f} times")
    print(f"{MASKS} masks of {LENGTH:,} elements: {one / two:.2f} times ({one:.1f} ms, {two:.1f} ms)")


if __name__ == "__main__":
    main()
