"""Whole numbers as digits, one field each, whose sums over all clients stay in their fields."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ccesa.errors import VectorError
from ccesa.values.fields import Fields, Row


@dataclass(frozen=True, kw_only=True)
class Digits:
    """Writes whole numbers from 0 to ``largest`` as digits, least first, and reads sums of them."""

    fields: Fields
    largest: int

    @property
    def base(self) -> int:
        """The largest base whose digits can be added up over all clients."""
        return self.fields.most + 1

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The value of each digit: as many powers of the base as the largest number needs."""
        places = [1]
        while places[-1] * self.base <= self.largest:
            places.append(places[-1] * self.base)
        return tuple(places)

    def encode(self, numbers: Iterable[int]) -> Row:
        """Return the digits of one number after the other."""
        row = [number // place % self.base for number in numbers for place in self.places]
        return np.array(row, np.int64)

    def decode(self, sums: Row) -> list[int]:
        """Return the sums of the numbers, from the sums of the digits that clients have encoded.

        Raises VectorError where all clients together cannot have that much, or less than nothing.
        """
        rows = sums.reshape(-1, len(self.places)).tolist()
        found = [sum(digit * place for digit, place in zip(row, self.places, strict=True)) for row in rows]
        most = self.fields.clients * self.largest
        if sums.min(initial=0) < 0 or max(found, default=0) > most:
            raise VectorError(
                f"more in the sum than {self.fields.clients} clients can have; is it their sum?"
            )
        return found
