"""The hybrid agreement a second time, from section 6.4 of docs/protocol.md; only the libraries are shared."""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from second import agreed, framed, hashed, hkdf, le4


class Refused(Exception):
    """What this implementation does not take."""


def decapsulated(seed, ciphertext):
    return MLKEM768PrivateKey.from_seed_bytes(seed).decapsulate(ciphertext)


def kem_public(seed):
    return MLKEM768PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw()


def check_kem_key(public):
    numbers = int.from_bytes(public[:1152], "little")
    if len(public) != 1184 or any(numbers >> 12 * k & 0xFFF >= 3329 for k in range(768)):
        raise Refused
    MLKEM768PublicKey.from_public_bytes(public)


def unsealed(key, text):
    try:
        return AESGCM(key[:16]).decrypt(key[16:], text, None)
    except InvalidTag as error:
        raise Refused from error


def opened(case):
    """Shares and seed of a sealed text."""
    ciphertext, text, promise = case["sealed"][:1088], case["sealed"][1088:1200], case["sealed"][1200:]
    pair = le4(case["sender"]), le4(case["recipient"])
    secrets = agreed(case["recipient_private"], case["sender_keys"][:32]) + decapsulated(
        case["recipient_kem_seed"], ciphertext
    )
    info = framed(
        b"ccesa/2/19 hybrid sealing",
        case["context"],
        *pair,
        case["sender_keys"],
        case["recipient_keys"],
        bytes([case["masked"]]),
        case["commitment"],
        ciphertext,
        promise,
    )
    content = unsealed(hkdf(secrets, info, 28), text)
    if hashed(b"ccesa/2/21 seed commitment", case["context"], *pair, content[64:]) != promise:
        raise Refused
    return content[:64], content[64:]


def pair_seed(secret, context, client, other):
    return hkdf(secret, framed(b"ccesa/2/20 pair seed", context, le4(client), le4(other)), 32)


def seed_commitment(seed, context, client, other):
    return hashed(b"ccesa/2/21 seed commitment", context, le4(client), le4(other), seed)


def withdrawn(secret, deposit, context, client, other):
    return unsealed(
        hkdf(secret, framed(b"ccesa/2/22 deposit", context, le4(client), le4(other)), 28), deposit
    )


def pair_secret(agreed_on, context, one, other):
    low, high = sorted((one, other), key=lambda half: half["client"])
    info = framed(
        b"ccesa/2/23 pair secret",
        context,
        le4(low["client"]),
        le4(high["client"]),
        low["mask_key"],
        high["mask_key"],
    )
    return hkdf(agreed_on + low["seed"] + high["seed"], info, 32)


def pair_mask_key(secret, context, one, other, size):
    ids = le4(min(one, other)), le4(max(one, other))
    return hkdf(secret, framed(b"ccesa/2/5 pair mask", context, *ids), size)
