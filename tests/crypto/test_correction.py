"""Wrong shares: seen, and found while they can be told from the others."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.crypto import columns
from ccesa.crypto import shamir
from ccesa.crypto.shamir import FIELD, TooManyWrong
from strategies import randomness, seeds


@st.composite
def sharings(draw, least: int = 0):
    """Some shares of a secret with their x, and the threshold; at least so many beyond it."""
    threshold = draw(st.integers(1, 12))
    holders = threshold + draw(st.integers(least, 14))
    rng = np.random.default_rng(draw(seeds))
    secret = shamir.random_elements(rng.bytes, shamir.SECRET_ELEMENTS)
    xs = rng.permutation(60)[:holders] + 1
    return secret, threshold, xs, shamir.split(secret, threshold, 60, rng.bytes)[xs - 1], rng


#: How shares are made wrong; whoever does it knows all of them.
LIES = {
    "throughout": lambda shares, rng, _: rng.integers(0, FIELD, shares.shape),
    "all by the same": lambda shares, rng, _: shares + rng.integers(1, FIELD, shares.shape[1]),
    "in one element": lambda shares, rng, _: shares + np.eye(16, dtype=np.int64)[rng.integers(16)],
    "each in another element": lambda shares, *_: shares + np.eye(16, dtype=np.int64)[: len(shares)],
    "those of another secret": lambda shares, rng, other: other,
}
lies = st.sampled_from(sorted(LIES))


def spoiled(sharing, places, how: str = "in one element") -> np.ndarray:
    _, threshold, xs, shares, rng = sharing
    shares, places = shares.copy(), list(places)[:16] if how.startswith("each") else list(places)
    other = shamir.split(np.zeros(16, np.uint16), threshold, 60, rng.bytes)[xs - 1]
    lie = LIES[how](shares[places].astype(np.int64), rng, other[places].astype(np.int64))
    shares[places] = lie % FIELD
    return shares


def found(sharing, shares) -> list[int] | None:
    """The places that are named; None where too many are wrong."""
    _, threshold, xs, _, rng = sharing
    try:
        return np.flatnonzero(shamir.wrong_places(xs, shares, threshold, rng.bytes)).tolist()
    except TooManyWrong:
        return None


def found_by_columns(sharing, shares) -> list[int] | None:
    _, threshold, xs, _, _ = sharing
    try:
        return np.flatnonzero(columns.wrong_places(xs, shares, threshold)).tolist()
    except TooManyWrong:
        return None


def some_places(data, sharing, most: int) -> list[int]:
    return sorted(data.draw(st.sets(st.integers(0, sharing[2].size - 1), max_size=most)))


# One secret


@given(sharings(), lies, st.data())
@settings(max_examples=300)
def test_as_many_as_can_be_told_are_found(sharing, how, data):
    _, threshold, xs, shares, _ = sharing
    places = some_places(data, sharing, (xs.size - threshold) // 2)
    changed = spoiled(sharing, places, how)
    assert found(sharing, changed) == np.flatnonzero((changed != shares).any(axis=1)).tolist()


@given(sharings(), lies, st.data())
@settings(max_examples=400)
def test_results_are_those_of_decoding_element_by_element(sharing, how, data):
    """Also where more are wrong than can be told, or where liars agree."""
    shares = spoiled(sharing, some_places(data, sharing, sharing[2].size), how)
    assert found(sharing, shares) == found_by_columns(sharing, shares)


@given(sharings(), st.data())
def test_shares_that_were_dealt_on_no_polynomial(sharing, data):
    _, threshold, xs, shares, rng = sharing
    garbage = rng.integers(0, FIELD, shares.shape).astype(np.uint16)
    assert found(sharing, garbage) == (None if xs.size > threshold else [])
    more = shamir.split(shares[0], threshold + 1, 60, rng.bytes)[xs - 1]  # one term too many
    assert found(sharing, more) == found_by_columns(sharing, more)


@given(sharings(least=1), st.sampled_from(["throughout", "in one element"]))
@settings(max_examples=200)
def test_one_too_many_is_noticed(sharing, how):
    """An odd number to spare, so that no other polynomial is close by chance."""
    _, threshold, xs, shares, _ = sharing
    assume((xs.size - threshold) % 2)
    changed = spoiled(sharing, range((xs.size - threshold) // 2 + 1), how)
    assume((changed != shares).any(axis=1).sum() == (xs.size - threshold) // 2 + 1)
    assert found(sharing, changed) is None


@given(sharings(least=1))
def test_wrong_shares_are_counted_over_all_elements(sharing):
    """Each element alone could be corrected; together more holders are wrong than that."""
    _, threshold, xs, _, _ = sharing
    most = (xs.size - threshold) // 2
    changed = spoiled(sharing, range(most + 1), "each in another element")
    with pytest.raises(TooManyWrong, match=f"more than {most} of {xs.size} shares are wrong"):
        shamir.wrong_places(xs, changed, threshold, randomness(0))


@given(sharings(), st.data())
def test_fewer_shares_than_the_threshold_show_nothing(sharing, data):
    _, threshold, xs, shares, rng = sharing
    count = data.draw(st.integers(0, threshold - 1))
    with pytest.raises(TooManyWrong):
        shamir.wrong_places(xs[:count], shares[:count], threshold, rng.bytes)


def test_many_holders():
    rng = np.random.default_rng(1)
    shares = shamir.split(np.arange(16, dtype=np.uint16), 501, 1500, rng.bytes)
    wrong = np.sort(rng.choice(1500, 499, replace=False))
    shares[wrong] = (shares[wrong].astype(np.int64) + 1) % FIELD
    flags = shamir.wrong_places(np.arange(1, 1501), shares, 501, rng.bytes)
    assert np.flatnonzero(flags).tolist() == wrong.tolist()


@pytest.mark.parametrize("draw", [0, 1])
def test_a_lie_that_one_combination_misses_is_in_the_other(draw):
    """Two elements are wrong so that one of the two combinations cancels them."""
    rng = np.random.default_rng(3)
    shares = shamir.split(np.arange(16, dtype=np.uint16), 3, 9, rng.bytes)
    words = rng.bytes(2 * 16 * shamir.TIMES)
    factors = np.frombuffer(words, "<u2").reshape(16, shamir.TIMES).astype(np.int64)
    shares[4, 0] = (shares[4, 0] + factors[1, draw]) % FIELD
    shares[4, 1] = (shares[4, 1] - factors[0, draw]) % FIELD
    assert np.flatnonzero(shamir.wrong_places(np.arange(1, 10), shares, 3, lambda _: words)) == [4]


# Many secrets at once


def fit(secrets, spare, seed) -> list[bool]:
    """Of pairs of xs and shares."""
    rows = np.repeat(np.arange(len(secrets)), [xs.size for xs, _ in secrets])
    xs, shares = (np.concatenate(parts) for parts in zip(*secrets, strict=True))
    return shamir.fit_each(rows, xs, shares, spare, randomness(seed)).tolist()


@given(st.lists(sharings(least=1), min_size=1, max_size=4), st.data(), seeds)
def test_shares_as_they_were_dealt_fit(some, data, seed):
    """Secrets with several thresholds and numbers of shares at once."""
    most = min(xs.size - threshold for _, threshold, xs, _, _ in some)
    rows = [(xs, shares) for _, _, xs, shares, _ in some]
    assert fit(rows, data.draw(st.integers(1, most)), seed) == [True] * len(some)


@given(sharings(least=1), sharings(least=1), st.data(), seeds)
@settings(max_examples=200)
def test_wrong_shares_show_if_they_are_no_more_than_there_are_to_spare(sharing, other, data, seed):
    most = min(one[2].size - one[1] for one in (sharing, other))
    spare = data.draw(st.integers(1, most))
    places = data.draw(st.sets(st.integers(0, sharing[2].size - 1), min_size=1, max_size=spare))
    wrong = spoiled(sharing, places)
    rows = [(sharing[2], sharing[3]), (sharing[2], wrong), (other[2], other[3])]
    assert fit(rows, spare, seed) == [True, False, True]
