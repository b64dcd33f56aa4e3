"""Whole rounds in one process: many clients, dropouts, threads, and what it all cost."""

import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TypeVar

import numpy as np

from ccesa import ring
from ccesa.config import RoundConfig
from ccesa.errors import ConfigError, RoundFailed
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.round import run_round
from ccesa.protocol.server import ActiveServer, Aggregate, Server
from ccesa.protocol.steps import Requests, Step, steps_of
from ccesa.ring import Vector
from ccesa.simulate.dropout import Dropout, Independent
from ccesa.simulate.enrolment import Federation

Item = TypeVar("Item")
Result = TypeVar("Result")
#: Told after every reply: the step's name, replies so far, replies asked for.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Report:
    """One simulated round. Times are processor time of the thread that worked, in milliseconds."""

    clients: int
    survivors: int
    outcome: str
    exact: bool
    degree_mean: float
    mask_degree_mean: float
    client_ms: dict[str, float]
    server_ms: float
    client_bytes: dict[str, float]
    peak_rss_mb: float
    #: The sum, or why there is none.
    result: Aggregate | RoundFailed = field(repr=False)

    def as_json(self) -> dict[str, object]:
        names = [known.name for known in fields(self) if known.name != "result"]
        return {name: getattr(self, name) for name in names}


class _Meter:
    """Collects times and bytes, from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)

    def add(self, name: str, value: float) -> None:
        with self._lock:
            self._sums[name] += value
            self._counts[name] += 1

    def total(self, name: str) -> float:
        return self._sums[name]

    def mean(self, name: str) -> float:
        return self._sums[name] / self._counts[name] if self._counts[name] else 0.0


class _Timed(Server):
    """A server that counts the time spent in it."""

    meter: _Meter

    def open(self) -> Requests:
        with _timed(self.meter, "server"):
            return super().open()

    def receive(self, client: int, reply: bytes) -> None:
        with _timed(self.meter, "server"):
            super().receive(client, reply)

    def close(self) -> Requests:
        # No client is at work now, so all of the process's time is the server's, its threads included.
        with _timed(self.meter, "server", time.process_time):
            return super().close()

    @property
    def graph_means(self) -> tuple[float, float]:
        """Mean degree of the assignment graph and of its mask subgraph; zero before it is drawn."""
        if self.graph is None:
            return 0.0, 0.0
        return float(self.graph.degrees.mean()), float(self.graph.carries_masks.sum() / self.graph.size)


class _TimedActive(_Timed, ActiveServer):
    """The same under the guard ``active``."""


class _timed:  # noqa: N801 - reads as the verb it is
    """Adds the processor time of a block, in milliseconds."""

    def __init__(self, meter: _Meter, name: str, clock: Callable[[], float] = time.thread_time) -> None:
        self._meter, self._name, self._clock = meter, name, clock

    def __enter__(self) -> None:
        self._start = self._clock()

    def __exit__(self, *_: object) -> None:
        self._meter.add(self._name, 1e3 * (self._clock() - self._start))


def simulate(
    config: RoundConfig,
    vector: Callable[[int], Vector] | None = None,
    *,
    dropout: Dropout | None = None,
    seed: int | None = None,
    threads: int = 1,
    overhear: Callable[[int, bytes], None] | None = None,
    federation: Federation | None = None,
    progress: Progress = lambda step, done, of: None,
) -> Report:
    """Run one round. ``seed`` fixes dropouts and default inputs, never keys.

    ``vector`` makes each client's input when it is needed (twice: to send it and to check the sum).
    ``overhear`` is told every request and reply on the wire, see ``Eavesdropper``. ``federation`` has the
    members and the charter that the configuration is from, where the guard is ``active``.
    """
    seed = int(np.random.default_rng().integers(2**63)) if seed is None else seed
    source = vector or random_vectors(config, seed)
    steps = steps_of(config.guard)
    drawn = (dropout or Independent(0.0)).draw(steps, config.clients, np.random.default_rng([seed, 0]))
    meter = _Meter()
    server, clients = _parties(config, source, federation, threads)
    server.meter = meter
    wire = _Wire(clients, drawn, meter, threads, overhear or _nobody_listens, progress)
    result: Aggregate | RoundFailed
    try:
        result = run_round(server, wire.carry)
    except RoundFailed as failure:
        result = failure
    return _report(config, server, meter, result, source)


@dataclass(frozen=True)
class _Wire:
    """Between the server and the clients: who is gone, who listens, and what it takes."""

    clients: Mapping[int, Client]
    gone: Mapping[str, Collection[int]]
    meter: _Meter
    threads: int
    overhear: Callable[[int, bytes], None]
    progress: Progress

    def carry(self, step: Step, requests: Requests) -> Iterator[tuple[int, bytes]]:
        gone = self.gone.get(step.name, ())
        asked = [number for number in requests if number not in gone]
        for number, request in requests.items():
            self.overhear(number, request)
        replies = _in_threads(self.threads, lambda number: self._answer(step, number, requests), asked)
        for done, (number, reply) in enumerate(replies, 1):
            self.overhear(number, reply)
            yield number, reply
            self.progress(step.name, done, len(asked))

    def _answer(self, step: Step, number: int, requests: Requests) -> tuple[int, bytes]:
        with _timed(self.meter, step.name):
            reply = self.clients[number].receive(requests[number])
        self.meter.add(f"{step.name} received", len(requests[number]))
        self.meter.add(f"{step.name} sent", len(reply))
        return number, reply


def _nobody_listens(client: int, message: bytes) -> None:
    """In place of an eavesdropper."""


def _parties(
    config: RoundConfig,
    source: Callable[[int], Vector],
    federation: Federation | None,
    threads: int,
) -> tuple[_Timed, dict[int, Client]]:
    numbers = range(config.clients)
    if config.guard == "curious":
        return _Timed(config, threads=threads), {
            number: Client(config, number, partial(source, number)) for number in numbers
        }
    if federation is None:
        raise ConfigError("a round under guard = active needs a federation: simulate.federate(...) makes one")
    charter = federation.charter
    return _TimedActive(config, charter, threads=threads), {
        number: ActiveClient(
            config, federation.identities[number], charter, partial(source, number), tasks=None
        )
        for number in numbers
    }


def random_vectors(config: RoundConfig, seed: int) -> Callable[[int], Vector]:
    """Uniform ring vectors, made from the seed and the client's number whenever they are asked for."""

    def make(number: int) -> Vector:
        raw = np.random.default_rng([seed, 1, number]).bytes(config.vector_bytes)
        return np.frombuffer(raw, ring.dtype(config.bits))

    return make


def _report(
    config: RoundConfig,
    server: _Timed,
    meter: _Meter,
    result: Aggregate | RoundFailed,
    source: Callable[[int], Vector],
) -> Report:
    names = [step.name for step in steps_of(config.guard)]
    degree, mask_degree = server.graph_means
    return Report(
        clients=config.clients,
        survivors=len(result.survivors) if isinstance(result, Aggregate) else 0,
        outcome="aggregate" if isinstance(result, Aggregate) else type(result).__name__,
        exact=isinstance(result, Aggregate) and _is_exact(config, result, source),
        degree_mean=degree,
        mask_degree_mean=mask_degree,
        client_ms={name: meter.mean(name) for name in names},
        server_ms=meter.total("server"),
        client_bytes={
            way: sum(meter.mean(f"{name} {way}") for name in names) for way in ("sent", "received")
        },
        peak_rss_mb=peak_rss_mb(),
        result=result,
    )


def _is_exact(config: RoundConfig, aggregate: Aggregate, source: Callable[[int], Vector]) -> bool:
    plain = ring.zeros(config.length, config.bits)
    for number in aggregate.survivors:
        np.add(plain, source(number), out=plain)
    return bool(np.array_equal(plain, aggregate.vector))


def _in_threads(threads: int, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results in order, with no more work under way than keeps the threads busy: vectors are large."""
    if threads == 1:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def peak_rss_mb() -> float:
    """The most memory this process has held so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
