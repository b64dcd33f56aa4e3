"""An audit from outside: canaries in or out by a coin, guessed from the decoded sum.

Every client is a canary. It has a direction of its own, at right angles to all others, and either sends a
vector of that direction, four times as long as the norm allows, or zero: neighbours by the definition. Who
wants to know projects the sum on the direction. From how often that misleads, lower bounds follow, with a
confidence of 99 %. One is on mu: the certificate says that the errors of *every* test lie on or above the
curve of a Gaussian mechanism with that mu, and epsilon is what this curve has at delta. The other one takes
nothing but the definition of epsilon and delta; it is weak, since it would take e^epsilon canaries and more
to see the events that epsilon is about.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from ccesa.agreement.config import RoundConfig
from ccesa.privacy import Mechanism, NoisyQuantizer
from ccesa.privacy.accounting import gaussian_epsilon
from ccesa.words import Vector
from experiments.privacy.noisy import added, real, seeded

CONFIDENCE = 0.99
#: A canary's vector is so many times too long. Whoever clips sees no difference.
LOUD = 4.0
_CANDIDATES = 101

Floats = NDArray[np.float64]
#: A client's code: its number, its vector, the context of the round and randomness give its words.
Encode = Callable[[int, Floats, bytes, Callable[[int], bytes]], Vector]


@dataclass(frozen=True, kw_only=True, eq=False)
class Heard:
    """The projections of sums on the canaries' directions, in units of the norm, and who was in."""

    inside: NDArray[np.bool_]
    scores: Floats

    @classmethod
    def of(cls, parts: Sequence["Heard"]) -> "Heard":
        return cls(
            inside=np.concatenate([part.inside for part in parts]),
            scores=np.concatenate([part.scores for part in parts]),
        )


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Upper bounds that hold together: canaries out that are taken for in, and the other way round."""

    alarms: float
    missed: float


def listen(mechanism: Mechanism, encode: Encode, seed: list[int], config: RoundConfig | None = None) -> Heard:
    """Return what one sum of as many clients as the mechanism counts on tells about each of them.

    With a configuration it comes from a real round.
    """
    clients, rng = mechanism.honest, np.random.default_rng(seed)
    inside = rng.random(clients) < 0.5
    context = config.context if config else rng.bytes(32)

    def vector(client: int) -> Vector:
        model = np.zeros(mechanism.dimension)
        model[client] = LOUD * mechanism.norm * inside[client]
        return encode(client, model, context, seeded([*seed, client]))

    total = real(config, vector, {}, seed).vector if config else added(vector, range(clients), mechanism.length)
    quantizer = NoisyQuantizer.for_model([np.zeros(mechanism.dimension)], mechanism)
    mean = quantizer.decode(total, clients, context).arrays[0]
    return Heard(inside=inside, scores=mean[:clients] * (clients / mechanism.norm))


def upper(wrong: int, of: int, confidence: float) -> float:
    """Return the upper bound of Clopper and Pearson on a probability: ``wrong`` of so many were."""
    return 1.0 if wrong >= of else float(betaincinv(wrong + 1, of - wrong, confidence))


def errors(heard: Heard, threshold: float) -> Errors:
    """Bound both errors of saying "in" above the threshold; each may fail with half of what is allowed."""
    called, each = heard.scores > threshold, 1 - (1 - CONFIDENCE) / 2
    out, inside = int((~heard.inside).sum()), int(heard.inside.sum())
    return Errors(
        alarms=upper(int((called & ~heard.inside).sum()), out, each),
        missed=upper(int((~called & heard.inside).sum()), inside, each),
    )


def least_mu(found: Errors) -> float:
    """Return a lower bound on mu: errors of tests on a Gaussian mechanism lie on or above its curve.

    Below zero it says nothing, but still which of two thresholds is the better one.
    """
    return float(-ndtri(found.alarms) - ndtri(found.missed))


def least_plain(found: Errors, delta: float) -> float:
    """Return a lower bound on epsilon from the definition alone, 1 - missed <= e^epsilon alarms + delta."""
    return float(np.log(max(1 - found.missed - delta, 1e-300) / found.alarms))


def audit(held_out: Heard, counted: Heard, delta: float) -> dict[str, float]:
    """Return lower bounds on mu and epsilon; thresholds come from what is not counted."""
    threshold = _best(held_out, least_mu)
    found = errors(counted, threshold)
    plain = errors(counted, _best(held_out, lambda some: least_plain(some, delta)))
    mu = max(0.0, least_mu(found))
    return {
        "canaries": counted.scores.size,
        "threshold": threshold,
        "alarms": found.alarms,
        "missed": found.missed,
        "mu": mu,
        "epsilon": gaussian_epsilon(delta, mu),
        "epsilon_plain": max(0.0, least_plain(plain, delta)),
    }


def _best(heard: Heard, bound: Callable[[Errors], float]) -> float:
    candidates = np.quantile(heard.scores, np.linspace(0, 1, _CANDIDATES))
    return float(max(candidates, key=lambda threshold: bound(errors(heard, threshold))))
