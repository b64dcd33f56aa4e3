"""Draws of exact noise: those of the definition for every u, with fresh randomness in every call."""

import pickle
from bisect import bisect_right
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ccesa.errors import ConfigError, VectorError
from ccesa.privacy import quantizer
from ccesa.privacy.quantizer import CHUNK, Inversion, Noise
from ccesa.privacy.table import tables
from test_noise_table import stored

variances = st.integers(1, 5000)
grids = st.integers(0, 4)
keys = st.binary(min_size=16, max_size=16)
#: The bound itself, and what is next to it.
EXTREMES = [-(2**62), -(2**62) + 1, -1, 0, 1, 2**62 - 1, 2**62]
centres = st.lists(st.sampled_from(EXTREMES) | st.integers(-(2**62), 2**62) | st.integers(-50, 50), max_size=40)


def one_by_one(variance: int, grid_bits: int, fine: list[int], key: bytes) -> list[int]:
    """Draws by the definition, with whole numbers of any size."""
    made = tables(variance, grid_bits)
    found = [stored(made, phase) for phase in range(2**grid_bits)]
    stream = Cipher(algorithms.AES128(key), modes.CTR(bytes(16))).encryptor().update(bytes(16 * len(fine)))
    drawn = []
    for j, number in enumerate(fine):
        high, low = (int.from_bytes(stream[start : start + 8], "little") for start in (16 * j, 16 * j + 8))
        coarse, phase = divmod(number, 2**grid_bits)
        first, row = found[phase]
        drawn.append(coarse + first + bisect_right(row, (high << 64) + low))
    return drawn


def draws(inversion: Inversion, fine, high, low):
    """What is drawn around each number with u of these words."""
    drawn = np.empty(fine.size, np.int64)
    inversion.draw(fine, np.stack([high, low], axis=1), drawn)
    return drawn


# Every draw


@given(variances, grids, centres, keys)
def test_draws_are_those_of_the_definition(variance, grid_bits, fine, key):
    drawn = Noise(variance, grid_bits).sample(np.array(fine, np.int64), lambda _: key)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == one_by_one(variance, grid_bits, fine, key)


@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_long_vectors_go_on_where_the_keystream_is(size):
    fine = np.random.default_rng(size).integers(-5000, 5000, size)
    drawn = Noise(4096, 4).sample(fine, lambda _: b"k" * 16)
    assert drawn.tolist() == one_by_one(4096, 4, fine.tolist(), b"k" * 16)


@pytest.mark.parametrize(("word_bits", "guide_bits"), [(4, 1), (4, 3), (4, 4), (8, 2), (8, 8)])
@pytest.mark.parametrize(("variance", "grid_bits"), [(1, 1), (60, 2), (300, 0), (1239, 3), (20_000, 1)])
def test_over_all_u_each_number_is_drawn_exactly_as_often_as_its_thresholds_say(
    variance, grid_bits, word_bits, guide_bits
):
    """Small words: whole rows of thresholds agree with u in the high half."""
    made = tables(variance, grid_bits, word_bits)
    inversion, size = Inversion(made, guide_bits), 2**word_bits
    high, low = (part.ravel() for part in np.divmod(np.arange(size**2, dtype=np.uint64), np.uint64(size)))
    for phase in range(2**grid_bits):
        first, row = stored(made, phase)
        ends = [0, *row, size**2]
        drawn = draws(inversion, np.full(high.size, phase), high, low)
        expected = {first + i: end - start for i, (start, end) in enumerate(pairwise(ends)) if end > start}
        assert Counter(drawn.tolist()) == expected
        assert drawn.tolist() == sorted(drawn.tolist())


def test_u_next_to_a_threshold_falls_on_its_side_with_whole_words():
    made = tables(1239, 2)
    for phase in range(4):
        first, row = stored(made, phase)
        numbers = [one + step for one in row for step in (-1, 0, 1) if one + step < 2**128]
        high, low = (np.array(part, np.uint64) for part in zip(*(divmod(u, 2**64) for u in numbers), strict=True))
        drawn = draws(Inversion(made), np.full(high.size, phase), high, low)
        assert drawn.tolist() == [first + bisect_right(row, u) for u in numbers]


def test_the_last_u_draws_the_number_after_the_row():
    made = tables(1239, 2)
    full = np.array([2**64 - 1], np.uint64)
    for phase in range(4):
        first, row = stored(made, phase)
        assert draws(Inversion(made), np.array([phase]), full, full).tolist() == [first + len(row)]
        assert draws(Inversion(made), np.array([phase]), full * 0, full * 0).tolist() == [first]


@given(variances, grids, st.lists(st.integers(-(2**40), 2**40), max_size=30), st.integers(-(2**20), 2**20), keys)
def test_centres_that_move_by_whole_steps_move_draws_as_much(variance, grid_bits, fine, steps, key):
    made, centre = Noise(variance, grid_bits), np.array(fine, np.int64)
    moved = made.sample(centre + steps * 2**grid_bits, lambda _: key)
    assert moved.tolist() == (made.sample(centre, lambda _: key) + steps).tolist()


def test_centres_are_left_as_they_are_and_need_not_lie_side_by_side():
    fine = np.arange(1000)
    every = Noise(1239, 3).sample(fine[::3], lambda _: bytes(16))
    assert every.tolist() == one_by_one(1239, 3, list(range(0, 1000, 3)), bytes(16))
    assert fine.tolist() == list(range(1000))


# Many draws


@pytest.mark.parametrize(("variance", "grid_bits"), [(1239, 8), (4096, 8), (65536, 4), (40**2 * 256, 2)])
def test_draws_have_the_moments_and_the_distribution_of_the_noise(variance, grid_bits):
    """The key is fixed, and 999 others of 1,000 would do; a variance that is 5 % larger is told apart."""
    count, s2 = 2**18, variance / 256
    fine = np.random.default_rng(5).integers(-(2**12), 2**12, count)
    drawn = Noise(variance, grid_bits).sample(fine, lambda _: b"moments of noise")
    error = drawn - fine / 2**grid_bits
    assert abs(error.mean()) < 4 * (s2 / count) ** 0.5
    assert abs(error.var() / s2 - 1) < 4 * (2 / count) ** 0.5
    assert abs(np.corrcoef(error, fine)[0, 1]) < 4 / count**0.5
    assert abs(np.corrcoef(error[1:], error[:-1])[0, 1]) < 4 / count**0.5
    assert agrees(drawn, fine, variance, grid_bits) > 1e-4
    assert agrees(drawn, fine, variance * 105 // 100, grid_bits) < 1e-6


def agrees(drawn: np.ndarray, fine: np.ndarray, variance: int, grid_bits: int) -> float:
    """The p-value of Pearson's test over numbers around their centres, against the weights themselves."""
    centre = fine / 2**grid_bits
    reach = int(4 * (variance / 256) ** 0.5)
    offsets = np.arange(-3 * reach, 3 * reach + 1)
    phases, counts = np.unique(centre % 1, return_counts=True)
    weights = np.exp(-((offsets - phases[:, np.newaxis]) ** 2) / (2 * variance / 256))
    expected = counts @ (weights / weights.sum(axis=1, keepdims=True))
    found = np.bincount(drawn - np.floor(centre).astype(np.int64) + 3 * reach, minlength=offsets.size)
    inner = np.abs(offsets) < reach * 3 // 4
    pairs = [np.append(part[inner], part[~inner].sum()) for part in (found, expected)]
    return float(stats.chisquare(pairs[0], pairs[1] * (found.sum() / pairs[1].sum())).pvalue)


# Randomness


@pytest.mark.parametrize("size", [0, 1, CHUNK + 1])
def test_each_call_asks_once_for_the_sixteen_bytes_of_a_key(size):
    asked = []
    Noise(1239, 2).sample(np.zeros(size, np.int64), lambda count: asked.append(count) or bytes(count))
    assert asked == [16]


def test_no_two_calls_have_the_same_noise():
    made, fine = Noise(1239, 2), np.zeros(64, np.int64)
    drawn = {made.sample(fine).tobytes() for _ in range(20)}
    assert len(drawn) == 20


def test_different_keys_give_different_noise_and_the_same_key_the_same():
    made, fine = Noise(1239, 2), np.zeros(64, np.int64)
    drawn = [made.sample(fine, lambda _, key=key: bytes([key] * 16)).tobytes() for key in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]


def test_nothing_of_a_call_stays_behind():
    """Neither a key nor a draw is in what an object could be stored as, nor in its text."""
    made, key = Noise(1239, 2), b"sixteen byte key"
    before = pickle.dumps(made), dict(vars(made)), set(vars(quantizer))
    made.sample(np.arange(100), lambda _: key)
    assert (pickle.dumps(made), vars(made), set(vars(quantizer))) == before
    assert key not in before[0]
    assert "key" not in repr(made)


def test_a_key_of_another_size_is_refused():
    with pytest.raises(ValueError, match="key"):
        Noise(1239, 2).sample(np.zeros(3, np.int64), lambda _: bytes(15))


# Edges


def test_no_centres_have_no_draws():
    drawn = Noise(1239, 2).sample(np.zeros(0, np.int64))
    assert (drawn.dtype, drawn.shape) == (np.int64, (0,))


@pytest.mark.parametrize("edge", [-(2**62) - 1, 2**62 + 1, 2**63 - 1, -(2**63)])
def test_centres_that_could_wrap_are_refused(edge):
    with pytest.raises(VectorError, match=r"2\^62"):
        Noise(1239, 0).sample(np.array([0, edge, 0], np.int64))


@pytest.mark.parametrize(
    "fine",
    [
        np.zeros(3),
        np.zeros(3, np.int32),
        np.zeros(3, np.uint64),
        np.zeros(3, ">i8"),
        np.zeros((3, 3), np.int64),
        np.int64(3),
        [1, 2, 3],
        None,
    ],
    ids=str,
)
def test_what_is_no_vector_of_int64_is_refused_before_a_key_is_drawn(fine):
    with pytest.raises(VectorError, match="vector of int64"):
        Noise(1239, 2).sample(fine, lambda _: pytest.fail("asked for a key"))


def test_noise_without_a_table_is_refused():
    with pytest.raises(ConfigError, match="variance"):
        Noise(0, 2)


@settings(max_examples=20)
@given(st.integers(1, 64), st.integers(0, 3), keys)
def test_the_guide_changes_nothing(guide_bits, grid_bits, key):
    """Whatever leads to a draw, it is the same one."""
    made = tables(1239, grid_bits)
    fine = np.arange(500)
    words = np.frombuffer(np.random.default_rng(list(key)).bytes(16 * 500), "<u8").reshape(-1, 2)
    guides = [draws(Inversion(made, bits), fine, *words.T) for bits in (guide_bits % 12 + 1, 8)]
    assert guides[0].tolist() == guides[1].tolist()
