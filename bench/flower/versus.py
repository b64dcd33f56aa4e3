"""The same steps as in bench/flower/secagg.py, by us, and both in turn.

Times are processor time, of one thread. Masking and a whole round are timed by the clock, too, with threads
as by default.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench.flower import secagg as flower
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import shamir
from ccesa.graphs import Complete, Harary
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol.client import Client
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from ccesa.simulate.simulation import random_vectors

#: Clients that are timed in a step.
TIMED = 15


def step_ms(
    name: str,
    neighbours: int,
    threshold: int,
    length: int,
    threads: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """One step of a client with so many neighbours: the median over a few clients."""
    config = RoundConfig(clients=neighbours + 1, length=length, bits=32, graph=Complete(), threshold=Fixed(t=threshold))
    vectors, server, times = random_vectors(config, 0), Server(config), []
    everyone = {i: Client(config, i, partial(vectors, i), threads=threads) for i in range(config.clients)}
    requests = server.open()
    while server.step.name != name:
        for i, request in requests.items():
            server.receive(i, everyone[i].receive(request))
        requests = server.close()
    for i in list(requests)[:TIMED]:
        vector = vectors(i)
        object.__setattr__(everyone[i]._round, "vector", vector)  # made beforehand, as for Flower
        start = clock()
        everyone[i].receive(requests[i])
        times.append((clock() - start) * 1e3)
    return median(times)


def mask_ms(neighbours: int, threshold: int, length: int) -> tuple[float, float]:
    """The mask step: processor time of one thread, and by the clock with threads as by default."""
    one = partial(step_ms, "mask", neighbours, threshold, length)
    return one(1, time.process_time), one(0, time.perf_counter)


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


def round_ms(clients: int, shares: int, threshold: int, length: int, lost: int) -> tuple[float, float]:
    """A whole round, clients and server, in one process: processor time of one thread, and by the clock."""
    one = partial(_round_ms, clients, shares, threshold, length, lost)
    return one(1, time.process_time), one(0, time.perf_counter)


def _round_ms(
    clients: int, shares: int, threshold: int, length: int, lost: int, threads: int, clock: Callable[[], float]
) -> float:
    graph = Harary(degree=shares - 1)
    config = RoundConfig(clients=clients, length=length, bits=32, graph=graph, threshold=Fixed(t=threshold))
    start = clock()
    vector = np.full(length, 7, np.uint32)
    everyone = {i: Client(config, i, vector, threads=threads) for i in range(clients)}
    transport = in_memory(everyone, lambda step, i: step.name == "mask" and i < lost)
    run_round(Server(config, threads=threads), transport)
    return (clock() - start) * 1e3


class Pair(NamedTuple):
    """The same work by both, how often they take turns, and for each of its times the ratio to be reached."""

    theirs: Callable[[], tuple[float, ...]]
    ours: Callable[[], tuple[float, ...]]
    turns: int
    least: dict[str, float]


def _alone(work: Callable[..., float], *arguments: Any) -> Callable[[], tuple[float, ...]]:
    """Return work that has one time only."""
    return lambda: (work(*arguments),)


_ROUND = 100, 51, 26, 100_000, 10
#: Flower's whole round takes more than a minute; all turns together take about five.
PAIRS = (
    Pair(
        _alone(flower.sharing_ms, 208, 133),
        _alone(step_ms, "share", 208, 133, 10),
        5,
        {"sharing step, 208 neighbours, t = 133": 300},
    ),
    Pair(
        partial(flower.masking_ms, 50, 1_000_000),
        partial(mask_ms, 50, 26, 1_000_000),
        7,
        {
            "masking step, 50 neighbours, 1,000,000 elements": 8,
            "that step by the clock, with threads as by default": 25,
        },
    ),
    Pair(_alone(flower.joining_ms, 133, 209), _alone(joining_ms, 133, 209), 5, {"rebuilding one secret, t = 133": 500}),
    Pair(
        partial(flower.round_ms, *_ROUND),
        partial(round_ms, *_ROUND),
        3,
        {
            "whole round, 100 clients, 51 shares, t = 26, 100,000 elements, 10 lost": 60,
            "that round by the clock, with threads as by default": 120,
        },
    ),
)
LEAST = {name: least for pair in PAIRS for name, least in pair.least.items()}


def compare(say: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Let both take turns at each; return medians, and the median, lowest and highest ratio of the turns."""
    found = {}
    for pair in PAIRS:
        say(next(iter(pair.least)))
        pair.ours()  # warms up memory; what Flower needs for that is nothing beside its times
        turns = [(pair.theirs(), pair.ours()) for _ in range(pair.turns)]
        for place, name in enumerate(pair.least):
            found[name] = _summary([(theirs[place], ours[place]) for theirs, ours in turns])
    return found


def _summary(turns: list[tuple[float, float]]) -> dict[str, float]:
    ratios = [theirs / ours for theirs, ours in turns]
    return {
        "flower": median(theirs for theirs, _ in turns),
        "ccesa": median(ours for _, ours in turns),
        "ratio": median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "turns": len(turns),
    }


def text(found: dict[str, dict[str, float]]) -> str:
    """Return the section of the page."""
    if not found:
        return "Not measured: flwr was not installed."
    lines = [
        f"flwr {flower.VERSION}: its own client mod (`flwr.client.mod`) and workflow "
        "(`flwr.server.workflow`), driven in memory by `bench/flower/secagg.py`; same neighbours, threshold "
        "and length, one process, one thread. Its elements are 64-bit integers modulo 2^32, ours are 32-bit "
        "words. Both take turns (`bench/flower/versus.py`); processor time, medians, and the lowest and "
        "the highest ratio of all turns. By the clock ours uses a second core, as it does by default; "
        "Flower's code has one thread.\n",
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
