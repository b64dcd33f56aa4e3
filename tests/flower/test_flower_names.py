"""Names under the masks: they come back from the sum if all nodes have the same, and not otherwise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import words
from ccesa.errors import VectorError
from ccesa.flower import names

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=4)
ROOM = 120
#: Clients and bits of a word, up to the largest numbers that a quantizer takes.
WORDS = st.one_of(
    st.tuples(st.integers(1, 127), st.just(8)),
    st.tuples(st.integers(1, 2**15 - 1), st.just(16)),
    st.tuples(st.integers(1, 10**6), st.sampled_from([32, 64])),
)


def of_many(some: list[str], times: int, clients: int, bits: int) -> words.Vector:
    one = names.encode(some, ROOM, clients, bits)
    assert one.size == names.elements(ROOM, clients, bits)
    return (one * np.array(times, one.dtype)).astype(one.dtype)


@given(NAMES, WORDS, st.data())
def test_names_come_back(some, word_of, data):
    clients, bits = word_of
    times = data.draw(st.integers(1, clients))
    assert names.fit(some, ROOM)
    assert names.decode(of_many(some, times, clients, bits), times, clients, bits) == some


@given(NAMES, NAMES, WORDS, st.data())
def test_different_names_are_none(some, others, word_of, data):
    clients, bits = word_of
    if some == others or clients < 2:
        return
    times = data.draw(st.integers(1, clients - 1))
    total = of_many(some, times, clients, bits) + names.encode(others, ROOM, clients, bits)
    assert names.decode(total, times + 1, clients, bits) is None


def test_a_sum_that_looks_like_names_is_none():
    """Half of two different names can be a third, and their digest tells."""
    looked_like = 0
    for place in range(40):
        one, other = (names.encode([f"{place}{letter}"], 5, 2, 64) for letter in "ac")
        looked_like += not ((one + other) % 2).any()
        assert names.decode(one + other, 2, 2, 64) is None
    assert looked_like > 0


@given(st.binary(min_size=4, max_size=400), st.integers(1, 9))
def test_a_sum_of_anything_is_no_failure(data, times):
    """What clients made up is no names; nothing is raised."""
    total = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
    assert names.decode(total, times, 9, 32) is None


def test_names_that_are_too_long():
    assert not names.fit(["x" * ROOM], ROOM)
    with pytest.raises(VectorError, match="where there is room for 120"):
        names.encode(["x" * ROOM], ROOM, 5, 32)


def test_the_length_does_not_depend_on_the_names():
    assert names.encode([], ROOM, 5, 32).size == names.encode(["x" * 100], ROOM, 5, 32).size


def test_the_room_is_counted_without_making_it():
    """A server may ask for anything."""
    assert names.elements(2**44, 5, 32) > 2**42
