"""Names under the masks: what an app calls its records and metrics can depend on its data, like their values.

Every node adds its names, a few bits in each word. If all have the same, each word of the sum is one node's
times their number, and the names come back; if not, the server learns that some differ, not whose.
"""

from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from ccesa import labels, words
from ccesa.digits import largest_base
from ccesa.errors import VectorError
from ccesa.words import Vector

_LENGTH_BYTES, _DIGEST_BYTES = 2, 16
_HEAD = _LENGTH_BYTES + _DIGEST_BYTES
_DECODER = msgspec.msgpack.Decoder(list[str])


@dataclass(frozen=True, kw_only=True)
class HiddenNames:
    """Writes names of at most ``room`` bytes into words whose sum over all clients stays in range."""

    room: int
    clients: int
    bits: int

    @cached_property
    def _width(self) -> int:
        """Bits of names in each word."""
        return largest_base(self.clients, self.bits).bit_length() - 1

    @property
    def length(self) -> int:
        """Words that the names take, whatever they are."""
        return -(-8 * (_HEAD + self.room) // self._width)

    def fit(self, names: list[str]) -> bool:
        """Return whether there is room for these names."""
        return len(msgspec.msgpack.encode(names)) <= self.room

    def encode(self, names: list[str]) -> Vector:
        """Return the words of one client."""
        text = msgspec.msgpack.encode(names)
        if len(text) > min(self.room, 256**_LENGTH_BYTES - 1):
            raise VectorError(f"names of {len(text)} bytes where there is room for {self.room}")
        data = len(text).to_bytes(_LENGTH_BYTES, "little") + _digest(text) + text
        row = np.zeros(self.length * self._width, np.uint8)
        row[: 8 * len(data)] = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        places = np.uint64(1) << np.arange(self._width, dtype=np.uint64)
        return (row.reshape(self.length, -1).astype(np.uint64) @ places).astype(words.dtype(self.bits))

    def decode(self, total: Vector, times: int) -> list[str] | None:
        """Return the names from the sum over ``times`` clients; None where they differ."""
        row, rest = np.divmod(total.astype(np.uint64), np.uint64(times))
        if rest.any() or (row >> np.uint64(self._width)).any():
            return None
        bits = (row[:, None] >> np.arange(self._width, dtype=np.uint64)) & np.uint64(1)
        return _read(np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes())


def _read(data: bytes) -> list[str] | None:
    text = data[_HEAD : _HEAD + int.from_bytes(data[:_LENGTH_BYTES], "little")]
    if _digest(text) != data[_LENGTH_BYTES:_HEAD]:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # all of them made it up


def _digest(text: bytes) -> bytes:
    """Tell a sum of different names from names."""
    return labels.digest(labels.FLOWER_NAMES, text)[:_DIGEST_BYTES]
