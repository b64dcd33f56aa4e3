"""One client at a million parameters, with one thread and with two."""

import time
from statistics import median

from bench.floor import Floor
from ccesa.config import Complete, RoundConfig
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.simulate.simulation import random_vectors

DEGREE = 50
LENGTH = 1_000_000


def million() -> dict[str, float]:
    """Steps 1 and 2 with 50 neighbours, 32 bits. One and two threads take turns in one round."""
    config = RoundConfig(clients=DEGREE + 1, length=LENGTH, bits=32, graph=Complete())
    vectors, floor = random_vectors(config, 0), Floor(config.vector_bytes)
    clients = {i: Client(config, i, vectors(i), threads=1 + i % 2) for i in range(config.clients)}
    times: dict[int, list[float]] = {i: [] for i in clients}
    server = Server(config)
    requests = server.open()
    while server.step.name != "unmask":
        counted = server.step.name in ("share", "mask")
        for i, request in requests.items():
            start = time.perf_counter()
            reply = clients[i].receive(request)
            if counted:
                times[i].append(time.perf_counter() - start)
                floor.sample()
            server.receive(i, reply)
        requests = server.close()
    one = 1e3 * median(sum(times[i]) for i in times if i % 2 == 0)
    two = 1e3 * median(sum(times[i]) for i in times if i % 2 == 1)
    lowest = floor.of(2 * DEGREE, DEGREE + 1)
    return {"one_thread_ms": one, "two_threads_ms": two, "floor_ms": lowest}
