"""Whole rounds under a stopwatch: client steps, server, and the floor sampled in between."""

import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

import numpy as np

from bench.protocol.floor import Floor
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Graph
from ccesa.graphs.thresholds import Threshold
from ccesa.protocol.client import Client
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import steps_of
from ccesa.simulate.simulation import Independent, random_vectors

Milliseconds = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Medians over the clients for each step, the server's total, and both floors, in milliseconds."""

    client: Milliseconds
    server: float
    client_floor: float
    server_floor: float
    exact_work: str

    @property
    def client_ratio(self) -> float:
        return (self.client["share"] + self.client["mask"]) / self.client_floor

    @property
    def server_ratio(self) -> float:
        return self.server / self.server_floor


def measure(config: RoundConfig, dropout: float, seed: int, threads: int = 1) -> Measured:
    """One round. The floor is sampled between clients, where the machine is in the same mood.

    The server gets the replies of a step in a row, as one that has a machine to itself.
    """
    vectors = random_vectors(config, seed)
    clients = {i: Client(config, i, vectors(i), threads=threads) for i in range(config.clients)}
    gone = Independent(dropout).draw(steps_of(config), config.clients, np.random.default_rng(seed))
    floor, server_floor = Floor(config.vector_bytes), Floor(config.vector_bytes)
    times, server_time = defaultdict[str, list[float]](list), 0.0
    server = Server(config, threads=threads)
    requests = server.open()
    while requests:
        name = server.step.name
        replies = {}
        for i in requests.keys() - gone[name]:
            start = time.perf_counter()
            replies[i] = clients[i].receive(requests[i])
            times[name].append((time.perf_counter() - start) * 1e3)
            if len(times[name]) % 8 == 0:
                floor.sample()
        server_floor.sample(5)
        start = time.perf_counter()
        for i, reply in replies.items():
            server.receive(i, reply)
        requests = server.close()
        server_time += time.perf_counter() - start
        server_floor.sample(5)
    agreements, streams = client_work(server.result())
    more_agreements, more_streams = server_work(server.result())
    return Measured(
        client={step: median(values) for step, values in times.items()},
        server=server_time * 1e3,
        client_floor=floor.of(agreements, streams),
        server_floor=server_floor.of(more_agreements, more_streams),
        exact_work=(
            f"client {agreements:.0f} agreements, {streams:.0f} keystreams; "
            f"server {more_agreements} agreements, {more_streams} keystreams"
        ),
    )


def client_work(aggregate: Aggregate) -> tuple[float, float]:
    """Agreements and keystreams of a surviving client in steps 1 and 2, in the mean."""
    evolution = aggregate.evolution
    shared = evolution.graph.degrees[evolution.v3]
    masked = evolution.graph.live_mask_neighbours(evolution.v2)[evolution.v3]
    return float(shared.mean() + masked.mean()), float(masked.mean() + 1)


def server_work(aggregate: Aggregate) -> tuple[int, int]:
    """Agreements and keystreams of the server: one a survivor, one a mask shared with a dropped client."""
    evolution = aggregate.evolution
    dropped = evolution.v2 & ~evolution.v3
    pairs = int(evolution.graph.live_mask_neighbours(evolution.v3)[dropped].sum())
    return pairs, int(evolution.v3.sum()) + pairs


def median_of(rounds: int, config: RoundConfig, dropout: float, threads: int = 1) -> list[Measured]:
    """Several rounds with fresh ids; the first warms up memory and is thrown away if there are more."""
    runs = [measure(_fresh(config), dropout, seed, threads) for seed in range(rounds)]
    return runs[1:] if len(runs) > 1 else runs


def paper_config(clients: int, graph: Graph, threshold: Threshold) -> RoundConfig:
    """The set-up of the paper's running-time table: 10,000 elements of 16 bits."""
    return RoundConfig(clients=clients, length=10_000, bits=16, graph=graph, threshold=threshold)


def _fresh(config: RoundConfig) -> RoundConfig:
    fields = {name: getattr(config, name) for name in config.__struct_fields__ if name != "series_id"}
    return RoundConfig(**fields)
