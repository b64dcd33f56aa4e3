"""The exact probability that the survivors' graph falls apart, in logarithms: no union over cuts."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, xlog1py, xlogy

from ccesa.plan.paper import step_dropout
from experiments.bounds import log_choose


def log_disconnected(most: int, p: float) -> NDArray[np.float64]:
    """ln P(G(m, p) is not connected) for m = 0 … most.

    The component of the first client has k members: they are connected, and no edge leads out. Every term is
    positive, so that nothing cancels, however small the sum.
    """
    logs = np.full(most + 1, -np.inf)
    connected = np.zeros(most + 1)
    for m in range(2, most + 1):
        k = np.arange(1, m)
        terms = log_choose(m - 1, k - 1) + connected[k] + xlog1py(k * (m - k), -p)
        logs[m] = min(0.0, float(logsumexp(terms)))
        connected[m] = _log_other(logs[m])
    return logs


def log_not_private(n: int, p: float, q_total: float) -> float:
    """ln of what Theorem 6 bounds: G3 is not connected, where each client is in V3 with (1 - q)^3."""
    alive = (1 - step_dropout(q_total)) ** 3
    m = np.arange(n + 1)
    weights = log_choose(n, m) + xlogy(m, alive) + xlogy(n - m, 1 - alive)
    return float(logsumexp(weights + log_disconnected(n, p)))


def _log_other(log: float) -> float:
    """ln(1 - exp(log))."""
    if log >= 0:
        return -math.inf
    return math.log(-math.expm1(log)) if log > -1e-3 else math.log1p(-math.exp(log))
