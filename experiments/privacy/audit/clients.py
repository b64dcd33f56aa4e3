"""Clients to be audited: the right one, and some whose noise or clipping is wrong in a way that is known."""

import os
from collections.abc import Callable
from functools import cached_property

import numpy as np

from ccesa.privacy import Mechanism, NoisyQuantizer
from ccesa.privacy.quantizer import Floats, Noise, rotate
from ccesa.values.fields import Row
from ccesa.words import Vector
from experiments.privacy.audit.canaries import Encode


class Halved(NoisyQuantizer[list[Floats]]):
    """Half the standard deviation."""

    @cached_property
    def _noise(self) -> Noise:
        return Noise(self.mechanism.variance // 4, self.mechanism.grid_bits)


class Unclipped(NoisyQuantizer[list[Floats]]):
    """Neither clips nor checks the norm."""

    def _on_grid(self, flat: Floats, context: bytes) -> tuple[Row, bool]:
        scaled = rotate(flat * (self.mechanism.bound / self.mechanism.norm), context)
        return np.rint(scaled).astype(np.int64), False


class Silent(NoisyQuantizer[list[Floats]]):
    """Rounds to integers, and adds no noise."""

    @cached_property
    def _noise(self) -> Noise:
        return _NoNoise(self.mechanism.variance, self.mechanism.grid_bits)


class _NoNoise(Noise):
    def sample(self, fine: Row, random: Callable[[int], bytes] = os.urandom) -> Row:
        return np.asarray(np.rint(fine / 2.0**self.tables.grid_bits), np.int64)


def _all(kind: type[NoisyQuantizer[list[Floats]]]) -> Callable[[Mechanism], Encode]:
    return lambda mechanism: _taking_turns(mechanism, kind)


def _taking_turns(mechanism: Mechanism, *kinds: type[NoisyQuantizer[list[Floats]]]) -> Encode:
    """Clients of several kinds, one after the other."""
    made = [kind.for_model([np.zeros(mechanism.dimension)], mechanism) for kind in kinds]

    def encode(client: int, model: Floats, context: bytes, random: Callable[[int], bytes]) -> Vector:
        return made[client % len(made)].encode([model], context, random).vector

    return encode


#: By what is said about them in results and pictures.
CLIENTS: dict[str, Callable[[Mechanism], Encode]] = {
    "right": _all(NoisyQuantizer),
    "noise halved": _all(Halved),
    "every other without noise": lambda mechanism: _taking_turns(mechanism, NoisyQuantizer, Silent),
    "not clipped": _all(Unclipped),
}
