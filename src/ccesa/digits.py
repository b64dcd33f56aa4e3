"""Whole numbers as digits, one word each, whose sums over all clients stay in their words."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ccesa import words
from ccesa.words import Vector


def largest_base(clients: int, bits: int) -> int:
    """Return the largest base whose digits can be added up over so many clients in words of ``bits`` bits."""
    return (2**bits - 1) // clients + 1


@dataclass(frozen=True, kw_only=True)
class Digits:
    """Writes whole numbers from 0 to ``largest`` as digits, least first, and reads sums of them."""

    clients: int
    bits: int
    largest: int

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The value of each digit: as many powers of the base as the largest number needs."""
        base, places = largest_base(self.clients, self.bits), [1]
        while places[-1] * base <= self.largest:
            places.append(places[-1] * base)
        return tuple(places)

    def encode(self, numbers: Iterable[int]) -> Vector:
        """Return the digits of one number after the other."""
        base = largest_base(self.clients, self.bits)
        row = [number // place % base for number in numbers for place in self.places]
        return np.array(row, words.dtype(self.bits))

    def decode(self, total: Vector) -> list[int]:
        """Return the sums of the numbers, from the sum of what clients have encoded."""
        rows = total.reshape(-1, len(self.places)).tolist()
        return [sum(digit * place for digit, place in zip(row, self.places, strict=True)) for row in rows]
