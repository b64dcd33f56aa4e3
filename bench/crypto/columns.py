"""Wrong shares found element by element, by Reed-Solomon decoding after Gao (2003).

Tests compare ``ccesa.crypto.shamir`` with it, and ``bench/protocol/liars.py`` measures both; they have
nothing in common but the field. A polynomial is an array of coefficients, lowest first, without trailing
zeros.
"""

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto import shamir
from ccesa.crypto.shamir import EXP, FIELD, LOG, TooManyWrong

Polynomial = NDArray[np.int64]


def wrong_places(xs: NDArray[np.int64], shares: shamir.Elements, threshold: int) -> NDArray[np.bool_]:
    """Flags the wrong ones of r shares; raises TooManyWrong beyond floor((r - t) / 2) of them."""
    budget = (len(xs) - threshold) // 2
    wrong = np.zeros(len(xs), bool)
    for column in shares.T.astype(np.int64):
        good = decode(xs, column, threshold)
        if good is None:
            raise TooManyWrong(f"more than {budget} of {len(xs)} shares are wrong")
        wrong |= good != column
    if np.count_nonzero(wrong) > budget:
        raise TooManyWrong(f"{np.count_nonzero(wrong)} of {len(xs)} shares are wrong")
    return wrong


def decode(xs: NDArray[np.int64], ys: NDArray[np.int64], terms: int) -> NDArray[np.int64] | None:
    """The values at ``xs`` of the one polynomial with ``terms`` terms that is close enough to ``ys``.

    Close enough: it differs in at most floor((r - terms) / 2) places. None if there is no such one.
    """
    xs = np.asarray(xs, np.int64)
    older, newer = _vanishing(xs), _interpolate(xs, ys)
    locator_older, locator = _poly([]), _poly([1])
    while 2 * (newer.size - 1) >= len(xs) + terms:
        quotient, rest = _divide(older, newer)
        older, newer = newer, rest
        locator_older, locator = locator, _subtract(locator_older, _multiply(quotient, locator))
    found, rest = _divide(newer, locator)
    if rest.size or found.size > terms:
        return None
    values = _evaluate(found, xs)
    wrong = int(np.count_nonzero(values != ys))
    return values if wrong <= (len(xs) - terms) // 2 else None


def _poly(coefficients: list[int]) -> Polynomial:
    return np.array(coefficients, np.int64)


def _trim(polynomial: Polynomial) -> Polynomial:
    (nonzero,) = np.nonzero(polynomial)
    return polynomial[: nonzero[-1] + 1] if nonzero.size else polynomial[:0]


def _evaluate(polynomial: Polynomial, xs: NDArray[np.int64]) -> NDArray[np.int64]:
    values = np.zeros_like(xs)
    for coefficient in polynomial[::-1]:
        values = (values * xs + coefficient) % FIELD
    return values


def _times_root(polynomial: Polynomial, root: int) -> Polynomial:
    """polynomial · (x - root)"""
    product = np.zeros(polynomial.size + 1, np.int64)
    product[1:] = polynomial
    product[:-1] -= polynomial * root
    return product % FIELD


def _vanishing(xs: NDArray[np.int64]) -> Polynomial:
    product = _poly([1])
    for x in xs.tolist():
        product = _times_root(product, x)
    return product


def _inverse(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return EXP[-LOG[values] % (FIELD - 1)]


def _interpolate(xs: NDArray[np.int64], ys: NDArray[np.int64]) -> Polynomial:
    """Newton's divided differences, then Horner."""
    differences = np.asarray(ys, np.int64).copy()
    for k in range(1, len(xs)):
        steps = _inverse((xs[k:] - xs[:-k]) % FIELD)
        differences[k:] = (differences[k:] - differences[k - 1 : -1]) * steps % FIELD
    result = _poly([])
    for x, difference in zip(xs[::-1].tolist(), differences[::-1].tolist(), strict=True):
        result = _times_root(result, x) if result.size else np.zeros(1, np.int64)
        result[0] = (result[0] + difference) % FIELD
    return _trim(result)


def _multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    product = np.zeros(max(left.size + right.size - 1, 0), np.int64)
    for k, coefficient in enumerate(left.tolist()):
        product[k : k + right.size] = (product[k : k + right.size] + coefficient * right) % FIELD
    return _trim(product)


def _subtract(left: Polynomial, right: Polynomial) -> Polynomial:
    difference = np.zeros(max(left.size, right.size), np.int64)
    difference[: left.size] = left
    difference[: right.size] -= right
    return _trim(difference % FIELD)


def _divide(dividend: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    rest = dividend.copy()
    inverse = int(_inverse(divisor[-1:])[0])
    quotient = np.zeros(max(dividend.size - divisor.size + 1, 0), np.int64)
    for k in range(quotient.size - 1, -1, -1):
        quotient[k] = rest[k + divisor.size - 1] * inverse % FIELD
        rest[k : k + divisor.size] = (rest[k : k + divisor.size] - quotient[k] * divisor) % FIELD
    return _trim(quotient), _trim(rest)
