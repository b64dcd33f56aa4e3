"""Rounds for tests: real clients and a real server, step by step, with a hand on every message."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import msgspec
import numpy as np
import pytest

from ccesa import ring
from ccesa.config import Complete, Floor, RoundConfig
from ccesa.errors import FaultyClient
from ccesa.identity import Admission, Identity, Member
from ccesa.protocol import messages as m
from ccesa.protocol.active_client import ActiveClient
from ccesa.protocol.active_server import ActiveServer
from ccesa.protocol.client import Client
from ccesa.protocol.server import Aggregate, Server

LOOSE = Floor(clients=1, degree=0, mask_degree=0, threshold=1, survivors=1)


def configure(clients: int = 8, **options) -> RoundConfig:
    options.setdefault("length", 5)
    options.setdefault("bits", 16)
    options.setdefault("graph", Complete())
    options.setdefault("min_survivors", 2)
    return RoundConfig(clients=clients, **options)


def inputs(config: RoundConfig, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        np.frombuffer(rng.bytes(config.vector_bytes), ring.dtype(config.bits)) for _ in range(config.clients)
    ]


class Play:
    """A round that a test drives: ``requests`` lie open between steps and may be tampered with."""

    def __init__(
        self, config: RoundConfig, *, server: type[Server] = Server, seed: int = 0, **client_options
    ):
        self.config = config
        self.vectors = inputs(config, seed)
        self.clients = {i: self.make_client(i, **client_options) for i in range(config.clients)}
        self.server = self.make_server(server)
        self.requests = self.server.open()

    def make_client(self, i: int, **options) -> Client:
        return Client(self.config, i, self.vectors[i], **options)

    def make_server(self, kind: type[Server]) -> Server:
        return kind(self.config)

    def replies(self, gone: Iterable[int] = ()) -> dict[int, bytes]:
        gone = set(gone)
        return {i: self.clients[i].receive(r) for i, r in self.requests.items() if i not in gone}

    def step(self, gone: Iterable[int] = (), tamper: Callable[[int, bytes], bytes] = lambda i, r: r) -> None:
        for i, reply in self.replies(gone).items():
            self.server.receive(i, tamper(i, reply))
        self.requests = self.server.close()

    def finish(self, gone: Mapping[str, Iterable[int]] = {}) -> Aggregate:
        while self.requests:
            self.step(gone.get(self.server.step.name, ()))
        return self.server.result()

    def until(self, name: str, gone: Mapping[str, Iterable[int]] = {}) -> "Play":
        while self.server.step.name != name:
            self.step(gone.get(self.server.step.name, ()))
        return self

    def expected(self, survivors: Iterable[int]) -> np.ndarray:
        total = ring.zeros(self.config.length, self.config.bits)
        for i in survivors:
            total = total + self.vectors[i]
        return total


@lru_cache
def identity(i: int) -> Identity:
    return Identity(i.to_bytes(32, "little"))


@lru_cache
def admission(clients: int) -> Admission:
    return Admission(Member(f"client-{i}", identity(i).public) for i in range(clients))


def configure_active(clients: int = 8, **options) -> RoundConfig:
    return configure(clients, guard="active", admission=admission(clients).digest, **options)


class ActivePlay(Play):
    """The same under the guard ``active``: client i has identity i."""

    def make_client(self, i: int, **options) -> ActiveClient:
        return ActiveClient(
            self.config, identity(i), admission(self.config.clients), self.vectors[i], **options
        )

    def make_server(self, kind: type[Server]) -> ActiveServer:
        return ActiveServer(self.config, admission(self.config.clients))


def read(data: bytes) -> m.AnyMessage:
    return m.decode(data, len(data))


def changed(data: bytes, **fields) -> bytes:
    """The same message with other fields."""
    return msgspec.structs.replace(read(data), **fields).encode()


def ids(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def refuses(play: Play, client: int, reply: bytes, match: str, kind=FaultyClient) -> None:
    """Refused, the sender named, and nothing else has changed: the honest answer is still taken."""
    waiting, total = play.server.waiting, play.server._total.copy()
    with pytest.raises(kind, match=match) as error:
        play.server.receive(client, reply)
    assert error.value.client == client
    assert play.server.waiting == waiting
    assert np.array_equal(play.server._total, total)
