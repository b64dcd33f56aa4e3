"""A client's state becomes bytes, for nodes that run each step in another process.

The bytes contain secrets. Keep them in the memory of the node that runs the client, never in a message, a log or a
backup. Resumed twice, they make a client that answers twice, and under the guard ``active`` signs two different V3. So
a node takes them out of its memory before it resumes them, and never puts a copy back; a restored backup or snapshot
of a machine is a copy. After a crash, join the next round.
"""

import hashlib
import os
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np

from ccesa.crypto import primitives
from ccesa.errors import ConfigError, OrderError
from ccesa.memory import Used

State = TypeVar("State")
_DIGEST_BYTES = hashlib.sha256().digest_size


class Suspended(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    #: No two suspensions give the same bytes, so a second use is noticed.
    nonce: bytes = msgspec.field(default_factory=lambda: os.urandom(16))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class SavedClient(Suspended, frozen=True, kw_only=True):
    context: bytes
    client: int
    step: str
    #: None if the client is done, or has aborted.
    state: bytes | None
    last_request: bytes
    last_reply: bytes | None


class SavedSeriesClient(Suspended, frozen=True, kw_only=True):
    series: bytes
    exchange: int
    last_number: int
    over: bool
    #: By number, as ``Client.suspend`` gives them.
    clients: dict[int, bytes]


def encode(saved: Suspended) -> bytes:
    body = msgspec.msgpack.encode(saved)
    return hashlib.sha256(body).digest() + body


def decode(data: bytes, kind: type[State]) -> State:
    """Read bytes from the node's own memory; damaged ones are refused, though nobody sent them."""
    digest, body = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise ConfigError("these bytes are not a suspended client, or are damaged")
    return decode_state(body, kind)


def check_first_use(data: bytes, resumed: Used | None) -> None:
    """Refuse bytes that were resumed before, if there is a memory of them."""
    if resumed is None:
        return
    digest = hashlib.sha256(data).digest()
    if digest in resumed:
        raise OrderError("this state was resumed before; two clients that go on from it could answer twice")
    resumed.add(digest)


def encode_state(state: object) -> bytes:
    return msgspec.msgpack.encode(state, enc_hook=_to_bytes)


def decode_state(data: bytes, kind: type[State]) -> State:
    """Decode strictly, so that a state never passes for another one with fewer fields."""
    try:
        state = msgspec.msgpack.decode(data, type=kind, dec_hook=_from_bytes)
        if encode_state(state) != data:
            raise ValueError("another form than encoding gives")
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError("these bytes are not a suspended client of this version") from error
    return state


def _to_bytes(value: object) -> bytes:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value.tobytes()
    if isinstance(value, primitives.PrivateKey):
        return primitives.private_bytes(value)
    raise TypeError(f"{type(value).__name__} is not part of a client's state")


def _from_bytes(kind: Any, data: bytes) -> Any:
    if kind is primitives.PrivateKey:
        return primitives.private_key(data)
    _, dtype = get_args(kind)  # of a vector, the only other kind
    return np.frombuffer(data, get_args(dtype)[0]).copy()
