"""The second implementation, the agreement x25519-mlkem768, from docs/protocol.md, 6.3 and 6.4.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

from contextlib import suppress

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from second import LABELS, agreed, framed, hashed, hkdf, le4
from second_messages import unsealed
from second_refusals import named, refuse

with suppress(ImportError):  # an older library does for everything else
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey

HYBRID = "x25519-mlkem768"


def kem_public(seed):
    return MLKEM768PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw()


def encapsulated(public):
    """A fresh secret, and the ciphertext in which it travels."""
    return MLKEM768PublicKey.from_public_bytes(public).encapsulate()


def decapsulated(seed, ciphertext):
    return MLKEM768PrivateKey.from_seed_bytes(seed).decapsulate(ciphertext)


def check_kem_key(key):
    try:
        MLKEM768PublicKey.from_public_bytes(key)
    except ValueError:
        refuse("K2.1", "BadKey")


def pair_seed(secret, context, giver, receiver):
    return hkdf(secret, framed(LABELS["pair seed"], context, le4(giver), le4(receiver)), 32)


def promise_of(seed, context, giver, receiver):
    return hashed(LABELS["seed commitment"], context, le4(giver), le4(receiver), seed)


def one_time(common, encapsulated, context, ends, ciphertext, promise):
    """Key and nonce for one text, from all that is bound to it."""
    sender, recipient, *both, masked, commitment = ends
    bound = le4(sender), le4(recipient), *both, bytes([masked]), commitment, ciphertext, promise
    return hkdf(common + encapsulated, framed(LABELS["hybrid sealing"], context, *bound), 28)


def sealed(private, context, ends, row, seed):
    """For a neighbour; ``ends`` as in 6.1."""
    sender, recipient, _, recipient_keys, *_ = ends
    secret, ciphertext = encapsulated(recipient_keys[64:])
    promise = promise_of(seed, context, sender, recipient)
    common = agreed(private, recipient_keys[:32])
    key = one_time(common, secret, context, ends, ciphertext, promise)
    return ciphertext + AESGCM(key[:16]).encrypt(key[16:], row + seed, b"") + promise


def opened(private, kem_seed, context, ends, text):
    """Row of shares and seed."""
    sender, recipient, sender_keys, *_ = ends
    ciphertext, promise = text[:1088], text[-32:]
    common, secret = agreed(private, sender_keys[:32]), decapsulated(kem_seed, ciphertext)
    key = one_time(common, secret, context, ends, ciphertext, promise)
    with named("T2.1"):
        found = unsealed(key, text[1088:-32], b"")
    if promise_of(found[64:], context, sender, recipient) != promise:
        refuse("T2.2", "SealBroken")
    return found[:64], found[64:]


def deposit(secret, seed, context, client, other):
    key = hkdf(secret, framed(LABELS["deposit"], context, le4(client), le4(other)), 28)
    return AESGCM(key[:16]).encrypt(key[16:], seed, b"")


def pair_secret(common, context, ends):
    """``ends``: id, mask key and given seed of both."""
    (low, low_key, low_seed), (high, high_key, high_seed) = sorted(ends)
    info = framed(LABELS["pair secret"], context, le4(low), le4(high), low_key, high_key)
    return hkdf(common + low_seed + high_seed, info, 32)
