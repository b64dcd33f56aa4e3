"""``DifferentialPrivacy``: what is asked for, before anybody knows with which noise."""

from typing import Literal, get_args

import msgspec

from ccesa.errors import ConfigError, quoted
from ccesa.parts import Part, check_integer
from ccesa.values.fields import is_positive

Against = Literal["follows", "lies"]
#: What a promise is about, where it is not a client's whole vector.
Unit = Literal["record"]

#: Below, floats cannot tell the terms of delta apart; above, nothing is private.
LEAST_DELTA, MOST_EPSILON = 1e-12, 50.0
MOST_ROUNDS = 10**9


class DifferentialPrivacy(Part, frozen=True, kw_only=True):
    """How little all published sums together tell about any one client.

    Whatever is published would have been as likely, up to a factor e^epsilon and except with delta, if one
    client's vectors had all been zero. Who survived each round is public.

    Attributes:
        epsilon: Above 0 and at most 50; below 1 is strong, above 10 says little.
        delta: At least 10^-12 and below 1; well below one over the number of clients.
        rounds: So many vectors of one client may leave, those of lost rounds included.
        norm: The L2 norm to which a client's vector is clipped.
        against: ``follows``: a server that follows the protocol; ``lies``: one that may not.
        unit: ``record``: the promise is about one record of a client's table more or less, and ``norm`` about
            what it adds to the client's vector. Left out, it is about the client.

    Raises:
        ConfigError: A field is out of range.
    """

    epsilon: float
    delta: float
    rounds: int
    norm: float
    against: Against = "follows"
    unit: Unit | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_demand(self)
        for name in ("epsilon", "delta", "norm"):  # numpy's narrower floats would round what follows
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))


def check_demand(asked: Part) -> None:
    """Check the fields of a demand, wherever they are.

    Raises:
        ConfigError: A field is out of range; the text names it.
    """
    epsilon, delta, rounds, norm, against, unit = (
        getattr(asked, name) for name in DifferentialPrivacy.__struct_fields__
    )
    check_budget(epsilon, delta)
    check_integer("rounds", rounds)
    if not 1 <= rounds <= MOST_ROUNDS:
        raise ConfigError(f"rounds must lie in 1..{MOST_ROUNDS}, not {rounds}")
    if not is_positive(norm) or not 1e-100 < float(norm) < 1e100:
        raise ConfigError(f"norm must be a positive number, not {quoted(norm)}")
    if against not in get_args(Against):
        raise ConfigError(f"against must be one of {', '.join(get_args(Against))}, not {quoted(against)}")
    if unit not in (msgspec.UNSET, *get_args(Unit)):
        raise ConfigError(f"unit must be {', '.join(get_args(Unit))} or left out, not {quoted(unit)}")


def check_budget(epsilon: float, delta: float) -> None:
    """Check an epsilon with its delta.

    Raises:
        ConfigError: One of them is out of range; the text names it.
    """
    if not is_positive(epsilon) or float(epsilon) > MOST_EPSILON:
        raise ConfigError(f"epsilon must lie above 0 and be at most {MOST_EPSILON:g}, not {quoted(epsilon)}")
    if not is_positive(delta) or not LEAST_DELTA <= float(delta) < 1:
        raise ConfigError(f"delta must be at least {LEAST_DELTA:g} and below 1, not {quoted(delta)}")
