"""Rounds that stand still at each step, for the harnesses that feed a client or a server.

Everything is drawn from fixed seeds, so that an input means the same in every run.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from attacks.hostile import HostileRound
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.graphs import Harary
from ccesa.guards import GUARDS, guard_named
from ccesa.protocol.client import Client
from ccesa.protocol.steps import steps_of
from ccesa.simulate import enrolment
from ccesa.words import Vector

CLIENTS = 6
#: Gone in the step "mask", so that there is a dropped client to speak of.
GONE = 4
IDENTITIES = [Identity(bytes([place + 1]) * 32) for place in range(CLIENTS)]
CHARTER = enrolment.make_charter(IDENTITIES, bits=16, graph=Harary(degree=4))
FEDERATION = enrolment.Enrolment(identities=IDENTITIES, charter=CHARTER)


class Place(NamedTuple):
    """A place is where a round stands still: its guard, whether it has *accept*, and the open step."""

    guard: str
    accept: bool
    step: str

    def __str__(self) -> str:
        return f"{self.guard}-{'accept-' if self.accept else ''}{self.step}"


def configuration(guard: str, accept: bool) -> RoundConfig:
    if guard_named(guard).chartered:
        return CHARTER.config(length=3, series_id=bytes(32), accept=accept)
    graph = CHARTER.graph
    return RoundConfig(series_id=bytes(32), clients=CLIENTS, length=3, bits=16, graph=graph, accept=accept)


#: The guards along graphs; ``assisted_stage`` has rounds with helpers.
WITH_GRAPHS = [guard.name for guard in GUARDS.values() if guard.has_graph]
#: Each of these guards and its steps, without and with accept, in the order that the first byte of an input counts in.
PLACES = [
    Place(guard, accept, step.name)
    for guard in WITH_GRAPHS
    for accept in (False, True)
    for step in steps_of(configuration(guard, accept))
]


def chosen(data: bytes) -> Place:
    """The place that an input is for."""
    return PLACES[data[0] % len(PLACES)]


def new_stand(place: Place) -> HostileRound:
    """A round whose step at this place is open."""
    config = configuration(place.guard, place.accept)
    vectors = {who: _vector(config, who) for who in range(CLIENTS)}
    clients = {who: new_client(config, who) for who in vectors}
    stand = HostileRound(enrolment.new_server(config, FEDERATION), clients, vectors)
    return stand.until(place.step, {"mask": {GONE}})


@cache
def stand(place: Place) -> HostileRound:
    """The same one for many inputs, as long as nobody changes it."""
    return new_stand(place)


def new_client(config: RoundConfig, who: int) -> Client:
    random = np.random.default_rng(who).bytes
    return enrolment.new_client(config, who, _vector(config, who), FEDERATION, random=random)


def _vector(config: RoundConfig, who: int) -> Vector:
    return np.full(config.length, who, np.uint16)
