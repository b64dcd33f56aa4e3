"""Suspended clients, as if the digest were right. The first byte chooses the place.

They come from a node's own memory and not from others; damaged ones must be refused by name all the same.
"""

import hashlib

import msgspec

from ccesa.errors import ConfigError
from ccesa.protocol import suspended
from fuzz import stage

WHO = 0


def one(data: bytes) -> None:
    if not data:
        return
    guard, accept, _ = stage.chosen(data)
    client = stage.new_client(stage.configuration(guard, accept), WHO)
    try:
        client.resume(sealed(data[1:]))
    except ConfigError:
        return
    again = suspended.decode(client.suspend(), suspended.SavedClient)
    if msgspec.msgpack.encode(msgspec.structs.replace(again, nonce=b"")) != without_nonce(data[1:]):
        raise AssertionError("a client that goes on from another state than the one it was given")


def sealed(body: bytes) -> bytes:
    return hashlib.sha256(body).digest() + body


def without_nonce(body: bytes) -> bytes:
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(body), "nonce": b""})
