"""A task has the bytes that one question gives to the sites; the protocol knows it by their digest.

Each site computes the digest from the bytes that it works on, so a hub cannot give two sites different tasks
in one sum. The number of the round is not part of a task: a question that is asked again is the same task.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa import labels
from ccesa.errors import MalformedMessage, VectorError, quoted

NamedArrays = Mapping[str, NDArray[Any]]
#: Types of numbers that arrays may have, as numpy spells them, little-endian.
_TYPES = {f"<{kind}{size}" for kind in "fiu" for size in (2, 4, 8)} | {"|i1", "|u1"}
#: The most arrays of a task, and the most dimensions of an array: a hub may send anything.
_MOST_ARRAYS, _MOST_DIMENSIONS = 1 << 16, 32


class _Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One array: its name, the type of its numbers, its shape, and the numbers."""

    name: str
    type: str
    shape: Annotated[tuple[int, ...], msgspec.Meta(max_length=_MOST_DIMENSIONS)]
    data: memoryview


_Arrays = Annotated[list[_Packed], msgspec.Meta(max_length=_MOST_ARRAYS)]


def task_digest(payload: bytes) -> bytes:
    return labels.digest(labels.SERVICE_TASK, payload)


def pack_arrays(arrays: NamedArrays) -> bytes:
    """Return named arrays of real numbers as bytes; the same arrays in the same order give the same bytes."""
    packed = []
    if len(arrays) > _MOST_ARRAYS:
        raise VectorError(f"a task can have at most {_MOST_ARRAYS} arrays, not {len(arrays)}")
    for name, value in arrays.items():
        array = np.asarray(value)
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        if array.dtype.str not in _TYPES or array.ndim > _MOST_DIMENSIONS:
            raise VectorError(
                f"array {quoted(name)} has type {array.dtype} in {array.ndim} dimensions; expected real "
                f"numbers in at most {_MOST_DIMENSIONS}"
            )
        packed.append(_Packed(str(name), array.dtype.str, array.shape, memoryview(array.tobytes())))
    return msgspec.msgpack.encode(packed)


def unpack_arrays(payload: bytes, copied: bool = True) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``pack_arrays`` packed, as writable copies or as read-only views of ``payload``."""
    try:
        packed = msgspec.msgpack.decode(payload, type=_Arrays)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedMessage("the task does not consist of arrays") from error
    arrays = {array.name: _unpack(array, copied) for array in packed}
    if len(arrays) != len(packed):
        raise MalformedMessage("the task has two arrays with the same name")
    return arrays


def _unpack(packed: _Packed, copied: bool) -> NDArray[Any]:
    if packed.type not in _TYPES or any(size < 0 for size in packed.shape):
        raise MalformedMessage(f"array {quoted(packed.name)} of the task has no real numbers, or an invalid shape")
    dtype = np.dtype(packed.type)
    if len(packed.data) != math.prod(packed.shape) * dtype.itemsize:
        raise MalformedMessage(f"the size of array {quoted(packed.name)} of the task does not fit its shape")
    try:
        array = np.frombuffer(packed.data, dtype).reshape(packed.shape)
        return array.copy() if copied else array
    except ValueError:  # empty, with more rows or columns than there can be
        raise MalformedMessage(f"array {quoted(packed.name)} of the task has an invalid shape") from None
