"""The demo learns scikit-learn's digits by softmax regression and federated averaging, in three ways at once.

They are secure aggregation, plain averaging with the same dropouts, and plain averaging without dropouts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ccesa import words
from ccesa.crypto.keys import DEFAULT, needs_accept
from ccesa.errors import ConfigError, RoundFailed
from ccesa.extras import missing
from ccesa.graphs import Complete, Harary
from ccesa.graphs.thresholds import Majority
from ccesa.plan import Plan, check
from ccesa.protocol import messages as m
from ccesa.protocol.server import Aggregate
from ccesa.protocol.steps import steps_of
from ccesa.simulate import Exactly, Independent, SimulatedRound, simulate, usual_plan
from ccesa.simulate.simulation import Dropouts
from ccesa.values.fields import WORD_BITS, Fields, Row
from ccesa.values.quantize import Quantized, Quantizer
from ccesa.words import Vector

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
#: Weights (64 x 10) and biases (10).
Model = list[Floats]

PIXELS, CLASSES = 64, 10
_EPOCHS = 5
_TESTED = 5  # one digit in five is kept for testing
#: The largest entry of an update. The softmax updates here stay well below.
CLIP = 0.5


@dataclass(frozen=True)
class Dataset:
    """Every client's own images and labels, and a test set."""

    images: list[Floats]
    labels: list[Labels]
    test_images: Floats
    test_labels: Labels

    @property
    def sizes(self) -> list[int]:
        return [len(labels) for labels in self.labels]

    @property
    def quantizer(self) -> Quantizer[Model]:
        """For updates of every client."""
        return Quantizer.for_model(new_model(), clients=len(self.sizes), clip=CLIP, max_weight=max(self.sizes))

    def update(self, model: Model, client: int, rate: float = 0.5) -> Model:
        """Return the change that a client's own data makes to the model."""
        images, labels = self.images[client], self.labels[client]
        weights, biases = model[0].copy(), model[1].copy()
        wanted = np.eye(CLASSES)[labels]
        for _ in range(_EPOCHS):
            scores = images @ weights + biases
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            error = (powers / powers.sum(axis=1, keepdims=True) - wanted) / len(labels)
            weights -= rate * images.T @ error
            biases -= rate * error.sum(axis=0)
        return [weights - model[0], biases - model[1]]


def digits(clients: int, seed: int) -> Dataset:
    """Deal the 1797 digits to clients of unequal size."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise missing("the demo", "scikit-learn", "demo") from error
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    images, labels = images[order] / 16.0, labels[order]
    held_out = len(labels) // _TESTED
    maximum = (len(labels) - held_out) // 5
    if not 3 <= clients <= maximum:
        raise ConfigError(f"the digits are enough for 3 to {maximum} clients, not {clients}")
    portions = rng.dirichlet(np.full(clients, 8.0)) * (len(labels) - held_out - 4 * clients)
    ends = [held_out, *(held_out + np.cumsum(portions.astype(int) + 4))]
    return Dataset(
        images=np.split(images, ends)[1:-1],
        labels=np.split(labels, ends)[1:-1],
        test_images=images[:held_out],
        test_labels=labels[:held_out],
    )


def new_model() -> Model:
    return [np.zeros((PIXELS, CLASSES)), np.zeros(CLASSES)]


def accuracy(model: Model, data: Dataset) -> float:
    guesses = np.argmax(data.test_images @ model[0] + model[1], axis=1)
    return float(np.mean(guesses == data.test_labels))


def add(model: Model, update: Model) -> Model:
    return [old + new for old, new in zip(model, update, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Wiretap:
    """The vectors that reached the server in one round, beside those that only its clients knew."""

    #: The number of the round, 1 or greater.
    number: int
    #: A client that sent a vector, and how many sent one.
    client: int
    senders: int
    #: By name: the client's ``own``, which never leaves it; the one ``received`` in its place; the sum of all
    #: as received, ``masked``; the server's result, ``opened``, which a lost round lacks; and the ``plain``
    #: sum of the senders' own vectors.
    vectors: Mapping[str, Vector]
    #: How the numbers are laid out in words.
    fields: Fields

    @property
    def equal_words(self) -> int:
        """The number of words in which the server's sum is the plain sum."""
        return int(np.count_nonzero(self.vectors["opened"] == self.vectors["plain"]))

    def numbers(self, vector: Vector) -> Row:
        """Return the numbers in the fields of a vector."""
        return self.fields.split(vector)[0]


@dataclass(kw_only=True)
class History:
    """The demo, round by round."""

    plan: Plan
    seed: int
    #: Accuracy after each round: secure, in the clear with the same dropouts, and in the clear without them.
    secure: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    everyone: list[float] = field(default_factory=list)
    reports: list[SimulatedRound] = field(default_factory=list)
    #: For each round, how many left in each step.
    gone: list[Mapping[str, int]] = field(default_factory=list)
    clipped: int = 0
    #: The fields of values, in words.
    values: str = ""
    wiretap: Wiretap | None = None

    @property
    def lost(self) -> dict[int, RoundFailed]:
        """The failures of rounds without a sum, by number, 1 or greater."""
        results = enumerate((report.result for report in self.reports), 1)
        return {number: result for number, result in results if isinstance(result, RoundFailed)}

    @property
    def sums(self) -> list[SimulatedRound]:
        return [report for report in self.reports if not isinstance(report.result, RoundFailed)]

    @property
    def dropped(self) -> dict[str, int]:
        """How many left in each step, over all rounds."""
        return {step: sum(one[step] for one in self.gone) for step in self.gone[0]}

    def count(self, dropouts: Dropouts) -> None:
        """Count the clients that leave in each step. After a step that leaves too few for a sum, nobody is asked."""
        gone, left = frozenset[int](), {}
        for step, members in dropouts.items():
            goes_on = self.plan.clients - len(gone) >= self.plan.min_survivors
            left[step] = len(members - gone) if goes_on else 0
            gone |= members
        self.gone.append(left)


def plan_rounds(data: Dataset, dropout: float, degree: int | None = None, agreement: str = DEFAULT) -> Plan:
    """Return the plan of every round, with the planner's graph or with this many neighbours."""
    made = usual_plan(len(data.sizes), dropout, agreement=agreement, accept=needs_accept(agreement))
    made = replace(made, length=data.quantizer.length, bits=WORD_BITS)
    if degree is None:
        return made
    return check(made.config(graph=Harary(degree=degree), threshold=Majority()), made.assumptions.dropout)


def train_rounds(
    data: Dataset,
    plan: Plan,
    *,
    rounds: int,
    dropout: float,
    seed: int,
    threads: int = 0,
    progress: Callable[[int, History], None] = lambda done, history: None,
) -> History:
    """Train for some rounds in each way. A lost round keeps the old model, as in production."""
    history = History(plan=plan, seed=seed, values=data.quantizer.fields.in_words)
    secure = plain = everyone = new_model()
    rng = np.random.default_rng([seed, 2])
    for number in range(1, rounds + 1):
        dropouts = Independent(dropout).draw(steps_of(plan.config()), plan.clients, rng)
        history.count(dropouts)
        secure = _secure_round(secure, data, dropouts, threads, history)
        plain = _plain_round(plain, data, dropouts)
        everyone = _plain_round(everyone, data, {})
        history.secure.append(accuracy(secure, data))
        history.plain.append(accuracy(plain, data))
        history.everyone.append(accuracy(everyone, data))
        progress(number, history)
    return history


def run_conventional(plan: Plan, seed: int) -> SimulatedRound:
    """Run a round of conventional secure aggregation, on the complete graph and vectors of the same length."""
    return simulate(plan.config(graph=Complete(), threshold=Majority()), seed=seed)


def _secure_round(model: Model, data: Dataset, dropouts: Dropouts, threads: int, history: History) -> Model:
    quantizer = data.quantizer
    encoded = [quantizer.encode(data.update(model, client), size) for client, size in enumerate(data.sizes)]
    history.clipped += sum(one.clipped for one in encoded)
    received: dict[int, Vector] = {}
    wanted = history.wiretap is None or "opened" not in history.wiretap.vectors

    def overhear(client: int, message: bytes) -> None:
        if wanted and isinstance(reply := m.decode(message, len(message)), m.MaskReply):
            received[client] = words.from_bytes(reply.vector, WORD_BITS).copy()

    config, vector = history.plan.config(), lambda client: encoded[client].vector
    report = simulate(config, vector, dropout=Exactly(dropouts), threads=threads, overhear=overhear)
    history.reports.append(report)
    found = report.result if isinstance(report.result, Aggregate) else None
    if received and (found or history.wiretap is None):
        history.wiretap = _wiretap(len(history.reports), received, encoded, found, quantizer.fields)
    return model if found is None else add(model, quantizer.decode(found.vector).arrays)


def _wiretap(
    number: int, received: Mapping[int, Vector], encoded: Sequence[Quantized], found: Aggregate | None, fields: Fields
) -> Wiretap:
    senders, dtype = tuple(sorted(received)) if found is None else found.survivors, words.dtype(WORD_BITS)
    vectors = {
        "own": encoded[senders[0]].vector,
        "received": received[senders[0]],
        "masked": np.add.reduce([received[sender] for sender in senders], dtype=dtype),
        **({} if found is None else {"opened": found.vector}),
        "plain": np.add.reduce([encoded[sender].vector for sender in senders], dtype=dtype),
    }
    return Wiretap(number=number, client=senders[0], senders=len(senders), vectors=vectors, fields=fields)


def _plain_round(model: Model, data: Dataset, dropouts: Dropouts) -> Model:
    """Average the updates of all clients that stay at least until the mask step."""
    gone = frozenset().union(*(dropouts.get(step, ()) for step in ("advertise", "share", "accept", "mask")))
    members = [client for client in range(len(data.sizes)) if client not in gone]
    if not members:
        return model
    updates = [data.update(model, client) for client in members]
    weights = [data.sizes[client] for client in members]
    means = [np.average(part, axis=0, weights=weights) for part in zip(*updates, strict=True)]
    return add(model, means)
