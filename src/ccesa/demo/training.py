"""Federated averaging twice: through secure aggregation, and in the clear with the same dropouts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ccesa import ring
from ccesa.config import Complete, Graph, RoundConfig
from ccesa.demo import learning
from ccesa.demo.learning import Federation, Model
from ccesa.errors import RoundFailed
from ccesa.protocol import messages as m
from ccesa.protocol.steps import steps_of
from ccesa.quantize import Quantizer
from ccesa.simulate import Exactly, Independent, Report, simulate
from ccesa.simulate.dropout import Vanishing

#: Largest entry of an update; the softmax updates here stay well below.
CLIP = 0.5
BITS: Literal[32] = 32


@dataclass(frozen=True, kw_only=True)
class Wiretap:
    """One client's update as it was, and as it looked on its way to the server."""

    client: int
    update: np.typing.NDArray[np.float64]
    received: np.typing.NDArray[np.float64]


@dataclass
class History:
    """What happened, round by round."""

    secure: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    survivors: list[int] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    lost: dict[int, RoundFailed] = field(default_factory=dict)
    clipped: int = 0
    reports: list[Report] = field(default_factory=list)
    wiretap: Wiretap | None = None


def federate(
    federation: Federation,
    *,
    rounds: int,
    dropout: float,
    graph: Graph,
    seed: int,
    threads: int = 1,
    progress: Callable[[int, History], None] = lambda done, history: None,
) -> History:
    """Train for some rounds; a lost round keeps the old model, as it would in production."""
    history = History()
    secure, plain = learning.new_model(), learning.new_model()
    clients = len(federation.sizes)
    rng = np.random.default_rng([seed, 2])
    for number in range(rounds):
        vanishing = Independent(dropout).draw(steps_of("curious"), clients, rng)
        secure = _secure_round(secure, federation, graph, vanishing, threads, history, number)
        plain = _plain_round(plain, federation, _answering(vanishing, clients))
        history.secure.append(learning.accuracy(secure, federation))
        history.plain.append(learning.accuracy(plain, federation))
        gone: frozenset[int] = frozenset()
        for step, members in vanishing.items():
            history.dropped[step] = history.dropped.get(step, 0) + len(members - gone)
            gone |= members
        progress(number + 1, history)
    return history


def conventional(federation: Federation, seed: int) -> Report:
    """One round of conventional secure aggregation (the complete graph), on vectors of the same length."""
    return simulate(_config(Complete(), _quantizer(federation)), seed=seed)


def _quantizer(federation: Federation) -> Quantizer[Model]:
    return Quantizer.for_model(
        learning.new_model(),
        clients=len(federation.sizes),
        clip=CLIP,
        bits=BITS,
        max_weight=max(federation.sizes),
    )


def _config(graph: Graph, quantizer: Quantizer[Model]) -> RoundConfig:
    return RoundConfig(clients=quantizer.clients, length=quantizer.length, bits=BITS, graph=graph)


def _secure_round(
    model: Model,
    federation: Federation,
    graph: Graph,
    vanishing: Vanishing,
    threads: int,
    history: History,
    number: int,
) -> Model:
    quantizer = _quantizer(federation)
    updates = [
        learning.train(model, *data) for data in zip(federation.images, federation.labels, strict=True)
    ]
    encoded = [
        quantizer.encode(update, weight) for update, weight in zip(updates, federation.sizes, strict=True)
    ]
    history.clipped += sum(one.clipped for one in encoded)

    def overhear(client: int, message: bytes) -> None:
        if history.wiretap is None and isinstance(reply := m.decode(message, len(message)), m.MaskReply):
            words = ring.from_bytes(reply.vector, BITS)[: quantizer.layout.size].view("<i4")
            history.wiretap = Wiretap(
                client=client,
                update=quantizer.layout.flatten(updates[client]),
                received=words * (CLIP / quantizer.levels),
            )

    report = simulate(
        _config(graph, quantizer),
        lambda client: encoded[client].vector,
        dropout=Exactly(vanishing),
        threads=threads,
        overhear=overhear,
    )
    history.reports.append(report)
    if isinstance(report.result, RoundFailed):
        history.lost[number + 1] = report.result
        return model
    history.survivors.append(report.survivors)
    return learning.add(model, quantizer.decode(report.result.vector).arrays)


def _plain_round(model: Model, federation: Federation, members: list[int]) -> Model:
    if not members:
        return model
    updates = [learning.train(model, federation.images[i], federation.labels[i]) for i in members]
    weights = [federation.sizes[i] for i in members]
    means = [np.average(part, axis=0, weights=weights) for part in zip(*updates, strict=True)]
    return learning.add(model, means)


def _answering(vanishing: Vanishing, clients: int) -> list[int]:
    """Who sends a vector: everybody that has not vanished by the mask step."""
    gone = vanishing["advertise"] | vanishing["share"] | vanishing["mask"]
    return [client for client in range(clients) if client not in gone]
