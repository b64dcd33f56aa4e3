"""Names under the masks: what an app calls its records and metrics can depend on its data, like their values.

Every node adds its names, a few bits in each element. If all have the same, each element of the sum is one
node's times their number, and the names come back; if not, the server learns that some differ, not whose.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa import labels, words
from ccesa.errors import VectorError
from ccesa.flower import slots

_LABEL = b"ccesa-flower-2 names"
_LENGTH_BYTES, _DIGEST_BYTES = 2, 16
_HEAD = _LENGTH_BYTES + _DIGEST_BYTES
_DECODER = msgspec.msgpack.Decoder(list[str])


def fit(names: list[str], room: int) -> bool:
    """Whether these names have at most ``room`` bytes."""
    return len(msgspec.msgpack.encode(names)) <= room


def elements(room: int, clients: int, bits: int) -> int:
    """Words that names of at most ``room`` bytes take."""
    return -(-8 * (_HEAD + room) // _width(clients, bits))


def encode(names: list[str], room: int, clients: int, bits: int) -> words.Vector:
    """Of one client."""
    text = msgspec.msgpack.encode(names)
    if len(text) > min(room, 256**_LENGTH_BYTES - 1):
        raise VectorError(f"names of {len(text)} bytes where there is room for {room}")
    data = len(text).to_bytes(_LENGTH_BYTES, "little") + _digest(text) + text
    width, count = _width(clients, bits), elements(room, clients, bits)
    row = np.zeros(count * width, np.uint8)
    row[: 8 * len(data)] = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    places = np.uint64(1) << np.arange(width, dtype=np.uint64)
    return (row.reshape(count, width).astype(np.uint64) @ places).astype(words.dtype(bits))


def decode(total: words.Vector, times: int, clients: int, bits: int) -> list[str] | None:
    """From the sum over ``times`` clients; None where their names differ."""
    values, width = total.astype(np.uint64), _width(clients, bits)
    row, rest = np.divmod(values, np.uint64(times))
    if rest.any() or (row >> np.uint64(width)).any():
        return None
    return _read(_bytes(row, width))


def _read(data: bytes) -> list[str] | None:
    text = data[_HEAD : _HEAD + int.from_bytes(data[:_LENGTH_BYTES], "little")]
    if _digest(text) != data[_LENGTH_BYTES:_HEAD]:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # all of them made it up


def _bytes(row: NDArray[np.uint64], width: int) -> bytes:
    bits = (row[:, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes()


def _width(clients: int, bits: int) -> int:
    """Bits of names in each element, so that the sum over all clients stays in a word."""
    return slots.base(clients, bits).bit_length() - 1


def _digest(text: bytes) -> bytes:
    """So that a sum of different names is not taken for names."""
    return labels.digest(_LABEL, text)[:_DIGEST_BYTES]
