"""A round whose keys come from a seed, so that its assignment graph can be drawn again.

The graph hangs on the clients' keys, which ``ccesa.simulate`` never takes from a seed; an experiment
may.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import mean

import numpy as np

from ccesa.agreement.config import RoundConfig
from ccesa.errors import RoundFailed
from ccesa.graphs import Graph
from ccesa.graphs.thresholds import Threshold
from ccesa.protocol.client import Client
from ccesa.protocol.round import run_round
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import Requests, Step, steps_under
from ccesa.simulate import Independent
from ccesa.simulate.simulation import Dropouts
from ccesa.words import Vector


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The sum, or why there is none; and the bytes of a client, the mean of each step added up."""

    result: Aggregate | RoundFailed
    sent: float
    received: float

    @property
    def outcome(self) -> str:
        return "aggregate" if isinstance(self.result, Aggregate) else type(self.result).__name__


def configured(
    seed: list[int], clients: int, length: int, graph: Graph, threshold: Threshold, bits: int = 32
) -> RoundConfig:
    """With a series id from the seed: it enters the graph, too."""
    return RoundConfig(
        series_id=hashlib.sha256(repr(seed).encode()).digest(),
        clients=clients,
        length=length,
        bits=bits,  # type: ignore[arg-type]  # checked by the configuration itself
        graph=graph,
        threshold=threshold,
    )


def dropouts(q_total: float, clients: int, seed: list[int]) -> Dropouts:
    """Draw who drops out in which step."""
    return Independent(q_total).draw(steps_under("curious"), clients, np.random.default_rng(seed))


def ran(
    config: RoundConfig,
    vector: Callable[[int], Vector],
    gone: Dropouts,
    seed: list[int],
    overhear: Callable[[int, bytes], None] = lambda client, reply: None,
) -> Ran:
    """One real round, every byte of it. ``overhear`` is told the replies."""
    clients = {
        number: Client(config, number, partial(vector, number), random=seeded([*seed, number]))
        for number in range(config.clients)
    }
    sizes: dict[tuple[str, str], list[int]] = defaultdict(list)

    def carry(step: Step, requests: Requests) -> Iterator[tuple[int, bytes]]:
        for number in sorted(requests.keys() - gone.get(step.name, frozenset())):
            reply = clients[number].receive(requests[number])
            sizes["received", step.name].append(len(requests[number]))
            sizes["sent", step.name].append(len(reply))
            overhear(number, reply)
            yield number, reply

    result: Aggregate | RoundFailed
    try:
        result = run_round(Server(config), carry)
    except RoundFailed as failure:
        result = failure
    means = {(way, step): mean(values) for (way, step), values in sizes.items()}
    total = {way: sum(value for (of, _), value in means.items() if of == way) for way in ("sent", "received")}
    return Ran(result=result, sent=total["sent"], received=total["received"])


def seeded(seed: list[int]) -> Callable[[int], bytes]:
    """A source of bytes that gives the same ones again."""
    return np.random.default_rng(seed).bytes
