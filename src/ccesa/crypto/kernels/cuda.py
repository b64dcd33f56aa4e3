"""The kernel on a GPU: CUDA adds keystreams of ChaCha20, for simulations and for servers with large vectors.

It runs only on request: keys and vectors are in the device's memory, which nobody clears.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ccesa.crypto.kernels import native, pure
from ccesa.crypto.primitives import ALIGNMENT, GENERATORS
from ccesa.errors import VectorError
from ccesa.extras import missing
from ccesa.words import Vector

if TYPE_CHECKING:
    from ccesa.crypto.kernels import Kernel
    from ccesa.crypto.masks import Mask

#: An array on the device: CuPy's, or another library's that offers ``__cuda_array_interface__``.
DeviceArray = Any

GENERATOR = "chacha20"
#: The generator counts blocks in 32 bits.
MOST_BYTES = GENERATORS[GENERATOR].block_bytes << 32
SOURCE = Path(__file__).with_name("chacha20.cu")
#: The best cut of the work on an H200, by ``bench/crypto/cuda.py``; the source explains the names.
SHAPE = {"BLOCKS": 1, "UNROLL": 10, "THREADS": 128}


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceMasks:
    """Masks of one vector whose keys are on the device, those to add first."""

    keys: DeviceArray = field(repr=False)
    added: int


def upload(vectors: "Iterable[Sequence[Mask]]") -> list[DeviceMasks]:
    """Copy the keys of the masks of each vector to the device, all at once, in the form that ``add`` takes.

    Raises VectorError for a key of another generator than ChaCha20, and ConfigError without CuPy.
    """
    sorted_masks = [sorted(masks, key=lambda mask: -mask.sign) for masks in vectors]
    keys = [mask.key for masks in sorted_masks for mask in masks]
    if any(len(key) != GENERATORS[GENERATOR].key_bytes for key in keys):
        raise VectorError(f"expected keys of {GENERATORS[GENERATOR].key_bytes} bytes, for {GENERATOR}")
    every = _cupy().asarray(np.frombuffer(b"".join(keys), np.uint32).reshape(-1, 8))
    ends = accumulate((len(masks) for masks in sorted_masks), initial=0)
    return [
        DeviceMasks(keys=every[first:last], added=sum(mask.sign > 0 for mask in masks))
        for masks, (first, last) in zip(sorted_masks, pairwise(ends), strict=True)
    ]


def add(vector: DeviceArray, masks: DeviceMasks, *, source: DeviceArray | None = None, offset: int = 0) -> None:
    """Write ``source``, by default the vector itself, plus all masks to a vector on the device.

    The vector has contiguous words, read as unsigned ones, and starts ``offset`` bytes (a multiple of 64) into the one
    of the masks. The work runs on CuPy's current stream; keep the masks until it is done. Raises VectorError for arrays
    that do not fit or an offset out of range, and ConfigError without CuPy.
    """
    target = _device_words(vector)
    before = target if source is None else _device_words(source)
    if (before.size, before.dtype.itemsize) != (target.size, target.dtype.itemsize):
        raise VectorError(f"expected two vectors of one size, got {before.nbytes} and {target.nbytes} bytes")
    if 0 < abs(_start(before) - _start(target)) < target.nbytes:
        raise VectorError("a source and a vector must be the same or lie apart")  # threads have no order
    if offset % ALIGNMENT or not 0 <= offset <= MOST_BYTES - target.nbytes:
        raise VectorError(f"a vector cannot start {offset} bytes into a mask")
    if target.size:
        _launch(before, target, offset, masks, SHAPE)


def _launch(before: DeviceArray, target: DeviceArray, offset: int, masks: DeviceMasks, shape: dict[str, int]) -> None:
    threads = shape["THREADS"]
    grid = -(-target.nbytes // (threads * shape["BLOCKS"] * ALIGNMENT))
    size, start = np.uint64(target.nbytes), np.uint32(offset // ALIGNMENT)
    counts = np.uint32(masks.keys.shape[0]), np.uint32(masks.added)
    kernel = _compiled(8 * target.dtype.itemsize, **shape)
    kernel((grid,), (threads,), (before, target, size, start, masks.keys, *counts))


@cache
def _compiled(bits: int, **shape: int) -> Any:
    defined = {"WORD_BITS": bits, **shape}
    options = tuple(f"-D{name}={value}" for name, value in defined.items())
    return _cupy().RawKernel(SOURCE.read_text(encoding="ascii"), "add_masks", options=options)


def _device_words(array: DeviceArray) -> DeviceArray:
    if not hasattr(array, "__cuda_array_interface__"):
        raise VectorError(f"expected an array on the device, got {type(array).__name__}")
    view = _cupy().asarray(array)
    if view.dtype.kind not in "iu" or not view.flags.c_contiguous:
        raise VectorError(f"expected contiguous words, got an array of {view.dtype.name}")
    return view


def _start(array: DeviceArray) -> int:
    return int(array.__cuda_array_interface__["data"][0])


class Cuda:
    """Adds keystreams of ChaCha20 on the device; AES, for which it has no instruction, is the processor's."""

    def __init__(self, processor: "Kernel") -> None:
        self._processor = processor

    @property
    def name(self) -> str:
        device = _cupy().cuda.runtime.getDeviceProperties(0)["name"].decode()
        return f"cuda ({GENERATOR} on {device}; others by {self._processor.name})"

    def add(self, source: Vector, target: Vector, offset: int, masks: "Sequence[Mask]", generator: str) -> None:
        if generator != GENERATOR:
            self._processor.add(source, target, offset, masks, generator)
            return
        words = _cupy().asarray(source)
        (keys,) = upload([masks])
        add(words, keys, offset=offset)
        words.get(out=target)

    def threads_for(self, size: int, masks: int) -> int:
        return 1  # the device has threads of its own


def find() -> Cuda | None:
    """Return the kernel, or None without CuPy or without a device."""
    try:
        import cupy
    except ImportError:
        return None
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        return None
    return Cuda(native.find() or pure.Pure())


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise missing("the kernel on a GPU", "CuPy", "gpu") from error
    return cupy
