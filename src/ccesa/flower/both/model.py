"""The model in a message: arrays out of Flower's records, differences, and what digests are over."""

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np
from flwr.app import ArrayRecord, RecordDict
from numpy.typing import NDArray

from ccesa.errors import ConfigError, VectorError

Arrays = dict[str, NDArray[Any]]


def model_of(content: RecordDict) -> Arrays:
    """Return the arrays of a train or evaluate message, in which at most one ArrayRecord is allowed."""
    found: list[ArrayRecord] = [one for one in content.values() if isinstance(one, ArrayRecord)]
    if len(found) > 1:
        raise ConfigError(f"a message with {len(found)} ArrayRecords; secure aggregation takes one")
    arrays = {name: array.numpy() for record in found for name, array in record.items()}
    for name, value in arrays.items():
        if value.dtype.kind not in "fiub":
            raise ConfigError(f"array {name!r} has type {value.dtype}; secure aggregation takes real numbers")
    return arrays


def counters_of(model: Arrays) -> set[str]:
    """Return the names of the arrays that are whole numbers."""
    return {name for name, value in model.items() if value.dtype.kind != "f"}


def real_numbers(model: Arrays, counters: Collection[str]) -> Arrays:
    """Return the other arrays, without those that had whole numbers once."""
    left_out = counters_of(model) | {*counters}
    return {name: value for name, value in model.items() if name not in left_out}


def differences(model: Arrays, reply: Arrays) -> Arrays:
    """Return what training added to the model."""
    if set(reply) != set(model):
        raise VectorError(f"the reply has arrays {list(reply)}, the model has {list(model)}")
    for name, value in reply.items():
        if value.shape != model[name].shape:
            raise VectorError(f"array {name!r} has shape {value.shape}, the model's has {model[name].shape}")
    return {name: np.subtract(reply[name], model[name], dtype=np.float64) for name in model}


def moved(value: NDArray[Any], difference: NDArray[np.float64]) -> NDArray[Any]:
    """Return the model's array plus the mean difference in its own type; a mean of counters is a float."""
    found = np.add(value, difference, dtype=np.float64)
    return found.astype(value.dtype) if value.dtype.kind == "f" else found


def content_parts(content: RecordDict) -> list[bytes]:
    """Return every record with its name, in an order that does not depend on how it travelled."""
    parts: list[bytes] = []
    for name, record in sorted(content.items()):
        parts += [name.encode(), type(record).__name__.encode()]
        if isinstance(record, ArrayRecord):
            parts += _record_parts(record)
        else:
            parts.append(msgspec.msgpack.encode(sorted(record.items())))
    return parts


def array_parts(content: RecordDict) -> list[bytes]:
    """Return the arrays alone, whatever their record is called."""
    records = [record for record in content.values() if isinstance(record, ArrayRecord)]
    return [part for record in records for part in _record_parts(record)]


def _record_parts(record: ArrayRecord) -> list[bytes]:
    parts: list[bytes] = []
    for name, array in record.items():
        value = array.numpy()
        head = f"{name}\0{value.dtype.str}\0{value.shape}".encode()
        parts += [head, hashlib.sha256(np.ravel(value).view(np.uint8).data).digest()]
    return parts
