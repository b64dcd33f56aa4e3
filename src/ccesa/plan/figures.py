"""What the noise of a plan comes to: both epsilons, standard deviations, and what distributing it costs."""

import math
from dataclasses import dataclass

from ccesa.plan.promises import ratio
from ccesa.plan.result import Plan
from ccesa.privacy import Mechanism


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept against one kind of server: epsilon, with so many honest clients in every sum."""

    epsilon: float
    honest: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of a plan's noise; standard deviations are in units of the vector.

    Attributes:
        follows: What is kept against a server that follows the protocol.
        lies: What is kept against one that lies; None where nothing is promised.
        per_client: The standard deviation of the noise that one client adds to a coordinate.
        in_sum: That of the expected sum.
        in_mean: That of its mean: by so much a coordinate is off.
        curator: What a trusted curator would add to a sum for the same promise.
        ratio: The noise of the expected sum beside the curator's.
        ratio_if_all_stay: The same if nobody drops out.
        drowning: The L2 norm of the noise in the mean beside the bound on a client's vector; 0 where the
            noise hides records, of which there may be any number.
        field_bits: Bits of a parameter in a sum.
        bytes_each: Bytes of a parameter on the wire.
    """

    follows: Kept | None
    lies: Kept | None
    per_client: float
    in_sum: float
    in_mean: float
    curator: float
    ratio: float
    ratio_if_all_stay: float
    drowning: float
    field_bits: int
    bytes_each: float

    @property
    def drowns(self) -> bool:
        """Whether there is more noise than signal even if all clients say the same."""
        return self.drowning > 1


def figures(plan: Plan, mechanism: Mechanism) -> Figures:
    """Return the figures of a plan with this noise, with (1 - q) n survivors expected."""
    expected = plan.assumptions.staying
    in_mean = mechanism.noise(expected) / expected
    return Figures(
        follows=_kept(plan, mechanism, "follows"),
        lies=_kept(plan, mechanism, "lies"),
        per_client=mechanism.noise(1),
        in_sum=mechanism.noise(expected),
        in_mean=in_mean,
        curator=mechanism.curator,
        ratio=ratio(mechanism, expected),
        ratio_if_all_stay=ratio(mechanism, plan.clients),
        drowning=0.0 if mechanism.unit else math.sqrt(mechanism.dimension) * in_mean / mechanism.norm,
        field_bits=mechanism.field_bits,
        bytes_each=mechanism.fields.bytes_each,
    )


def _kept(plan: Plan, mechanism: Mechanism, against: str) -> Kept | None:
    """Return what this noise keeps against a server for which it may not have been made."""
    promise = plan.promised(against)
    if promise is None:
        return None
    epsilon = mechanism.certified(promise.honest, promise.fails)
    return None if epsilon == math.inf else Kept(epsilon=epsilon, honest=promise.honest)
