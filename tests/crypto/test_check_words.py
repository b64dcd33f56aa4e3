"""Check words: as the specification says, linear, and a single wrong word always shows."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa import labels, words
from ccesa.crypto import check_words
from ccesa.crypto.check_words import COLUMNS, count, make
from ccesa.crypto.masks import mask_words
from ccesa.crypto.primitives import GENERATORS
from strategies import bits, generators, seeds

CONTEXT = bytes(range(32))
#: Lengths around the width of a row.
lengths = st.integers(1, 40) | st.integers(COLUMNS - 2, COLUMNS + 2) | st.integers(2 * COLUMNS - 1, 3 * COLUMNS)


def drawn(length: int, size: int, seed: int) -> words.Vector:
    return np.frombuffer(np.random.default_rng(seed).bytes(length * size // 8), words.dtype(size))


def plain(vector: words.Vector, context: bytes, generator: str) -> list[int]:
    """The words of the specification, with Python's own numbers."""
    size, length = 8 * vector.itemsize, vector.size
    rows, columns, checks = -(-length // 16384), min(16384, length), max(2, 64 // size)
    key = labels.digest(labels.CHECK_WORDS, context)[: GENERATORS[generator].key_bytes]
    public = mask_words(generator, key, 0, rows + checks * columns, size).tolist()
    of_rows = [word | 1 for word in public[:rows]]
    of_columns = [public[rows + k * columns : rows + (k + 1) * columns] for k in range(checks)]
    of_columns[0] = [word | 1 for word in of_columns[0]]
    values = vector.tolist()
    folded = [sum(of_rows[row] * values[row * 16384 + j] for row in range(rows) if row * 16384 + j < length)
              for j in range(columns)]  # fmt: skip
    return [sum(v * s for v, s in zip(each, folded, strict=True)) % 2**size for each in of_columns]


@settings(max_examples=25, deadline=None)
@given(lengths, bits, generators, seeds)
def test_they_are_those_of_the_specification(length, size, generator, seed):
    vector = drawn(length, size, seed)
    found = make(vector, CONTEXT, generator)
    assert found.dtype == words.dtype(size)
    assert found.tolist() == plain(vector, CONTEXT, generator)


@pytest.mark.parametrize(("size", "expected"), [(8, 8), (16, 4), (32, 2), (64, 2)])
def test_there_are_64_bits_of_them_and_two_at_least(size, expected):
    assert count(size) == expected
    assert make(words.zeros(3, size), CONTEXT, "aes128-ctr").tolist() == [0] * expected


@settings(max_examples=50, deadline=None)
@given(lengths, bits, generators, seeds, seeds)
def test_those_of_a_sum_are_the_sum(length, size, generator, one, other):
    first, second = drawn(length, size, one), drawn(length, size, other)
    both = make(first, CONTEXT, generator) + make(second, CONTEXT, generator)
    assert np.array_equal(make(first + second, CONTEXT, generator), both)


@settings(max_examples=200, deadline=None)
@given(lengths, bits, generators, seeds, st.data())
def test_one_wrong_word_always_shows(length, size, generator, seed, data):
    """Whatever it should be: the first check word has an odd weight in every place."""
    vector = drawn(length, size, seed)
    wrong = vector.copy()
    place, by = data.draw(st.integers(0, length - 1)), data.draw(st.integers(1, 2**size - 1))
    wrong[place : place + 1] += words.dtype(size).type(by)
    right, found = (make(one, CONTEXT, generator) for one in (vector, wrong))
    assert right[0] != found[0]


@pytest.mark.parametrize("size", words.BITS)
def test_every_place_has_an_odd_weight(size):
    of_rows, of_columns = check_words._weights(CONTEXT, "aes128-ctr", size, 5, 1000)
    assert (of_rows & 1).all()
    assert (of_columns[0] & 1).all()
    assert not (of_columns[1:] & 1).all()


@settings(max_examples=50, deadline=None)
@given(bits, generators, seeds, st.integers(8, 30))
def test_a_vector_that_is_wrong_everywhere_shows(size, generator, seed, length):
    """A wrong mask lies over the check words as well: what is compared is as good as drawn."""
    context = np.random.default_rng(seed).bytes(32)
    wrong = drawn(length + count(size), size, seed)
    assert not np.array_equal(make(wrong[:length], context, generator), wrong[length:])


def test_two_words_with_the_highest_bit_wrong_may_be_missed():
    """As the specification says: odd weights cancel in the first check word, and the second decides."""
    missed = 0
    for number in range(300):
        context = labels.digest(number.to_bytes(4, "little"))
        vector = words.zeros(50, 32)
        vector[3] = vector[40] = 2**31
        missed += not make(vector, context, "aes128-ctr").any()
    assert 100 < missed < 200


def test_the_weights_belong_to_the_round():
    vector = drawn(10, 32, 0)
    found = {make(vector, os.urandom(32), "aes128-ctr").tobytes() for _ in range(20)}
    assert len(found) == 20
    assert make(vector, CONTEXT, "aes128-ctr").tobytes() != make(vector, CONTEXT, "chacha20").tobytes()


def test_the_vector_stays_as_it_is():
    vector = drawn(COLUMNS + 5, 32, 0)
    before = vector.copy()
    vector.flags.writeable = False
    first = make(vector, CONTEXT, "aes128-ctr")
    assert np.array_equal(vector, before)
    assert np.array_equal(make(vector, CONTEXT, "aes128-ctr"), first)
