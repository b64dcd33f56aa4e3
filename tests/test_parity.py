"""Shares that do not fit the others: seen, and named while they can be told."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccesa.crypto import parity, shamir
from ccesa.crypto.polynomial import FIELD
from strategies import randomness, seeds


@st.composite
def sharings(draw):
    """A secret, some of its shares with their x, and the threshold."""
    threshold = draw(st.integers(1, 12))
    holders = threshold + draw(st.integers(0, 12))
    seed = draw(seeds)
    secret = shamir.random_elements(randomness(seed), shamir.SECRET_ELEMENTS)
    shares = shamir.split(secret, threshold, holders, randomness(seed + 1))
    present = sorted(draw(st.sets(st.integers(1, holders), min_size=threshold, max_size=holders)))
    xs = np.array(present, np.int64)
    return secret, threshold, xs, shares[xs - 1].copy(), seed


def spoiled(shares, places):
    shares = shares.copy()
    shares[places, 3] = (shares[places, 3].astype(np.int64) + 1) % FIELD
    return shares


def named(sharing, shares, suspects=()):
    secret, threshold, xs, _, seed = sharing
    doubted = np.isin(np.arange(xs.size), list(suspects))
    every = np.vstack([secret, shares])
    return parity.odd_ones(xs, every, threshold, doubted, randomness(seed + 2)).tolist()


def fit(secrets, spare, seed) -> list[bool]:
    """Of pairs of xs and shares."""
    rows = np.repeat(np.arange(len(secrets)), [xs.size for xs, _ in secrets])
    xs, shares = (np.concatenate(parts) for parts in zip(*secrets, strict=True))
    return parity.fit_each(rows, xs, shares, spare, randomness(seed + 2)).tolist()


@given(st.lists(sharings(), min_size=1, max_size=4), st.data())
def test_shares_as_they_were_dealt_fit(some, data):
    """Secrets with several thresholds and numbers of shares at once."""
    most = min(xs.size - threshold for _, threshold, xs, _, _ in some)
    assume(most >= 1)
    rows = [(xs, shares) for _, _, xs, shares, _ in some]
    assert fit(rows, data.draw(st.integers(1, most)), some[0][-1]) == [True] * len(some)
    assert named(some[0], some[0][3]) == []


@given(sharings(), sharings(), st.data())
@settings(max_examples=200)
def test_wrong_shares_show_if_they_are_no_more_than_there_are_to_spare(sharing, other, data):
    _, _, xs, shares, seed = sharing
    most = min(one[2].size - one[1] for one in (sharing, other))
    assume(most >= 1)
    spare = data.draw(st.integers(1, most))
    places = sorted(data.draw(st.sets(st.integers(0, xs.size - 1), min_size=1, max_size=spare)))
    rows = [(xs, shares), (xs, spoiled(shares, places)), (other[2], other[3])]
    assert fit(rows, spare, seed) == [True, False, True]


@given(sharings(), st.data())
@settings(max_examples=200)
def test_wrong_ones_are_named_while_they_can_be_told(sharing, data):
    _, threshold, xs, shares, _ = sharing
    places = sorted(data.draw(st.sets(st.integers(0, xs.size - 1), max_size=(xs.size - threshold) // 2)))
    suspects = data.draw(st.sets(st.integers(0, xs.size - 1), max_size=4))
    assert named(sharing, spoiled(shares, places), suspects) == places


@given(sharings(), st.data())
def test_beyond_that_nobody_is_named_who_fits_another_secret(sharing, data):
    """The others' shares are those of another secret: by number alone the honest would be to blame."""
    secret, threshold, xs, shares, seed = sharing
    other = shamir.split((secret + np.uint16(1)) % FIELD, threshold, int(xs.max()), randomness(seed + 4))
    honest = data.draw(st.integers(0, (xs.size - threshold) // 2))
    mixed = other[xs - 1].copy()
    mixed[:honest] = shares[:honest]
    assert named(sharing, mixed, suspects=range(honest)) == []
