"""Shares secrets among holders, as Shamir does, over GF(65521).

A secret is a row of field elements, shared element by element with common x-coordinates
1, 2, …, holders. Products of two elements stay below 2^32, so a sum of up to 2^21 of them is exact
in float64 and one matrix product splits a secret. The multiplicative group has a generator, so
quotients of many factors (Lagrange weights) become sums of discrete logarithms read from a table.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto.field import EXP, FIELD, LOG, LOG_FACTORIAL, LOG_MINUS_ONE, Values

Elements = NDArray[np.uint16]
Randomness = Callable[[int], bytes]

#: Elements of one secret: 16 · log2(65521) is just under 256 bits.
SECRET_ELEMENTS = 16
SHARE_BYTES = 2 * SECRET_ELEMENTS
#: Shares are points of the field with distinct non-zero x-coordinates.
MAX_HOLDERS = FIELD - 1
#: Multiplications in one matrix product. Below this BLAS stays in the calling thread; above it, it wakes
#: threads of its own, which costs more than the product (and would fight with ours).
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
    if len(data) % 2 or 0xFF in data[1::2]:  # no other word can lie outside, and most rows have none such
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
    weights = _weights_at_zero(xs)
    return (np.einsum("kt,kte->ke", weights, shares.astype(np.int64)) % FIELD).astype(np.uint16)


def _powers(first: int, last: int, count: int) -> NDArray[np.float64]:
    """Return x^k for x in [first, last) and k < count, cut from a cached table where that is small."""
    if last <= 1024 and count <= 1024:
        return _power_table(-(-last // 64) * 64, -(-count // 64) * 64)[first:last, :count]
    return _compute_powers(first, last, count)


@lru_cache(maxsize=16)
def _power_table(rows: int, columns: int) -> NDArray[np.float64]:
    return _compute_powers(0, rows, columns)


def _compute_powers(first: int, last: int, count: int) -> NDArray[np.float64]:
    exponents = np.outer(LOG[first:last].astype(np.int64), np.arange(count))
    return EXP[exponents % (FIELD - 1)].astype(np.float64)


def _weights_at_zero(xs: Values) -> Values:
    """Return for each row the Lagrange weights prod_{j != i} x_j / (x_j - x_i), as sums of logarithms."""
    logs = LOG[xs].astype(np.int64)
    return EXP[(logs.sum(axis=1, keepdims=True) - logs - log_differences(xs)) % (FIELD - 1)]


def log_differences(xs: Values) -> Values:
    """Return for each row and each of its x the logarithm of prod_{j != i} (x_j - x_i).

    Among few holders one matrix product adds up the logarithms. Else: holders are mostly 1 … k without a few,
    the product over all of 1 … k is a quotient of factorials, from which the absent ones are divided out.
    Differences index the table of logarithms directly: a negative index counts from its end, which is
    reduction modulo the field; 0 stands for no factor.
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
    """Return the logarithm of row - column; 0, for no factor, where they are the same."""
    numbers = np.arange(size)
    return LOG[numbers[:, None] - numbers].astype(np.float64)


def _absent(xs: Values, largest: Values) -> Values:
    """Return for each row which of 1 … largest are not in it, filled up with zeros."""
    absent = np.arange(int(largest.max()) + 1) <= largest
    absent[:, 0] = False
    np.put_along_axis(absent, xs, False, axis=1)
    most = int(absent.sum(axis=1).max())
    places = np.argsort(~absent, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(absent, places, axis=1), places, 0)
