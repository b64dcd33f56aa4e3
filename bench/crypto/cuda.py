"""Keystream added on a GPU, beside a copy on the device: ``python -m bench.crypto.cuda`` writes cuda.json.

It needs a GPU; ``make bench`` reads the file. What is checked and measured is written down part by part.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ccesa.crypto.kernels import cuda, pure
from ccesa.crypto.masks import Mask
from ccesa.words import BITS, dtype

KEPT = Path(__file__).with_name("cuda.json")
#: As many words as VGG-11 has parameters.
LENGTH = 9_225_610
#: A client of a planned round of 1,000; and as many masks as a server takes off.
CLIENT, SERVER = 19, 1400
SHAPES = [
    {"BLOCKS": blocks, "UNROLL": unroll, "THREADS": threads}
    for blocks, unroll, threads in ((1, 10, 128), (1, 10, 256), (1, 5, 128), (1, 2, 128), (1, 1, 128), (2, 10, 128))
]


def kept() -> dict[str, Any]:
    """What was measured last, on a machine with a GPU."""
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def some_masks(count: int) -> list[Mask]:
    return [Mask(os.urandom(32), 1 if number % 2 else -1) for number in range(count)]


def check(shape: dict[str, int]) -> None:
    """Every word size, odd sizes and offsets: the bytes of the cryptographic library."""
    import cupy

    for bits in BITS:
        for size, offset in ((1, 0), (1001, 64), (70_003, 64 * 12_345)):
            masks = some_masks(7)
            vector = np.frombuffer(os.urandom(size * bits // 8), dtype(bits))
            wanted = np.empty_like(vector)
            pure.Pure().add(vector, wanted, offset, masks, cuda.GENERATOR)
            (keys,) = cuda.upload([masks])
            found = cupy.zeros(size, dtype(bits))
            cuda._launch(cupy.asarray(vector), found, offset, keys, shape)
            if not np.array_equal(found.get(), wanted):
                raise ArithmeticError(f"{bits} bits, {size} words, shape {shape}: other bytes than the library's")


def ms(work: Callable[[], Any], times: int = 9) -> float:
    """The median by the device's own clock."""
    import cupy

    found = []
    for number in range(times + 2):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        work()
        end.record()
        end.synchronize()
        if number > 1:
            found.append(cupy.cuda.get_elapsed_time(start, end))
    return median(found)


def rate(bits: int, count: int, shape: dict[str, int], nbytes: int = 4 * LENGTH) -> float:
    """TB/s of keystream that is added to a vector of so many bytes."""
    import cupy

    vector = cupy.asarray(np.frombuffer(os.urandom(nbytes // 8 * 8), dtype(bits)))
    (keys,) = cuda.upload([some_masks(count)])
    return count * vector.nbytes / ms(lambda: cuda._launch(vector, vector, 0, keys, shape)) / 1e9


def tried(shape: dict[str, int]) -> dict[str, Any]:
    """One way of cutting the work: checked, and measured."""
    check(shape)
    found = {**shape, "tb": rate(32, SERVER, shape)}
    print(found, flush=True)
    return found


def copy_rate() -> float:
    """TB/s, read and written, of a copy of 4 GB on the device."""
    import cupy

    source = cupy.zeros(1 << 30, cupy.uint32) + 7
    target = cupy.empty_like(source)
    return 2 * source.nbytes / ms(lambda: cupy.copyto(target, source)) / 1e9


def host_seconds() -> float:
    """A server's masks taken off a vector of the host, with both copies."""
    vector = np.frombuffer(os.urandom(4 * LENGTH), "<u4").copy()
    kernel, masks = cuda.Cuda(pure.Pure()), some_masks(SERVER)
    found = []
    for _ in range(5):
        start = time.perf_counter()
        kernel.add(vector, vector, 0, masks, cuda.GENERATOR)
        found.append(time.perf_counter() - start)
    return median(found)


def measure(path: Path) -> dict[str, Any]:
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found: dict[str, Any] = {"device": device, "cupy": cupy.__version__, "length": LENGTH}

    def note(**more: Any) -> None:
        found.update(more)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(more, flush=True)

    check(cuda.SHAPE)
    note(checked=True, client=CLIENT, server=SERVER)
    note(copy_tb=copy_rate())
    shapes = [tried(shape) for shape in SHAPES]
    note(shapes=shapes, best=max(shapes, key=lambda one: one["tb"]), shape=cuda.SHAPE)
    note(bits={str(bits): rate(bits, SERVER, cuda.SHAPE) for bits in BITS})
    note(masks={str(count): rate(32, count, cuda.SHAPE) for count in (1, CLIENT, 100, SERVER)})
    note(million_tb=rate(32, CLIENT, cuda.SHAPE, 4_000_000))
    note(host_seconds=host_seconds())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.crypto.cuda", description=__doc__)
    parser.add_argument("--output", type=Path, default=KEPT)
    measure(parser.parse_args().output)


def server_rate(found: dict[str, Any]) -> float:
    """Return the TB/s with as many masks as a server takes off."""
    return float(found["masks"][str(found["server"])])


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    by_bits = ", ".join(f"{rate:.2f} with {bits} bits" for bits, rate in found["bits"].items())
    by_masks = ", ".join(f"{rate:.2f} with {count}" for count, rate in found["masks"].items())
    return (
        f"ChaCha20 on one {found['device']} (`bench/crypto/cuda.py` needs a GPU and writes "
        f"`bench/crypto/cuda.json`; this page reads it). TB/s of keystream added to {found['length']:,} "
        f"words of 32 bits on the device, by the number of masks: {by_masks}. By the size of a word, "
        f"{found['server']:,} masks: {by_bits}. A copy on the device moves {found['copy_tb']:.1f} TB/s, read "
        f"and written: additions are bound by arithmetic. {found['server']:,} masks taken off a vector of "
        f"the host, both copies included: {found['host_seconds']:.2f} s."
    )


if __name__ == "__main__":
    main()
