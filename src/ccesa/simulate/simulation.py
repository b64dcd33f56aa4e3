"""Whole rounds run in one process, with many clients, dropouts and threads, and with their costs.

A dropout model draws exact sets of clients for each step, so that a seed repeats a round.
"""

import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from statistics import fmean
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.masks import helpful_threads
from ccesa.errors import ConfigError, RoundFailed
from ccesa.plan.paper import step_dropout
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.round import run_round
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import Requests, Step, steps_of
from ccesa.simulate.enrolment import Enrolment, new_client, new_helpers, new_server
from ccesa.words import Vector

#: For each step's name, the clients that drop out in it.
Dropouts = Mapping[str, frozenset[int]]


@runtime_checkable
class Dropout(Protocol):
    """Draws the clients that drop out of a round."""

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts: ...


@dataclass(frozen=True)
class StepProbabilities:
    """Clients drop out with one probability in all steps, or in named steps only."""

    probabilities: float | Mapping[str, float]

    def __post_init__(self) -> None:
        each = self.probabilities
        for name, probability in each.items() if isinstance(each, Mapping) else [("dropout", each)]:
            _check_fraction(name, probability)

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts:
        names, each = [step.name for step in steps], self.probabilities
        named = each if isinstance(each, Mapping) else dict.fromkeys(names, each)
        _check_steps(names, named)
        lost = {name: rng.random(clients) < named.get(name, 0.0) for name in names}
        return {name: frozenset(np.flatnonzero(flags).tolist()) for name, flags in lost.items()}


@dataclass(frozen=True)
class Independent:
    """Every client drops out with probability ``total`` in the round, equally likely in each step."""

    total: float

    def __post_init__(self) -> None:
        _check_fraction("dropout", self.total)

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts:
        steps = list(steps)
        return StepProbabilities(step_dropout(self.total, len(steps))).draw(steps, clients, rng)


@dataclass(frozen=True)
class Exactly:
    """These clients drop out, in these steps."""

    sets: Mapping[str, Iterable[int]]

    def __post_init__(self) -> None:
        frozen = {name: frozenset(members) for name, members in self.sets.items()}
        object.__setattr__(self, "sets", frozen)  # an iterator would be empty the second time

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts:
        _check_steps([step.name for step in steps], self.sets)
        for client in frozenset().union(*self.sets.values()):
            if not 0 <= client < clients:
                raise ConfigError(f"client {client} is not in 0..{clients - 1}")
        return {name: frozenset(members) for name, members in self.sets.items()}


def _check_fraction(name: str, value: float) -> None:
    if not isinstance(value, Real) or not 0 <= value < 1:
        raise ConfigError(f"{name} must be a number in [0, 1), not {value!r}")


def _check_steps(known: list[str], named: Iterable[str]) -> None:
    for name in named:
        if name not in known:
            raise ConfigError(f"unknown step {name!r}; the steps of this round are {', '.join(known)}")


Item = TypeVar("Item")
Result = TypeVar("Result")
#: The name of the exchange with helpers about vectors that have come, beside the step in which members mask.
BESIDE = "confirm"
_WAYS = ("sent", "received")
#: Called after every reply: the step's name, replies so far, replies asked for.
Progress = Callable[[str, int, int], None]
#: Called for every message on the wire, with the client that it is for or from.
Overhear = Callable[[int, bytes], None]


@dataclass(frozen=True, kw_only=True)
class SimulatedRound:
    """The result and the costs of a simulated round; times are processor time in milliseconds."""

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
    #: Of one helper; empty without helpers.
    helpers: int = 0
    helper_ms: dict[str, float] = field(default_factory=dict)
    helper_bytes: dict[str, float] = field(default_factory=dict)
    #: The sum, or the failure.
    result: Aggregate | RoundFailed = field(repr=False)

    def as_json(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "result"}


def simulate(
    config: RoundConfig,
    vector: Callable[[int], Vector] | None = None,
    *,
    dropout: Dropout | None = None,
    seed: int | None = None,
    threads: int = 0,
    overhear: Overhear = lambda client, message: None,
    federation: Enrolment | None = None,
    progress: Progress = lambda step, done, of: None,
) -> SimulatedRound:
    """Run one round. ``seed`` repeats dropouts and default inputs, never keys.

    ``vector`` makes each client's input when it is needed (twice: to send it and to check the sum).
    ``overhear`` is called for every request and reply on the wire. ``federation`` has the members, the helpers and
    the charter of the configuration, if its guard needs one. No helper drops out. ``threads`` is the maximum of
    clients that work at the same time; 0: as many as help.
    """
    seed = draw_seed() if seed is None else seed
    source = vector or random_vectors(config, seed)
    steps, rng = [step for step in steps_of(config) if not step.by_helpers], np.random.default_rng([seed, 0])
    dropouts = (dropout or Independent(0.0)).draw(steps, config.clients, rng)
    server = new_server(config, federation, threads=threads)
    helpers = new_helpers(config, federation, threads=1)
    clients = {
        number: new_client(config, number, partial(source, number), federation, threads=1)
        for number in range(config.clients)
    }
    masks = len(helpers) or 1 + round(config.graph.mean_mask_degree(config.clients))
    at_once = helpful_threads(threads, config.vector_bytes, masks)
    wire = _Wire({**clients, **helpers}, config.helper_ids, dropouts, at_once, overhear, progress)
    result: Aggregate | RoundFailed
    try:
        result = run_round(server, wire.carry)
    except RoundFailed as failure:
        result = failure
    wire.server_has_worked()
    return _report(server, wire, result, source)


def draw_seed() -> int:
    return int(np.random.default_rng().integers(2**63))


def random_vectors(config: RoundConfig, seed: int) -> Callable[[int], Vector]:
    """Return a function that makes a uniform vector from the seed and the client's number."""

    def make(number: int) -> Vector:
        raw = np.random.default_rng([seed, 1, number]).bytes(config.vector_bytes)
        return np.frombuffer(raw, words.dtype(config.bits))

    return make


@dataclass
class _Wire:
    """The transport between the server and clients and helpers, with dropouts and costs."""

    parties: Mapping[int, Client | Helper]
    helper_ids: range
    dropouts: Dropouts
    threads: int
    overhear: Overhear
    progress: Progress
    #: By name, the figures of each client that took a step, and of each answer of a helper.
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    server_ms: float = 0.0
    #: Whether an exchange is under way, and the time of its pauses, whose own server's part is counted already.
    _within: bool = False
    _paused_ms: float = 0.0
    _server_since: float = field(default_factory=time.process_time)

    def carry(self, step: Step, requests: Requests) -> Iterator[tuple[int, bytes]]:
        beside = not step.by_helpers and any(number in self.helper_ids for number in requests)
        name, gone = (BESIDE, frozenset[int]()) if beside else (step.name, self.dropouts.get(step.name, frozenset()))
        if self._within:  # helpers are asked while vectors come, in a pause of that exchange
            start = time.thread_time()
            yield from self._exchange(name, requests, gone)
            self._paused_ms += 1e3 * (time.thread_time() - start)
            return
        self.server_has_worked()
        self._within = True
        yield from self._exchange(name, requests, gone)
        self._within = False
        self._server_since = time.process_time()

    def _exchange(self, name: str, requests: Requests, gone: frozenset[int]) -> Iterator[tuple[int, bytes]]:
        asked = [number for number in requests if number not in gone]
        for number, request in requests.items():
            self.overhear(number, request)
        replies = _in_threads(self.threads, lambda number: self._answer(number, requests), asked)
        for done, (number, reply, received, ms, server_ms) in enumerate(replies, 1):
            self.overhear(number, reply)
            self.server_ms += server_ms
            self.figures[name].append(ms)
            self.figures[f"{name} received"].append(received)
            self.figures[f"{name} sent"].append(len(reply))
            start, paused_ms = time.thread_time(), self._paused_ms
            yield number, reply  # the server takes it before it asks for the next one
            self.server_ms += 1e3 * (time.thread_time() - start) - (self._paused_ms - paused_ms)
            self.progress(name, done, len(asked))

    def server_has_worked(self) -> None:
        """Count the time of the process between two steps as the server's. No client works then."""
        self.server_ms += 1e3 * (time.process_time() - self._server_since)

    def _answer(self, number: int, requests: Requests) -> tuple[int, bytes, int, float, float]:
        """Return a client's number and reply, the size of its request, and the times of client and server."""
        before = time.thread_time()
        request = requests[number]
        start = time.thread_time()
        reply = self.parties[number].receive(request)
        end = time.thread_time()
        return number, reply, len(request), 1e3 * (end - start), 1e3 * (start - before)

    def mean(self, name: str) -> float:
        return fmean(self.figures[name] or [0.0])

    def each_helper(self, name: str) -> float:
        """Return the mean over helpers, which may have answered several times beside a step."""
        return sum(self.figures[name]) / max(len(self.helper_ids), 1)


def _report(
    server: Server, wire: _Wire, result: Aggregate | RoundFailed, source: Callable[[int], Vector]
) -> SimulatedRound:
    steps, graph = steps_of(server.config), server.graph
    names = [step.name for step in steps if not step.by_helpers]
    asked = [name for step in steps for name in [step.name] * step.by_helpers + [BESIDE] * (step.beside is not None)]
    found = result if isinstance(result, Aggregate) else None
    plain = words.zeros(server.config.length, server.config.bits)
    for number in found.survivors if found else ():
        np.add(plain, source(number), out=plain)
    return SimulatedRound(
        clients=server.config.clients,
        survivors=len(found.survivors) if found else 0,
        outcome="aggregate" if found else type(result).__name__,
        exact=found is not None and np.array_equal(plain, found.vector),
        # 0 if the round ended before its graph was drawn
        degree_mean=0.0 if graph is None else float(graph.degrees.mean()),
        mask_degree_mean=0.0 if graph is None else float(graph.carries_masks.sum() / graph.size),
        client_ms={name: wire.mean(name) for name in names},
        server_ms=wire.server_ms,
        client_bytes={way: sum(wire.mean(f"{name} {way}") for name in names) for way in _WAYS},
        helpers=len(wire.helper_ids),
        helper_ms={name: wire.each_helper(name) for name in asked},
        helper_bytes={way: sum(wire.each_helper(f"{name} {way}") for name in asked) for way in _WAYS if asked},
        peak_rss_mb=peak_rss_mb(),
        result=result,
    )


def _in_threads(threads: int, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield results in order. Start only as much work as keeps the threads busy: vectors are large."""
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
    """Return the maximum memory of this process so far in MB; 0 if the system does not report it."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
