"""Thresholds of the discrete Gaussian: those of the definition, to the last bit."""

from fractions import Fraction
from itertools import accumulate, product
from math import floor

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.privacy import table
from ccesa.privacy.table import most_distance, rows, tables

grids = st.integers(0, 5)
word_sizes = st.sampled_from([4, 8, 64])


def distribution(variance: int, centre: Fraction, bits: int) -> tuple[int, list[mpmath.mpf]]:
    """F(z) from the first z on that counts, by the definition, with hundreds of bits to spare."""
    mpmath.mp.prec = 2 * bits + 300
    s2 = mpmath.mpf(variance) / 256
    reach = int(mpmath.sqrt(4 * (bits + 60) * s2)) + 3
    middle = mpmath.mpf(centre.numerator) / centre.denominator
    weights = [mpmath.exp(-((z - middle) ** 2) / (2 * s2)) for z in range(-reach, reach + 2)]
    total, summed, found = mpmath.fsum(weights), mpmath.mpf(0), []
    for weight in weights:
        summed += weight
        found.append(summed / total)
    return -reach, found


def defined(variance: int, grid_bits: int, phase: int, bits: int) -> tuple[int, list[int]]:
    """The row of one phase, from floors of F."""
    first, cumulative = distribution(variance, Fraction(phase, 2**grid_bits), bits)
    row = [min(int(mpmath.floor(mpmath.ldexp(f, bits))), 2**bits - 1) for f in cumulative]
    if 2 * phase == 2**grid_bits:
        row[-first] = 2 ** (bits - 1)  # a whole number, and roundings fall on either side of it
    start = next(i for i, threshold in enumerate(row) if threshold >= 1)
    return first + start, row[start : row.index(2**bits - 1) + 1]


def stored(made: table.Tables, phase: int) -> tuple[int, list[int]]:
    part = slice(*made.starts[phase : phase + 2].tolist())
    words = zip(made.high[part].tolist(), made.low[part].tolist(), strict=True)
    return int(made.first[phase]), [(high << made.word_bits) + low for high, low in words]


# The definition


@settings(max_examples=40)
@given(st.integers(1, 2000) | st.integers(1, 10**5), grids, word_sizes, st.data())
def test_thresholds_are_those_of_the_definition(variance, grid_bits, word_bits, data):
    phase = data.draw(st.integers(0, 2**grid_bits - 1))
    made = tables(variance, grid_bits, word_bits)
    assert stored(made, phase) == defined(variance, grid_bits, phase, 2 * word_bits)


@pytest.mark.parametrize(("variance", "grid_bits"), [(1239, 8), (4096, 8), (40**2 * 256, 4)])
def test_usual_tables_are_those_of_the_definition(variance, grid_bits):
    made = tables(variance, grid_bits)
    for phase in (0, 1, 2 ** (grid_bits - 1) - 1, 2 ** (grid_bits - 1), 2**grid_bits - 1):
        assert stored(made, phase) == defined(variance, grid_bits, phase, 128)


FINEST = 2**400


def exponential(x: Fraction) -> tuple[Fraction, Fraction]:
    """Rational bounds of exp(-x) for x >= 0, from the series of exp(x), rounded outwards to 2^-400."""
    if x > 280:
        return Fraction(0), Fraction(1, FINEST)
    above, below = 1, 1
    for n in range(260 + 8 * floor(x), 0, -1):  # more terms are less than (e / 8)^260 < 2^-400 of the sum
        below *= n * x.denominator
        above = below + above * x.numerator
    inverse = Fraction(below, above) * FINEST
    return Fraction(floor(inverse) - 2, FINEST), Fraction(floor(inverse) + 1, FINEST)


@pytest.mark.parametrize(("variance", "grid_bits"), [(64, 1), (100, 2), (256, 0), (256, 2)])
def test_probabilities_of_little_noise_are_exact_in_rationals(variance, grid_bits):
    made, beyond = tables(variance, grid_bits), Fraction(1, 2**300)  # more than all weights further out
    for phase in range(2**grid_bits):
        first, row = stored(made, phase)
        centre = Fraction(phase, 2**grid_bits)
        squares = [(z - centre) ** 2 for z in range(first - 8, first + len(row) + 8)]
        low, high = zip(*(exponential(square * 128 / variance) for square in squares), strict=True)
        for i, threshold in enumerate(row, 9):
            between = sum(low[:i]) / (sum(high) + beyond), (sum(high[:i]) + beyond) / sum(low)
            half = centre == Fraction(1, 2) and threshold == 2**127  # between bounds that never meet
            assert {floor(2**128 * f) for f in between} == {threshold, threshold - half}


@given(st.integers(1, 3000), grids, word_sizes)
def test_phases_are_mirror_images_of_each_other(variance, grid_bits, word_bits):
    """1 - z has the centre 1 - c: floors of F of -z and z are complements, but for the whole number."""
    made, largest = tables(variance, grid_bits, word_bits), 4**word_bits - 1
    for phase in range(1, 2**grid_bits):
        first, row = stored(made, phase)
        other, mirrored = stored(made, 2**grid_bits - phase)
        expected = {-z: largest - one for z, one in enumerate(row[:-1], first)}
        if 2 * phase == 2**grid_bits:
            expected[0] += 1
        assert dict(enumerate(mirrored[:-1], other)) == expected


@given(st.integers(1, 3000), grids, word_sizes)
def test_rows_are_as_long_as_they_must_be(variance, grid_bits, word_bits):
    made = tables(variance, grid_bits, word_bits)
    for phase in range(2**grid_bits):
        _, row = stored(made, phase)
        assert row == sorted(row)
        assert row[0] >= 1
        assert row.index(4**word_bits - 1) == len(row) - 1


# How they are computed


@settings(max_examples=25)
@given(st.integers(1, 3000), st.integers(0, 3), word_sizes, st.integers(1, 400))
@example(variance=1239, grid_bits=3, word_bits=64, precision=1)
@example(variance=1, grid_bits=1, word_bits=4, precision=1)
def test_the_precision_to_start_with_changes_nothing(variance, grid_bits, word_bits, precision):
    bits = 2 * word_bits
    found = list(rows(variance, grid_bits, bits, precision))
    made = tables(variance, grid_bits, word_bits)
    assert found == [stored(made, phase) for phase in range(2**grid_bits)]


@pytest.mark.parametrize("start", [1, 100, 140])
def test_bounds_that_do_not_decide_are_computed_again_with_twice_the_precision(monkeypatch, start):
    used, weights = [], table._weights
    monkeypatch.setattr(table, "_weights", lambda *given: used.append(given[2]) or weights(*given))
    assert dict(rows(1239, 4, 128, start)) == dict(rows(1239, 4, 128, 500))
    assert len(used) > 2
    assert used[:-1] == [start * 2**i for i in range(len(used) - 1)]


@settings(max_examples=50)
@given(st.integers(1, 10**5), st.integers(0, 3), st.integers(1, 200))
def test_bounds_are_bounds(variance, grid_bits, precision):
    weights = table._weights(variance, grid_bits, precision)
    mpmath.mp.prec = 2 * precision + 100
    s2, phases = mpmath.mpf(variance) / 256, 2**grid_bits
    last = len(weights.lower) - 1
    for k in {0, 1, last // 3, last // 2, last}:
        exact = mpmath.ldexp(mpmath.exp(-mpmath.mpf(k * k) / (phases**2 * 2 * s2)), precision)
        assert weights.lower[k] <= exact <= weights.upper[k]
    distance = weights.reach - 1
    beyond = [mpmath.exp(-mpmath.mpf((distance + j) ** 2) / (2 * s2)) for j in range(1, 60)]
    assert mpmath.ldexp(mpmath.fsum(beyond), precision) <= weights.tail


sides = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 2)), min_size=2, max_size=2)


@given(sides, sides, st.integers(0, 6), st.integers(1, 4))
@example([(22, 0), (14, 0)], [(44, 0), (54, 0)], 4, 3)  # only the tail on the left can change a threshold
@example([(53, 0), (15, 0)], [(26, 0), (3, 1)], 1, 4)  # and here that on the right
def test_what_bounds_decide_holds_for_all_that_lies_within_them(left, right, tail, bits):
    """Weights have a lower bound and some units more; phase 1 of 3 is not symmetric."""
    bounds = [bound for pair in zip(left, right, strict=True) for bound in ((0, 0), *pair)]
    lower, upper = [low for low, _ in bounds], [low + more for low, more in bounds]
    row = table._row(table._Weights(lower, upper, tail, 2), 1, 3, bits)
    for before, after, *more in product((0, tail), (0, tail), *((0, more) for _, more in left[::-1] + right)):
        weights = [low + add for (low, _), add in zip(left[::-1] + right, more, strict=True)]
        summed = list(accumulate(weights, initial=before))
        exact = [min(one * 2**bits // (summed[-1] + after), 2**bits - 1) for one in summed]
        assert row in (None, exact)


@given(st.fractions(0, 200), st.integers(1, 300))
def test_exponentials_lie_within_their_bounds(x, precision):
    mpmath.mp.prec = 2 * precision + 400
    low, high = table._exponential(x.numerator, x.denominator, precision)
    exact = mpmath.ldexp(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator), precision)
    assert low <= exact <= high
    assert high - low <= 200  # roundings, no more


# What it adds to delta


@settings(max_examples=30)
@given(st.integers(1, 3000), st.integers(0, 3), st.sampled_from([2, 4, 8, 12]))
def test_a_draw_is_as_near_to_the_exact_distribution_as_is_claimed(variance, grid_bits, word_bits):
    made, bits = tables(variance, grid_bits, word_bits), 2 * word_bits
    for phase in range(2**grid_bits):
        assert distance(made, phase) <= made.distance.numerator / mpmath.mpf(made.distance.denominator)
    longest = max(len(stored(made, phase)[1]) for phase in range(2**grid_bits))
    assert made.distance == Fraction(longest + 3, 2 * 2**bits)


def distance(made: table.Tables, phase: int) -> mpmath.mpf:
    """Half the sum of what probabilities differ by, over all numbers."""
    begin, cumulative = distribution(made.variance, Fraction(phase, 2**made.grid_bits), 128)
    first, row = stored(made, phase)
    drawn = {z: Fraction(one, 4**made.word_bits) for z, one in enumerate(row, first)}
    drawn[first + len(row)] = Fraction(1)
    before = mpmath.mpf(0)
    total, reached = mpmath.mpf(0), Fraction(0)
    for z, upto in enumerate(cumulative, begin):
        now = drawn.get(z, reached)
        difference = now - reached
        total += abs(upto - before - mpmath.mpf(difference.numerator) / difference.denominator)
        before, reached = upto, now
    assert reached == 1
    return total / 2


def test_the_claimed_distance_is_hardly_more_than_the_true_one():
    made = tables(4096, 1, 8)
    assert distance(made, 0) > float(made.distance) / 4


@settings(max_examples=30)
@given(st.integers(1, 10**5), st.integers(0, 3), word_sizes)
@example(variance=1, grid_bits=3, word_bits=4)
@example(variance=1, grid_bits=0, word_bits=64)
def test_the_distance_is_bounded_without_tables(variance, grid_bits, word_bits):
    bound = most_distance(variance, word_bits)
    assert tables(variance, grid_bits, word_bits).distance <= bound
    if word_bits == 64 and variance > 256:
        assert bound < tables(variance, grid_bits, word_bits).distance * Fraction(13, 10)


# What is kept, and what is refused


def test_tables_are_built_once_and_cannot_be_changed():
    made = tables(300, 2)
    assert tables(300, 2) is made
    for array in (made.high, made.low, made.starts, made.first):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("variance", "grid_bits"),
    [
        (0, 4),
        (-1, 4),
        (True, 4),
        (300.0, 2),
        (np.int64(300), 2),
        (300, -1),
        (300, 17),
        (300, 2.0),
        (2**43 + 1, 0),
        (2**19 + 1, 12),
        (2**70, 1),
    ],
)
def test_numbers_without_a_table_are_refused(variance, grid_bits):
    tables(300, 2)  # which is kept, and equals those of 300.0
    with pytest.raises(ConfigError, match=r"variance|grid_bits"):
        tables(variance, grid_bits)
