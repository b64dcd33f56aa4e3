"""Members and a charter for rounds that are simulated; real ones come from files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ccesa.charter import Charter, Seat, Stated
from ccesa.graphs import Complete
from ccesa.identity import Identity
from ccesa.thresholds import Majority

#: The largest time that a charter knows: simulated ones do not expire.
_NEVER = 2**53 - 1
#: Certain failure: what a charter states that rests on no plan.
NOTHING = Stated(
    dropout=0.0,
    collusion=0.0,
    colluders=0,
    around=0,
    least_honest=0,
    privacy_bits=0.0,
    reliability_bits=0.0,
    unreliable=0.0,
    disconnected=0.0,
    exposed=0.0,
    unmaskable=0.0,
)


@dataclass(frozen=True, kw_only=True)
class Federation:
    """All members with their identities, which only a simulation has in one place."""

    identities: Sequence[Identity] = field(repr=False)
    charter: Charter = field(repr=False)


def enrol(clients: int) -> list[Identity]:
    """A fresh identity for each client."""
    return [Identity.new() for _ in range(clients)]


def chartered(identities: Sequence[Identity], *, kind: type[Charter] = Charter, **agreed: Any) -> Charter:
    """A charter of all of them, in this order. It promises nothing unless a certificate is given."""
    seats = tuple(Seat(f"client-{place}", one.public) for place, one in enumerate(identities))
    defaults: dict[str, Any] = {
        "serial": 1,
        "expires": _NEVER,
        "graph": Complete(),
        "threshold": Majority(),
        "least_roster": 3,
        "min_survivors": 3,
        "certificate": NOTHING,
    }
    return kind(members=seats, **(defaults | agreed))


def federate(clients: int, **agreed: Any) -> Federation:
    """A federation of so many fresh identities."""
    identities = enrol(clients)
    return Federation(identities=identities, charter=chartered(identities, **agreed))
