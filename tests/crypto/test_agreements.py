"""What two clients derive is the same at both ends, bound to everything, and refused if anything is off."""

import hashlib
from functools import cache
from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccesa import labels
from ccesa.crypto import keys, primitives
from ccesa.crypto.keys import AGREEMENTS, DEFAULT, POST_QUANTUM, Content
from ccesa.errors import ConfigError
from strategies import client_ids

HYBRID = AGREEMENTS[POST_QUANTUM]
SHARES, SEED, CONTEXT = bytes(range(64)), bytes(range(100, 132)), bytes(32)
#: Below which the numbers in a key of ML-KEM lie.
MODULUS = 3329

bytes32 = st.binary(min_size=32, max_size=32)
pairs = st.tuples(client_ids, client_ids).filter(lambda pair: pair[0] != pair[1])
needs_kem = pytest.mark.needs("ml-kem")
agreements = pytest.mark.parametrize(
    "agreement", [AGREEMENTS[DEFAULT], pytest.param(HYBRID, marks=needs_kem)], ids=AGREEMENTS
)


@cache
def kem_seed(client: int) -> bytes:
    return hashlib.sha512(b"kem" + client.to_bytes(4, "little")).digest()


@cache
def bundle(client: int) -> bytes:
    seeds = (hashlib.sha256(label + client.to_bytes(4, "little")).digest() for label in (b"c", b"s"))
    public = [primitives.public_key(primitives.private_key(seed)) for seed in seeds]
    return HYBRID.bundle(*public, kem_seed(client))


def ends(sender: int = 1, recipient: int = 2, commitment: bytes = bytes(32)) -> keys.Ends:
    return keys.Ends(sender, recipient, bundle(sender), bundle(recipient), True, commitment)


def unsealed(text: bytes, agreed: bytes = bytes(32), between: keys.Ends | None = None, opener: int = 2) -> Content:
    (secret,) = HYBRID.decapsulate_each(kem_seed(opener), [text])
    return HYBRID.unseal(agreed, secret, text, CONTEXT, between or ends())


def sealed(agreed: bytes = bytes(32), between: keys.Ends | None = None) -> bytes:
    between = between or ends()
    (encapsulated,) = HYBRID.encapsulate_each([between.recipient_keys])
    return HYBRID.seal(agreed, encapsulated, Content(SHARES, SEED), CONTEXT, between)


# Sealed texts


@needs_kem
@agreements
def test_what_is_sealed_opens_and_has_the_declared_size(agreement):
    seed = agreement.pair_seed(bytes(32), CONTEXT, 1, 2)
    (encapsulated,) = agreement.encapsulate_each([bundle(2)])
    ours, theirs = (agreement.sealing(bytes(32), CONTEXT, *pair) for pair in ((1, 2), (2, 1)))
    text = agreement.seal(ours, encapsulated, Content(SHARES, seed), CONTEXT, ends())
    assert len(text) == agreement.text_bytes
    (secret,) = agreement.decapsulate_each(kem_seed(2), [text])
    opened = agreement.unseal(theirs, secret, text, CONTEXT, ends())
    assert opened == (SHARES, seed)


def test_the_sizes_are_those_of_the_page():
    assert [(one.bundle_bytes, one.text_bytes, one.deposit_bytes) for one in AGREEMENTS.values()] == [
        (64, 80, 0),
        (1248, 1232, 48),
    ]


@needs_kem
def test_no_two_texts_have_a_ciphertext_or_a_key_in_common():
    one, other = sealed(), sealed()
    assert one[:1088] != other[:1088]
    assert one[1088:1200] != other[1088:1200]
    assert one[1200:] == other[1200:]  # the same seed was promised


@needs_kem
@settings(max_examples=60)
@given(st.integers(0, 8 * 1232 - 1))
def test_a_changed_bit_anywhere_is_noticed(bit):
    text = bytearray(sealed())
    text[bit // 8] ^= 1 << bit % 8
    with pytest.raises(primitives.SealBroken):
        unsealed(bytes(text))


#: By what is different at the one who opens.
DIFFERENT = {
    "another agreement": lambda text: unsealed(text, agreed=bytes(31) + b"\x01"),
    "another key of ML-KEM": lambda text: unsealed(text, opener=3),
    "another sender": lambda text: unsealed(text, between=ends(sender=3)),
    "another recipient": lambda text: unsealed(text, between=ends(recipient=3)),
    "reflected": lambda text: unsealed(text, between=ends(2, 1), opener=1),
    "another commitment to b": lambda text: unsealed(text, between=ends(commitment=bytes(31) + b"\x01")),
    "other keys": lambda text: unsealed(text, between=ends()._replace(sender_keys=bundle(3))),
    "no masks": lambda text: unsealed(text, between=ends()._replace(carries_masks=False)),
    "another ciphertext": lambda text: unsealed(sealed()[:1088] + text[1088:]),
    "another promise": lambda text: unsealed(text[:1200] + bytes(32)),
}


@needs_kem
@pytest.mark.parametrize("what", DIFFERENT)
def test_a_text_opens_only_for_whom_and_as_what_it_was_sealed(what):
    with pytest.raises(primitives.SealBroken):
        DIFFERENT[what](sealed())


@needs_kem
def test_a_seed_that_is_not_the_promised_one_is_refused_although_the_text_opens():
    other = HYBRID.seed_commitment(bytes(32), CONTEXT, 1, 2)
    with patch.object(type(HYBRID), "seed_commitment", lambda *_: other):
        text = sealed()
    with pytest.raises(primitives.SealBroken, match="not the promised one"):
        unsealed(text)


@needs_kem
def test_neither_secret_alone_gives_the_key():
    """The key of a text changes with either secret, and with all that is public about them."""
    between = ends()
    right = (bytes(32), bytes(32), CONTEXT, between, bytes(1088), bytes(32))
    others = [
        (b"\x01" * 32, *right[1:]),
        (right[0], b"\x01" * 32, *right[2:]),
        (*right[:2], b"\x01" * 32, *right[3:]),
        (*right[:4], b"\x01" * 1088, right[5]),
        (*right[:5], b"\x01" * 32),
        *(
            (*right[:3], between._replace(**change), *right[4:])
            for change in (
                {"sender": 3},
                {"recipient": 3},
                {"sender_keys": bundle(3)},
                {"recipient_keys": bundle(3)},
                {"carries_masks": False},
                {"commitment": b"\x01" * 32},
            )
        ),
    ]
    assert len({HYBRID.text_key(*one) for one in (right, *others)}) == len(others) + 1


# Seeds, deposits, pair secrets


#: Derivations for an ordered pair: (label, function of secret, context, one, other).
OF_TWO = {
    "PAIR_SEED": HYBRID.pair_seed,
    "SEED_COMMITMENT": HYBRID.seed_commitment,
    "DEPOSIT": lambda secret, context, one, other: HYBRID.deposit(secret, SEED, context, one, other),
}


@pytest.mark.parametrize("label", OF_TWO)
@settings(max_examples=30)
@given(bytes32, bytes32, bytes32, bytes32, st.lists(client_ids, min_size=3, max_size=3, unique=True))
def test_secret_context_ids_direction_and_label_are_bound(label, secret, secret2, context, context2, ids):
    assume(secret != secret2 and context != context2)
    derive, (one, other, third) = OF_TWO[label], ids
    found = [
        derive(secret, context, one, other),
        derive(secret2, context, one, other),
        derive(secret, context2, one, other),
        derive(secret, context, other, one),
        derive(secret, context, third, other),
        derive(secret, context, one, third),
    ]
    with patch.object(labels, label, b"ccesa/2/99 another"):
        found.append(derive(secret, context, one, other))
    assert len(set(found)) == len(found)


@given(bytes32, bytes32, pairs)
def test_what_comes_from_one_secret_has_nothing_in_common(secret, context, pair):
    found = [
        HYBRID.pair_seed(secret, context, *pair)[:16],
        HYBRID._deposit_key(secret, context, *pair)[:16],
        primitives.private_bytes(keys.mask_private_key(secret, context, pair[0]))[:16],
        secret[:16],
    ]
    assert len(set(found)) == len(found)


@given(bytes32, bytes32, bytes32, pairs)
def test_a_deposit_opens_with_the_secret_and_nothing_else(secret, other_secret, seed, pair):
    assume(secret != other_secret)
    left = HYBRID.deposit(secret, seed, CONTEXT, *pair)
    assert len(left) == HYBRID.deposit_bytes
    assert HYBRID.withdraw(secret, left, CONTEXT, *pair) == seed
    for wrong in (
        lambda: HYBRID.withdraw(other_secret, left, CONTEXT, *pair),
        lambda: HYBRID.withdraw(secret, left, CONTEXT, *pair[::-1]),
        lambda: HYBRID.withdraw(secret, left, bytes(31) + b"\x01", *pair),
        lambda: HYBRID.withdraw(secret, bytes(48), CONTEXT, *pair),
    ):
        with pytest.raises(primitives.SealBroken):
            wrong()


def test_a_deposit_does_not_open_with_the_key_of_x25519():
    """That key falls with X25519; the deposit must not."""
    secret = bytes(range(32))
    private = primitives.private_bytes(keys.mask_private_key(secret, CONTEXT, 1))
    left = HYBRID.deposit(secret, SEED, CONTEXT, 1, 2)
    with pytest.raises(primitives.SealBroken):
        HYBRID.withdraw(private, left, CONTEXT, 1, 2)
    assert HYBRID.pair_seed(private, CONTEXT, 1, 2) != HYBRID.pair_seed(secret, CONTEXT, 1, 2)


halves = st.builds(keys.Half, client_ids, bytes32, bytes32)


@given(bytes32, bytes32, halves, halves)
def test_a_pair_secret_is_the_same_at_both_ends_and_bound_to_all_of_both(agreed, context, one, other):
    assume(one.client != other.client)
    ours = HYBRID.pair_secret(agreed, context, one, other)
    assert ours == HYBRID.pair_secret(agreed, context, other, one)
    found = [ours, HYBRID.pair_secret(hashlib.sha256(agreed).digest(), context, one, other)]
    found.append(HYBRID.pair_secret(agreed, hashlib.sha256(context).digest(), one, other))
    for name in ("mask_key", "seed"):
        for mine, theirs in ((one, other), (other, one)):
            changed = mine._replace(**{name: hashlib.sha256(getattr(mine, name)).digest()})
            found.append(HYBRID.pair_secret(agreed, context, changed, theirs))
    with patch.object(labels, "PAIR_SECRET", b"ccesa/2/99 another"):
        found.append(HYBRID.pair_secret(agreed, context, one, other))
    assert len(set(found)) == len(found)


@given(bytes32, halves, halves)
def test_without_seeds_a_mask_rests_on_what_was_agreed(agreed, one, other):
    assert AGREEMENTS[DEFAULT].pair_secret(agreed, CONTEXT, one, other) == agreed


def test_secrets_are_not_shown():
    assert SEED.hex() not in repr(Content(SHARES, SEED)) + repr(keys.Half(1, bytes(32), SEED))
    assert repr(SEED) not in repr(Content(SHARES, SEED)) + repr(keys.Half(1, bytes(32), SEED))


# Public keys


def with_coefficient(place: int, value: int) -> bytes:
    """A key of client 1 with another number in one of its 768 places of 12 bits."""
    public = HYBRID.public_keys(bundle(1))[2]
    packed = int.from_bytes(public[:1152], "little")
    packed = packed & ~(0xFFF << 12 * place) | value << 12 * place
    return bundle(1)[:64] + packed.to_bytes(1152, "little") + public[1152:]


@needs_kem
def test_honest_keys_pass_and_are_three():
    HYBRID.check_keys(*HYBRID.public_keys(bundle(1)))
    parts = HYBRID.public_keys(bundle(1))
    assert [len(part) for part in parts] == [32, 32, 1184]
    assert b"".join(parts) == bundle(1)


@needs_kem
@settings(max_examples=40)
@given(st.integers(0, 767), st.integers(0, MODULUS - 1) | st.integers(MODULUS, 4095))
def test_numbers_from_the_modulus_on_are_refused(place, value):
    if value < MODULUS:
        HYBRID.check_keys(*HYBRID.public_keys(with_coefficient(place, value)))
    else:
        with pytest.raises(primitives.BadKey, match="not a valid ML-KEM-768 public key"):
            HYBRID.check_keys(*HYBRID.public_keys(with_coefficient(place, value)))


@needs_kem
@pytest.mark.parametrize("place", [0, 1])
def test_the_other_keys_are_checked_as_ever(place):
    low = bundle(1)[: 32 * place] + bytes(32) + bundle(1)[32 * place + 32 :]
    with pytest.raises(primitives.LowOrderKey):
        HYBRID.check_keys(*HYBRID.public_keys(low))


@needs_kem
def test_a_library_with_ml_kem_is_taken():
    HYBRID.check_installed()


def test_a_library_without_ml_kem_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(primitives, "has_kem", lambda: False)
    AGREEMENTS[DEFAULT].check_installed()
    with pytest.raises(ConfigError, match="cryptography>=48"):
        HYBRID.check_installed()
