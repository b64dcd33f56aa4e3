"""One client at a million parameters, with one thread and with two."""

import time
from statistics import median

from bench.protocol.floor import Floor
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Complete
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import Requests
from ccesa.simulate.simulation import random_vectors

DEGREE = 50
LENGTH = 1_000_000


def compare() -> dict[str, float]:
    """Steps 1 and 2 with 50 neighbours, 32 bits. One and two threads take turns in one round."""
    config = RoundConfig(clients=DEGREE + 1, length=LENGTH, bits=32, graph=Complete())
    vectors, floor = random_vectors(config, 0), Floor(config.vector_bytes)
    clients = {i: Client(config, i, vectors(i), threads=1 + i % 2) for i in range(config.clients)}
    times: dict[int, list[float]] = {i: [] for i in clients}
    server = Server(config)
    requests = server.open()
    for i, request in requests.items():
        server.receive(i, clients[i].receive(request))
    requests = server.close()
    for i, reply in _timed(clients, requests, times, floor).items():
        server.receive(i, reply)
    _timed(clients, server.close(), times, floor, keep=False)
    one = 1e3 * median(sum(times[i]) for i in times if i % 2 == 0)
    two = 1e3 * median(sum(times[i]) for i in times if i % 2 == 1)
    lowest = floor.of(2 * DEGREE, DEGREE + 1)
    return {"one_thread_ms": one, "two_threads_ms": two, "floor_ms": lowest}


def _timed(
    clients: dict[int, Client], requests: Requests, times: dict[int, list[float]], floor: Floor, keep: bool = True
) -> dict[int, bytes]:
    """One step of all clients in a row, as if each had a machine to itself: nothing of the server between."""
    replies = {}
    for i, request in requests.items():
        start = time.perf_counter()
        reply = clients[i].receive(request)
        times[i].append(time.perf_counter() - start)
        if keep:
            replies[i] = reply
        if i % 6 == 0:
            floor.sample()
    return replies


def text(found: dict[str, float]) -> str:
    """Return the section of the page."""
    return (
        "One client, steps 1 and 2, 1,000,000 elements of 32 bits, 50 neighbours: "
        f"{found['one_thread_ms']:.1f} ms with one thread, {found['two_threads_ms']:.1f} ms with two; "
        f"floor {found['floor_ms']:.1f} ms (one thread)."
    )
