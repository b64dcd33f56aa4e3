"""Rounds that stand still at each step, for the harnesses that feed a client or a server.

Everything is drawn from fixed seeds, so that an input means the same in every run.
"""

from functools import cache

import numpy as np

from attacks.hostile import HostileRound
from ccesa.config import RoundConfig
from ccesa.graphs import Harary
from ccesa.guards import GUARDS, guard_named
from ccesa.identity import Identity
from ccesa.protocol.client import Client
from ccesa.protocol.steps import steps_of
from ccesa.simulate import enrolment
from ccesa.words import Vector

CLIENTS = 6
#: Gone in the step "mask", so that there is a dropped client to speak of.
GONE = 4
IDENTITIES = [Identity(bytes([place + 1]) * 32) for place in range(CLIENTS)]
CHARTER = enrolment.chartered(IDENTITIES, bits=16, graph=Harary(degree=4))
FEDERATION = enrolment.Federation(identities=IDENTITIES, charter=CHARTER)
#: Every guard and step, in the order that the first byte of an input counts in.
PLACES = [(guard, place) for guard in GUARDS for place in range(len(steps_of(guard)))]


def configuration(guard: str) -> RoundConfig:
    if guard_named(guard).chartered:
        return CHARTER.config(length=3, round_id=bytes(32))
    return RoundConfig(round_id=bytes(32), clients=CLIENTS, length=3, bits=16, graph=CHARTER.graph)


def new_stand(guard: str, place: int) -> HostileRound:
    """A round whose step at this place is open."""
    config = configuration(guard)
    vectors = {who: _vector(config, who) for who in range(CLIENTS)}
    clients = {who: new_client(config, who) for who in vectors}
    stand = HostileRound(enrolment.new_server(config, FEDERATION), clients, vectors)
    return stand.until(steps_of(guard)[place].name, {"mask": {GONE}})


@cache
def stand(guard: str, place: int) -> HostileRound:
    """The same one for many inputs, as long as nobody changes it."""
    return new_stand(guard, place)


def new_client(config: RoundConfig, who: int) -> Client:
    random = np.random.default_rng(who).bytes
    return enrolment.new_client(config, who, _vector(config, who), FEDERATION, random=random)


def _vector(config: RoundConfig, who: int) -> Vector:
    return np.full(config.length, who, np.uint16)
