"""Both sides of a series know which step of which round is due when, and make one party for each round."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError
from ccesa.guards import guard_named
from ccesa.parts import check_type
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import HasSteps, steps_of

Party = TypeVar("Party", Client, Helper, Server)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    stride: int
    #: The request that opens each step.
    requests: tuple[type[m.Message], ...]

    @classmethod
    def of(cls, round: HasSteps) -> "Schedule":
        return cls(stride=guard_named(round.guard).stride, requests=tuple(step.request for step in steps_of(round)))

    def exchange(self, place: int, request: type[m.Message] | None) -> int | None:
        """Return the exchange of a request of the round at this place in the series; None if it opens no step."""
        return place * self.stride + self.requests.index(request) if request in self.requests else None

    def starts(self, exchange: int) -> bool:
        return exchange % self.stride == 0


def check_series(config: RoundConfig) -> None:
    """Refuse a configuration that cannot be that of a round of a series."""
    check_type("config", config, RoundConfig, "; plan.config(accept=True) makes one")
    if guard_named(config.guard).has_graph and not config.accept:
        raise ConfigError("a series needs the step accept: make its configuration with accept=True")
    longest = max(m.limit(kind, config) for step in steps_of(config) for kind in (step.request, step.reply))
    if longest > envelope.MAX_MESSAGE_BYTES:
        raise ConfigError(
            f"length = {config.length} is too long for a series: a message could have {longest} bytes, an envelope "
            f"carries {envelope.MAX_MESSAGE_BYTES}"
        )


def with_number(config: RoundConfig, number: int) -> RoundConfig:
    return msgspec.structs.replace(config, number=number)


def make_party(make: Callable[[RoundConfig], Party], config: RoundConfig, kind: type[Party]) -> Party:
    """Make the party of a round by the caller's function; raise ConfigError if it is for another round."""
    party = make(config)
    check_type(f"round {config.number}", party, kind)
    if party.context != config.context:
        raise ConfigError(
            f"the {kind.__name__} of round {config.number} was made from another configuration: make it from the "
            "argument of the function"
        )
    return party
