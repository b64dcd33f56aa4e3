"""Degree and threshold of the protocol of Bell, Bonawitz, Gascón, Lepoint and Raykova (CCS 2020).

Their protocol against a server that is curious and follows it: a circle of all clients in random order, on
which everyone is joined to the k nearest (a Harary graph), and one t for all. At most a fraction gamma of the
clients works with the server, and at most a fraction delta drops out. k has to be large enough, and t such,
that three things hold for all clients together:

- nobody has t or more colluding neighbours, and the honest survivors stay connected, but for 2^-sigma;
- everybody has at least t neighbours who stay, but for 2^-eta.

The paper proves that a k of order log n + sigma + eta does. Here k is the smallest one by the distributions
themselves, not by the constants of a lemma: neighbours on a random circle are a random set of the others, so
both numbers are hypergeometric, summed up over all clients; survivors part only if k/2 in a row are gone in
two places, summed up over all pairs of places. The two events of privacy have half of 2^-sigma each.

Beside it ours asks for t above half of those who hold a share, or it refuses the round: else a server that
does not follow the protocol could open both secrets of one client. And with ours a client keeps a share of
its own secrets, which is one holder more than counted here.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import hypergeom

from experiments.bounds import log_choose

SIGMA, ETA = 40, 30


class Choice(NamedTuple):
    degree: int
    t: int


def choice(n: int, gamma: float, delta: float, *, sigma: float = SIGMA, eta: float = ETA) -> Choice:
    """The smallest degree that does, with its smallest t; where no sparse graph does, the complete one."""
    colluders, dropouts = _part(n, gamma), _part(n, delta)
    for degree in range(2, n - 1, 2):
        if log_apart(n, degree, colluders + dropouts) > -(sigma + 1) * math.log(2):
            continue
        t = _threshold(n, degree, colluders, dropouts, sigma, eta)
        if t is not None:
            return Choice(degree, t)
    return Choice(n - 1, n // 2 + 1)


def log_apart(n: int, degree: int, removed: int) -> float:
    """ln of a bound on the probability that the circle falls apart without so many random clients."""
    if removed < degree:
        return -math.inf
    pairs = n * (n - degree - 1) / 2
    return math.log(pairs) + float(log_choose(n - degree, removed - degree) - log_choose(n, removed))


def _threshold(n: int, degree: int, colluders: int, dropouts: int, sigma: float, eta: float) -> int | None:
    t = np.arange((degree + 1) // 2 + 1, degree + 1)  # above half of the holders
    known = hypergeom.logsf(t - 1, n - 1, colluders, degree)
    too_few = hypergeom.logcdf(t - 1, n - 1, n - 1 - dropouts, degree)
    one = math.log(n)  # for the union over all clients
    fits = (known + one <= -(sigma + 1) * math.log(2)) & (too_few + one <= -eta * math.log(2))
    return int(t[fits][0]) if fits.any() else None


def _part(n: int, fraction: float) -> int:
    """At most a fraction of n, without the errors of floating-point numbers."""
    return math.floor(fraction * n + 1e-9)
