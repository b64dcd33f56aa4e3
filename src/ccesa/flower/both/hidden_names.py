"""Names under the masks: what an app calls its records and metrics can depend on its data, like their values.

Every node adds its names, a few bits in each field. If all have the same, each field of the sum is one node's
times their number, and the names come back; if not, the server learns that some differ, not whose.
"""

from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from ccesa import labels
from ccesa.errors import VectorError
from ccesa.values.fields import Fields, Row

_LENGTH_BYTES, _DIGEST_BYTES = 2, 16
_HEAD = _LENGTH_BYTES + _DIGEST_BYTES
_DECODER = msgspec.msgpack.Decoder(list[str])


@dataclass(frozen=True, kw_only=True)
class HiddenNames:
    """Writes names of at most ``room`` bytes into fields whose sum over all clients stays in range."""

    room: int
    fields: Fields

    @cached_property
    def _width(self) -> int:
        """Bits of names in each field."""
        return (self.fields.most + 1).bit_length() - 1

    @property
    def count(self) -> int:
        """Fields that the names take, whatever they are."""
        return -(-8 * (_HEAD + self.room) // self._width)

    def fit(self, names: list[str]) -> bool:
        """Return whether there is room for these names."""
        return len(msgspec.msgpack.encode(names)) <= self.room

    def encode(self, names: list[str]) -> Row:
        """Return the numbers of one client."""
        text = msgspec.msgpack.encode(names)
        if len(text) > min(self.room, 256**_LENGTH_BYTES - 1):
            raise VectorError(f"names of {len(text)} bytes where there is room for {self.room}")
        data = len(text).to_bytes(_LENGTH_BYTES, "little") + _digest(text) + text
        row = np.zeros(self.count * self._width, np.uint8)
        row[: 8 * len(data)] = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        places = 1 << np.arange(self._width)
        return np.asarray(row.reshape(self.count, -1).astype(np.int64) @ places)

    def decode(self, sums: Row, times: int) -> list[str] | None:
        """Return the names from the sum over ``times`` clients; None where they differ."""
        row, rest = np.divmod(sums, times)
        if rest.any() or (row >> self._width).any():
            return None
        bits = (row[:, None] >> np.arange(self._width)) & 1
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
