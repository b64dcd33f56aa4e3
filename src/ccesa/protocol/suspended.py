"""A client's state as bytes, for nodes whose every step runs in another process.

The bytes contain the client's secrets. They belong into the memory of the node that runs the client, never
into a message, a log or a backup: whoever resumes twice answers twice. After a crash, join the next round.
"""

from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import numpy as np

from ccesa.crypto import keys, primitives
from ccesa.errors import ConfigError
from ccesa.protocol import client_steps as steps

#: The kinds of objects that states are made of; a subclass of Client may add its own.
KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        steps.Joined,
        steps.Advertised,
        steps.Shared,
        steps.Masked,
        steps.Done,
    )
}


def register(*kinds: type) -> None:
    KINDS.update({kind.__name__: kind for kind in kinds})


def encode(state: Any) -> bytes:
    return msgspec.msgpack.encode(_plain(state))


def decode(data: bytes) -> list[Any]:
    """Of the node's own memory, so nobody's message; damaged bytes are refused all the same."""
    try:
        found = _object(msgspec.msgpack.decode(data))
        if not isinstance(found, list):
            raise TypeError("not a list")
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, SyntaxError, RecursionError) as error:
        raise ConfigError("these bytes are no suspended client of this version") from error
    return found


def _plain(value: Any) -> Any:
    """Nested lists of numbers, bytes and text; everything else is a list that starts with its kind."""
    if isinstance(value, np.ndarray):
        return ["array", value.dtype.str, list(value.shape), value.tobytes()]
    if isinstance(value, primitives.PrivateKey):
        return ["key", primitives.private_bytes(value)]
    if isinstance(value, keys.Sealing):
        return ["sealing", *value]
    if isinstance(value, list):
        return ["list", *map(_plain, value)]
    if is_dataclass(value) and not isinstance(value, type):
        return ["object", type(value).__name__, *(_plain(getattr(value, one.name)) for one in fields(value))]
    if value is None or isinstance(value, int | bytes | str):
        return value
    raise TypeError(f"{type(value).__name__} is no part of a client's state")


def _object(plain: Any) -> Any:
    if not isinstance(plain, list):
        return plain
    match plain:
        case ["array", str(dtype), list(shape), bytes(data)]:
            return np.frombuffer(data, np.dtype(dtype)).reshape(shape).copy()
        case ["key", bytes(raw)]:
            return primitives.private_key(raw)
        case ["sealing", bytes(outgoing), bytes(incoming)]:
            return keys.Sealing(outgoing, incoming)
        case ["list", *values]:
            return [_object(value) for value in values]
        case ["object", str(name), *values]:
            kind = KINDS[name]
            names = [one.name for one in fields(kind)]
            return kind(**dict(zip(names, map(_object, values), strict=True)))
    raise ValueError("an unknown kind of value")
