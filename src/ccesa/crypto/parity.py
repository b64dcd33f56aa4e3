"""Do all shares of a secret lie on one polynomial, and if not, which do not?

r values at the points x_1 … x_r are those of a polynomial with t terms if and only if
sum_i y_i · g(x_i) / prod_{j != i} (x_j - x_i) = 0 for every g with r - t terms. A random g misses wrong
values with probability 1/65521, whatever they are, if they were there before g was drawn. So does a random
combination of the elements of a share. Both are drawn anew TIMES times.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto import polynomial, shamir
from ccesa.crypto.polynomial import EXP, FIELD, LOG

Values = NDArray[np.int64]
#: Wrong values are missed with a probability below 2^-29.
TIMES = 2


def combined(shares: shamir.Elements, random: shamir.Randomness) -> Values:
    """For each share TIMES random combinations of its elements, in which a wrong one shows as well."""
    size = shares.shape[1]
    factors = shamir.random_elements(random, size * TIMES).reshape(size, TIMES).astype(np.float64)
    return (shares.astype(np.float64) @ factors).astype(np.int64).T % FIELD  # exact: below 2^53


def fit_each(
    rows: Values, xs: Values, shares: shamir.Elements, spare: int, random: shamir.Randomness
) -> NDArray[np.bool_]:
    """For each secret, whether up to ``spare`` of its shares are wrong; ``rows`` says whose share one is.

    ``spare`` is at most the number of shares beyond the threshold, of every secret. A g with so many terms
    sees all wrong values if they are no more: so secrets with more and with fewer shares can have one g.
    """
    weights = EXP[-_log_differences(rows, xs) % (FIELD - 1)]
    fits = np.ones(int(rows.max()) + 1, bool)
    for ys in combined(shares, random):
        factors = shamir.random_elements(random, spare)
        test = shamir.values(factors[:, None], int(xs.max()))[:, 0]
        terms = weights * test[xs - 1] % FIELD * ys
        fits &= np.bincount(rows, terms) % FIELD == 0  # exact: sums stay below 2^53
    return fits


def odd_ones(
    xs: Values,
    secret_and_shares: shamir.Elements,
    threshold: int,
    suspects: NDArray[np.bool_],
    random: shamir.Randomness,
) -> NDArray[np.intp]:
    """The places of the wrong shares; none where too many are wrong to tell.

    That only ``suspects`` are wrong is tried first, because decoding is slow.
    """
    wrong = np.zeros(len(xs), bool)
    for at_zero, *values in combined(secret_and_shares, random).tolist():
        wrong |= _odd_values(xs, np.array(values), threshold, at_zero, suspects)
    return np.flatnonzero(wrong)


def _odd_values(
    xs: Values, ys: Values, threshold: int, at_zero: int, suspects: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    for guess in (partial(_beside, suspects), polynomial.decode):
        good = guess(xs, ys, threshold)
        if good is None or 2 * np.count_nonzero(good != ys) > len(xs) - threshold:
            continue
        if _value_at_zero(xs, good, threshold) == at_zero:
            return good != ys
    return np.zeros(len(xs), bool)


def _beside(suspects: NDArray[np.bool_], xs: Values, ys: Values, threshold: int) -> Values | None:
    """The values of the polynomial through the first that nobody suspects; None if they are too few."""
    trusted = np.flatnonzero(~suspects)[:threshold]
    if not suspects.any() or trusted.size < threshold:
        return None
    rest = np.ones(len(xs), bool)
    rest[trusted] = False
    good = ys.copy()
    good[rest] = _values_at(xs[rest], xs[trusted], ys[trusted])
    return good


def _value_at_zero(xs: Values, ys: Values, threshold: int) -> int:
    return int(_values_at(np.zeros(1, np.int64), xs[:threshold], ys[:threshold])[0])


def _values_at(points: Values, xs: Values, ys: Values) -> Values:
    """Of the polynomial through all (x, y), by Lagrange; no point is an x."""
    logs = LOG[(xs - points[:, None]) % FIELD].astype(np.int64)
    weights = EXP[(logs.sum(axis=1, keepdims=True) - logs - shamir.log_differences(xs[None])) % (FIELD - 1)]
    return (weights * ys % FIELD).sum(axis=1) % FIELD


def _log_differences(rows: Values, xs: Values) -> Values:
    """For each share; in a complete graph all secrets have the same holders, and one row is enough."""
    sizes = np.bincount(rows)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(xs.size) - starts[rows]
    table = np.zeros((sizes.size, int(sizes.max())), np.int64)
    table[rows, places] = xs
    kinds: dict[bytes, int] = {}
    kind = np.array([kinds.setdefault(row.tobytes(), len(kinds)) for row in table])
    firsts = np.unique(kind, return_index=True)[1]
    return shamir.log_differences(table[firsts])[kind[rows], places]
