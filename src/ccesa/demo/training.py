"""Federated averaging twice: through secure aggregation, and in the clear with the same dropouts."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ccesa import words
from ccesa.config import RoundConfig
from ccesa.crypto.agreements import DEFAULT, needs_accept
from ccesa.demo import learning
from ccesa.demo.learning import Dataset, Model
from ccesa.errors import RoundFailed
from ccesa.fields import WORD_BITS
from ccesa.graphs import Complete, Graph
from ccesa.protocol import messages as m
from ccesa.protocol.steps import steps_of
from ccesa.quantize import Quantizer
from ccesa.simulate import Exactly, Independent, Report, simulate
from ccesa.simulate.dropout import Dropouts

#: Largest entry of an update; the softmax updates here stay well below.
CLIP = 0.5


@dataclass(frozen=True, kw_only=True)
class Wiretap:
    """One client's update as it was, and as it looked on its way to the server."""

    client: int
    update: NDArray[np.float64]
    received: NDArray[np.float64]


@dataclass
class History:
    """What happened, round by round."""

    secure: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    clipped: int = 0
    #: How values lie in words, for people.
    values: str = ""
    wiretap: Wiretap | None = None

    @property
    def lost(self) -> dict[int, RoundFailed]:
        """Return the rounds without a sum, counted from 1, and why."""
        results = enumerate((report.result for report in self.reports), 1)
        return {number: result for number, result in results if isinstance(result, RoundFailed)}

    @property
    def sums(self) -> list[Report]:
        return [report for number, report in enumerate(self.reports, 1) if number not in self.lost]

    def count(self, dropouts: Dropouts) -> None:
        gone: frozenset[int] = frozenset()
        for step, members in dropouts.items():
            self.dropped[step] = self.dropped.get(step, 0) + len(members - gone)
            gone |= members


def train(
    data: Dataset,
    *,
    rounds: int,
    dropout: float,
    graph: Graph,
    seed: int,
    agreement: str = DEFAULT,
    threads: int = 0,
    progress: Callable[[int, History], None] = lambda done, history: None,
) -> History:
    """Train for some rounds, both ways; a lost round keeps the old model, as it would in production."""
    quantizer = _quantizer(data)
    history = History(values=quantizer.fields.in_words)
    secure = plain = learning.new_model()
    rng = np.random.default_rng([seed, 2])
    for number in range(1, rounds + 1):
        config = _config(graph, quantizer, agreement)
        dropouts = Independent(dropout).draw(steps_of(config), config.clients, rng)
        history.count(dropouts)
        secure = _secure_round(secure, data, quantizer, config, dropouts, threads, history)
        plain = _plain_round(plain, data, dropouts)
        history.secure.append(learning.accuracy(secure, data))
        history.plain.append(learning.accuracy(plain, data))
        progress(number, history)
    return history


def conventional(data: Dataset, seed: int, agreement: str = DEFAULT) -> Report:
    """Run a round of conventional secure aggregation (the complete graph), on vectors of the same length."""
    return simulate(_config(Complete(), _quantizer(data), agreement), seed=seed)


def _quantizer(data: Dataset) -> Quantizer[Model]:
    sizes = data.sizes
    return Quantizer.for_model(learning.new_model(), clients=len(sizes), clip=CLIP, max_weight=max(sizes))


def _config(graph: Graph, quantizer: Quantizer[Model], agreement: str = DEFAULT) -> RoundConfig:
    return RoundConfig(
        clients=quantizer.clients,
        length=quantizer.length,
        bits=WORD_BITS,
        graph=graph,
        agreement=agreement,
        accept=needs_accept(agreement),
    )


def _secure_round(
    model: Model,
    data: Dataset,
    quantizer: Quantizer[Model],
    config: RoundConfig,
    dropouts: Dropouts,
    threads: int,
    history: History,
) -> Model:
    everyone = range(config.clients)
    updates = [data.update(model, client) for client in everyone]
    encoded = [quantizer.encode(updates[client], data.sizes[client]) for client in everyone]
    history.clipped += sum(one.clipped for one in encoded)

    def overhear(client: int, message: bytes) -> None:
        if history.wiretap is None and isinstance(reply := m.decode(message, len(message)), m.MaskReply):
            numbers, _ = quantizer.fields.split(words.from_bytes(reply.vector, WORD_BITS))
            seen = numbers[: quantizer.layout.size].astype(np.float64)
            update = quantizer.layout.flatten(updates[client])
            history.wiretap = Wiretap(client=client, update=update, received=seen * (CLIP / quantizer.levels))

    report = simulate(
        config,
        lambda client: encoded[client].vector,
        dropout=Exactly(dropouts),
        threads=threads,
        overhear=overhear,
    )
    history.reports.append(report)
    if isinstance(report.result, RoundFailed):
        return model
    return learning.add(model, quantizer.decode(report.result.vector).arrays)


def _plain_round(model: Model, data: Dataset, dropouts: Dropouts) -> Model:
    """Average the updates of all that would have sent a vector: who has not dropped out by the mask step."""
    gone = frozenset().union(*(dropouts.get(step, ()) for step in ("advertise", "share", "accept", "mask")))
    members = [client for client in range(len(data.sizes)) if client not in gone]
    if not members:
        return model
    updates = [data.update(model, client) for client in members]
    weights = [data.sizes[client] for client in members]
    means = [np.average(part, axis=0, weights=weights) for part in zip(*updates, strict=True)]
    return learning.add(model, means)
