"""Series for tests: real clients and servers under either guard, and plain sums to compare with."""

from collections.abc import Callable, Iterable, Mapping
from itertools import count

import numpy as np

import rounds
from ccesa import labels, words
from ccesa.agreement.config import RoundConfig
from ccesa.guards import guard_named
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.round import SeriesTransport, run_series
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import new_client, new_server
from ccesa.words import Vector
from rounds import configure, federation_of

GUARDS = ("curious", "active")


def configure_series(guard: str, clients: int = 6, *, number: int = 0, length: int = 5, **agreed) -> RoundConfig:
    if guard_named(guard).chartered:
        return rounds.charter(clients, **agreed).config(length=length, number=number, accept=True)
    return configure(clients, number=number, length=length, accept=True, **agreed)


def task_of(number: int) -> bytes:
    """What round ``number`` works on."""
    return labels.digest(b"task", number.to_bytes(8, "little"))


class SeriesPlay:
    """A series that a test drives: everyone has another vector in every round."""

    def __init__(self, guard: str = "curious", clients: int = 6, rounds: int | None = 4, **options) -> None:
        self.guard, self.config = guard, configure_series(guard, clients, **options)
        self.series = Series(self.config, server=self.new_server, rounds=rounds)
        self.clients = {i: self.client(i) for i in range(clients)}
        self.requests: dict[int, bytes] = {}

    def new_server(self, config: RoundConfig) -> Server:
        return new_server(config, federation_of(config))

    def client(self, i: int, **options) -> SeriesClient:
        return SeriesClient(self.config, lambda config: self.party(i, config), **options)

    def party(self, i: int, config: RoundConfig, **options) -> Client:
        """The client of one round."""
        options = {"task": lambda: task_of(config.number), **options}
        return new_client(config, i, lambda: self.vector(i, config.number), federation_of(config), **options)

    def vector(self, i: int, number: int) -> Vector:
        source = np.random.default_rng([i, number])
        return np.frombuffer(source.bytes(self.config.vector_bytes), words.dtype(self.config.bits))

    def expected(self, number: int, survivors: Iterable[int]) -> Vector:
        total = words.zeros(self.config.length, self.config.bits)
        for i in survivors:
            total += self.vector(i, number)
        return total

    def check(self, ended: Ended) -> None:
        """A round that has a sum has the plain one."""
        if ended.aggregate is not None:
            right = self.expected(ended.number, ended.aggregate.survivors)
            assert np.array_equal(ended.aggregate.vector, right), ended.number

    def open(self) -> dict[int, bytes]:
        working = self.series.masking
        self.requests = self.series.open(m.NO_TASK if working is None else task_of(working))
        return self.requests

    def exchange(self, missing: Iterable[int] = ()) -> list[Ended]:
        """Play one exchange; these do not hear of it."""
        missing = set(missing)
        for i, request in self.open().items():
            if i not in missing:
                self.series.receive(i, self.clients[i].receive(request))
        ended = self.series.close()
        for one in ended:
            self.check(one)
        return ended

    def exchanges(self, count: int) -> list[Ended]:
        return [ended for _ in range(count) for ended in self.exchange()]

    def run(self, misses: Callable[[int, int], bool] = lambda exchange, client: False, **options) -> list[Ended]:
        """Play all of it, through ``run_series``."""
        carry = series_in_memory(self.clients, misses)
        ended = list(run_series(self.series, carry, task_of, **options))
        for one in ended:
            self.check(one)
        return ended


def survivors(ended: Iterable[Ended]) -> dict[int, tuple[int, ...] | None]:
    """Who is in the sum of each round; None where it was lost."""
    return {one.number: one.aggregate and one.aggregate.survivors for one in ended}


def opened(data: bytes) -> list[bytes]:
    """The messages in an envelope."""
    return [bytes(one) for one in envelope.unpack(data)]


def kinds(data: bytes) -> list[str]:
    """The names of the messages in an envelope."""
    return [type(m.decode(one, len(one))).__name__ for one in opened(data)]


def series_in_memory(
    clients: Mapping[int, SeriesClient], misses: Callable[[int, int], bool] = lambda exchange, client: False
) -> SeriesTransport:
    """Return a transport without a network. ``misses`` says who misses which exchange, counted from 0."""
    exchanges = count()

    def carry(requests):
        exchange = next(exchanges)
        for client, request in requests.items():
            if not misses(exchange, client):
                yield client, clients[client].receive(request)

    return carry
