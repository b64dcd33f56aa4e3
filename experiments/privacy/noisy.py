"""Sums of noisy vectors: through a real round, or by adding up the words, which gives the same.

Masks cancel, and all that is left of a round is the sum of the survivors' words modulo 2^64. So experiments
that need many sums add up the vectors that clients would have masked; some of their rounds are real, and a
test shows that both ways give the same words for the same randomness.
"""

import hashlib
from collections.abc import Callable, Iterable

import numpy as np

from ccesa.agreement.config import RoundConfig
from ccesa.plan import Plan
from ccesa.protocol.server import Aggregate
from ccesa.simulate.simulation import Dropouts
from ccesa.values.fields import WORD_BITS
from ccesa.words import Vector, dtype
from experiments import rounds

#: Makes the vector of a client, the same one whenever it is asked for.
Source = Callable[[int], Vector]


def added(vector: Source, survivors: Iterable[int], length: int) -> Vector:
    """Return the sum of these clients' words."""
    total: Vector = np.zeros(length, dtype(WORD_BITS))
    for client in survivors:
        total += vector(client)
    return total


def real(config: RoundConfig, vector: Source, gone: Dropouts, seed: list[int]) -> Aggregate:
    """Return what the server has after a real round, every byte of it, whose keys come from the seed.

    Raises:
        RoundFailed: There is no sum.
    """
    result = rounds.ran(config, vector, gone, seed).result
    if isinstance(result, Aggregate):
        return result
    raise result


def configured(made: Plan, seed: list[int]) -> RoundConfig:
    """Return a round as planned, with a series id from the seed."""
    series = hashlib.sha256(repr(seed).encode()).digest()
    return made.config(series_id=series)


def seeded(seed: list[int]) -> Callable[[int], bytes]:
    """Return randomness from a seed: for experiments only."""
    return np.random.default_rng(seed).bytes
