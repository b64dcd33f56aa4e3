"""The same steps as in bench/flower.py, by us."""

import os
import time
from functools import partial
from statistics import median

import numpy as np

from ccesa.config import RoundConfig
from ccesa.crypto import shamir
from ccesa.graphs import Complete, Harary
from ccesa.protocol.client import Client
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from ccesa.simulate.simulation import random_vectors
from ccesa.thresholds import Fixed


def step_ms(name: str, neighbours: int, threshold: int, length: int, clients: int = 15) -> float:
    """One step of a client with so many neighbours: the median over a few clients."""
    config = RoundConfig(
        clients=neighbours + 1, length=length, bits=32, graph=Complete(), threshold=Fixed(t=threshold)
    )
    vectors, server, times = random_vectors(config, 0), Server(config), []
    everyone = {i: Client(config, i, partial(vectors, i), threads=1) for i in range(config.clients)}
    requests = server.open()
    while server.step.name != name:
        for i, request in requests.items():
            server.receive(i, everyone[i].receive(request))
        requests = server.close()
    for i in list(requests)[:clients]:
        vector = vectors(i)
        object.__setattr__(everyone[i]._round, "vector", vector)  # made beforehand, as for Flower
        start = time.perf_counter()
        everyone[i].receive(requests[i])
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def joining_ms(threshold: int, holders: int) -> float:
    """One secret, from another set of holders each time."""
    secret = shamir.random_elements(os.urandom, shamir.SECRET_ELEMENTS)
    shares = shamir.split(secret, threshold, holders, os.urandom)
    times = []
    for seed in range(50):
        places = np.sort(np.random.default_rng(seed).permutation(holders)[:threshold])
        start = time.perf_counter()
        shamir.join(places + 1, shares[places])
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def round_ms(clients: int, shares: int, threshold: int, length: int, lost: int) -> float:
    """A whole round, clients and server, in one process and one thread: the median of three."""
    return median(_round_ms(clients, shares, threshold, length, lost) for _ in range(3))


def _round_ms(clients: int, shares: int, threshold: int, length: int, lost: int) -> float:
    graph = Harary(degree=shares - 1)
    config = RoundConfig(clients=clients, length=length, bits=32, graph=graph, threshold=Fixed(t=threshold))
    start = time.perf_counter()
    everyone = {i: Client(config, i, np.full(length, 7, np.uint32), threads=1) for i in range(clients)}
    wire = in_memory(everyone, lambda step, i: step.name == "mask" and i < lost)
    run_round(Server(config, threads=1), wire)
    return (time.perf_counter() - start) * 1e3
