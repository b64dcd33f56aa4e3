"""A task is what one question asks of the sites: bytes, which a digest stands for in the protocol.

A site computes the digest from the bytes that it works on, so a hub cannot ask two sites for different things
in one sum. The number of a round is not in it: a question that is asked again is the same task.
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
_TYPES = {
    f"<{kind}{size}"
    for kind, sizes in (("f", (2, 4, 8)), ("i", (2, 4, 8)), ("u", (2, 4, 8)))
    for size in sizes
}
_TYPES |= {"|i1", "|u1"}
#: The most arrays of a task, and the most dimensions of each: a hub may send anything.
_MOST_ARRAYS, _MOST_DIMENSIONS = 1 << 16, 32


class _Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One array: its name, the type of its numbers, its shape, and the numbers."""

    name: str
    type: str
    shape: Annotated[tuple[int, ...], msgspec.Meta(max_length=_MOST_DIMENSIONS)]
    data: memoryview


_Arrays = Annotated[list[_Packed], msgspec.Meta(max_length=_MOST_ARRAYS)]


def task_digest(payload: bytes) -> bytes:
    """Return the 32 bytes by which the protocol knows a task."""
    return labels.digest(labels.SERVICE_TASK, payload)


def pack_arrays(arrays: NamedArrays) -> bytes:
    """Return named arrays as bytes; the same arrays in the same order give the same bytes.

    Raises VectorError for what does not consist of real numbers, and for more arrays than a task can have.
    """
    packed = []
    if len(arrays) > _MOST_ARRAYS:
        raise VectorError(f"a task has at most {_MOST_ARRAYS} arrays, not {len(arrays)}")
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
    """Return the arrays that ``pack_arrays`` packed; raise MalformedMessage for other bytes.

    They can be written to, unless they are not ``copied`` but where they lie.
    """
    try:
        packed = msgspec.msgpack.decode(payload, type=_Arrays)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedMessage("the task has no arrays in it") from error
    arrays = {one.name: _array(one, copied) for one in packed}
    if len(arrays) != len(packed):
        raise MalformedMessage("the task has two arrays of one name")
    return arrays


def _array(packed: _Packed, copied: bool) -> NDArray[Any]:
    if packed.type not in _TYPES or any(size < 0 for size in packed.shape):
        raise MalformedMessage(
            f"array {quoted(packed.name)} of the task has no real numbers, or no such shape"
        )
    dtype = np.dtype(packed.type)
    if len(packed.data) != math.prod(packed.shape) * dtype.itemsize:
        raise MalformedMessage(f"array {quoted(packed.name)} of the task has another size than its shape")
    try:
        array = np.frombuffer(packed.data, dtype).reshape(packed.shape)
        return array.copy() if copied else array
    except ValueError:  # no numbers at all, in more rows or columns than there can be
        raise MalformedMessage(f"array {quoted(packed.name)} of the task has no such shape") from None
