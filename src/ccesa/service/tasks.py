"""A task is what one question asks of the sites: bytes, which a digest stands for in the protocol.

A site computes the digest from the bytes that it works on, so a hub cannot ask two sites for different things
in one sum. The number of a round is not in it: a question that is asked again is the same task.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa import labels
from ccesa.errors import MalformedMessage, VectorError, quoted

NamedArrays = Mapping[str, NDArray[Any]]
#: Types of numbers that arrays may have, as numpy spells them, little-endian.
_TYPES = {
    f"<{kind}{size}"
    for kind, sizes in (("f", (2, 4, 8)), ("i", (2, 4, 8)), ("u", (2, 4, 8)))
    for size in sizes
}
_TYPES |= {"|i1", "|u1"}


class _Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One array: its name, the type of its numbers, its shape, and the numbers."""

    name: str
    type: str
    shape: tuple[int, ...]
    data: bytes


def task_digest(payload: bytes) -> bytes:
    """Return the 32 bytes by which the protocol knows a task."""
    return labels.digest(labels.SERVICE_TASK, payload)


def pack_arrays(arrays: NamedArrays) -> bytes:
    """Return named arrays as bytes; the same arrays in the same order give the same bytes.

    Raises VectorError for what does not consist of real numbers.
    """
    packed = []
    for name, value in arrays.items():
        array = np.asarray(value)
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        if array.dtype.str not in _TYPES:
            raise VectorError(f"array {quoted(name)} has type {array.dtype}; expected real numbers")
        packed.append(_Packed(str(name), array.dtype.str, array.shape, array.tobytes()))
    return msgspec.msgpack.encode(packed)


def unpack_arrays(payload: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``pack_arrays`` packed, as copies; raise MalformedMessage for other bytes."""
    try:
        packed = msgspec.msgpack.decode(payload, type=list[_Packed])
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedMessage("the task has no arrays in it") from error
    arrays = {one.name: _array(one) for one in packed}
    if len(arrays) != len(packed):
        raise MalformedMessage("the task has two arrays of one name")
    return arrays


def _array(packed: _Packed) -> NDArray[Any]:
    if packed.type not in _TYPES or any(size < 0 for size in packed.shape):
        raise MalformedMessage(
            f"array {quoted(packed.name)} of the task has no real numbers, or no such shape"
        )
    dtype = np.dtype(packed.type)
    if len(packed.data) != math.prod(packed.shape) * dtype.itemsize:
        raise MalformedMessage(f"array {quoted(packed.name)} of the task has another size than its shape")
    return np.frombuffer(packed.data, dtype).reshape(packed.shape).copy()
