"""Names under the masks: they come back from the sum if all nodes have the same, and not otherwise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import VectorError
from ccesa.flower.both.packing import HiddenNames
from ccesa.values.fields import Fields, Row

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=4)
ROOM = 120
#: Clients and bits of a field, up to the largest numbers that a quantizer takes.
FIELDS = st.one_of(
    st.tuples(st.integers(1, 127), st.just(8)),
    st.tuples(st.integers(1, 2**15 - 1), st.just(16)),
    st.tuples(st.integers(1, 10**6), st.sampled_from([32, 64])),
)


def form(clients: int, bits: int, room: int = ROOM) -> HiddenNames:
    return HiddenNames(room=room, fields=Fields(bits, clients))


def of_many(some: list[str], times: int, clients: int, bits: int) -> Row:
    one = form(clients, bits).encode(some)
    assert one.size == form(clients, bits).count
    assert 0 <= one.min() <= one.max() <= Fields(bits, clients).most
    return one * times


@given(NAMES, FIELDS, st.data())
def test_names_come_back(some, field_of, data):
    clients, bits = field_of
    times = data.draw(st.integers(1, clients))
    assert form(clients, bits).has_room(some)
    assert form(clients, bits).decode(of_many(some, times, clients, bits), times) == some


@given(NAMES, NAMES, FIELDS, st.data())
def test_different_names_are_none(some, others, field_of, data):
    clients, bits = field_of
    if some == others or clients < 2:
        return
    times = data.draw(st.integers(1, clients - 1))
    total = of_many(some, times, clients, bits) + form(clients, bits).encode(others)
    assert form(clients, bits).decode(total, times + 1) is None


def test_a_sum_that_looks_like_names_is_none():
    """Half of two different names can be a third, and their digest tells."""
    looked_like = 0
    for place in range(40):
        one, other = (form(2, 64, room=5).encode([f"{place}{letter}"]) for letter in "ac")
        looked_like += not ((one + other) % 2).any()
        assert form(2, 64, room=5).decode(one + other, 2) is None
    assert looked_like > 0


@given(st.binary(min_size=4, max_size=400), st.integers(1, 9))
def test_a_sum_of_anything_is_no_failure(data, times):
    """What clients made up is no names; nothing is raised."""
    total = np.frombuffer(data[: len(data) // 4 * 4], "<i4").astype(np.int64)
    assert form(9, 32).decode(total, times) is None


def test_names_that_are_too_long():
    assert not form(5, 32).has_room(["x" * ROOM])
    with pytest.raises(VectorError, match="do not fit in 120"):
        form(5, 32).encode(["x" * ROOM])


def test_the_length_does_not_depend_on_the_names():
    assert form(5, 32).encode([]).size == form(5, 32).encode(["x" * 100]).size


def test_the_room_is_counted_without_making_it():
    """A server may ask for anything."""
    assert form(5, 32, room=2**44).count > 2**42
