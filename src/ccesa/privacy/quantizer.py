"""``NoisyQuantizer``: a model becomes a vector of words with noise in it, and a sum becomes the mean.

One client's part: clip to the norm, rotate, round to the fine grid, check the norm there in whole numbers,
and draw an integer around every value. No float decides how far a client can change the sum, or how noise
falls.
"""

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import numpy as np

from ccesa import words
from ccesa.crypto.shamir import Randomness
from ccesa.errors import ConfigError, VectorError
from ccesa.parts import check_type, whole_number
from ccesa.privacy.mechanism import Mechanism
from ccesa.privacy.noise import Noise
from ccesa.privacy.rotation import Floats, rotate, unrotate
from ccesa.values.fields import WORD_BITS, Row
from ccesa.values.layout import Arrays, Layout
from ccesa.values.quantize import Mean, Model, Quantized
from ccesa.words import Vector

#: How often a vector that is still too long on the fine grid is made shorter; then it is zero.
_TRIES = 4


@dataclass(frozen=True, kw_only=True)
class NoisyQuantizer(Generic[Model]):
    """Turns the models of all clients of a round into vectors with noise. Agree on it before the round.

    Every client counts one. Whatever else is to be released, such as metrics, has to be among the arrays,
    under the same norm.

    Attributes:
        layout: Names, shapes and types of the arrays; ``for_model`` reads them off a model.
        mechanism: The noise, as it stands in a charter or comes from a plan.

    Raises:
        ConfigError: The model has another number of parameters than the mechanism, or the noise is for
            records.
    """

    layout: Layout
    mechanism: Mechanism

    def __post_init__(self) -> None:
        check_type("mechanism", self.mechanism, Mechanism, "; plan(..., privacy=...).mechanism is one")
        if self.layout.size != self.mechanism.dimension:
            raise ConfigError(
                f"a model of {self.layout.size} parameters, and noise that is made for "
                f"{self.mechanism.dimension}: plan for this model"
            )
        if self.mechanism.unit:
            raise ConfigError(f"this noise hides a {self.mechanism.unit}, not a client's whole model")

    @classmethod
    def for_model(cls, arrays: Arrays, mechanism: Mechanism) -> "NoisyQuantizer[Any]":
        """Return a quantizer for models that look like this one.

        Args:
            arrays: A list or dict of arrays or tensors; only names, shapes and types matter.
            mechanism: The noise.

        Raises:
            VectorError: An array does not consist of real numbers.
            ConfigError: The model has another number of parameters than the mechanism.
        """
        return cls(layout=Layout.of(arrays), mechanism=mechanism)

    @property
    def length(self) -> int:
        """Words of the vector, of 64 bits each."""
        return self.mechanism.length

    def encode(self, arrays: Arrays, context: bytes, random: Randomness = os.urandom) -> Quantized:
        """Return a client's vector of ``length`` words, with fresh noise in it.

        Args:
            arrays: The client's model, with the names and shapes of the layout.
            context: ``RoundConfig.context`` of the round for which it is.
            random: Gives so many random bytes; anything but the system's is for tests.

        Returns:
            The vector, and 1 under ``clipped`` if the model was longer than the norm.

        Raises:
            VectorError: Other names or shapes, NaN or infinity.
        """
        fine, clipped = self._on_grid(self.layout.flatten(arrays), context)
        drawn = self._noise.sample(fine, random)
        return Quantized(vector=self.mechanism.fields.pack(drawn), clipped=int(clipped))

    def decode(self, total: Vector, survivors: int, context: bytes) -> Mean[Model]:
        """Return the mean over the survivors, in the form of the model; its weight is their number.

        Args:
            total: The sum of the survivors' vectors, ``length`` words.
            survivors: How many they are.
            context: ``RoundConfig.context`` of the round.

        Raises:
            VectorError: Another length or type, or no survivors.
        """
        words.check(total, self.length, WORD_BITS)
        if whole_number("survivors", survivors) < 1:
            raise VectorError("cannot average: no survivors")
        sums, _ = self.mechanism.fields.split(total)
        steps: Floats = sums[: self.mechanism.dimension] * np.float64(self.mechanism.step / survivors)
        return Mean(arrays=self.layout.restore(unrotate(steps, context)), weight=float(survivors))

    def _on_grid(self, flat: Floats, context: bytes) -> tuple[Row, bool]:
        """Return the rotated vector on the fine grid, of norm ``bound`` at most, and if it was clipped.

        Rounding adds about d / 12 to the square of a norm, so a vector is clipped to as much less.
        """
        mechanism = self.mechanism
        largest = float(max(flat.max(), -flat.min()))
        if largest == 0:
            return np.zeros(flat.size, np.int64), False
        flat /= largest  # the squares of large and small floats are no floats
        length = float(np.linalg.norm(flat))
        longest = math.sqrt(max(mechanism.bound**2 - mechanism.dimension / 12, 0.0))
        wanted, allowed = largest * (mechanism.bound / mechanism.norm), longest / length
        flat *= min(wanted, allowed)
        return self._shortened(rotate(flat, context)), wanted > allowed

    def _shortened(self, rotated: Floats) -> Row:
        """Return the nearest point of the fine grid; of a shorter vector where it is too far out, or zero."""
        most = self.mechanism.bound**2
        fine = np.empty(rotated.size, np.int64)
        for _ in range(_TRIES):
            np.rint(rotated, out=fine, casting="unsafe")
            if (found := square(fine)) <= most:
                return fine
            rotated *= most / found * (1 - 1 / self.mechanism.bound)  # by a step more than is missing
        return np.zeros_like(fine)

    @cached_property
    def _noise(self) -> Noise:
        return Noise(self.mechanism.variance, self.mechanism.grid_bits)


def square(row: Row) -> int:
    """Return the square of a norm, in whole numbers of any size.

    Args:
        row: Whole numbers below 2^31.
    """
    largest = max(int(row.max(initial=1)), -int(row.min(initial=0)))
    many = (2**63 - 1) // largest**2  # so many squares add up to less than 2^63
    return sum(int(np.dot(some, some)) for some in (row[at : at + many] for at in range(0, row.size, many)))
