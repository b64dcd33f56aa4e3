"""What a masked vector can be known by: each candidate over 4 MB, beside the addition, in turn.

Run with ``python -m bench.crypto.digests``. BLAKE3 is measured where the package ``blake3`` is installed.
"""

import hashlib
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import median

import numpy as np

from ccesa.crypto import keys

VECTOR_BYTES, TURNS = 4_000_000, 40


def compare() -> dict[str, float]:
    """Return milliseconds of processor time, as medians."""
    vectors = [np.frombuffer(np.random.default_rng(k).bytes(VECTOR_BYTES), "<u4") for k in range(8)]
    total = np.zeros_like(vectors[0])
    works: dict[str, Callable[[memoryview], object]] = {
        "SHA-256": lambda data: keys.vector_digest(data, bytes(32), 0),
        "BLAKE2b": lambda data: hashlib.blake2b(data).digest(),
        "GMAC": lambda data: keys.vector_tag(data, bytes(32), 0),
        "addition": lambda data: np.add(total, np.frombuffer(data, "<u4"), out=total),
    }
    if find_spec("blake3"):
        works["BLAKE3"] = lambda data: import_module("blake3").blake3(data).digest()
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(TURNS):
        for name, work in works.items():
            start = time.process_time()
            work(vectors[turn % len(vectors)].data.cast("B"))
            times[name].append((time.process_time() - start) * 1e3)
    return {name: median(each) for name, each in times.items()}


if __name__ == "__main__":
    for what, milliseconds in sorted(compare().items(), key=lambda one: one[1]):
        print(f"{what:10} {milliseconds:6.2f} ms")
