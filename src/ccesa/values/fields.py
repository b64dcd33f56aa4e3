"""Several signed numbers in one 64-bit word, whose sums over all clients are read back exactly.

The word is the sum of number_j · 2^(k j) modulo 2^64, for fields of k bits. Numbers borrow from the fields
above and carry into them, which is part of the arithmetic: a sum of words is the word of the sums, and single
clients and partial sums may wrap as they like. What counts is that every final sum lies within its field.
"""

import math
import numbers
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ccesa import compiled, words
from ccesa.errors import ConfigError, VectorError, quoted
from ccesa.words import Vector

#: Bits of a word in rounds whose vectors hold fields.
WORD_BITS: Literal[64] = 64
#: Bits of a field where nobody says otherwise: two of them in a word, 4 bytes for each number.
USUAL_BITS = 32
#: How far scaling a value and its inverse can move it, relative to its bound: they round, too.
ARITHMETIC_ERROR = 8 * float(np.finfo(np.float64).eps)
#: By how many steps each way of rounding moves a value at most.
STEPS = {"stochastic": 1.0, "nearest": 0.5}
#: float64 counts exactly up to here.
_MOST = 1 << 52

Row: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Fields:
    """Fields of ``bits`` bits, in which the numbers of so many clients add up without an overflow."""

    bits: int
    clients: int

    def __post_init__(self) -> None:
        for name, value in (("bits", self.bits), ("clients", self.clients)):
            if type(value) is not int:
                raise ConfigError(f"{name} must be a whole number, not {quoted(value)}")
        if self.clients < 1:
            raise ConfigError(f"clients must be at least 1, not {self.clients}")
        if not 2 <= self.bits <= WORD_BITS:
            raise ConfigError(f"a field has 2 to {WORD_BITS} bits, not {quoted(self.bits)}")
        if self.most < 1:
            raise ConfigError(
                f"fields of {self.bits} bits overflow with {self.clients} clients; "
                f"at most {2 ** (self.bits - 1) - 1} clients fit, or take more bits"
            )

    @classmethod
    def chosen(
        cls,
        clients: int,
        bits: int | None = None,
        precision: float | None = None,
        clip: float = 1.0,
        rounding: str = "stochastic",
    ) -> "Fields":
        """Return the narrowest fields for values of so many bits, or up to ``clip`` with such an error.

        Without either they have 32 bits.
        """
        if bits is not None and precision is not None:
            raise ConfigError("bits and precision are two ways to say the same; give one of them")
        if bits is None and precision is None:
            return cls(USUAL_BITS, clients)
        least = _levels_of(bits) if bits is not None else _levels_for(precision, clip, STEPS[rounding])
        widest = cls(WORD_BITS, clients)
        if least > widest.most:
            raise ConfigError(
                f"{least} levels overflow with {clients} clients; values of {widest.value_bits} bits fit"
            )
        return cls((clients * least).bit_length() + 1, clients)

    @cached_property
    def most(self) -> int:
        """The largest absolute number of one client: all clients together stay within the field."""
        return min((2 ** (self.bits - 1) - 1) // self.clients, _MOST)

    @property
    def value_bits(self) -> int:
        """Bits of one client's number: its sign, and ``most`` or a little less."""
        return (self.most + 1).bit_length()

    @property
    def per_word(self) -> int:
        """How many fields a word has."""
        return WORD_BITS // self.bits

    @property
    def bytes_each(self) -> float:
        """Bytes that a number costs on the wire."""
        return WORD_BITS / 8 / self.per_word

    @property
    def in_words(self) -> str:
        """What a number takes, for people."""
        return (
            f"values of {self.value_bits} bits in fields of {self.bits} bits, {self.per_word} per 64-bit "
            f"word: {self.bytes_each:.3g} bytes per value"
        )

    def as_dict(self) -> dict[str, float]:
        """Return every figure by its name."""
        names = ("bits", "value_bits", "per_word", "bytes_each")
        return {name: getattr(self, name) for name in names}

    def length(self, count: int) -> int:
        """Return how many words so many numbers take."""
        return -(-count // self.per_word)

    def pack(self, row: Row) -> Vector:
        """Return the words of one client's numbers, the first of them in the lowest field."""
        native = compiled.module()
        if not native:
            return self._packed(row)
        packed = np.empty(self.length(row.size), words.dtype(WORD_BITS))
        native.pack_fields(np.ascontiguousarray(row), self.bits, packed)
        return packed

    def split(self, total: Vector) -> tuple[Row, bool]:
        """Return what the fields of words hold, whatever that is, and if more is left in any word."""
        native = compiled.module()
        if not native:
            return self._split(total)
        row = np.empty(total.size * self.per_word, np.int64)
        return row, native.split_fields(np.ascontiguousarray(total), self.bits, row)

    def _packed(self, row: Row) -> Vector:
        packed = np.zeros(self.length(row.size), np.int64)
        for place in reversed(range(self.per_word)):
            numbers = row[place :: self.per_word]
            packed <<= self.bits
            packed[: numbers.size] += numbers
        return packed.view(words.dtype(WORD_BITS))

    def _split(self, total: Vector) -> tuple[Row, bool]:
        rest, above = total.astype(np.int64), WORD_BITS - self.bits
        rows = np.empty((self.per_word, total.size), np.int64)
        for row in rows:
            np.left_shift(rest, above, out=row)
            row >>= above  # which repeats the sign
            rest -= row
            rest >>= self.bits
        return rows.T.reshape(-1), bool(rest.any())

    def unpack(self, total: Vector, count: int) -> Row:
        """Return the sums of ``count`` numbers, from the sum of what clients have packed.

        Raises VectorError for words of another number or type, and for sums that no such clients can have.
        """
        words.check(total, self.length(count), WORD_BITS)
        row, left = self.split(total)
        most = self.clients * self.most
        if left or row[count:].any() or row.max(initial=0) > most or row.min(initial=0) < -most:
            raise VectorError(
                f"a sum in a field of {self.bits} bits that {self.clients} clients cannot have; "
                "is it the sum of their vectors?"
            )
        return row[:count]


def _levels_of(bits: int) -> int:
    """Return the largest number of so many bits with a sign."""
    if type(bits) is not int or not 2 <= bits <= _MOST.bit_length():
        raise ConfigError(f"a value has 2 to {_MOST.bit_length()} bits, not {quoted(bits)}")
    return int(2 ** (bits - 1)) - 1


def _levels_for(precision: Any, clip: float, steps: float) -> int:
    """Return into how many levels a bound has to be cut, so that rounding moves nothing by more than this."""
    for name, value in (("precision", precision), ("clip", clip or 1.0)):
        if not is_positive(value):
            raise ConfigError(f"{name} must be a positive number, not {quoted(value)}")
    left = (float(precision) / clip if clip else math.inf) - ARITHMETIC_ERROR
    if left <= 0:
        raise ConfigError(
            f"precision = {float(precision):g} is finer than float64 is for values up to {clip:g}"
        )
    return max(1, math.ceil(steps / left))


def is_positive(value: object) -> bool:
    """A number, not a bool, and within the range of floats."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return 0 < float(value) < math.inf
    except OverflowError:
        return False
