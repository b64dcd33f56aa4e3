"""Federated averaging, through secure aggregation and in the clear: with the same dropouts, and with none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import DEFAULT, needs_accept
from ccesa.demo import learning
from ccesa.demo.learning import Dataset, Model
from ccesa.errors import RoundFailed
from ccesa.graphs import Complete, Harary
from ccesa.graphs.thresholds import Majority
from ccesa.plan import Plan, check
from ccesa.protocol import messages as m
from ccesa.protocol.server import Aggregate
from ccesa.protocol.steps import steps_of
from ccesa.simulate import Exactly, Independent, Report, simulate, usual_plan
from ccesa.simulate.dropout import Dropouts
from ccesa.values.fields import WORD_BITS, Fields, Row
from ccesa.values.quantize import Quantized, Quantizer
from ccesa.words import Vector

#: Largest entry of an update; the softmax updates here stay well below.
CLIP = 0.5


@dataclass(frozen=True, kw_only=True)
class Wiretap:
    """What reached the server in one round, beside what only its clients knew.

    Attributes:
        number: Of the round, from 1 on.
        client: One of those who sent a vector.
        senders: How many sent one.
        vectors: By name: the client's ``own``, which never leaves it; the one ``received`` in its place; the
            sum of all as they were received, ``masked``; what the server made of it, ``opened``, which is
            missing where the round was lost; and the ``plain`` sum of what the senders had.
        fields: How numbers lie in words.
    """

    number: int
    client: int
    senders: int
    vectors: Mapping[str, Vector]
    fields: Fields

    @property
    def equal_words(self) -> int:
        """In how many words the server's sum is the plain sum."""
        return int(np.count_nonzero(self.vectors["opened"] == self.vectors["plain"]))

    def numbers(self, vector: Vector) -> Row:
        """Return what lies in the fields of a vector, be it sense or noise."""
        return self.fields.split(vector)[0]


@dataclass(kw_only=True)
class History:
    """What happened, round by round."""

    plan: Plan
    seed: int
    #: Accuracy after each round: of secure aggregation, in the clear with the same dropouts, and with none.
    secure: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    everyone: list[float] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    #: For each round, how many left in each step.
    gone: list[Mapping[str, int]] = field(default_factory=list)
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

    @property
    def dropped(self) -> dict[str, int]:
        """Return how many left in each step, over all rounds."""
        return {step: sum(one[step] for one in self.gone) for step in self.gone[0]}

    def count(self, dropouts: Dropouts) -> None:
        """Note who leaves in which step; after a step that leaves too few for a sum there is no other."""
        gone, left = frozenset[int](), {}
        for step, members in dropouts.items():
            goes_on = self.plan.clients - len(gone) >= self.plan.least_survivors
            left[step] = len(members - gone) if goes_on else 0
            gone |= members
        self.gone.append(left)


def planned(data: Dataset, dropout: float, degree: int | None = None, agreement: str = DEFAULT) -> Plan:
    """Return the plan of every round: of the usual graph, or of one with so many neighbours."""
    made = usual_plan(len(data.sizes), dropout, agreement=agreement, accept=needs_accept(agreement))
    made = replace(made, length=_quantizer(data).length, bits=WORD_BITS)
    if degree is None:
        return made
    return check(made.config(graph=Harary(degree=degree), threshold=Majority()), made.assumptions.dropout)


def train(
    data: Dataset,
    plan: Plan,
    *,
    rounds: int,
    dropout: float,
    seed: int,
    threads: int = 0,
    progress: Callable[[int, History], None] = lambda done, history: None,
) -> History:
    """Train for some rounds, each way; a lost round keeps the old model, as it would in production."""
    quantizer = _quantizer(data)
    history = History(plan=plan, seed=seed, values=quantizer.fields.in_words)
    secure = plain = everyone = learning.new_model()
    rng = np.random.default_rng([seed, 2])
    for number in range(1, rounds + 1):
        config = plan.config()
        dropouts = Independent(dropout).draw(steps_of(config), config.clients, rng)
        history.count(dropouts)
        secure = _secure_round(secure, data, quantizer, config, dropouts, threads, history)
        plain = _plain_round(plain, data, dropouts)
        everyone = _plain_round(everyone, data, {})
        history.secure.append(learning.accuracy(secure, data))
        history.plain.append(learning.accuracy(plain, data))
        history.everyone.append(learning.accuracy(everyone, data))
        progress(number, history)
    return history


def conventional(plan: Plan, seed: int) -> Report:
    """Run a round of conventional secure aggregation (the complete graph), on vectors of the same length."""
    return simulate(plan.config(graph=Complete(), threshold=Majority()), seed=seed)


def _quantizer(data: Dataset) -> Quantizer[Model]:
    sizes = data.sizes
    return Quantizer.for_model(learning.new_model(), clients=len(sizes), clip=CLIP, max_weight=max(sizes))


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
    received: dict[int, Vector] = {}
    wanted = history.wiretap is None or "opened" not in history.wiretap.vectors

    def overhear(client: int, message: bytes) -> None:
        if wanted and isinstance(reply := m.decode(message, len(message)), m.MaskReply):
            received[client] = words.from_bytes(reply.vector, WORD_BITS).copy()

    report = simulate(
        config,
        lambda client: encoded[client].vector,
        dropout=Exactly(dropouts),
        threads=threads,
        overhear=overhear,
    )
    history.reports.append(report)
    found = report.result if isinstance(report.result, Aggregate) else None
    if received and (found or history.wiretap is None):
        history.wiretap = _wiretap(len(history.reports), received, encoded, found, quantizer.fields)
    return model if found is None else learning.add(model, quantizer.decode(found.vector).arrays)


def _wiretap(
    number: int,
    received: Mapping[int, Vector],
    encoded: Sequence[Quantized],
    found: Aggregate | None,
    fields: Fields,
) -> Wiretap:
    senders = tuple(sorted(received)) if found is None else found.survivors
    vectors = {
        "own": encoded[senders[0]].vector,
        "received": received[senders[0]],
        "masked": _added([received[one] for one in senders]),
        **({} if found is None else {"opened": found.vector}),
        "plain": _added([encoded[one].vector for one in senders]),
    }
    return Wiretap(number=number, client=senders[0], senders=len(senders), vectors=vectors, fields=fields)


def _added(vectors: Sequence[Vector]) -> Vector:
    """Return the sum modulo 2^64."""
    return np.add.reduce(vectors, dtype=words.dtype(WORD_BITS))


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
