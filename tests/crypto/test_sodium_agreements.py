"""X25519 by libsodium beside OpenSSL's: the same secrets and the same refusals, in any number of threads."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.crypto import primitives
from ccesa.protocol.dealing import agree_each
from test_bad_points import BAD, EDGES, LOW_ORDER, P

sodium = pytest.importorskip("nacl.bindings", reason="PyNaCl is not installed")
NINE = (9).to_bytes(32, "little")


def ours(private: bytes, public: bytes) -> bytes | None:
    try:
        return primitives.agree(primitives.private_key(private), primitives.load_public_key(public))
    except primitives.LowOrderKey:
        return None


def theirs(private: bytes, public: bytes) -> bytes | None:
    try:
        return primitives.agree_by_sodium(private, [public])[0]
    except primitives.LowOrderKey:
        return None


def test_the_iterated_vector_of_the_rfc_comes_out():
    """RFC 7748, section 5.2: after one iteration and after a thousand."""
    for agree in (ours, theirs):
        k = u = NINE
        for times in range(1000):
            k, u = agree(k, u), k
            if times == 0:
                assert k.hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
        assert k.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


@pytest.mark.parametrize("private", [bytes(32), b"\xff" * 32, bytes(range(32)), (2**254).to_bytes(32, "little")])
def test_odd_points_give_the_same_secret_or_the_same_refusal(private):
    found = {}
    for name, u in {**BAD, **EDGES, "the base point": 9, "p - 3": P - 3}.items():
        public = u.to_bytes(32, "little")
        assert ours(private, public) == theirs(private, public), name
        found[name] = ours(private, public)
    assert all(found[name] is None for name in LOW_ORDER)
    assert all(found[name] is not None for name in EDGES)


def test_random_points_of_the_curve_and_of_its_twist_give_the_same_secret():
    """Half of all 32 bytes are of the twist, half have the top bit set; and public keys are the same."""
    random = Random("points")
    for _ in range(3_000):
        private, public = random.randbytes(32), random.randbytes(32)
        assert ours(private, public) == theirs(private, public)
        mine = primitives.public_key(primitives.private_key(private))
        assert mine == theirs(private, NINE) == sodium.crypto_scalarmult_base(private)


@pytest.fixture
def anew():
    """The library is asked again before and after."""
    primitives.agrees_without_lock.cache_clear()
    yield
    primitives.agrees_without_lock.cache_clear()


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_of_other_sizes_never_reach_the_library(size):
    with pytest.raises(primitives.BadKey, match="32 bytes"):
        primitives.agree_by_sodium(bytes(range(32)), [NINE, bytes(size)])
    with pytest.raises(primitives.BadKey, match="32 bytes"):
        primitives.agree_by_sodium(bytes(size), [NINE])


@pytest.mark.parametrize("wrong", [lambda private, public: bytes(32), lambda private, public: NINE])
def test_a_library_that_agrees_on_something_else_is_not_used(anew, monkeypatch, wrong):
    monkeypatch.setattr(sodium, "crypto_scalarmult", wrong)
    assert not primitives.agrees_without_lock()
    private = primitives.private_key(bytes(range(32)))
    assert primitives.agree_each(private, [NINE]) == [ours(bytes(range(32)), NINE)]


def test_a_library_that_takes_points_of_low_order_is_not_used(anew, monkeypatch):
    right = sodium.crypto_scalarmult
    monkeypatch.setattr(
        sodium, "crypto_scalarmult", lambda private, public: right(private, public) if any(public) else public
    )
    assert not primitives.agrees_without_lock()


@given(st.integers(0, 80), st.sampled_from([0, 1, 2, 3, 5]), st.booleans())
def test_threads_and_libraries_agree_on_the_same(count, threads, installed):
    private = primitives.private_key(bytes(range(32)))
    public = [primitives.public_key(primitives.private_key(number.to_bytes(32, "big"))) for number in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(primitives, "agrees_without_lock", lambda: installed)
        assert agree_each(private, public, threads) == [ours(bytes(range(32)), key) for key in public]


def test_one_bad_key_among_many_is_refused_in_any_thread():
    private = primitives.private_key(bytes(range(32)))
    for place in (0, 25, 49):
        public = [NINE] * 50
        public[place] = bytes(32)
        with pytest.raises(primitives.LowOrderKey):
            agree_each(private, public, 2)
