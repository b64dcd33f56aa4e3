"""Bytes to other bytes, steered by two numbers."""

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ccesa.protocol import messages as m
from rounds import read

if TYPE_CHECKING:
    from adversary import World


def _flip(data: bytes, x: int, y: int, world: "World") -> bytes:
    place = x % (8 * len(data))
    return data[: place // 8] + bytes([data[place // 8] ^ 1 << place % 8]) + data[place // 8 + 1 :]


def _truncate(data: bytes, x: int, y: int, world: "World") -> bytes:
    return data[: x % len(data)]


def _extend(data: bytes, x: int, y: int, world: "World") -> bytes:
    return data + bytes([x & 0xFF]) * (1 + y % 80)


def _field(data: bytes, x: int) -> tuple[m.Message, str, bytes]:
    """One of the byte strings of a message; its context if it has no other."""
    message = read(data)
    names = [name for name in message.__struct_fields__ if name not in ("client", "context")] or ["context"]
    name = names[x % len(names)]
    return message, name, bytes(getattr(message, name))


def _with(message: m.Message, **fields: object) -> bytes:
    return msgspec.structs.replace(message, **fields).encode()


def flip_in_field(data: bytes, x: int, y: int, world: "World") -> bytes:
    """Well-formed, and one bit of one field is another."""
    message, name, value = _field(data, x)
    return _with(message, **{name: _flip(value, y, 0, world)}) if value else data


def _resize_field(data: bytes, x: int, y: int, world: "World") -> bytes:
    message, name, value = _field(data, x)
    size = (1, 4, 32, 64, 80)[y % 5]
    return _with(message, **{name: (value[:-size], value[size:], value + value[:size])[y // 5 % 3]})


def _swap_in_field(data: bytes, x: int, y: int, world: "World") -> bytes:
    """Two keys, signatures, sealed texts or shares change places."""
    message, name, value = _field(data, x)
    size = (32, 64, 80)[y % 3]
    items = [value[first : first + size] for first in range(0, len(value), size)]
    if len(items) > 1:
        one, other = y // 3 % len(items), y // 7 % len(items)
        items[one], items[other] = items[other], items[one]
    return _with(message, **{name: b"".join(items)})


_PER_NEIGHBOUR = {"commitments", "sealed"}


def _fields(message: m.Message) -> set[str]:
    return set(message.__struct_fields__)


def _without_one(message: m.Message, name: str, which: int, world: "World") -> bytes:
    items = m.each(message, name, world.config)
    del items[which % max(1, len(items)) : which % max(1, len(items)) + 1]
    return b"".join(items)


def _drop_one(data: bytes, x: int, y: int, world: "World") -> bytes:
    """A set that is smaller by one, or a neighbour that is listed as dropped with what belongs to it."""
    message = read(data)
    if hasattr(message, "dropped"):
        gone = set(m.unpack_ids("dropped", message.dropped, world.setup.clients).tolist())
        dropped = m.pack_ids(np.array(sorted({*gone, x % world.setup.clients}), np.int64))
        less = {name: _without_one(message, name, y, world) for name in _PER_NEIGHBOUR & _fields(message)}
        return _with(message, dropped=dropped, **less)
    for name in ("v1", "v2", "v3"):
        if hasattr(message, name):
            members = m.unpack_set(name, getattr(message, name), world.setup.clients)
            members[x % world.setup.clients] ^= True
            return _with(message, **{name: m.pack_set(members)})
    return flip_in_field(data, x, y, world)


def _relabel(data: bytes, x: int, y: int, world: "World") -> bytes:
    return _with(read(data), client=x % (world.setup.clients + 2))


def _dress_up(data: bytes, x: int, y: int, world: "World") -> bytes:
    """Any message of any round, with the context and the client of this one."""
    message = read(data)
    return _with(read(world.log[x % len(world.log)]), context=message.context, client=message.client)


def _splice(data: bytes, x: int, y: int, world: "World") -> bytes:
    """One field comes from another message of the same type."""
    message, name, _ = _field(data, x)
    alike = [other for other in map(read, world.log) if type(other) is type(message)]
    return _with(message, **{name: getattr(alike[y % len(alike)], name)}) if alike else data


def rewrite_vector(data: bytes, x: int, y: int, world: "World") -> bytes:
    """Another vector with the tag or digest that belongs to it: not an accident, somebody's doing."""
    message = read(data)
    if not hasattr(message, "vector") or not message.vector:
        return flip_in_field(data, x, y, world)
    vector = _flip(bytes(message.vector), y, 0, world)
    name, make = message.fingerprint
    return _with(message, **{"vector": vector, name: make(vector, message.context, message.client)})


#: What stays well-formed gets further, so it comes more often.
TAMPERINGS = (
    _flip,
    _truncate,
    _extend,
    _resize_field,
    flip_in_field,
    flip_in_field,
    flip_in_field,
    _swap_in_field,
    _swap_in_field,
    _drop_one,
    _drop_one,
    _relabel,
    _dress_up,
    _splice,
    rewrite_vector,
)
