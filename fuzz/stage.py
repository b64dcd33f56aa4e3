"""Rounds that stand still at each step, for the harnesses that feed a client or a server.

Everything is drawn from fixed seeds, so that an input means the same in every run.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from ccesa.config import Harary, RoundConfig
from ccesa.guards import GUARDS
from ccesa.identity import Identity
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import ActiveServer, Server
from ccesa.protocol.steps import steps_of
from ccesa.simulate.enrolment import chartered

CLIENTS = 6
#: Gone in the step "mask", so that there is a dropped client to speak of.
GONE = 4
IDENTITIES = [Identity(bytes([place + 1]) * 32) for place in range(CLIENTS)]
CHARTER = chartered(IDENTITIES, bits=16, graph=Harary(degree=4))
#: Every guard and step, in the order that the first byte of an input counts in.
PLACES = [(guard, place) for guard in GUARDS for place in range(len(steps_of(guard)))]


def configuration(guard: str) -> RoundConfig:
    if guard == "active":
        return CHARTER.config(length=3, round_id=bytes(32))
    return RoundConfig(round_id=bytes(32), clients=CLIENTS, length=3, bits=16, graph=CHARTER.graph)


class Stand(NamedTuple):
    """A round with one step open: its server, its clients, its requests."""

    server: Server
    clients: dict[int, Client]
    requests: dict[int, bytes]


def new_stand(guard: str, place: int) -> Stand:
    config = configuration(guard)
    server = ActiveServer(config, CHARTER) if guard == "active" else Server(config)
    stand = Stand(server, {who: new_client(config, who) for who in range(CLIENTS)}, server.open())
    for step in steps_of(guard)[:place]:
        for who, request in stand.requests.items():
            if (step.name, who) != ("mask", GONE):
                server.receive(who, stand.clients[who].receive(request))
        stand = stand._replace(requests=server.close())
    return stand


@cache
def stand(guard: str, place: int) -> Stand:
    """The same one for many inputs, as long as nobody changes it."""
    return new_stand(guard, place)


def new_client(config: RoundConfig, who: int) -> Client:
    vector = np.full(config.length, who, np.uint16)
    random = np.random.default_rng(who).bytes
    if config.guard == "active":
        return ActiveClient(config, IDENTITIES[who], CHARTER, vector, random=random, tasks=None)
    return Client(config, who, vector, random=random)
