"""Softmax regression on faces: one client for each person, who has no photographs of anybody else."""

from dataclasses import dataclass

import numpy as np

from experiments.faces import Faces, Images

#: Weights (pixels x persons) and biases (persons).
Model = list[Images]

#: The paper's set-up (appendix "Detailed experimental setup").
EPOCHS, RATE = 50, 0.05
#: Of ten photographs three are kept for testing; the paper does not say how many.
_TEST_SHARE = 0.3
#: No entry of an update can be larger: a gradient step moves a weight by at most RATE.
LARGEST_UPDATE = EPOCHS * RATE


@dataclass(frozen=True, eq=False)
class Federation:
    """``train[person]`` and ``test[person]`` are photographs as rows of pixels."""

    train: Images
    test: Images

    @property
    def clients(self) -> int:
        return len(self.train)


def federation(faces: Faces, seed: int) -> Federation:
    """Every person's photographs in a random order, the last ones for testing."""
    rows = faces.images.reshape(*faces.images.shape[:2], -1)
    order = np.argsort(np.random.default_rng([seed, 0]).random(rows.shape[:2]), axis=1)
    shuffled = np.take_along_axis(rows, order[:, :, None], axis=1)
    kept = max(1, round(_TEST_SHARE * rows.shape[1]))
    return Federation(train=shuffled[:, :-kept], test=shuffled[:, -kept:])


def new_model(data: Federation) -> Model:
    return [np.zeros((data.train.shape[2], data.clients)), np.zeros(data.clients)]


def update(model: Model, data: Federation, client: int) -> Model:
    """What a client's local training adds: gradient descent over all its photographs, once an epoch.

    All steps lie in the span of its photographs, so only their coefficients are followed: with K the
    products of the photographs (and 1 for the bias), the scores move by K times the coefficients.
    """
    photographs = data.train[client]
    products = photographs @ photographs.T + 1
    start = photographs @ model[0] + model[1]
    coefficients = np.zeros_like(start)
    wanted = np.eye(data.clients)[client]
    for _ in range(EPOCHS):
        error = softmax(start + products @ coefficients) - wanted
        coefficients -= RATE * error / len(photographs)
    return [photographs.T @ coefficients, coefficients.sum(axis=0)]


def mean_update(model: Model, data: Federation, clients: list[int]) -> Model:
    """The plain mean over these clients; everyone has as many photographs as the others."""
    total = new_model(data)
    for client in clients:
        total = add(total, update(model, data, client))
    return [part / len(clients) for part in total]


def add(model: Model, more: Model) -> Model:
    return [old + new for old, new in zip(model, more, strict=True)]


def accuracy(model: Model, data: Federation) -> float:
    """Fraction of all persons' test photographs that are recognised."""
    guesses = np.argmax(data.test @ model[0] + model[1], axis=2)
    return float(np.mean(guesses == np.arange(data.clients)[:, None]))


def softmax(scores: Images) -> Images:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
