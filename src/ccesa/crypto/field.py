"""The field GF(65521) has a table of logarithms, so quotients of many factors become sums."""

import numpy as np
from numpy.typing import NDArray

FIELD = 65521
_GENERATOR = 17

Values = NDArray[np.int64]


def _tables() -> tuple[Values, NDArray[np.int32]]:
    exp = np.empty(FIELD - 1, np.int64)
    power = 1
    for k in range(FIELD - 1):
        exp[k] = power
        power = power * _GENERATOR % FIELD
    log = np.zeros(FIELD, np.int32)  # small enough to stay in cache
    log[exp] = np.arange(FIELD - 1)
    return exp, log


#: EXP[k] = 17^k and its inverse. LOG[0] is 0 by definition: a factor that is left out.
EXP, LOG = _tables()
#: log k! and log (-1)
LOG_FACTORIAL = np.cumsum(LOG, dtype=np.int64) % (FIELD - 1)
LOG_MINUS_ONE = (FIELD - 1) // 2
