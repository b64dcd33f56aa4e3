"""Softmax regression on scikit-learn's digits: 1,797 images of 8 x 8 pixels, 650 parameters.

There are more clients than images for them: every client draws ten of the training images, and at n = 1,000
an image is with seven clients on average. What is protected is a client's vector, not an image.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Floats = NDArray[np.float64]

CLASSES, PIXELS, OWN = 10, 64, 10
PARAMETERS = CLASSES * (PIXELS + 1)
_TEST_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Federation:
    """Images with a one for the bias, and classes one-hot: by client, and for testing."""

    images: Floats
    wanted: Floats
    test: Floats
    classes: NDArray[np.int64]

    def gradients(self, model: Floats, clients: NDArray[np.int64], norm: float) -> Floats:
        """Return what each of these clients sends, one row each: a step downhill, clipped to the norm."""
        images, wanted = self.images[clients], self.wanted[clients]
        scores = images @ model.reshape(PIXELS + 1, CLASSES)
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        error = wanted - powers / powers.sum(axis=2, keepdims=True)
        steps = (images.transpose(0, 2, 1) @ error).reshape(len(clients), -1) / OWN
        return np.asarray(steps * np.minimum(1, norm / np.linalg.norm(steps, axis=1, keepdims=True)))

    def accuracy(self, model: Floats) -> float:
        """Return the fraction of test images that are recognised."""
        guesses = (self.test @ model.reshape(PIXELS + 1, CLASSES)).argmax(axis=1)
        return float(np.mean(guesses == self.classes))


def federation(clients: int, seed: list[int]) -> Federation:
    """Draw who has which images, and which are for testing."""
    rng = np.random.default_rng(seed)
    pixels, classes = load_digits(return_X_y=True)
    images = np.column_stack([pixels / 16, np.ones(len(pixels))])
    order = rng.permutation(len(images))
    test, training = np.split(order, [round(_TEST_SHARE * len(order))])
    own = rng.choice(training, (clients, OWN))
    return Federation(images[own], np.eye(CLASSES)[classes[own]], images[test], classes[test])
