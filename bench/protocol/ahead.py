"""What masks ahead are worth: the mask step of a client whose masks were summed while it trained.

A million 32-bit words, at the degree that is planned for 1,000 clients. Clients with and without masks ahead
take turns in one round, with one thread each; what counts is the processor's time.
"""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Complete
from ccesa.plan import plan
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import Requests

CLIENTS, LENGTH = 1000, 1_000_000


def compare() -> dict[str, Any]:
    """Measure the mask step with and without, in turn, and what preparing costs."""
    made = plan(CLIENTS, 0.1)
    clients, requests = _accepted(int(made.degree), int(made.mask_degree))
    preparing: list[float] = []
    times: dict[str, list[float]] = {"ahead": [], "at_once": []}
    for place in range(0, len(clients) - 1, 2):
        preparing.append(_ms(clients[place].prepare))
        for name, i in (("ahead", place), ("at_once", place + 1)):
            times[name].append(_ms(partial(clients[i].receive, requests[i])))
    return {
        "length": LENGTH,
        "degree": made.degree,
        "mask_degree": made.mask_degree,
        "prepare_ms": median(preparing),
        "ahead_ms": median(times["ahead"]),
        "at_once_ms": median(times["at_once"]),
        "ratio": median(a / b for a, b in zip(times["at_once"], times["ahead"], strict=True)),
    }


def _accepted(degree: int, mask_degree: int) -> tuple[dict[int, Client], Requests]:
    """Return clients that are asked for their vectors: all are neighbours, with as many masks as planned."""
    graph = Complete(mask_degree=mask_degree)
    config = RoundConfig(clients=degree + 1, length=LENGTH, graph=graph, accept=True)
    vector = np.random.default_rng(0).integers(2**32, size=LENGTH, dtype=np.uint32)
    clients = {i: Client(config, i, vector, threads=1) for i in range(config.clients)}
    server = Server(config)
    requests = server.open()
    while server.step.name != "mask":
        for i, request in requests.items():
            server.receive(i, clients[i].receive(request))
        requests = server.close()
    return clients, requests


def _ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    ms = {name: f"{found[f'{name}_ms']:.1f}" for name in ("prepare", "ahead", "at_once")}
    return (
        f"{found['length']:,} words of 32 bits, {found['degree']:.0f} neighbours, masks with "
        f"{found['mask_degree']:.0f} of them, one thread (`bench/protocol/ahead.py`). In a series a client "
        "agrees on masks before its vector is there. Summed ahead (`SeriesClient.prepare`, "
        f"{ms['prepare']} ms while it trains), they leave {ms['ahead']} ms for the mask step: one addition, "
        f"the tag of the vector, and the message. Without that it takes {ms['at_once']} ms; in turn, "
        f"{found['ratio']:.1f} times as long."
    )
