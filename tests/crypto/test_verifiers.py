"""Two libraries verify signatures: they accept and refuse the same, or the second one is not used.

libsodium is asked where PyNaCl is installed. OpenSSL always is, against the mathematics of edwards.py.
"""

import sys
from functools import cache
from importlib.util import find_spec
from itertools import product
from random import Random

import pytest

from ccesa.agreement.identity import Identity
from ccesa.crypto import primitives
from edwards import (
    BASE,
    NEUTRAL,
    SMALL,
    L,
    P,
    add,
    challenge,
    decoded,
    disputed,
    encoded,
    holds_eight_times,
    mixed,
    number,
    times,
    with_height,
)

HAS_SODIUM = find_spec("nacl") is not None
NAMES = ["verify_by_openssl", *(["verify_by_sodium"] if HAS_SODIUM else [])]
IDENTITY, TEXT = Identity(bytes(range(32))), b"a text"
SIGNATURE = IDENTITY.sign(TEXT)


def decided(public: bytes, signature: bytes, text: bytes) -> bool:
    """Decide as the package does: by its own rules, then by the library that is chosen."""
    try:
        primitives.check_verifying_key(public)
        primitives.verify(public, signature, text)
    except (primitives.BadSignature, primitives.LowOrderKey):
        return False
    return True


@pytest.fixture(params=NAMES)
def accepts(request, monkeypatch):
    monkeypatch.setattr(primitives, "verifier", lambda: getattr(primitives, request.param))
    return decided


def flipped(data: bytes, bit: int) -> bytes:
    return (int.from_bytes(data, "little") ^ 1 << bit).to_bytes(len(data), "little")


# Honest ones

#: RFC 8032, section 7.1, tests 1 to 3: seed, public key, text, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize("case", RFC_8032, ids=["test 1", "test 2", "test 3"])
def test_the_vectors_of_the_rfc_are_decided_as_it_says(accepts, case):
    seed, public, text, signature = map(bytes.fromhex, case)
    assert Identity(seed).public == public
    assert Identity(seed).sign(text) == signature
    assert accepts(public, signature, text)
    assert not accepts(public, signature, text + b"\0")


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 111, 112, 127, 128, 129, 4096, 1_000_003])
def test_texts_of_every_size_are_signed_and_no_others(accepts, size):
    text = bytes(size)
    assert accepts(IDENTITY.public, IDENTITY.sign(text), text)
    assert not accepts(IDENTITY.public, IDENTITY.sign(text), text + b"\0")
    assert not accepts(IDENTITY.public, IDENTITY.sign(text + b"\0"), text)


# Changed ones


def test_every_flipped_bit_is_noticed(accepts):
    assert accepts(IDENTITY.public, SIGNATURE, TEXT)
    assert not any(accepts(IDENTITY.public, flipped(SIGNATURE, bit), TEXT) for bit in range(512))
    assert not any(accepts(flipped(IDENTITY.public, bit), SIGNATURE, TEXT) for bit in range(256))
    assert not any(accepts(IDENTITY.public, SIGNATURE, flipped(TEXT, bit)) for bit in range(8 * len(TEXT)))


@pytest.mark.parametrize("multiple", range(1, 15))
def test_an_s_that_is_not_reduced_is_refused(accepts, multiple):
    s = int.from_bytes(SIGNATURE[32:], "little") + multiple * L
    assert s < 2**256
    assert not accepts(IDENTITY.public, SIGNATURE[:32] + number(s), TEXT)


@pytest.mark.parametrize("size", [*range(64), *range(65, 70), 96, 128])
def test_a_signature_of_another_size_never_reaches_into_the_text(accepts, size):
    """One library takes both in one piece, where bytes could change sides."""
    whole = SIGNATURE + TEXT
    assert not accepts(IDENTITY.public, whole[:size].ljust(size, b"\0"), whole[size:])


# Points of small order, and points that have a part of it


SCALAR = Random("scalar").randrange(L)
OWN = times(SCALAR, BASE)


@cache
def some_mixed(r_part, a_part):
    cases = list(mixed(Random(8 * r_part + a_part), r_part, a_part, 16))
    assert holds_eight_times(*cases[0][:3])
    return cases


@pytest.mark.parametrize("a_part", range(8))
@pytest.mark.parametrize("r_part", range(8))
def test_the_equation_has_to_hold_as_it_stands(accepts, r_part, a_part):
    """Eight times over it holds in all of these."""
    cases = some_mixed(r_part, a_part)
    assert [accepts(*case[:3]) for case in cases] == [case.fits for case in cases]
    if a_part == 0:
        assert all(case.fits is (r_part == 0) for case in cases)


@pytest.mark.parametrize("point", SMALL, ids=lambda point: encoded(point).hex()[:8])
def test_an_r_of_small_order_is_refused_although_it_may_fit(accepts, point):
    for part in SMALL:
        public = encoded(add(OWN, part))
        for text in map(number, range(8)):
            h = challenge(encoded(point), public, text)
            assert not accepts(public, encoded(point) + number(h * SCALAR % L), text)


@pytest.mark.parametrize("point", SMALL, ids=lambda point: encoded(point).hex()[:8])
def test_a_key_of_small_order_is_refused_although_signatures_fit(accepts, point):
    """Whoever has no private key at all signs for it: R = S B fits wherever h A is neutral."""
    for nonce in range(1, 9):
        signature = encoded(times(nonce, BASE)) + number(nonce)
        assert not any(accepts(encoded(point), signature, number(text)) for text in range(8))


#: y as it may be sent: the ends of the field and what lies behind them, small order, and heights of no point.
HEIGHTS = [*range(4), P - 2, P - 1, *range(P, P + 19), *(y for _, y in SMALL), 4 * pow(5, -1, P) % P]
POINTS = [number(y | sign << 255) for y in HEIGHTS for sign in (0, 1)]
SCALARS = [0, 1, 8, L - 1, L, L + 1, 2 * L - 1, 2**252, 2**253 - 1, 2**253, 2**255 - 1, 2**255, 2**256 - 1]


def test_there_are_heights_without_a_point():
    assert with_height(2) is None


def test_odd_encodings_together_never_verify(accepts):
    """Of R, of A and of S: no library takes one of them, and none ends in another way."""
    for r, public, s in product(POINTS, [*POINTS, IDENTITY.public], SCALARS):
        assert not accepts(public, r + number(s), TEXT)


@pytest.mark.skipif(not HAS_SODIUM, reason="PyNaCl is not installed")
def test_random_changes_are_decided_alike(monkeypatch):
    """Pieces of honest and of mixed signatures, of keys and of odd encodings, put together anyhow."""
    random = Random("pieces")
    honest = [Identity(random.randbytes(32)) for _ in range(4)]
    cases = [(one.public, one.sign(text), text) for one in honest for text in (b"", b"x", bytes(99))]
    cases += [case[:3] for part in range(8) for case in mixed(random, part, -part % 8, 6)]
    found = []
    for _ in range(8_000):
        (public, signature, text), other = random.choice(cases), random.choice(cases)
        r, s = signature[:32], signature[32:]
        match random.randrange(8):
            case 0:
                public = random.choice([other[0], *POINTS])
            case 1:
                r = random.choice([other[1][:32], *POINTS])
            case 2:
                s = random.choice([other[1][32:], *map(number, SCALARS)])
            case 3:
                text = other[2]
            case 4:
                s = number((int.from_bytes(s, "little") + random.randrange(15) * L) % 2**256)
            case 5:
                public = flipped(public, random.randrange(256))
            case 6:
                r = flipped(r, random.randrange(256))
        asked = []
        for name in NAMES:
            monkeypatch.setattr(primitives, "verifier", lambda name=name: getattr(primitives, name))
            asked.append(decided(public, r + s, text))
        assert asked[0] == asked[1], (public.hex(), (r + s).hex(), text.hex())
        found.append(asked[0])
    assert 300 < sum(found) < 7_000  # both answers were compared, many times


# The choice


def test_the_known_answers_are_what_they_are_said_to_be():
    assert disputed() == (primitives._DISPUTED_KEY, primitives._DISPUTED)
    assert primitives.accepts_the_same(primitives.verify_by_openssl)


@pytest.fixture
def chosen():
    primitives.verifier.cache_clear()
    yield primitives.verifier
    primitives.verifier.cache_clear()


@pytest.mark.skipif(not HAS_SODIUM, reason="PyNaCl is not installed")
def test_the_installed_libsodium_is_used(chosen):
    assert chosen() is primitives.verify_by_sodium


def test_without_it_everything_works_as_before(chosen, monkeypatch):
    monkeypatch.setitem(sys.modules, "nacl.signing", None)
    assert chosen() is primitives.verify_by_openssl
    primitives.verify(IDENTITY.public, SIGNATURE, TEXT)


def multiplies_by_eight(public, signature, text):
    """Verify as libsodium's development branch does."""
    if int.from_bytes(signature[32:], "little") >= L or not holds_eight_times(public, signature, text):
        raise primitives.BadSignature("not even eight times over")


def does_not_reduce(public, signature, text):
    """Verify as libsodium does when it is built to be compatible with its first versions."""
    s = int.from_bytes(signature[32:], "little") % L
    primitives.verify_by_openssl(public, signature[:32] + number(s), text)


def wants_the_subgroup(public, signature, text):
    """Refuse all keys that have a part of small order."""
    if times(L, decoded(public)) != NEUTRAL:
        raise primitives.BadSignature("not in the subgroup")
    primitives.verify_by_openssl(public, signature, text)


@pytest.mark.parametrize("other", [multiplies_by_eight, does_not_reduce, wants_the_subgroup])
def test_one_that_decides_otherwise_is_not_used(chosen, monkeypatch, other):
    other(IDENTITY.public, SIGNATURE, TEXT)  # honest ones it accepts
    monkeypatch.setattr(primitives, "verify_by_sodium", other)
    assert chosen() is primitives.verify_by_openssl
