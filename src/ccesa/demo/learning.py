"""What the demo learns: scikit-learn's bundled digits, by softmax regression in plain numpy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError
from ccesa.extras import missing

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
#: Weights (64 x 10) and biases (10).
Model = list[Floats]

PIXELS, CLASSES = 64, 10
_TESTED = 5  # one digit in five is kept for testing


@dataclass(frozen=True)
class Dataset:
    """Every client's own images and labels, and a test set that nobody trains on."""

    images: list[Floats]
    labels: list[Labels]
    test_images: Floats
    test_labels: Labels

    @property
    def sizes(self) -> list[int]:
        return [len(labels) for labels in self.labels]

    def update(self, model: Model, client: int) -> Model:
        """Return what a client's own data would add to the model."""
        return train(model, self.images[client], self.labels[client])


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
    most = (len(labels) - held_out) // 5
    if not 3 <= clients <= most:
        raise ConfigError(f"the digits can be dealt to 3..{most} clients, not {clients}")
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


def train(model: Model, images: Floats, labels: Labels, epochs: int = 5, rate: float = 0.5) -> Model:
    """Return what these images would add to the model."""
    weights, biases = model[0].copy(), model[1].copy()
    wanted = np.eye(CLASSES)[labels]
    for _ in range(epochs):
        error = (_softmax(images @ weights + biases) - wanted) / len(labels)
        weights -= rate * images.T @ error
        biases -= rate * error.sum(axis=0)
    return [weights - model[0], biases - model[1]]


def add(model: Model, update: Model) -> Model:
    return [old + new for old, new in zip(model, update, strict=True)]


def accuracy(model: Model, data: Dataset) -> float:
    guesses = np.argmax(data.test_images @ model[0] + model[1], axis=1)
    return float(np.mean(guesses == data.test_labels))


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
