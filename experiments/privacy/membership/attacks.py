"""Scores by which an attacker tells clients of a federation from others, from what is published.

A score is larger for members. Attackers know the client's images, so they can compute what it would have sent
in each round; what else they know differs:

- *projection*: nothing; the scores are products of the sum and the client's vector.
- *weighed*: the vectors of a thousand other people. What all clients have in common is taken out, and
  directions count the less, the more they vary among clients and by the noise anyhow.
- *loss*: nothing but the last model; the score is how well it fits the client's images.
- *informed*: the vector of every other client. Differential privacy promises something even there.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from experiments.privacy.accuracy.digits import CLASSES, PIXELS, Federation
from experiments.privacy.published import Floats

#: So much of the mean variance is added to every direction: some pixels are always white.
_RIDGE = 0.01
#: The rate of false alarms at which the rate of true ones is given.
FALSE_ALARMS = 0.01


def informed(total: Floats, asked: Floats, members: int) -> Floats:
    """Return scores of members and others by an attacker who knows the vectors of all other members.

    It takes them from the sum. What is left is the noise of all, and of a member its own vector.
    """
    own = np.where(np.arange(len(asked)) < members, np.sum(asked**2, axis=1), 0.0)
    return np.asarray(asked @ (total - asked[:members].sum(axis=0)) + own)


def weighed(total: Floats, asked: Floats, others: Floats, members: int, noise: float) -> Floats:
    """Return products after the mean of other people is taken out, by the inverse of all covariances."""
    mean, covariance = others.mean(axis=0), members * np.cov(others.T)
    flat = noise**2 + _RIDGE * np.trace(covariance) / mean.size
    covariance[np.diag_indices_from(covariance)] += flat
    return np.asarray(asked @ np.linalg.solve(covariance, total - members * mean))


def loss(data: Federation, model: Floats, asked: NDArray[np.int64]) -> Floats:
    """Return the mean logarithm of the probability that the model gives to each one's images."""
    scores = data.images[asked] @ model.reshape(PIXELS + 1, CLASSES)
    right = np.sum(scores * data.wanted[asked], axis=2)
    top = scores.max(axis=2)
    return np.asarray(np.mean(right - top - np.log(np.exp(scores - top[..., None]).sum(axis=2)), axis=1))


def area(inside: Floats, outside: Floats) -> float:
    """Return the probability that a member's score is above another's (the AUC); ties count half."""
    ranks = rankdata(np.concatenate([inside, outside]))[: inside.size]
    return float((ranks.mean() - (inside.size + 1) / 2) / outside.size)


def caught(inside: Floats, outside: Floats) -> float:
    """Return the fraction of members above all but a hundredth of the others."""
    return float(np.mean(inside > np.quantile(outside, 1 - FALSE_ALARMS)))
