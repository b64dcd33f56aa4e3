import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.crypto import shamir
from ccesa.crypto.shamir import FIELD
from strategies import randomness, seeds

elements = st.integers(0, FIELD - 1)


def row(values) -> np.ndarray:
    return np.array(values, np.uint16)


secrets = st.lists(elements, min_size=1, max_size=shamir.SECRET_ELEMENTS).map(row)


def evaluate(coefficients, x: int) -> int:
    """Horner, on Python's integers."""
    value = 0
    for coefficient in reversed([int(c) for c in coefficients]):
        value = (value * x + coefficient) % FIELD
    return value


@st.composite
def sharings(draw, extra_at_least: int = 0):
    threshold = draw(st.integers(1, 20))
    holders = threshold + draw(st.integers(extra_at_least, 20))
    secret, seed = draw(secrets), draw(seeds)
    return secret, threshold, shamir.split(secret, threshold, holders, randomness(seed)), seed


# Splitting and joining


@given(sharings(), st.data())
def test_any_threshold_of_the_shares_rebuild_the_secret(sharing, data):
    secret, threshold, shares, _ = sharing
    chosen = data.draw(st.permutations(range(len(shares))))[:threshold]
    rebuilt = shamir.join(np.array(chosen) + 1, shares[chosen])
    assert rebuilt.dtype == np.uint16
    assert rebuilt.tolist() == secret.tolist()


@given(sharings())
def test_shares_are_the_values_of_a_polynomial_with_the_secret_at_zero(sharing):
    secret, threshold, shares, seed = sharing
    noise = shamir.random_elements(randomness(seed), (threshold - 1) * secret.size)
    coefficients = np.vstack([secret, noise.reshape(threshold - 1, secret.size)])
    for x, share in enumerate(shares, 1):
        assert share.tolist() == [evaluate(column, x) for column in coefficients.T]


@settings(max_examples=20)
@given(st.integers(2, 6), seeds)
def test_one_share_too_few_fits_every_secret_equally(threshold, seed):
    """Whatever the missing share is, it completes a polynomial; all secrets occur, each exactly once."""
    rng = np.random.default_rng(seed)
    known = shamir.split(row([seed % FIELD]), threshold, 10, rng.bytes)
    xs = rng.choice(10, threshold, replace=False) + 1
    completed = np.repeat(known[xs - 1], FIELD, axis=1)
    completed[-1] = np.arange(FIELD)
    assert np.array_equal(np.sort(shamir.join(xs, completed)), np.arange(FIELD))


@given(elements, st.integers(1, 12))
@settings(max_examples=10)
def test_one_share_of_two_is_uniform_whatever_the_secret(secret, x):
    every_noise = np.arange(FIELD, dtype="<u2").tobytes()
    shares = shamir.split(np.full(FIELD, secret, np.uint16), 2, 12, lambda count: every_noise[:count])
    assert np.array_equal(np.sort(shares[x - 1]), np.arange(FIELD))


@pytest.mark.parametrize("holders", [1022, 1023, 1024, 1500, 5000])
def test_many_holders_get_the_values_of_the_polynomial(holders):
    threshold, secret = holders // 2 + 1, row([0, FIELD - 1])
    shares = shamir.split(secret, threshold, holders, randomness(holders))
    noise = shamir.random_elements(randomness(holders), (threshold - 1) * 2).reshape(-1, 2)
    coefficients = np.vstack([secret, noise]).astype(np.int64)
    xs, values = np.arange(1, holders + 1)[:, None], np.zeros((holders, 2), np.int64)
    for coefficient in coefficients[::-1]:
        values = (values * xs + coefficient) % FIELD
    assert np.array_equal(shares, values)
    for x in (1, 2, holders // 3, holders):
        assert shares[x - 1].tolist() == [evaluate(column, x) for column in coefficients.T]


@pytest.mark.parametrize("holders", [1500, 5000])
def test_many_holders_rebuild_the_secret(holders):
    threshold, rng = holders // 2 + 1, np.random.default_rng(holders)
    secret = rng.integers(0, FIELD, shamir.SECRET_ELEMENTS).astype(np.uint16)
    shares = shamir.split(secret, threshold, holders, rng.bytes)
    chosen = rng.choice(holders, threshold, replace=False)
    assert shamir.join(chosen + 1, shares[chosen]).tolist() == secret.tolist()


@given(st.integers(1, 12), st.integers(1, 10), st.integers(12, 200), seeds)
def test_many_secrets_are_joined_as_if_one_by_one(threshold, count, holders, seed):
    rng = np.random.default_rng(seed)
    wanted = rng.integers(0, FIELD, (count, shamir.SECRET_ELEMENTS)).astype(np.uint16)
    xs = np.array([rng.choice(holders, threshold, replace=False) + 1 for _ in wanted])
    dealt = [shamir.split(secret, threshold, holders, rng.bytes) for secret in wanted]
    shares = np.array([rows[some - 1] for rows, some in zip(dealt, xs, strict=True)])
    assert np.array_equal(shamir.join_each(xs, shares), wanted)


def test_every_non_zero_x_can_hold_a_share():
    secret = row([12345])
    shares = shamir.split(secret, 2, FIELD - 1, randomness(0))
    for pair in ([1, FIELD - 1], [FIELD - 2, FIELD - 1], [FIELD - 1, 7]):
        assert shamir.join(np.array(pair), shares[np.array(pair) - 1]).tolist() == secret.tolist()


@pytest.mark.parametrize(("threshold", "holders"), [(0, 3), (-1, 3), (4, 3), (2, FIELD), (FIELD, FIELD)])
def test_impossible_splits_are_refused(threshold, holders):
    with pytest.raises(ValueError, match=f"cannot split {threshold} of {holders}"):
        shamir.split(row([1]), threshold, holders, randomness(0))


# Elements


@given(st.lists(elements))
def test_elements_survive_bytes(values):
    data = shamir.to_bytes(row(values))
    assert data == b"".join(value.to_bytes(2, "little") for value in values)
    assert shamir.from_bytes(data).tolist() == values


@given(st.lists(elements), st.integers(FIELD, 2**16 - 1), st.data())
def test_a_word_outside_the_field_is_refused(values, bad, data):
    place = data.draw(st.integers(0, len(values)))
    with pytest.raises(ValueError, match="outside the field"):
        shamir.from_bytes(row([*values[:place], bad, *values[place:]]).tobytes())


def _refusal(read, data):
    try:
        read(data)
    except shamir.OutsideField as error:
        return str(error)
    return None


#: Mostly of the field's last elements and the words behind them, and some of another size.
rows = st.lists(st.integers(FIELD - 3, 2**16 - 1) | st.integers(0, 2**16 - 1), max_size=40)


@given(rows, st.binary(max_size=1))
def test_checking_a_row_refuses_exactly_what_reading_it_refuses(values, more):
    data = row(values).tobytes() + more
    assert _refusal(shamir.check, data) == _refusal(shamir.from_bytes, data)


def test_each_element_is_drawn_from_exactly_one_word():
    words = np.random.default_rng(0).permutation(2**16).astype("<u2").tobytes()
    place = 0

    def every_word_once(count: int) -> bytes:
        nonlocal place
        place += count
        return words[place - count : place]

    drawn = shamir.random_elements(every_word_once, FIELD)
    assert np.array_equal(np.sort(drawn), np.arange(FIELD))


@given(st.lists(st.integers(FIELD - 20, 2**16 - 1), max_size=40), st.integers(1, 60))
def test_words_outside_the_field_are_skipped_and_the_rest_kept_in_order(words, count):
    stream = iter([*words, *range(count)])
    asked = []

    def source(size: int) -> bytes:
        asked.append(size // 2)
        return b"".join(next(stream).to_bytes(2, "little") for _ in range(size // 2))

    good = [word for word in [*words, *range(count)] if word < FIELD][:count]
    assert shamir.random_elements(source, count).tolist() == good
    assert asked[0] == count
    assert sum(asked) <= len(words) + count


@pytest.mark.parametrize("largest", [9, 300, 511, 512, 900, 3000])
def test_logarithms_of_differences_are_those_of_the_product(largest):
    """By a table among few holders, by factorials among many."""
    rng = np.random.default_rng(largest)
    xs = np.array([np.sort(rng.choice(largest, largest // 2, replace=False)) + 1 for _ in range(3)])
    xs[0, -1] = largest
    found = shamir.log_differences(xs)
    for row, logs in zip(xs.tolist(), found.tolist(), strict=True):
        for place in (0, len(row) // 2, len(row) - 1):
            product = 1
            for other in row:
                product = product * (other - row[place] or 1) % FIELD
            assert pow(17, logs[place] % (FIELD - 1), FIELD) == product


# The field


def test_the_tables_are_the_powers_of_a_generator_and_their_inverse():
    assert np.array_equal(np.sort(shamir.EXP), np.arange(1, FIELD))
    assert np.array_equal(shamir.EXP[shamir.LOG[1:]], np.arange(1, FIELD))
    assert shamir.EXP[shamir.LOG_MINUS_ONE] == FIELD - 1


@given(elements, elements)
def test_logarithms_turn_products_into_sums(one, other):
    if one and other:
        total = (int(shamir.LOG[one]) + int(shamir.LOG[other])) % (FIELD - 1)
        assert shamir.EXP[total] == one * other % FIELD


@pytest.mark.parametrize("n", [0, 1, 2, 10, 1000, FIELD - 1])
def test_logarithms_of_factorials(n):
    product = 1
    for factor in range(2, n + 1):
        product = product * factor % FIELD
    assert shamir.EXP[shamir.LOG_FACTORIAL[n]] == product
