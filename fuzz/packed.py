"""Packed lists inside messages: ids, sets, field elements, words of vectors. The first byte chooses which."""

import numpy as np

from ccesa import words
from ccesa.crypto import merkle, shamir
from ccesa.errors import MalformedMessage
from ccesa.protocol import messages as m


def one(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, number, body = data[0] % 5, data[1], data[2:]
    try:
        packed = (_ids, _set, _elements, _words, _proof)[kind](number, body)
    except (MalformedMessage, shamir.OutsideField, merkle.WrongProof):
        return
    if packed != body:
        raise AssertionError("a packed list with two forms")


def _ids(number: int, body: bytes) -> bytes:
    ids = m.unpack_ids("ids", body, number + 1)
    if ids.size and (ids.min() < 0 or ids.max() > number):
        raise AssertionError("an id that was never enrolled")
    return m.pack_ids(ids)


def _set(number: int, body: bytes) -> bytes:
    return m.pack_set(m.unpack_set("set", body, number + 1))


def _elements(number: int, body: bytes) -> bytes:
    return shamir.to_bytes(shamir.from_bytes(body))


def _words(number: int, body: bytes) -> bytes:
    bits = words.BITS[number % 4]
    content: bytes = words.from_bytes(m.check_size("vector", body, len(body) // 8 * 8), bits).tobytes()
    return content


def _proof(number: int, body: bytes) -> bytes:
    """A tree of up to 16 leaves, some of them known: any proof gives a top or has the wrong size."""
    size = number % 16 + 1
    places = np.flatnonzero(np.unpackbits(np.array([number, body[0] if body else 1], np.uint8))[:size])
    if places.size:
        top = merkle.top(size, places.tolist(), [bytes([place]) * 32 for place in places], body)
        if len(top) != merkle.HASH_BYTES:
            raise AssertionError("a top of the wrong size")
    return body
