"""Tells whether all shares of a secret lie on one polynomial and, if not, which do not.

r values at x_1 … x_r are those of a polynomial with t terms if and only if their r - t *power sums*
s_k = sum_i y_i · x_i^k / prod_{j != i} (x_j - x_i) are all 0. A random combination of these misses wrong
values with probability 1/65521, whatever they are, if they were there before it was drawn. So does a random
combination of the elements of a share. Both are drawn anew TIMES times.

Each wrong y_i adds a geometric sequence to s_k, with the ratio x_i. If they are at most half of r - t, the
shortest linear recurrence of s_k (Berlekamp and Massey) has just these x_i as its roots.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto import shamir
from ccesa.crypto.field import EXP, FIELD, LOG, Values

Flags = NDArray[np.bool_]
#: Wrong values are missed with a probability below 2^-29.
TIMES = 2


class TooManyWrong(ValueError):
    """More shares are wrong than the extra ones can correct."""


def fit_each(
    rows: Values, xs: Values, shares: shamir.Elements, spare: int, random: shamir.Randomness
) -> Flags:
    """Tell for each secret whether all its shares fit together; ``rows`` says whose share each is.

    Up to ``spare`` wrong ones are seen; no secret has fewer shares beyond its threshold. So many power sums
    show so many wrong values: secrets with more and with fewer shares can have one combination of them.
    """
    weights = EXP[-_log_differences(rows, xs) % (FIELD - 1)]
    fits = np.ones(int(rows.max()) + 1, bool)
    for ys in _combined(shares, random):
        factors = shamir.random_elements(random, spare)
        test = shamir.values(factors[:, None], int(xs.max()))[:, 0]
        terms = weights * test[xs - 1] % FIELD * ys
        fits &= np.bincount(rows, terms) % FIELD == 0  # exact: sums stay below 2^53
    return fits


def wrong_places(xs: Values, shares: shamir.Elements, threshold: int, random: shamir.Randomness) -> Flags:
    """Flag the wrong ones of r shares; raises TooManyWrong beyond floor((r - t) / 2) of them."""
    spare = len(xs) - threshold
    wrong = np.zeros(len(xs), bool)
    if spare > 0:
        weights = EXP[-shamir.log_differences(xs[None])[0] % (FIELD - 1)]
        for ys in _combined(shares, random):
            wrong |= _roots(_recurrence(_power_sums(xs, weights * ys % FIELD, spare)), xs)
    if np.count_nonzero(wrong) > spare // 2:
        raise TooManyWrong(f"more than {max(spare, 0) // 2} of {len(xs)} shares are wrong")
    return wrong


def _combined(shares: shamir.Elements, random: shamir.Randomness) -> Iterator[Values]:
    """Draw TIMES random combinations of the elements of each share, in which a wrong one shows as well."""
    size = shares.shape[1]
    factors = shamir.random_elements(random, size * TIMES).reshape(size, TIMES).astype(np.float64)
    combined = np.empty((len(shares), TIMES), np.int64)
    rows = shamir.PRODUCT // factors.size
    for first in range(0, len(shares), rows):
        some = slice(first, first + rows)
        combined[some] = shares[some].astype(np.float64) @ factors  # exact: below 2^53
    yield from combined.T % FIELD


def _power_sums(xs: Values, factors: Values, count: int) -> Values:
    """Return sum_i factors_i · xs_i^k for each k < count; powers of a few x are in memory at a time."""
    sums = np.zeros(count)
    rows = max(1, shamir.PRODUCT // count)
    for first in range(0, len(xs), rows):
        some = slice(first, first + rows)
        powers = EXP[np.outer(LOG[xs[some]].astype(np.int64), np.arange(count)) % (FIELD - 1)]
        sums += factors[some].astype(np.float64) @ powers.astype(np.float64)  # exact: below 2^53
    return sums.astype(np.int64) % FIELD


def _recurrence(sequence: Values) -> Values:
    """Find the shortest c with c_0 = 1 and sum_j c_j · s_{k - j} = 0 for all k from its length on."""
    found, older = np.zeros((2, sequence.size + 1), np.int64)
    found[0] = older[0] = 1
    length, gap, divisor = 0, 1, 1
    for k in range(sequence.size):
        rest = int(found[: length + 1] @ sequence[k - length : k + 1][::-1]) % FIELD
        if rest:
            better = found.copy()
            better[gap:] -= rest * pow(divisor, -1, FIELD) % FIELD * older[:-gap]
            if 2 * length <= k:
                length, gap, divisor, older = k + 1 - length, 0, rest, found
            found = better % FIELD
        gap += 1
    return found[: length + 1]


def _roots(recurrence: Values, xs: Values) -> Flags:
    """Flag the x whose powers obey the recurrence; all, if it has roots elsewhere or one of them twice."""
    values = np.zeros_like(xs)
    for factor in recurrence.tolist():
        values = (values * xs + factor) % FIELD
    roots = values == 0
    return roots if np.count_nonzero(roots) == recurrence.size - 1 else np.ones(len(xs), bool)


def _log_differences(rows: Values, xs: Values) -> Values:
    """Return log prod_{j != i} (x_j - x_i) for each share, over the shares of the same secret.

    In a complete graph all secrets have the same holders, and one row is enough.
    """
    sizes = np.bincount(rows)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(xs.size) - starts[rows]
    table = np.zeros((sizes.size, int(sizes.max())), np.int64)
    table[rows, places] = xs
    kinds: dict[bytes, int] = {}
    kind = np.array([kinds.setdefault(row.tobytes(), len(kinds)) for row in table])
    firsts = np.unique(kind, return_index=True)[1]
    return shamir.log_differences(table[firsts])[kind[rows], places]
