"""The random rotation: it keeps norms, can be undone, adds up, and spreads what lies in one place."""

import hashlib
import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ccesa.privacy.mechanism import rotated_size
from ccesa.privacy.quantizer import _transform, _transformed, rotate, unrotate

CONTEXT = bytes(range(32))
#: Of 1, 10, 100, 1000 and 10000.
PINNED = [555.5, 4822.25, -5722.25, -4732.25, 4723.25]
SIZES = [1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 63, 64, 100, 1000, 1024, 1025, 2047, 32768, 40_000]

vectors = st.integers(1, 200).flatmap(lambda size: arrays(np.float64, size, elements=st.floats(-1e6, 1e6)))
contexts = st.binary(min_size=32, max_size=32)


def spec(values, context):
    """The rotation as docs/protocol.md has it, from the primitives up and in quadratic time."""
    d = len(values)
    many = 2 ** int(math.log2(d))
    starts = [0] if many == d else [0, d - many]
    label = b"ccesa/2/24 rotation"
    frame = len(label).to_bytes(4, "little") + label + len(context).to_bytes(4, "little") + context
    key = hashlib.sha256(frame).digest()[:16]
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    stream = encryptor.update(bytes(-(-many * len(starts) // 8)))
    bits = [stream[j // 8] >> j % 8 & 1 for j in range(many * len(starts))]
    turned = [float(value) for value in values]
    for part, start in enumerate(starts):
        signed = [(1 - 2 * bits[part * many + j]) * turned[start + j] for j in range(many)]
        turned[start : start + many] = [
            math.fsum((-1) ** (j & k).bit_count() * signed[k] for k in range(many)) / math.sqrt(many)
            for j in range(many)
        ]
    return turned


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 8, 12, 32, 33, 64, 90])
def test_it_is_what_the_specification_says(size):
    values = np.random.default_rng(size).normal(size=size)
    assert rotate(values, CONTEXT) == pytest.approx(spec(values, CONTEXT), abs=1e-12)


@pytest.mark.parametrize("power", range(11))
def test_every_rounding_is_where_the_specification_has_it(power):
    """Scaled, then pairs at the distances 1, 2, 4, ...: the same bytes everywhere."""
    values = np.random.default_rng(power).normal(size=2**power)
    found = [float(value) * (1 / math.sqrt(len(values))) for value in values]
    for distance in (2**step for step in range(power)):
        for j in (place for place in range(len(found)) if not place & distance):
            one, other = found[j], found[j + distance]
            found[j], found[j + distance] = one + other, one - other
    assert _transformed(values).tolist() == found
    _transform(values)
    assert values.tolist() == found


def test_nothing_on_the_way_is_larger_than_the_norm():
    """A sum of these numbers would not be a float any more."""
    values = np.full(2**12, 1e308 / 2**6)
    assert _transformed(values)[0] == pytest.approx(1e308)
    assert np.isfinite(rotate(values, CONTEXT)).all()


def test_a_small_vector_pinned():
    """For whoever writes another one: five numbers, two passes over four of them each."""
    assert rotate(10.0 ** np.arange(5), CONTEXT) == pytest.approx(PINNED, abs=1e-9)


@given(vectors, contexts)
def test_the_norm_stays(values, context):
    assert np.linalg.norm(rotate(values, context)) == pytest.approx(np.linalg.norm(values), rel=1e-12, abs=1e-12)


@given(vectors, contexts)
def test_it_can_be_undone_both_ways(values, context):
    close = pytest.approx(values, rel=1e-9, abs=1e-12 * max(1.0, np.abs(values).max()) * values.size)
    assert unrotate(rotate(values, context), context) == close
    assert rotate(unrotate(values, context), context) == close


@given(st.integers(1, 200), st.data())
def test_it_adds_up(size, data):
    """The mean is rotated back once, by whoever has the sum."""
    numbers = arrays(np.float64, size, elements=st.floats(-1e3, 1e3))
    one, other, factor = data.draw(numbers), data.draw(numbers), data.draw(st.floats(-10, 10))
    together = rotate(one + factor * other, CONTEXT)
    assert together == pytest.approx(rotate(one, CONTEXT) + factor * rotate(other, CONTEXT), abs=1e-8)


@pytest.mark.parametrize("size", SIZES)
def test_a_spike_is_spread_wherever_it_is(size):
    """After the pass that it is in it has 1 / sqrt(2^k) everywhere; the other pass adds up random signs."""
    many = rotated_size(size)
    for place in {0, size // 3, size // 2, many - 1, size - 1}:
        spike = np.zeros(size)
        spike[place] = 1.0
        most = 1.0 if many == size else 6.0
        assert np.abs(rotate(spike, CONTEXT)).max() <= most / math.sqrt(many) + 1e-12


@pytest.mark.parametrize("size", [1024, 40_000])
def test_a_constant_and_a_wave_are_spread(size):
    """Vectors that a transform without signs would gather in one place."""
    for values in (np.ones(size), np.tile([1.0, -1.0], size // 2)):
        turned = rotate(values / math.sqrt(size), CONTEXT)
        assert np.abs(turned).max() <= 6 / math.sqrt(rotated_size(size))


@given(contexts, contexts)
def test_every_round_has_its_own_signs(one, other):
    values = np.ones(64)
    assert (one == other) == np.array_equal(rotate(values, one), rotate(values, other))


def test_what_is_rotated_is_left_as_it_was():
    values = np.arange(100.0)
    kept = values.copy()
    for turn in (rotate, unrotate):
        assert turn(values, CONTEXT) is not values
        assert np.array_equal(values, kept)


def test_zero_stays_zero():
    assert not rotate(np.zeros(100), CONTEXT).any()


@pytest.mark.parametrize(("size", "power"), [(1, 1), (2, 2), (3, 2), (4, 4), (1023, 512), (1024, 1024)])
def test_it_works_on_the_largest_power_of_two(size, power):
    assert rotated_size(size) == power
