import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import ring
from ccesa.errors import VectorError
from strategies import bits


def words(count: int, width: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 2**width - 1), min_size=count, max_size=count)


@given(bits)
def test_words_are_little_endian_and_unsigned(width):
    assert np.array([1], ring.dtype(width)).tobytes() == (1).to_bytes(width // 8, "little")
    assert np.iinfo(ring.dtype(width)).max == 2**width - 1
    assert np.iinfo(ring.dtype(width)).min == 0


@given(st.data(), bits, st.integers(0, 20))
def test_addition_and_subtraction_wrap_modulo_two_to_the_bits(data, width, length):
    one, other = data.draw(words(length, width)), data.draw(words(length, width))
    left, right = np.array(one, ring.dtype(width)), np.array(other, ring.dtype(width))
    assert (left + right).tolist() == [(a + b) % 2**width for a, b in zip(one, other, strict=True)]
    assert (left - right).tolist() == [(a - b) % 2**width for a, b in zip(one, other, strict=True)]


@given(bits, st.integers(0, 50))
def test_zeros_are_a_vector_of_the_ring_and_neutral(width, length):
    zeros = ring.zeros(length, width)
    assert ring.check(zeros, length, width) is zeros
    assert not zeros.any()


@given(st.data(), bits, st.integers(0, 20))
def test_bytes_round_trip(data, width, length):
    raw = data.draw(st.binary(min_size=length * width // 8, max_size=length * width // 8))
    vector = ring.from_bytes(raw, width)
    assert ring.check(vector, length, width) is vector
    assert vector.tobytes() == raw


@given(bits, st.integers(0, 20), st.integers(0, 20))
def test_only_the_right_length_passes(width, length, due):
    vector = ring.zeros(length, width)
    if length == due:
        assert ring.check(vector, due, width) is vector
    else:
        with pytest.raises(VectorError, match=rf"\({due},\), this has \({length},\)"):
            ring.check(vector, due, width)


@given(bits, st.sampled_from([(1, 4), (4, 1), (2, 2), ()]))
def test_only_one_dimension_passes(width, shape):
    with pytest.raises(VectorError, match="shape"):
        ring.check(np.zeros(shape, ring.dtype(width)), 4, width)


@given(bits, st.sampled_from(["u1", "<u2", "<u4", "<u8", ">u2", ">u4", ">u8"]))
def test_only_the_words_of_the_ring_pass(width, name):
    vector = np.zeros(4, name)
    if vector.dtype == ring.dtype(width):
        assert ring.check(vector, 4, width) is vector
    else:
        with pytest.raises(VectorError, match=f"adds arrays of uint{width}, this is"):
            ring.check(vector, 4, width)


@given(bits, st.sampled_from(["i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "?", "O"]))
def test_signed_float_and_other_types_are_refused_with_advice(width, name):
    with pytest.raises(VectorError, match="convert it, or use Quantizer"):
        ring.check(np.zeros(4, name), 4, width)


@given(bits, st.sampled_from([[0, 0], (0, 0), b"\0\0", 0, None, "00"]))
def test_what_is_no_array_is_refused_by_its_type(width, value):
    with pytest.raises(VectorError, match=f"this is {type(value).__name__}"):
        ring.check(value, 2, width)


def test_a_masked_array_is_refused():
    """It does not hold what it shows: its bytes are those under the mask."""
    with pytest.raises(VectorError, match="MaskedArray"):
        ring.check(np.ma.array(np.ones(4, np.uint32), mask=[0, 1, 0, 0]), 4, 32)
