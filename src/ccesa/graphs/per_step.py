"""Dropouts per step: the probability that a client leaves in a step of a round, if it answered the steps before.

The graph is drawn over V1, the clients that have answered *advertise*. V2 have answered every step before *mask*, V3
have answered *mask*, and V4 have answered all steps.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ccesa.errors import ConfigError, quoted

#: Every step that a round may have, in order; *accept* and *confirm* are not in every round.
ORDER = ("advertise", "share", "accept", "mask", "confirm", "unmask")


@dataclass(frozen=True, kw_only=True)
class PerStep:
    """The probability in [0, 1) of leaving in each step, in the order of ``ORDER``."""

    each: tuple[float, ...]
    #: Whether a client releases shares only after t_i of its neighbours have confirmed.
    confirms: bool = False

    def __post_init__(self) -> None:
        if len(self.each) != len(ORDER):
            raise ConfigError(f"dropout_per_step needs a number for each of {', '.join(ORDER)}")
        for name, value in zip(ORDER, self.each, strict=True):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
                raise ConfigError(f"{name} in dropout_per_step must be a probability in [0, 1), not {quoted(value)}")
        if self.each[ORDER.index("confirm")] and not self.confirms:
            raise ConfigError("this guard has no step confirm: leave it out of dropout_per_step")

    @classmethod
    def of(cls, said: object, steps: tuple[str, ...], *, confirms: bool) -> "PerStep":
        """Read one number for all of these ``steps``, or numbers by name; nobody leaves in other steps."""
        named: Mapping[Any, Any] = said if isinstance(said, Mapping) else dict.fromkeys(steps, said)
        unknown = [name for name in named if name not in ORDER]
        if unknown or not named:
            problem = f"{quoted(unknown[0])} is not one of them" if unknown else "it names none"
            raise ConfigError(f"dropout_per_step takes the steps {', '.join(ORDER)}: {problem}")
        return cls(each=tuple(named.get(name, 0.0) for name in ORDER), confirms=confirms)

    @property
    def total(self) -> float:
        """The probability of leaving at all."""
        return self.leaving("advertise", "unmask")

    def leaving(self, first: str, last: str) -> float:
        """Return the probability of leaving in one of these steps, if all before were answered."""
        steps = self.each[ORDER.index(first) : ORDER.index(last) + 1]
        return -math.expm1(math.fsum(math.log1p(-q) for q in steps))

    @property
    def advertises(self) -> float:
        """The probability of being in V1."""
        return 1.0 - self.leaving("advertise", "advertise")

    @property
    def shares(self) -> float:
        """The probability of being in V2."""
        return 1.0 - self.leaving("advertise", "accept")

    @property
    def unconfirmed(self) -> float:
        """The probability that one of V1 leaves before the last step, rounded up."""
        return _up(self.leaving("share", "confirm"))

    @property
    def leaves(self) -> float:
        """The probability that one of V1 leaves, rounded up."""
        return _up(self.leaving("share", "unmask"))

    @property
    def stays(self) -> float:
        """The probability that one of V1 answers every step."""
        return 1.0 - self.leaves

    @property
    def named(self) -> dict[str, float]:
        """The steps in which somebody leaves, with their probabilities."""
        return {name: q for name, q in zip(ORDER, self.each, strict=True) if q}

    def scaled(self, total: float) -> "PerStep":
        """Return the same split of another total, rounded down to six digits."""
        logs = [math.log1p(-q) for q in self.each]
        parts = (math.log1p(-total) * (log / math.fsum(logs)) for log in logs)
        each = (math.floor(-1e6 * math.expm1(part)) / 1e6 for part in parts)
        return PerStep(each=tuple(each), confirms=self.confirms)


def _up(value: float) -> float:
    """Return a number above any probability that was rounded to this value."""
    return value * (1 + 2.0**-49)
