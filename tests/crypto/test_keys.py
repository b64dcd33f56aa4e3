import hashlib
from unittest.mock import patch

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ccesa import labels
from ccesa.crypto import keys, primitives
from ccesa.crypto.keys import AGREEMENTS
from ccesa.crypto.primitives import GENERATORS
from strategies import client_ids, generators

P = 2**255 - 19
HIGH_BIT = 2**255
#: Orders 2, 4, 8, 8 and 4 on the curve or its twist, https://cr.yp.to/ecdh.html#validate
LOW_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
]
#: The same points plus P, where that still fits into 255 bits.
NOT_REDUCED = [value + P for value in LOW_ORDER if value + P < HIGH_BIT]

PRIVATE = primitives.private_key(bytes(range(32)))


X25519 = AGREEMENTS["x25519"]
SEALED_BYTES = X25519.text_bytes


def ends(sender: int, recipient: int, *both: bytes) -> keys.Ends:
    """Each with keys of its own, unless they are given; the sender has a commitment."""
    both = both or (_two_keys(sender), _two_keys(recipient))
    return keys.Ends(sender, recipient, *both, True, hashlib.sha256(_two_keys(sender)).digest())


def one_time_keys(*of):
    """Return the outgoing and the incoming key of a sealing."""
    both = X25519.sealing(*of)
    assert len(both) == 2 * 28
    return both[:28], both[28:]


def seal_shares(both: bytes, shares: bytes, context: bytes, between: keys.Ends) -> bytes:
    return X25519.seal(both, keys.Encapsulated(b"", b""), keys.Content(shares, b""), context, between)


def unseal_shares(both: bytes, sealed: bytes, context: bytes, between: keys.Ends) -> bytes:
    return X25519.unseal(both, b"", sealed, context, between).shares


def _two_keys(client: int) -> bytes:
    return hashlib.sha512(client.to_bytes(4, "little")).digest()


bytes32 = st.binary(min_size=32, max_size=32)
pairs = st.tuples(client_ids, client_ids).filter(lambda pair: pair[0] != pair[1])


def agreed_with(private: primitives.PrivateKey, public: bytes) -> bytes:
    return primitives.agree(private, primitives.load_public_key(public))


def raw(private: primitives.PrivateKey) -> bytes:
    return private.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )


#: Derivations for one client: (label, function of secret, context, client).
OF_ONE = {
    "MASK_KEY_PAIR": lambda secret, context, client: raw(keys.mask_private_key(secret, context, client)),
    "SELF_MASK": lambda secret, context, client: keys.self_mask_key(secret, context, client, "chacha20"),
    "COMMITMENT": keys.commitment,
}
#: Derivations for a pair: (label, function of secret, context, one, other).
OF_TWO = {
    "SEALING": X25519.sealing,
    "PAIR_MASK": lambda *of: keys.pair_mask_key(*of, "chacha20"),
    "SEALED": lambda secret, context, one, other: ends(one, other, bytes(64), bytes(64)).frame(labels.SEALED, context),
}


# Both ends agree


@given(bytes32, bytes32, bytes32, pairs, generators)
def test_both_ends_of_a_pair_derive_the_same(seed, other_seed, context, pair, generator):
    one, other = pair
    mine, theirs = primitives.private_key(seed), primitives.private_key(other_seed)
    here, there = (agreed_with(mine, primitives.public_key(theirs)), agreed_with(theirs, primitives.public_key(mine)))
    assert here == there
    assert keys.pair_mask_key(here, context, one, other, generator) == keys.pair_mask_key(
        there, context, other, one, generator
    )
    outgoing, incoming = one_time_keys(here, context, one, other)
    assert one_time_keys(there, context, other, one) == (incoming, outgoing)


@given(bytes32, bytes32, pairs)
def test_the_two_directions_have_different_keys_and_nonces(agreed, context, pair):
    outgoing, incoming = one_time_keys(agreed, context, *pair)
    assert outgoing[:16] != incoming[:16]
    assert outgoing[16:] != incoming[16:]


@given(pairs)
def test_the_signs_of_a_pair_are_opposite(pair):
    one, other = pair
    assert {keys.pair_sign(one, other), keys.pair_sign(other, one)} == {1, -1}
    assert keys.pair_sign(min(pair), max(pair)) == 1


# Everything is bound


@pytest.mark.parametrize("label", OF_ONE)
@given(bytes32, bytes32, client_ids, bytes32, bytes32, client_ids)
@settings(max_examples=30)
def test_secret_context_id_and_label_change_what_one_client_derives(
    label, secret, context, client, secret2, context2, client2
):
    assume(secret != secret2 and context != context2 and client != client2)
    derive = OF_ONE[label]
    found = [
        derive(secret, context, client),
        derive(secret2, context, client),
        derive(secret, context2, client),
        derive(secret, context, client2),
    ]
    with patch.object(labels, label, b"ccesa/2/99 another"):
        found.append(derive(secret, context, client))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("label", OF_TWO)
@given(bytes32, bytes32, bytes32, st.lists(client_ids, min_size=3, max_size=3, unique=True))
@settings(max_examples=30)
def test_context_ids_and_label_change_what_a_pair_derives(label, secret, context, context2, ids):
    assume(context != context2)
    derive, (one, other, third) = OF_TWO[label], ids
    found = [
        derive(secret, context, one, other),
        derive(secret, context2, one, other),
        derive(secret, context, third, other),
        derive(secret, context, one, third),
    ]
    with patch.object(labels, label, b"ccesa/2/99 another"):
        found.append(derive(secret, context, one, other))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("label", ["SEALING", "PAIR_MASK"])
@given(bytes32, bytes32, bytes32, pairs)
def test_the_agreed_secret_changes_what_a_pair_derives(label, secret, secret2, context, pair):
    assume(secret != secret2)
    assert OF_TWO[label](secret, context, *pair) != OF_TWO[label](secret2, context, *pair)


@given(bytes32, bytes32, client_ids)
def test_uses_of_one_secret_have_nothing_in_common(secret, context, client):
    found = [derive(secret, context, client)[:16] for derive in OF_ONE.values()]
    assert len({*found, secret[:16]}) == len(found) + 1


@given(bytes32, bytes32, pairs)
def test_uses_of_one_agreement_have_nothing_in_common(agreed, context, pair):
    outgoing, incoming = one_time_keys(agreed, context, *pair)
    mask = keys.pair_mask_key(agreed, context, *pair, "aes128-ctr")
    assert len({outgoing[:16], incoming[:16], mask, agreed[:16]}) == 4


@given(bytes32, bytes32, pairs, generators)
def test_mask_keys_are_as_long_as_their_generator_wants(secret, context, pair, generator):
    due = GENERATORS[generator].key_bytes
    assert len(keys.self_mask_key(secret, context, pair[0], generator)) == due
    assert len(keys.pair_mask_key(secret, context, *pair, generator)) == due


# Labels


def test_labels_are_distinct_and_none_begins_another():
    every = [value for name, value in vars(labels).items() if name.isupper() and isinstance(value, bytes)]
    assert set(every) > set(labels.ALL)  # the protocol's, and those of what is built on it
    assert len(set(every)) == len(every)
    assert not [(a, b) for a in every for b in every if a != b and b.startswith(a)]


@given(st.lists(st.binary(max_size=6), max_size=5), st.lists(st.binary(max_size=6), max_size=5))
def test_different_parts_have_different_frames(one, other):
    assert (labels.frame(*one) == labels.frame(*other)) == (one == other)
    assert (labels.digest(*one) == labels.digest(*other)) == (one == other)


@given(st.sampled_from(labels.ALL), bytes32, client_ids, client_ids)
def test_a_pair_frame_is_the_frame_of_its_parts(label, context, one, other):
    parts = (label, context, labels.client_bytes(one), labels.client_bytes(other))
    assert labels.pair_frame(label, context, one, other) == labels.frame(*parts)


# Public keys


@given(bytes32)
def test_honest_public_keys_pass(seed):
    public = primitives.public_key(primitives.private_key(seed))
    assert len(public) == primitives.PUBLIC_KEY_BYTES
    primitives.check_public_key(public)


@pytest.mark.parametrize("value", LOW_ORDER + NOT_REDUCED)
@pytest.mark.parametrize("top", [0, HIGH_BIT])
def test_low_order_points_are_refused_in_every_form(value, top):
    public = (value + top).to_bytes(32, "little")
    with pytest.raises(primitives.LowOrderKey):
        primitives.check_public_key(public)
    with pytest.raises(primitives.LowOrderKey):
        agreed_with(PRIVATE, public)


@example(2 * P - 1)
@example(2 * P)
@example(2 * P + 1)
@given(st.integers(P, HIGH_BIT - 1) | st.integers(HIGH_BIT, 2**256 - 1))
def test_points_that_are_not_reduced_are_refused(value):
    with pytest.raises(primitives.LowOrderKey, match="not in reduced form"):
        primitives.check_public_key(value.to_bytes(32, "little"))


@given(st.integers(2, P - 2).filter(lambda value: value not in LOW_ORDER))
def test_every_other_point_agrees(value):
    public = value.to_bytes(32, "little")
    primitives.check_public_key(public)
    assert any(agreed_with(PRIVATE, public))


@given(st.binary(max_size=64).filter(lambda public: len(public) != 32))
def test_keys_of_another_size_are_refused(public):
    with pytest.raises(ValueError, match="32 bytes"):
        primitives.load_public_key(public)


# Sealing


def sealed_by(agreed, context, pair, shares=bytes(64)):
    one, other = pair
    return seal_shares(X25519.sealing(agreed, context, one, other), shares, context, ends(one, other))


@given(bytes32, bytes32, pairs, st.binary(min_size=64, max_size=64))
def test_sealed_shares_open_at_the_other_end(agreed, context, pair, shares):
    one, other = pair
    sealed = sealed_by(agreed, context, pair, shares)
    assert len(sealed) == SEALED_BYTES
    assert shares not in sealed
    there = X25519.sealing(agreed, context, other, one)
    assert unseal_shares(there, sealed, context, ends(one, other)) == shares


@given(bytes32, bytes32, bytes32, st.lists(client_ids, min_size=3, max_size=3, unique=True))
def test_sealed_shares_open_for_no_other_sender_recipient_or_context(agreed, context, context2, ids):
    assume(context != context2)
    one, other, third = ids
    sealed = sealed_by(agreed, context, (one, other))
    right = X25519.sealing(agreed, context, other, one)
    for key, where, sender, recipient in (
        (right, context2, one, other),
        (right, context, third, other),
        (right, context, one, third),
        (right, context, other, one),
        (X25519.sealing(agreed, context2, other, one), context, one, other),
        (X25519.sealing(agreed, context, third, one), context, one, other),
        (X25519.sealing(agreed, context, other, third), context, one, other),
        (X25519.sealing(agreed, context, one, other), context, one, other),
        (X25519.sealing(agreed, context, one, other), context, other, one),
    ):
        with pytest.raises(primitives.SealBroken):
            unseal_shares(key, sealed, where, ends(sender, recipient))


@given(bytes32, bytes32, pairs, st.integers(0, 4 * 32 * 8 - 1))
def test_sealed_shares_open_with_no_other_public_key_of_either_end(agreed, context, pair, bit):
    """Of the four keys none has another bit: what was advertised is what was received, or it is noticed."""
    one, other = pair
    sealed, right = sealed_by(agreed, context, pair), X25519.sealing(agreed, context, other, one)
    public = bytearray(ends(one, other).sender_keys + ends(one, other).recipient_keys)
    public[bit // 8] ^= 1 << bit % 8
    changed = ends(one, other, bytes(public[:64]), bytes(public[64:]))
    assert changed.commitment == ends(one, other).commitment
    with pytest.raises(primitives.SealBroken):
        unseal_shares(right, sealed, context, changed)


@given(bytes32, bytes32, pairs)
def test_the_keys_of_the_two_ends_do_not_change_places(agreed, context, pair):
    right, (one, other) = X25519.sealing(agreed, context, pair[1], pair[0]), pair
    swapped = ends(one, other, ends(one, other).recipient_keys, ends(one, other).sender_keys)
    with pytest.raises(primitives.SealBroken):
        unseal_shares(right, sealed_by(agreed, context, pair), context, swapped)


@given(bytes32, bytes32, pairs, st.integers(0, 8 * 32))
def test_sealed_shares_open_with_no_other_commitment_and_no_other_word_on_masks(agreed, context, pair, bit):
    right, (one, other) = X25519.sealing(agreed, context, pair[1], pair[0]), pair
    bound = ends(one, other)
    flipped = (int.from_bytes(bound.commitment, "little") ^ 1 << bit % 256).to_bytes(32, "little")
    changed = bound._replace(commitment=flipped) if bit < 256 else bound._replace(carries_masks=False)
    with pytest.raises(primitives.SealBroken):
        unseal_shares(right, sealed_by(agreed, context, pair), context, changed)


@given(bytes32, bytes32, pairs, st.integers(0, 8 * SEALED_BYTES - 1))
def test_a_sealed_text_with_one_bit_changed_does_not_open(agreed, context, pair, bit):
    one, other = pair
    broken = bytearray(sealed_by(agreed, context, pair))
    broken[bit // 8] ^= 1 << bit % 8
    with pytest.raises(primitives.SealBroken):
        unseal_shares(X25519.sealing(agreed, context, other, one), bytes(broken), context, ends(one, other))


@given(bytes32, bytes32, pairs, st.integers(0, SEALED_BYTES - 1))
def test_a_sealed_text_cut_short_does_not_open(agreed, context, pair, size):
    one, other = pair
    cut = sealed_by(agreed, context, pair)[:size]
    with pytest.raises(primitives.SealBroken):
        unseal_shares(X25519.sealing(agreed, context, other, one), cut, context, ends(one, other))


# Tags and digests of masked vectors

each_fingerprint = pytest.mark.parametrize("fingerprint", [keys.vector_tag, keys.vector_digest])


@given(st.binary(max_size=60), bytes32, client_ids)
def test_the_digest_of_a_vector_is_that_of_the_specification(vector, context, client):
    parts = (b"ccesa/2/16 masked vector", context, client.to_bytes(4, "little"), vector)
    framed = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    due = hashlib.sha256(framed).digest()
    for kind in (bytes, bytearray, memoryview):
        assert keys.vector_digest(kind(vector), context, client) == due


@each_fingerprint
@given(vector=st.binary(min_size=1, max_size=60), context=bytes32, client=client_ids, data=st.data())
def test_a_fingerprint_is_bound_to_every_bit_the_context_and_the_client(fingerprint, vector, context, client, data):
    bit = data.draw(st.integers(0, 8 * len(vector) - 1))
    other = bytearray(vector)
    other[bit // 8] ^= 1 << bit % 8
    found = {
        fingerprint(vector, context, client),
        fingerprint(bytes(other), context, client),
        fingerprint(vector + b"\0", context, client),
        fingerprint(vector, bytes([context[0] ^ 1]) + context[1:], client),
        fingerprint(vector, context, client ^ 1),
    }
    assert len(found) == 5


@given(st.binary(max_size=60), bytes32, client_ids)
def test_the_tag_of_a_vector_is_that_of_the_specification(vector, context, client):
    parts = (b"ccesa/2/16 masked vector", context, client.to_bytes(4, "little"))
    framed = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    due = AESGCM(hashlib.sha256(framed).digest()[:16]).encrypt(bytes(12), b"", vector)
    for kind in (bytes, bytearray, memoryview):
        assert keys.vector_tag(kind(vector), context, client) == due


def test_a_tag_is_the_same_whatever_the_pieces_are(monkeypatch):
    vector = bytes(range(256)) * 2
    due = keys.vector_tag(vector, bytes(32), 3)
    for piece in (1, 7, 16, 100, 511, 512, 513):
        monkeypatch.setattr(primitives, "_PIECE", piece)
        assert keys.vector_tag(vector, bytes(32), 3) == due


@each_fingerprint
def test_words_are_known_by_what_their_bytes_are(fingerprint):
    words = np.arange(9, dtype="<u4")
    assert fingerprint(words.data, bytes(32), 3) == fingerprint(words.tobytes(), bytes(32), 3)
