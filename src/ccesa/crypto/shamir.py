"""Share secrets as Shamir does, over GF(65521); find shares that do not fit, and which.

A secret is a row of field elements, shared element by element with common x-coordinates 1, 2, …, holders.
Products of two elements stay below 2^32, so a sum of up to 2^21 of them is exact in float64, and one matrix
product splits a secret. The multiplicative group has a generator, so quotients of many factors (Lagrange
weights) become sums of discrete logarithms, which are read from a table.

r values at x_1 … x_r are those of a polynomial with t terms if and only if their r - t *power sums*
s_k = sum_i y_i · x_i^k / prod_{j != i} (x_j - x_i) are all 0. A random combination of these misses wrong
values with probability 1/65521, whatever they are, if they were there before it was drawn. So does a random
combination of the elements of a share. Both are drawn TIMES times.

Each wrong y_i adds a geometric sequence to s_k, with the ratio x_i. If they are at most half of r - t, the
shortest linear recurrence of s_k (Berlekamp and Massey) has just these x_i as its roots.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

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


Elements = NDArray[np.uint16]
Randomness = Callable[[int], bytes]

#: Elements of one secret: 16 · log2(65521) is just under 256 bits.
SECRET_ELEMENTS = 16
SHARE_BYTES = 2 * SECRET_ELEMENTS
#: Shares are points of the field with distinct non-zero x-coordinates.
MAX_HOLDERS = FIELD - 1
#: Multiplications in one matrix product. Below this BLAS stays in the calling thread; above it, it wakes threads
#: of its own, which cost more than the product (and would fight with ours).
PRODUCT = 1 << 18
#: Holders among whom a table of all differences is small.
_FEW = 512


class OutsideField(ValueError):
    """The bytes are not a row of field elements."""


def random_elements(random: Randomness, count: int) -> Elements:
    """Draw uniform field elements: 16-bit words, those outside the field thrown away."""
    found = np.empty(0, np.uint16)
    while found.size < count:
        words = np.frombuffer(random(2 * (count - found.size)), "<u2")
        found = np.concatenate([found, words[words < FIELD]])
    return found


def to_bytes(elements: Elements) -> bytes:
    return elements.astype("<u2", copy=False).tobytes()


def from_bytes(data: bytes) -> Elements:
    """Read elements as sent; raises OutsideField if a word lies outside the field."""
    if len(data) % 2:
        raise OutsideField(f"{len(data)} bytes are not a whole number of 16-bit words")
    elements = np.frombuffer(data, "<u2")
    if np.maximum.reduce(elements, initial=0) >= FIELD:
        raise OutsideField("a word outside the field of 65521 elements")
    return elements


def check(data: bytes) -> None:
    """Raise OutsideField where ``from_bytes`` does, in a fraction of its time."""
    if len(data) % 2 or 0xFF in data[1::2]:  # only such a word can lie outside, and most rows have none
        from_bytes(data)


def split(secret: Elements, threshold: int, holders: int, random: Randomness) -> Elements:
    """Deal a row of shares for each x = 1 … holders; any ``threshold`` of them rebuild the secret."""
    if not 1 <= threshold <= holders < FIELD:
        raise ValueError(f"cannot split {threshold} of {holders}")
    noise = random_elements(random, (threshold - 1) * secret.size).reshape(threshold - 1, secret.size)
    return values(np.vstack([secret, noise]), holders)


def values(coefficients: Elements, largest: int) -> Elements:
    """Evaluate the polynomials in the columns, lowest coefficient first, at x = 1 … largest."""
    factors = coefficients.astype(np.float64)
    found = np.empty((largest, factors.shape[1]), np.uint16)
    rows = max(1, PRODUCT // factors.size)
    for first in range(0, largest, rows):
        last = min(first + rows, largest)
        products = _powers(first + 1, last + 1, len(factors)) @ factors
        found[first:last] = products.astype(np.int64) % FIELD
    return found


def join(xs: Values, shares: Elements) -> Elements:
    """Rebuild a secret from exactly as many shares as its threshold; ``xs`` distinct, in 1 … 65520."""
    return join_each(np.asarray(xs)[None], shares[None])[0]


def join_each(xs: Values, shares: Elements) -> Elements:
    """Rebuild many secrets of the same threshold, row k of the result from row k of xs and shares."""
    logs = LOG[xs].astype(np.int64)
    # The Lagrange weights at zero, prod_{j != i} x_j / (x_j - x_i).
    weights = EXP[(logs.sum(axis=1, keepdims=True) - logs - log_differences(xs)) % (FIELD - 1)]
    return (np.einsum("kt,kte->ke", weights, shares.astype(np.int64)) % FIELD).astype(np.uint16)


def _powers(first: int, last: int, count: int) -> NDArray[np.float64]:
    """Return x^k for x in [first, last) and k < count, cut from a cached table if that is small."""
    if last <= 1024 and count <= 1024:
        return _power_table(-(-last // 64) * 64, -(-count // 64) * 64)[first:last, :count]
    return _compute_powers(first, last, count)


@lru_cache(maxsize=16)
def _power_table(rows: int, columns: int) -> NDArray[np.float64]:
    return _compute_powers(0, rows, columns)


def _compute_powers(first: int, last: int, count: int) -> NDArray[np.float64]:
    exponents = np.outer(LOG[first:last].astype(np.int64), np.arange(count))
    return EXP[exponents % (FIELD - 1)].astype(np.float64)


def log_differences(xs: Values) -> Values:
    """Return for each row and each of its x the logarithm of prod_{j != i} (x_j - x_i).

    Among few holders one matrix product adds up the logarithms. Else the product over all of 1 … k is a quotient of
    factorials, from which the few absent ones are divided out. Differences index the table of logarithms directly: a
    negative index counts from its end, which is reduction modulo the field; 0 stands for no factor.
    """
    largest = xs.max(axis=1, keepdims=True)
    if int(largest.max()) < _FEW:
        return _log_differences_of_few(xs)
    absent = _absent(xs, largest)
    differences = LOG_FACTORIAL[xs - 1] + LOG_FACTORIAL[largest - xs] + (xs - 1) * LOG_MINUS_ONE
    rows = max(1, PRODUCT // max(1, xs.shape[1] * absent.shape[1]))
    for first in range(0, len(xs), rows):
        some, gone = xs[first : first + rows, :, None], absent[first : first + rows, None, :]
        logs_gone = LOG[np.where(gone, gone - some, 0)]
        differences[first : first + rows] -= logs_gone.sum(axis=2, dtype=np.int64)
    return differences


def _log_differences_of_few(xs: Values) -> Values:
    size = int(xs.max()) + 1
    present = np.zeros((len(xs), size))
    np.put_along_axis(present, xs, 1.0, axis=1)
    present[:, 0] = 0.0
    table = _log_table(-(-size // 64) * 64)[:size, :size]
    sums = np.empty_like(present)
    rows = max(1, PRODUCT // table.size)
    for first in range(0, len(xs), rows):
        np.matmul(present[first : first + rows], table, out=sums[first : first + rows])
    return np.take_along_axis(sums, xs, axis=1).astype(np.int64)


@lru_cache(maxsize=8)
def _log_table(size: int) -> NDArray[np.float64]:
    """Return the logarithm of row - column; 0, for no factor, if they are the same."""
    numbers = np.arange(size)
    return LOG[numbers[:, None] - numbers].astype(np.float64)


def _absent(xs: Values, largest: Values) -> Values:
    absent = np.arange(int(largest.max()) + 1) <= largest
    absent[:, 0] = False
    np.put_along_axis(absent, xs, False, axis=1)
    most = int(absent.sum(axis=1).max())
    places = np.argsort(~absent, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(absent, places, axis=1), places, 0)


Flags = NDArray[np.bool_]
#: Wrong values are missed with a probability below 2^-29.
TIMES = 2


class TooManyWrong(ValueError):
    """More shares are wrong than the extra ones can correct."""


def fit_each(rows: Values, xs: Values, shares: Elements, spare: int, random: Randomness) -> Flags:
    """Tell for each secret whether all its shares fit together; ``rows`` gives the secret of each share.

    Up to ``spare`` wrong ones, as many as power sums, are seen; no secret has fewer shares beyond its threshold.
    """
    weights = EXP[-_differences_by_row(rows, xs) % (FIELD - 1)]
    fits = np.ones(int(rows.max()) + 1, bool)
    for ys in _combined(shares, random):
        factors = random_elements(random, spare)
        test = values(factors[:, None], int(xs.max()))[:, 0]
        terms = weights * test[xs - 1] % FIELD * ys
        fits &= np.bincount(rows, terms) % FIELD == 0  # exact: sums stay below 2^53
    return fits


def wrong_places(xs: Values, shares: Elements, threshold: int, random: Randomness) -> Flags:
    """Flag the wrong ones of r shares; raises TooManyWrong beyond floor((r - t) / 2) of them."""
    spare = len(xs) - threshold
    wrong = np.zeros(len(xs), bool)
    if spare > 0:
        weights = EXP[-log_differences(xs[None])[0] % (FIELD - 1)]
        for ys in _combined(shares, random):
            wrong |= _roots(_recurrence(_power_sums(xs, weights * ys % FIELD, spare)), xs)
    if np.count_nonzero(wrong) > spare // 2:
        raise TooManyWrong(f"more than {max(spare, 0) // 2} of {len(xs)} shares are wrong")
    return wrong


def _combined(shares: Elements, random: Randomness) -> Iterator[Values]:
    """Draw TIMES random combinations of the elements of each share, in which a wrong element shows as well."""
    size = shares.shape[1]
    factors = random_elements(random, size * TIMES).reshape(size, TIMES).astype(np.float64)
    combined = np.empty((len(shares), TIMES), np.int64)
    rows = PRODUCT // factors.size
    for first in range(0, len(shares), rows):
        some = slice(first, first + rows)
        combined[some] = shares[some].astype(np.float64) @ factors  # exact: below 2^53
    yield from combined.T % FIELD


def _power_sums(xs: Values, factors: Values, count: int) -> Values:
    """Return sum_i factors_i · xs_i^k for each k < count; powers of a few x are in memory at a time."""
    sums = np.zeros(count)
    rows = max(1, PRODUCT // count)
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


def _differences_by_row(rows: Values, xs: Values) -> Values:
    """Return log prod_{j != i} (x_j - x_i) for each share; secrets with the same holders have one row in common."""
    sizes = np.bincount(rows)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(xs.size) - starts[rows]
    table = np.zeros((sizes.size, int(sizes.max())), np.int64)
    table[rows, places] = xs
    kinds: dict[bytes, int] = {}
    kind = np.array([kinds.setdefault(row.tobytes(), len(kinds)) for row in table])
    firsts = np.unique(kind, return_index=True)[1]
    return log_differences(table[firsts])[kind[rows], places]
