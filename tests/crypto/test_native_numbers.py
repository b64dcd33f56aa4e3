"""Compiled fields, transforms and draws give the same bytes as without them, and refuse what does not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ccesa import compiled
from ccesa.privacy.quantizer import CHUNK, Inversion, Noise, _transform, _transformed, rotate, unrotate
from ccesa.privacy.table import Tables
from ccesa.values.fields import Fields
from ccesa.values.quantize import Quantizer

native = compiled.installed()
pytestmark = pytest.mark.needs("kernel")

CONTEXT = bytes(range(32))
WHOLE = st.sampled_from([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
WORDS = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
#: Large and small ones, and both zeros, but nothing whose sum is infinite.
FLOATS = st.floats(-1e300, 1e300) | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**-1022])


def pure(monkeypatch, work):
    """What comes out without anything compiled."""
    with monkeypatch.context() as changed:
        changed.setenv(compiled.VARIABLE, "pure")
        assert compiled.module() is None
        return work()


@pytest.fixture(scope="module")
def without():
    """Run something without the module; hypothesis wants no fixture of a single test."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv(compiled.VARIABLE, raising=False)
        yield lambda work: pure(monkeypatch, work)


def same(one, other):
    """Every bit, so that -0.0 is not 0.0."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def apart(values):
    """The same numbers with others between them."""
    return np.repeat(values, 2)[::2]


def astray(values):
    """The same numbers one byte off, as in the middle of a message."""
    raw = np.empty(values.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(values.tobytes(), np.uint8)
    return raw[1:].view(values.dtype)


PLACES = [lambda values: values, apart, astray]


def test_the_module_is_what_runs_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    assert compiled.module() is native
    for name, due in (("pure", None), ("native", native), ("native:aesni", native)):
        monkeypatch.setenv(compiled.VARIABLE, name)
        assert compiled.module() is due


# Fields


@given(bits=st.integers(2, 64), row=st.lists(WHOLE, max_size=200), place=st.sampled_from(PLACES))
def test_fields_are_packed_into_the_same_words(without, bits, row, place):
    """Numbers that no field holds, too: they wrap alike."""
    fields, numbers = Fields(bits, 1), place(np.array(row, np.int64))
    assert same(fields.pack(numbers), without(lambda: fields.pack(numbers)))


@given(bits=st.integers(2, 64), row=st.lists(WORDS, max_size=100), place=st.sampled_from(PLACES))
def test_words_are_split_into_the_same_numbers(without, bits, row, place):
    fields, total = Fields(bits, 1), place(np.array(row, np.uint64))
    numbers, left = fields.split(total)
    due, due_left = without(lambda: fields.split(total))
    assert same(numbers, due)
    assert left is due_left
    assert fields.pack(numbers).tolist() == row or left


@pytest.mark.parametrize("bits", range(2, 65))
def test_the_ends_of_every_field_are_read_and_written_alike(without, bits):
    fields = Fields(bits, 1)
    ends = np.tile([2 ** (bits - 1) - 1, -(2 ** (bits - 1)), -1, 0], fields.per_word)
    total = fields.pack(ends)
    numbers, left = fields.split(total)
    assert same(total, without(lambda: fields.pack(ends)))
    assert numbers.tolist() == ends.tolist()
    assert left == without(lambda: fields.split(total))[1]


def test_a_quantizer_reads_and_writes_the_same(without):
    rng = np.random.default_rng(3)
    model = [rng.normal(size=50_001).astype(np.float32)]
    made = Quantizer.for_model(model, clients=7, clip=2.0, bits=9)
    work = [lambda: made.encode(model, rng=np.random.default_rng(5)).vector]
    work.append(lambda: made.decode(7 * work[0]()).arrays[0])
    for one in work:
        assert same(one(), without(one))


# The transform


@given(st.integers(0, 9).flatmap(lambda power: arrays(np.float64, 2**power, elements=FLOATS)))
def test_any_numbers_are_transformed_alike(without, values):
    due = _transformed(values)
    _transform(values)
    assert same(values, due)


@pytest.mark.parametrize("power", range(10, 19))
def test_many_numbers_are_transformed_alike(power):
    """In and beyond the piece that stays in cache."""
    values = np.random.default_rng(power).normal(size=2**power) * 10.0 ** np.arange(2**power).clip(0, 20)
    due = _transformed(values)
    native.walsh(values)
    assert same(values, due)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100, 4096, 5000, 70_000])
@pytest.mark.parametrize("turn", [rotate, unrotate])
@pytest.mark.parametrize("place", PLACES)
def test_rotations_are_the_same_bytes(without, size, turn, place):
    values = place(np.random.default_rng(size).normal(size=size))
    assert same(turn(values, CONTEXT), without(lambda: turn(values, CONTEXT)))


# Draws


@given(
    st.integers(1, 5000),
    st.integers(0, 4),
    st.lists(st.integers(-(2**62), 2**62) | st.integers(-50, 50), max_size=60),
    st.binary(min_size=16, max_size=16),
    st.sampled_from(PLACES),
)
def test_the_same_noise_is_drawn(without, variance, grid_bits, fine, key, place):
    noise, centres = Noise(variance, grid_bits), place(np.array(fine, np.int64))
    assert same(noise.sample(centres, lambda _: key), without(lambda: noise.sample(centres, lambda _: key)))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK + 1, 3 * CHUNK])
@pytest.mark.parametrize("grid_bits", [0, 8, 12])
def test_many_draws_are_the_same(without, size, grid_bits):
    noise = Noise(3199, grid_bits)
    fine = np.random.default_rng(size).integers(-(2**62), 2**62, size)
    assert same(noise.sample(fine, lambda _: CONTEXT[:16]), without(lambda: noise.sample(fine, lambda _: CONTEXT[:16])))


@st.composite
def close_thresholds(draw):
    """One row of thresholds many of which agree with each other, and with u, in the high word."""
    word = st.integers(0, 7).map(lambda number: number << 61) | st.integers(0, 3)
    row = sorted(set(draw(st.lists(st.tuples(word, word), min_size=1, max_size=30))))
    high, low = (np.array(part, np.uint64) for part in zip(*row, strict=True))
    made = Tables(0, 0, 64, high, low, np.array([0, high.size]), np.array([draw(st.integers(-5, 5))]))
    return made, draw(st.lists(st.tuples(word, word), min_size=1, max_size=60))


@given(close_thresholds(), st.integers(1, 12))
def test_the_second_word_decides_where_the_first_does_not(without, given_row, guide_bits):
    made, numbers = given_row
    inversion, words = Inversion(made, guide_bits), np.array(numbers, np.uint64)
    found = [np.empty(len(numbers), np.int64) for _ in range(2)]
    inversion.draw(np.zeros(len(numbers), np.int64), words, found[0])
    without(lambda: inversion.draw(np.zeros(len(numbers), np.int64), words, found[1]))
    row = [(high << 64) + low for high, low in zip(made.high.tolist(), made.low.tolist(), strict=True)]
    due = [made.first[0] + sum(one <= (high << 64) + low for one in row) for high, low in numbers]
    assert found[0].tolist() == found[1].tolist() == due


# What is refused

EIGHT = np.zeros(8, np.int64)
STRETCHED = np.zeros(16, np.int64)[::2]
READ_ONLY = np.frombuffer(bytes(64), np.int64)


def words(count):
    return np.zeros(count, np.uint64)


@pytest.mark.parametrize(
    ("error", "function", "arguments"),
    [
        (ValueError, "pack_fields", (EIGHT, 1, words(1))),
        (ValueError, "pack_fields", (EIGHT, 65, words(8))),
        (OverflowError, "pack_fields", (EIGHT, 2**32 + 8, words(1))),
        (ValueError, "pack_fields", (EIGHT, 8, words(2))),
        (ValueError, "pack_fields", (EIGHT, 9, words(1))),
        (ValueError, "pack_fields", (EIGHT, 8, words(0))),
        (TypeError, "pack_fields", (EIGHT.astype(np.int32), 8, words(1))),
        (TypeError, "pack_fields", (EIGHT.astype(">i8"), 8, words(1))),
        (TypeError, "pack_fields", (words(8), 8, words(1))),
        (TypeError, "pack_fields", (EIGHT.astype(np.float64), 8, words(1))),
        (TypeError, "pack_fields", (EIGHT, 8, EIGHT[:1])),
        (TypeError, "pack_fields", (EIGHT, 8.0, words(1))),
        (TypeError, "pack_fields", (bytes(64), 8, words(1))),
        (TypeError, "pack_fields", ([0] * 8, 8, words(1))),
        (TypeError, "pack_fields", (EIGHT, 8)),
        (ValueError, "pack_fields", (STRETCHED, 8, words(1))),
        (ValueError, "pack_fields", (EIGHT, 8, READ_ONLY.view(np.uint64)[:1])),
        (ValueError, "pack_fields", (EIGHT, 8, astray(words(1)))),
        (ValueError, "split_fields", (words(1), 0, EIGHT)),
        (ValueError, "split_fields", (words(1), 8, EIGHT[:7])),
        (ValueError, "split_fields", (words(2), 8, EIGHT)),
        (ValueError, "split_fields", (words(1), 9, EIGHT)),
        (ValueError, "split_fields", (words(1), 8, READ_ONLY)),
        (ValueError, "split_fields", (words(1), 8, STRETCHED)),
        (ValueError, "split_fields", (words(1), 8, astray(EIGHT))),
        (TypeError, "split_fields", (EIGHT[:1], 8, EIGHT)),
        (TypeError, "split_fields", (words(1), 8, words(8))),
        (ValueError, "walsh", (np.zeros(0),)),
        (ValueError, "walsh", (np.zeros(3),)),
        (ValueError, "walsh", (np.zeros(96),)),
        (ValueError, "walsh", (np.zeros(16)[::2],)),
        (ValueError, "walsh", (astray(np.zeros(8)),)),
        (ValueError, "walsh", (READ_ONLY.view(np.float64),)),
        (TypeError, "walsh", (np.zeros(8, np.float32),)),
        (TypeError, "walsh", (np.zeros(8, ">f8"),)),
        (TypeError, "walsh", (EIGHT,)),
        (TypeError, "walsh", (None,)),
        (TypeError, "walsh", ()),
    ],
)
def test_arguments_that_do_not_fit_are_refused(error, function, arguments):
    with pytest.raises(error):
        getattr(native, function)(*arguments)


def draw_arguments(**changes):
    """Arguments that fit, but for the changes: one centre of phase 1 out of 4, and a guide of two cells."""
    fitting = {
        "fine": np.array([1]),
        "words": np.array([2**63, 0], np.uint64),
        "drawn": np.empty(1, np.int64),
        "grid_bits": 2,
        "shift": 63,
        "guide": np.tile(np.array([1, 3, 4], np.int32), 4),
        "origin": np.arange(0, 8, 2),
        "high": words(8),
        "low": words(8),
    }
    return {**fitting, **changes}.values()


def test_draw_arguments_that_fit_are_taken():
    drawn = np.empty(1, np.int64)
    native.draw_noise(*draw_arguments(drawn=drawn))
    assert drawn.tolist() == [2]


@pytest.mark.parametrize(
    ("error", "changes"),
    [
        (ValueError, {"fine": np.array([1, 1])}),
        (ValueError, {"fine": np.array([], np.int64)}),
        (ValueError, {"words": words(1)}),
        (ValueError, {"words": words(3)}),
        (ValueError, {"drawn": np.empty(2, np.int64)}),
        (ValueError, {"drawn": READ_ONLY[:1]}),
        (ValueError, {"drawn": astray(np.zeros(1, np.int64))}),
        (ValueError, {"grid_bits": 1}),
        (OverflowError, {"grid_bits": 2**32 + 2}),
        (ValueError, {"shift": -1}),
        (ValueError, {"shift": 64}),
        (ValueError, {"shift": 62}),
        (ValueError, {"shift": 0}),
        (ValueError, {"guide": np.tile(np.array([1, 3, 20], np.int32), 4)}),
        (ValueError, {"guide": np.tile(np.array([1, 3, -20], np.int32), 4)}),
        (ValueError, {"origin": np.full(4, -9)}),
        (ValueError, {"origin": np.full(4, 2**62)}),
        (ValueError, {"origin": np.arange(5)}),
        (ValueError, {"low": words(7)}),
        (ValueError, {"high": words(9)}),
        (ValueError, {"high": words(0), "low": words(0)}),
        (TypeError, {"guide": np.zeros(12, np.int64)}),
        (TypeError, {"fine": np.array([1.0])}),
        (TypeError, {"words": np.zeros(2, np.int64)}),
        (TypeError, {"high": EIGHT}),
        (TypeError, {"low": None}),
    ],
)
def test_draws_outside_of_their_tables_are_refused(error, changes):
    with pytest.raises(error):
        native.draw_noise(*draw_arguments(**changes))


@pytest.mark.parametrize("cells", [0, 4, 11, 13])
def test_a_guide_without_a_row_for_each_phase_is_refused(cells):
    with pytest.raises(ValueError, match="rows of the same length"):
        native.draw_noise(*draw_arguments(guide=np.zeros(cells, np.int32)))


@pytest.mark.parametrize("grid_bits", [-1, 17])
def test_a_grid_that_no_table_has_is_refused(grid_bits):
    with pytest.raises(ValueError, match="0 to 16 bits"):
        native.draw_noise(*draw_arguments(grid_bits=grid_bits))


def test_a_guide_whose_end_is_before_its_start_stays_within_the_table():
    drawn = np.empty(1, np.int64)
    native.draw_noise(*draw_arguments(guide=np.tile(np.array([1, 9, 0], np.int32), 4), drawn=drawn))
    assert drawn.tolist() == [4]


@pytest.mark.parametrize(
    ("total", "vector", "word_bytes", "error"),
    [
        (bytearray(8), bytes(4), 4, ValueError),
        (bytearray(6), bytes(6), 4, ValueError),
        (bytearray(8), bytes(8), 3, ValueError),
        (bytearray(8), bytes(8), 0, ValueError),
        (bytearray(8), bytes(8), -4, ValueError),
        (bytes(8), bytes(8), 4, (TypeError, BufferError)),
        (bytearray(8), "text", 4, TypeError),
        (np.zeros(8, np.uint8)[::2], bytes(4), 4, (TypeError, ValueError, BufferError)),
    ],
)
def test_sums_of_odd_arguments_are_refused(total, vector, word_bytes, error):
    before = bytes(total)
    with pytest.raises(error):
        native.add_words(total, vector, word_bytes)
    assert bytes(total) == before


def test_a_sum_does_not_overlap_what_is_added_to_it():
    words = np.arange(10, dtype=np.uint32)
    for part in (words[:8], words[1:9], words[2:]):
        with pytest.raises(ValueError, match="apart"):
            native.add_words(words[:8], part, 4)
    assert words.tolist() == list(range(10))
