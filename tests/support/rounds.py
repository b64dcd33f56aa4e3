"""Rounds for tests: real clients and a real server, step by step, with a hand on every message."""

from collections import defaultdict
from functools import lru_cache

import numpy as np
import pytest

from attacks.hostile import HostileRound
from attacks.stage import changed
from ccesa import words
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import FaultyClient, RoundFailed
from ccesa.graphs import Complete
from ccesa.parts import MAX_CLIENTS
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import steps_of
from ccesa.protocol.steps import steps_under as steps_under
from ccesa.simulate import Enrolment, make_charter
from ccesa.simulate.enrolment import new_client, new_server

LOOSE = Floor(clients=1, degree=0, mask_degree=0, threshold=1, survivors=1)


def configure(clients: int = 8, **options) -> RoundConfig:
    options.setdefault("length", 5)
    options.setdefault("bits", 16)
    options.setdefault("graph", Complete())
    options.setdefault("min_survivors", 2)
    return RoundConfig(clients=clients, **options)


def inputs(config: RoundConfig, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.frombuffer(rng.bytes(config.vector_bytes), words.dtype(config.bits)) for _ in range(config.clients)]


@lru_cache
def identity(i: int) -> Identity:
    return Identity(i.to_bytes(32, "little"))


#: Every charter that a configuration of these tests was made from, by digest.
_CHARTERS: dict[bytes, Charter] = {}


@lru_cache
def charter(clients: int = 8, **agreed) -> Charter:
    """Of the identities 0 to clients - 1, in this order, with what ``configure`` has by default."""
    made = make_charter(list(map(identity, range(clients))), **{"bits": 16, "min_survivors": 2, **agreed})
    return _CHARTERS.setdefault(made.digest, made)


def charter_of(config: RoundConfig) -> Charter:
    return _CHARTERS[config.charter]


def configure_active(clients: int = 8, **options) -> RoundConfig:
    left = {name: options.pop(name) for name in ("series_id", "number", "accept") if name in options}
    length = options.pop("length", 5)
    return charter(clients, **options).config(length=length, **left)


#: The guards whose clients mask along a graph, and how a round of each is configured.
CONFIGURE = {"curious": configure, "active": configure_active}


def federation_of(config: RoundConfig) -> Enrolment | None:
    """Everyone who is in the charter of a round, if it has one: client i has identity i."""
    if config.charter not in _CHARTERS:
        return None
    return Enrolment(identities=[identity(i) for i in range(config.clients)], charter=charter_of(config))


class Play(HostileRound):
    """A round that a test drives: random inputs from a seed, under the guard of the configuration."""

    def __init__(
        self,
        config: RoundConfig,
        *,
        server: type[Server] | None = None,
        seed: int = 0,
        task: bytes = m.NO_TASK,
        **client_options,
    ) -> None:
        self.config, self.vectors, self.task = config, dict(enumerate(inputs(config, seed))), task
        clients = {i: self.make_client(i, **client_options) for i in range(config.clients)}
        made = new_server(config, federation_of(config), task=task) if server is None else server(config, task=task)
        super().__init__(made, clients, self.vectors)
        #: What the server was sent, by step and client.
        self.said = defaultdict(dict)

    def hand_over(self, client: int, reply: bytes) -> None:
        self.said[self.server.step.name][client] = reply
        super().hand_over(client, reply)

    def beside(self, **options) -> Server:
        """Another server of this round, which has followed it into the open step."""
        other = new_server(self.config, federation_of(self.config), task=self.task, **options)
        other.open()
        for step in steps_of(self.config):
            if step.name == self.server.step.name:
                break
            for client, reply in self.said[step.name].items():
                other.receive(client, reply)
            other.close()
        return other

    def make_client(self, i: int, **options) -> Client:
        options = {"task": self.task, **options}
        federation = federation_of(self.config)
        charged = "account" in options or (federation is not None and federation.charter.mechanism is not None)
        vector = (lambda: self.vectors[i]) if charged else self.vectors[i]  # only a function can be charged
        return new_client(self.config, i, vector, federation, **options)


def checked_outcome(play: Play, gone) -> str:
    """An aggregate is the plain sum over those who sent a vector; anything else is a named failure."""
    try:
        aggregate = play.finish(gone)
    except RoundFailed as failure:
        return type(failure).__name__
    silent = set().union(*(gone.get(step, ()) for step in ("advertise", "share", "mask")))
    assert silent.isdisjoint(aggregate.survivors)
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    return "aggregate"


def read(data: bytes) -> m.Message:
    return m.decode(data, len(data))


def revectored(config: RoundConfig, reply: bytes, vector: bytes) -> bytes:
    """Another vector, with the tag or digest that belongs to it, as only its sender should be able to."""
    message = read(reply)
    name, make = message.fingerprint
    return changed(reply, **{"vector": vector, name: make(vector, config.context, message.client)})


def accused_in(reply: bytes) -> set[int]:
    """Whom a client accuses, in the step *accept* or in a complaint."""
    return set(m.unpack_ids("accused", read(reply).accused, MAX_CLIENTS).tolist())


def refuses(play: Play, client: int, reply: bytes, match: str, kind=FaultyClient) -> None:
    """Refused, the sender named, and nothing else has changed: the honest answer is still taken."""
    waiting, total = play.server.waiting, total_of(play.server)
    with pytest.raises(kind, match=match) as error:
        play.server.receive(client, reply)
    assert error.value.client == client
    assert play.server.waiting == waiting
    assert np.array_equal(total_of(play.server), total)


def total_of(server: Server) -> np.ndarray:
    """A copy of the running sum; zero before step 2."""
    return np.array(getattr(server._state, "total", 0))
