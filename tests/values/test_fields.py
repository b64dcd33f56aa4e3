"""Signed numbers in the fields of 64-bit words: whatever carries and borrows do, final sums come back."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ccesa
from ccesa.errors import ConfigError, VectorError
from ccesa.simulate import Exactly, simulate
from ccesa.values.fields import Fields
from ccesa.values.quantize import Quantizer
from strategies import seeds

widths = st.integers(2, 64)


def one_by_one(row: list[int], bits: int) -> list[int]:
    """The words of some numbers, by the definition."""
    many = 64 // bits
    parts = [row[start : start + many] for start in range(0, len(row), many)]
    return [sum(number << (bits * place) for place, number in enumerate(part)) % 2**64 for part in parts]


@st.composite
def fields(draw: st.DrawFn) -> Fields:
    bits = draw(widths)
    return Fields(bits, draw(st.integers(1, min(2 ** (bits - 1) - 1, 10**9))))


@st.composite
def rows(draw: st.DrawFn, most: int, size: int) -> list[int]:
    """Numbers of any size, and those that borrow from and carry into all fields above."""
    edges = st.sampled_from([-most, -most + 1, -1, 0, 1, most - 1, most])
    return draw(st.lists(edges | st.integers(-most, most), min_size=size, max_size=size))


sizes = st.integers(0, 40)


@given(fields(), st.data())
def test_words_are_those_of_the_definition_and_come_back(form, data):
    row = data.draw(rows(form.clients * form.most, data.draw(sizes)))
    vector = form.pack(np.array(row, np.int64))
    assert vector.tolist() == one_by_one(row, form.bits)
    assert vector.size == form.length(len(row))
    assert form.unpack(vector, len(row)).tolist() == row


@given(widths, st.integers(1, 30), st.data())
def test_sums_over_clients_come_back_whatever_single_ones_do(bits, clients, data):
    assume(clients < 2 ** (bits - 1))
    form, size = Fields(bits, clients), data.draw(sizes)
    each = [data.draw(rows(form.most, size)) for _ in range(clients)]
    total = np.zeros(form.length(size), np.uint64)
    for row in each:
        total += form.pack(np.array(row, np.int64))
    assert form.unpack(total, size).tolist() == [sum(column) for column in zip(*each, strict=True)]


@given(widths, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12), st.data())
def test_partial_sums_may_wrap_as_they_like(bits, strange, data):
    """Clients add anything to all fields and take it away again: only what is left counts."""
    form = Fields(bits, 1)
    due = data.draw(rows(form.most, len(strange)))
    total = form.pack(np.array(strange, np.int64)) + form.pack(np.array(due, np.int64))
    total -= form.pack(np.array(strange, np.int64))
    assert form.unpack(total, len(strange)).tolist() == due


@pytest.mark.parametrize("sign", [1, -1])
@given(form=fields(), size=st.integers(1, 40))
def test_extremes_of_all_clients_sum_exactly(sign, form, size):
    one = form.pack(np.full(size, sign * form.most))
    total = (one.astype(object) * form.clients % 2**64).astype(np.uint64)
    assert form.unpack(total, size).tolist() == [sign * form.clients * form.most] * size


@given(form=fields(), size=st.integers(1, 40), sign=st.sampled_from([1, -1]), data=st.data())
def test_one_more_than_all_clients_have_is_refused(form, size, sign, data):
    row = np.array(data.draw(rows(form.clients * form.most, size)), np.int64)
    row[data.draw(st.integers(0, size - 1))] = sign * (form.clients * form.most + 1)
    with pytest.raises(VectorError, match=f"a field of {form.bits} bits that {form.clients} clients cannot"):
        form.unpack(form.pack(row), size)


@given(form=fields(), size=st.integers(1, 40), data=st.data())
def test_something_behind_the_last_number_is_refused(form, size, data):
    """In fields that nobody fills, and in bits above the highest field."""
    filled = (size - 1) % form.per_word + 1
    assume(filled * form.bits < 64)
    total = form.pack(np.array(data.draw(rows(form.clients * form.most, size)), np.int64))
    total[-1:] += np.uint64(1) << np.uint64(data.draw(st.integers(filled * form.bits, 63)))
    with pytest.raises(VectorError, match="cannot have"):
        form.unpack(total, size)


@given(widths.filter(lambda bits: 64 % bits), st.data())
def test_bits_above_the_fields_of_any_word_are_refused(bits, data):
    form = Fields(bits, 1)
    total = form.pack(np.zeros(3 * form.per_word, np.int64))
    total[data.draw(st.integers(0, 2))] = np.uint64(1) << np.uint64(63)
    with pytest.raises(VectorError, match="cannot have"):
        form.unpack(total, 3 * form.per_word)


@given(form=fields(), words=st.lists(st.integers(0, 2**64 - 1), max_size=8))
def test_any_words_are_refused_or_are_words_of_what_was_read(form, words):
    total, size = np.array(words, np.uint64), len(words) * form.per_word
    try:
        found = form.unpack(total, size)
    except VectorError:
        row, left = form.split(total)
        strange = np.abs(row.astype(object)) > form.clients * form.most
        assert left or strange.any()
    else:
        assert form.pack(found).tolist() == words


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4])
def test_words_of_another_number_or_type_are_refused(size):
    form = Fields(18, 1000)
    with pytest.raises(VectorError, match="expected a vector of shape"):
        form.unpack(np.zeros(form.length(size) + 1, np.uint64), size)
    with pytest.raises(VectorError, match="expected an array of uint64"):
        form.unpack(np.zeros(form.length(size), np.uint32), size)
    with pytest.raises(VectorError, match="expected an array of uint64"):
        form.unpack(np.zeros(form.length(size), np.int64), size)


def test_the_widths_of_the_design():
    per_word = {bits: Fields(bits, 1).per_word for bits in (10, 12, 16, 18, 21, 22, 32, 33, 64)}
    assert per_word == {10: 6, 12: 5, 16: 4, 18: 3, 21: 3, 22: 2, 32: 2, 33: 1, 64: 1}


@pytest.mark.parametrize(
    ("bits", "clients", "text"),
    [
        (1, 1, "a field has 2 to 64 bits, not 1"),
        (65, 1, "a field has 2 to 64 bits, not 65"),
        (8.0, 1, "bits must be a whole number"),
        (True, 1, "bits must be a whole number"),
        (8, 1.0, "clients must be a whole number"),
        (8, 0, "clients must be at least 1"),
        (8, 128, "at most 127 clients fit"),
    ],
)
def test_fields_that_cannot_be_are_refused(bits, clients, text):
    with pytest.raises(ConfigError, match=text):
        Fields(bits, clients)


# Whole rounds


@pytest.mark.parametrize("field_bits", [8, 12, 16, 18, 21, 32, 64])
@settings(max_examples=10)
@given(seed=seeds, size=st.integers(1, 9))
def test_a_secure_round_gives_the_plain_mean(field_bits, seed, size):
    n, rng = 7, np.random.default_rng(seed)
    models = rng.uniform(-1, 1, (n, size))
    models[0], models[1] = 1.0, -1.0
    weights = rng.integers(1, 5, n)
    quantizer = Quantizer.for_model(
        [models[0]], clients=n, clip=1.0, field_bits=field_bits, max_weight=4.0, rounding="nearest"
    )
    config = ccesa.RoundConfig(clients=n, length=quantizer.length, bits=64)
    gone = {"mask": frozenset({int(rng.integers(n))})}
    report = simulate(config, lambda i: quantizer.encode([models[i]], float(weights[i])).vector, dropout=Exactly(gone))
    stayed = list(report.result.survivors)
    assert set(stayed) == set(range(n)) - gone["mask"]
    mean = quantizer.decode(report.result.vector)
    assert mean.weight == weights[stayed].sum()
    due = np.average(models[stayed], axis=0, weights=weights[stayed])
    slack = 0.5 * len(stayed) / quantizer.levels * 4 / weights[stayed].sum() + 1e-12
    assert np.abs(mean.arrays[0] - due).max() <= slack
