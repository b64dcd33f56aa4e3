"""What a round publishes: the sum of the clients' vectors, with noise for an epsilon or without.

Nobody drops out but who is told to, and everybody is honest: the noise is the least that the promise
allows, since that is what attacks are to be tried on.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccesa.agreement.config import RoundConfig
from ccesa.plan import Plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer, choose_mechanism
from ccesa.simulate import usual_plan
from ccesa.values.fields import WORD_BITS
from ccesa.values.quantize import Quantizer
from ccesa.words import Vector
from experiments.privacy import noisy

Floats = NDArray[np.float64]

DELTA, DROPOUT = 1e-5, 0.1


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Rounds of so many clients, each with a vector of ``dimension`` numbers of L2 norm up to ``norm``.

    Epsilon is for ``rounds`` rounds together, infinity where no noise is added; no sum has fewer than
    ``least`` clients.
    """

    clients: int
    dimension: int
    norm: float
    epsilon: float
    rounds: int = 1
    least: int

    @cached_property
    def mechanism(self) -> Mechanism | None:
        if math.isinf(self.epsilon):
            return None
        asked = DifferentialPrivacy(epsilon=self.epsilon, delta=DELTA, rounds=self.rounds, norm=self.norm)
        fails = -self._plan.privacy_bits
        return choose_mechanism(asked, clients=self.clients, honest=self.least, dimension=self.dimension, fails=fails)

    @property
    def noise(self) -> float:
        """The standard deviation of a coordinate of the sum."""
        return 0.0 if self.mechanism is None else self.mechanism.noise(self.clients)

    def total(self, sent: Floats, seed: list[int], *, gone: Sequence[int] = (), real: bool = True) -> Floats:
        """Return the sum over all rows of ``sent``, one for each client, but those that are gone.

        It comes from a real round, or the same words are added up without masks, which gives the same.
        """
        config = self.config(seed)

        def vector(client: int) -> Vector:
            return self._encoded(sent[client], config.context, [*seed, client, 1])

        if real:
            words = noisy.real(config, vector, {"mask": frozenset(gone)}, seed).vector
        else:
            words = noisy.added(vector, sorted(set(range(self.clients)).difference(gone)), config.length)
        survivors = self.clients - len(gone)
        return survivors * self._decoded(words, survivors, config.context)

    def config(self, seed: list[int]) -> RoundConfig:
        """Return a round with the usual graph and a series id from the seed."""
        return RoundConfig(
            series_id=hashlib.sha256(repr(seed).encode()).digest(),
            clients=self.clients,
            length=self._quantizer.length,
            bits=WORD_BITS,
            graph=self._plan.graph,
            threshold=self._plan.threshold,
            min_survivors=self.least,
        )

    @cached_property
    def _plan(self) -> Plan:
        return usual_plan(self.clients, DROPOUT)

    @cached_property
    def _quantizer(self) -> "Quantizer[Any] | NoisyQuantizer[Any]":
        model = [np.zeros(self.dimension)]
        if self.mechanism is None:
            return Quantizer.for_model(model, clients=self.clients, clip=self.norm)
        return NoisyQuantizer.for_model(model, self.mechanism)

    def _encoded(self, row: Floats, context: bytes, seed: list[int]) -> Vector:
        if isinstance(self._quantizer, NoisyQuantizer):
            return self._quantizer.encode([row], context, noisy.seeded(seed)).vector
        return self._quantizer.encode([row], rng=np.random.default_rng(seed)).vector

    def _decoded(self, words: Vector, survivors: int, context: bytes) -> Floats:
        if isinstance(self._quantizer, NoisyQuantizer):
            return np.asarray(self._quantizer.decode(words, survivors, context).arrays[0])
        return np.asarray(self._quantizer.decode(words).arrays[0])


def clipped(rows: Floats, norm: float) -> Floats:
    """Return every row, made shorter where its L2 norm is above ``norm``."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.maximum(1, lengths / norm))
