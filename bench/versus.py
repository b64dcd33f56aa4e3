"""The same steps as in bench/flower.py, by us, and both in turn. Times are processor time, of one thread."""

import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np

from bench import flower
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
        start = time.process_time()
        everyone[i].receive(requests[i])
        times.append((time.process_time() - start) * 1e3)
    return median(times)


def joining_ms(threshold: int, holders: int) -> float:
    """One secret, from another set of holders each time."""
    secret = shamir.random_elements(os.urandom, shamir.SECRET_ELEMENTS)
    shares = shamir.split(secret, threshold, holders, os.urandom)
    times = []
    for seed in range(50):
        places = np.sort(np.random.default_rng(seed).permutation(holders)[:threshold])
        start = time.process_time()
        shamir.join(places + 1, shares[places])
        times.append((time.process_time() - start) * 1e3)
    return median(times)


def round_ms(clients: int, shares: int, threshold: int, length: int, lost: int) -> float:
    """A whole round, clients and server, in one process and one thread."""
    graph = Harary(degree=shares - 1)
    config = RoundConfig(clients=clients, length=length, bits=32, graph=graph, threshold=Fixed(t=threshold))
    start = time.process_time()
    everyone = {i: Client(config, i, np.full(length, 7, np.uint32), threads=1) for i in range(clients)}
    run_round(
        Server(config, threads=1), in_memory(everyone, lambda step, i: step.name == "mask" and i < lost)
    )
    return (time.process_time() - start) * 1e3


class Pair(NamedTuple):
    """The same work by both, how often they take turns, and the ratio that is to be reached."""

    theirs: Callable[[], float]
    ours: Callable[[], float]
    turns: int
    least: float


#: Flower's whole round takes more than a minute; all turns together take about five.
PAIRS = {
    "sharing step, 208 neighbours, t = 133": Pair(
        partial(flower.sharing_ms, 208, 133), partial(step_ms, "share", 208, 133, 10), 5, 300
    ),
    "masking step, 50 neighbours, 1,000,000 elements": Pair(
        partial(flower.masking_ms, 50, 1_000_000), partial(step_ms, "mask", 50, 26, 1_000_000), 7, 25
    ),
    "rebuilding one secret, t = 133": Pair(
        partial(flower.joining_ms, 133, 209), partial(joining_ms, 133, 209), 5, 500
    ),
    "whole round, 100 clients, 51 shares, t = 26, 100,000 elements, 10 lost": Pair(
        partial(flower.round_ms, 100, 51, 26, 100_000, 10),
        partial(round_ms, 100, 51, 26, 100_000, 10),
        3,
        120,
    ),
}


def compare(say: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Let both take turns at each; return medians, and the median, lowest and highest ratio of the turns."""
    found = {}
    for name, pair in PAIRS.items():
        say(name)
        pair.ours()  # warms up memory; what Flower needs for that is nothing beside its times
        turns = [(pair.theirs(), pair.ours()) for _ in range(pair.turns)]
        ratios = [theirs / ours for theirs, ours in turns]
        found[name] = {
            "flower": median(theirs for theirs, _ in turns),
            "ccesa": median(ours for _, ours in turns),
            "ratio": median(ratios),
            "lowest": min(ratios),
            "highest": max(ratios),
            "turns": pair.turns,
        }
    return found


def text(found: dict[str, dict[str, float]]) -> str:
    """Return the section of the page."""
    if not found:
        return "Not measured: flwr was not installed."
    lines = [
        f"flwr {flower.VERSION}: its own client mod (`flwr.client.mod`) and workflow "
        "(`flwr.server.workflow`), driven in memory by `bench/flower.py`; same neighbours, threshold and "
        "length, one process, one thread. Its elements are 64-bit integers modulo 2^32, ours are 32-bit "
        "words. Both take turns (`bench/versus.py`); processor time, medians, and the lowest and "
        "the highest ratio of all turns.\n",
        "| | turns | flwr, ms | ccesa, ms | ratio | lowest to highest |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, one in found.items():
        ours = f"{one['ccesa']:.2f}" if one["ccesa"] >= 1 else f"{one['ccesa']:.3f}"
        lines.append(
            f"| {name} | {one['turns']:.0f} | {one['flower']:,.0f} | {ours} | {one['ratio']:,.0f} "
            f"| {one['lowest']:,.0f} to {one['highest']:,.0f} |"
        )
    return "\n".join(lines)
