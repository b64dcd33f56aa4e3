"""Rounds with noise in one process: what goes with them, and made-up models where there are none."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError
from ccesa.privacy import Mechanism, NoisyQuantizer
from ccesa.protocol.server import Aggregate
from ccesa.values.fields import WORD_BITS
from ccesa.words import Vector

#: Made-up models are a little shorter than the norm, so that rounding cuts none of them.
_LENGTH = 0.9


def check_alone(**others: object) -> None:
    """Refuse what does not go beside noise: every client counts one, and the plan decides the rest."""
    for name, value in others.items():
        if value is not None:
            raise ConfigError(
                f"{name} does not go with privacy: every client counts one, models are clipped to "
                "privacy.norm, and graph, threshold and fields are planned with the noise"
            )


class NoisyVectors:
    """Vectors with noise for ``simulate``, of made-up models with almost the full norm.

    A client's vector is the same whenever it is asked for. Its model follows from the seed, its noise from a
    key that is drawn once and lives as long as this object: real clients keep none.

    Args:
        mechanism: The noise.
        config: The round.
        seed: Fixes the models, never the noise.

    Raises:
        ConfigError: The round's vectors are not those of this noise.
    """

    def __init__(self, mechanism: Mechanism, config: RoundConfig, seed: int) -> None:
        if (config.length, config.bits) != (mechanism.length, WORD_BITS):
            raise ConfigError(
                f"vectors of {config.length} words of {config.bits} bits, and noise that is made for "
                f"{mechanism.length} of {WORD_BITS}"
            )
        self.mechanism, self.context, self.seed = mechanism, config.context, seed
        self._quantizer: NoisyQuantizer[list[NDArray[Any]]] = NoisyQuantizer.for_model(
            [np.zeros(mechanism.dimension)], mechanism
        )
        self._keys = [os.urandom(16) for _ in range(config.clients)]

    def __call__(self, client: int) -> Vector:
        """Return a client's vector."""
        return self._quantizer.encode([self.model(client)], self.context, lambda _: self._keys[client]).vector

    def model(self, client: int) -> NDArray[np.float64]:
        """Return what a client's vector is about."""
        drawn = np.random.default_rng([self.seed, 1, client]).normal(size=self.mechanism.dimension)
        drawn *= _LENGTH * self.mechanism.norm / np.linalg.norm(drawn)
        return drawn

    def measured(self, found: Aggregate) -> float:
        """Return the standard deviation of the noise in a sum, over its coordinates.

        Args:
            found: The sum of vectors that were made here.
        """
        many = len(found.survivors)
        (mean,) = self._quantizer.decode(found.vector, many, self.context).arrays
        return float(np.sqrt(np.mean((many * mean - sum(map(self.model, found.survivors))) ** 2)))
