import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import compiled, words
from ccesa.errors import VectorError
from strategies import bits


def elements(count: int, width: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 2**width - 1), min_size=count, max_size=count)


@given(bits)
def test_words_are_little_endian_and_unsigned(width):
    assert np.array([1], words.dtype(width)).tobytes() == (1).to_bytes(width // 8, "little")
    assert np.iinfo(words.dtype(width)).max == 2**width - 1
    assert np.iinfo(words.dtype(width)).min == 0


@given(st.data(), bits, st.integers(0, 20))
def test_addition_and_subtraction_wrap_modulo_two_to_the_bits(data, width, length):
    one, other = data.draw(elements(length, width)), data.draw(elements(length, width))
    left, right = np.array(one, words.dtype(width)), np.array(other, words.dtype(width))
    assert (left + right).tolist() == [(a + b) % 2**width for a, b in zip(one, other, strict=True)]
    assert (left - right).tolist() == [(a - b) % 2**width for a, b in zip(one, other, strict=True)]


@given(bits, st.integers(0, 50))
def test_zeros_are_a_vector_of_words_and_neutral(width, length):
    zeros = words.zeros(length, width)
    assert words.check(zeros, length, width) is zeros
    assert not zeros.any()


@given(st.data(), bits, st.integers(0, 20))
def test_bytes_round_trip(data, width, length):
    raw = data.draw(st.binary(min_size=length * width // 8, max_size=length * width // 8))
    vector = words.from_bytes(raw, width)
    assert words.check(vector, length, width) is vector
    assert vector.tobytes() == raw


@given(bits, st.integers(0, 20), st.integers(0, 20))
def test_only_the_right_length_passes(width, length, due):
    vector = words.zeros(length, width)
    if length == due:
        assert words.check(vector, due, width) is vector
    else:
        with pytest.raises(VectorError, match=rf"\({due},\), got \({length},\)"):
            words.check(vector, due, width)


@given(bits, st.sampled_from([(1, 4), (4, 1), (2, 2), ()]))
def test_only_one_dimension_passes(width, shape):
    with pytest.raises(VectorError, match="shape"):
        words.check(np.zeros(shape, words.dtype(width)), 4, width)


@given(bits, st.sampled_from(["u1", "<u2", "<u4", "<u8", ">u2", ">u4", ">u8"]))
def test_only_words_of_that_width_pass(width, name):
    vector = np.zeros(4, name)
    if vector.dtype == words.dtype(width):
        assert words.check(vector, 4, width) is vector
    else:
        with pytest.raises(VectorError, match=f"expected an array of uint{width}, got"):
            words.check(vector, 4, width)


@given(bits, st.sampled_from(["i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "?", "O"]))
def test_signed_float_and_other_types_are_refused_with_advice(width, name):
    with pytest.raises(VectorError, match="convert it, or use Quantizer"):
        words.check(np.zeros(4, name), 4, width)


@given(bits, st.sampled_from([[0, 0], (0, 0), b"\0\0", 0, None, "00"]))
def test_what_is_no_array_is_refused_by_its_type(width, value):
    with pytest.raises(VectorError, match=f"got {type(value).__name__}"):
        words.check(value, 2, width)


def test_a_masked_array_is_refused():
    """It does not hold what it shows: its bytes are those under the mask."""
    with pytest.raises(VectorError, match="MaskedArray"):
        words.check(np.ma.array(np.ones(4, np.uint32), mask=[0, 1, 0, 0]), 4, 32)


@pytest.mark.parametrize("kernel", ["", "pure"])
@given(bits, st.integers(0, 70), st.integers(0, 9), st.randoms(use_true_random=False))
def test_words_are_added_wherever_they_lie(kernel, width, length, start, random):
    size = length * width // 8
    message, raw = random.randbytes(start + size + 3), random.randbytes(size)
    total = np.frombuffer(raw, words.dtype(width)).copy()
    expected = total + np.frombuffer(message[start : start + size], words.dtype(width))
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv(compiled.VARIABLE, kernel)
        words.add(total, memoryview(message)[start : start + size])
    assert np.array_equal(total, expected)


@pytest.mark.parametrize("kernel", ["", "pure"])
def test_words_of_another_number_are_not_added(kernel, monkeypatch):
    monkeypatch.setenv(compiled.VARIABLE, kernel)
    total = words.zeros(5, 32)
    for wrong in (bytes(16), bytes(24), bytes(19)):
        with pytest.raises(ValueError, match=r"length|shape|multiple"):
            words.add(total, wrong)
    assert not total.any()
