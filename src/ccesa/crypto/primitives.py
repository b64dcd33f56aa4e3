"""This is the only file that calls cryptographic libraries. Verification raises: it never returns a bool."""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

if TYPE_CHECKING:  # older versions of the library, without it, do for everything else
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey

PUBLIC_KEY_BYTES = 32
TAG_BYTES = 16
SIGNATURE_BYTES = 64
#: Of ML-KEM-768, FIPS 203: a private key is kept as the seed (d, z) that it was made from.
KEM_SEED_BYTES = 64
KEM_KEY_BYTES = 1184
CIPHERTEXT_BYTES = 1088

_P = 2**255 - 19
#: The u-coordinates of order 1, 2, 4 and 8 on curve25519 and its twist, whose shared secret is zero. RFC 7748, 6.1.
_U8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
_LOW_ORDER = {u.to_bytes(32, "little") for u in (0, 1, _P - 1, *_U8)}

#: The y-coordinates of order 1, 2, 4 and 8 (y and -y) on edwards25519. RFC 8032, section 5.1.
_Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_LOW_ORDER_Y = {0, 1, _P - 1, _Y8, _P - _Y8}
#: Their encodings with either sign of x, also those that are not reduced.
_SMALL_ORDER = {(y + sign).to_bytes(32, "little") for y in (*_LOW_ORDER_Y, _P, _P + 1) for sign in (0, 1 << 255)}

#: A key with a part of order 8, and signatures on an empty text. The first fits; the second only if both sides of
#: the equation are multiplied by eight. The third is the first, with an S that is not reduced.
_DISPUTED_KEY = bytes.fromhex("4c027d3afcfcd0532a9728ae3d0335e18fc629093bf2103ee5d523d639070aaa")
_DISPUTED = [
    bytes.fromhex(
        "a74ac4ebacc479e5255cfb4a9035f39e7aa44f3b427aed840d3405c1f60d6d3c"
        "d88d007f3361d491e912b3e460c85f6a536d44b6c0b05ce5ff5bcacc9437db0e"
    ),
    bytes.fromhex(
        "17a63968c231e6dd36572507e398f8c594543cec3342721f537c7f5088854e64"
        "3a6baf9ff245ef964c3c83bfab7109ba05f5700e45cb25d76a77a0cd855f8209"
    ),
    bytes.fromhex(
        "a74ac4ebacc479e5255cfb4a9035f39e7aa44f3b427aed840d3405c1f60d6d3c"
        "c561f6db4dc4e6e9bfafaa873fc23e7f536d44b6c0b05ce5ff5bcacc9437db1e"
    ),
]
#: A private key, a public one and their secret. RFC 7748, section 5.2, the first vector.
_AGREED = (
    bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
    bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"),
    bytes.fromhex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"),
)


class BadKey(ValueError):
    """The public key is not one that an honest client can have."""


class LowOrderKey(BadKey):
    """The public key has low order, or is not in reduced form."""


class BadSignature(ValueError):
    """The signature was not made with this key on this text."""


class SealBroken(ValueError):
    """The sealed text was not made with this key, nonce and associated data."""


PrivateKey = X25519PrivateKey
PublicKey = X25519PublicKey
SigningKey = Ed25519PrivateKey
#: Takes a public key, a signature and a text; raises BadSignature.
Verifier = Callable[[bytes, bytes, bytes], None]
_SHA256 = hashes.SHA256()
_PIECE = 2**30


#: Keys from their bytes.
private_key, load_public_key = X25519PrivateKey.from_private_bytes, X25519PublicKey.from_public_bytes
signing_key = Ed25519PrivateKey.from_private_bytes


def private_bytes(private: PrivateKey) -> bytes:
    return private.private_bytes_raw()


def public_key(private: "PrivateKey | SigningKey | MLKEM768PrivateKey") -> bytes:
    return private.public_key().public_bytes_raw()


def check_public_key(public: bytes) -> None:
    """Refuse keys that an honest client cannot have; costs nothing next to an agreement."""
    reduced = public[-1] < 0x7F or int.from_bytes(public, "little") < _P
    if not reduced or public in _LOW_ORDER:
        raise LowOrderKey("a public key of low order or not in reduced form")


def agree(private: PrivateKey, public: PublicKey) -> bytes:
    """Agree on a secret by X25519; the library itself raises on one that is all zeros."""
    try:
        return private.exchange(public)
    except ValueError as error:
        raise LowOrderKey(str(error)) from error


def agree_each(private: PrivateKey, public: Sequence[bytes]) -> list[bytes]:
    """Agree with all of them in one row; libsodium, if installed, frees the interpreter's lock."""
    if agrees_without_lock():
        return agree_by_sodium(private_bytes(private), public)
    loaded = [load_public_key(key) for key in public]
    return [agree(private, key) for key in loaded]


def agree_by_sodium(private: bytes, public: Sequence[bytes]) -> list[bytes]:
    """Agree with all of them by libsodium; ImportError without PyNaCl."""
    from nacl.bindings import crypto_scalarmult
    from nacl.exceptions import RuntimeError as Refused

    if any(len(key) != PUBLIC_KEY_BYTES for key in (private, *public)):
        raise BadKey("a key of X25519 has 32 bytes")  # PyNaCl would read beyond the end of a shorter one
    try:
        return [crypto_scalarmult(private, key) for key in public]
    except Refused as error:
        raise LowOrderKey("an agreement whose secret is all zeros") from error


@cache
def agrees_without_lock() -> bool:
    """Tell whether libsodium is installed, gives the secret of RFC 7748, and refuses a point of low order."""
    private, public, secret = _AGREED
    try:
        if agree_by_sodium(private, [public]) != [secret]:
            return False
        agree_by_sodium(private, [bytes(PUBLIC_KEY_BYTES)])
    except ImportError:
        return False
    except LowOrderKey:
        return True
    return False


@cache
def has_kem() -> bool:
    """Tell whether the installed library has ML-KEM: it is new enough, and was built with it."""
    try:
        kem_private_key(bytes(KEM_SEED_BYTES))
    except (ImportError, UnsupportedAlgorithm):
        return False
    return True


def kem_private_key(seed: bytes) -> "MLKEM768PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey

    return MLKEM768PrivateKey.from_seed_bytes(seed)


@lru_cache(maxsize=256)  # a key that was checked is used next
def load_kem_key(public: bytes) -> "MLKEM768PublicKey":
    """Load a public key, or raise BadKey; the library checks that its numbers are below the modulus."""
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey

    try:
        return MLKEM768PublicKey.from_public_bytes(public)
    except ValueError as error:
        raise BadKey("not a valid ML-KEM-768 public key") from error


def encapsulate(public: bytes) -> tuple[bytes, bytes]:
    """Return a fresh secret and the ciphertext that hides it; the library itself draws the randomness."""
    return load_kem_key(public).encapsulate()


def check_verifying_key(public: bytes) -> None:
    """Refuse keys under which a signature can be made without a private key: low order, or not reduced."""
    y = int.from_bytes(public, "little") & (2**255 - 1)  # the highest bit is the sign of x
    if y >= _P or y in _LOW_ORDER_Y:
        raise LowOrderKey("an identity key of low order or not in reduced form")


def sign(private: SigningKey, text: bytes) -> bytes:
    return private.sign(text)


def verify(public: bytes, signature: bytes, text: bytes) -> None:
    """Verify an Ed25519 signature, or raise BadSignature; the library refuses an S that is not reduced.

    An R of small order is refused as by browsers: a client that signs in this way must not divide the others.
    """
    if signature[:32] in _SMALL_ORDER:
        raise BadSignature("a signature that does not verify: its R is of small order")
    if len(signature) != SIGNATURE_BYTES:
        raise BadSignature(f"a signature of {len(signature)} bytes")
    verifier()(public, signature, text)


def verify_by_openssl(public: bytes, signature: bytes, text: bytes) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except InvalidSignature as error:
        raise BadSignature("a signature that does not verify") from error


def verify_by_sodium(public: bytes, signature: bytes, text: bytes) -> None:
    """Verify with libsodium, or raise BadSignature; ImportError without PyNaCl."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    try:
        VerifyKey(public).verify(text, signature)
    except BadSignatureError as error:
        raise BadSignature("a signature that does not verify") from error


@cache
def verifier() -> Verifier:
    """Return libsodium's verification, twice as fast, if it is installed and accepts the same signatures.

    Releases up to 1.0.22 do; its development branch multiplies by eight, which would let a client divide the others.
    """
    try:
        return verify_by_sodium if accepts_the_same(verify_by_sodium) else verify_by_openssl
    except ImportError:
        return verify_by_openssl


def accepts_the_same(other: Verifier) -> bool:
    """Tell whether a verifier decides like OpenSSL in cases in which verifiers are known to differ."""
    return [_accepts(other, one) for one in _DISPUTED] == [True, False, False]


def _accepts(verifier: Verifier, signature: bytes) -> bool:
    try:
        verifier(_DISPUTED_KEY, signature, b"")
    except BadSignature:
        return False
    return True


def derive(secret: bytes, info: bytes, length: int) -> bytes:
    """Derive by HKDF-SHA256 without salt: secrets are uniform or from X25519, ``info`` separates uses."""
    return HKDF(_SHA256, length, None, info).derive(secret)


def seal(key: bytes, nonce: bytes, text: bytes, associated: bytes) -> bytes:
    """Encrypt with AES-128-GCM; a 16-byte tag follows the text."""
    return AESGCM(key).encrypt(nonce, text, associated)


def unseal(key: bytes, nonce: bytes, sealed: bytes, associated: bytes) -> bytes:
    """Decrypt the result of ``seal``; raises SealBroken."""
    try:
        return AESGCM(key).decrypt(nonce, sealed, associated)
    except InvalidTag as error:
        raise SealBroken("a sealed text that does not open") from error


def gmac(key: bytes, data: memoryview) -> bytes:
    """Return the tag of AES-128-GCM on an empty text, with this data beside it and a nonce of zeros."""
    if data.nbytes <= _PIECE:
        return AESGCM(key).encrypt(bytes(12), b"", data)
    tagging = Cipher(algorithms.AES128(key), modes.GCM(bytes(12))).encryptor()
    for start in range(0, data.nbytes, _PIECE):  # one call takes less than 2^31 bytes
        tagging.authenticate_additional_data(data[start : start + _PIECE])
    tagging.finalize()
    return tagging.tag


class Stream(Protocol):
    """A stream is read by encrypting zeros."""

    def update_into(self, data: bytes | memoryview, buf: memoryview) -> int: ...


def aes128_ctr(key: bytes, block: int) -> Stream:
    """Open the AES-128-CTR keystream from its 16-byte block number ``block`` on."""
    return Cipher(algorithms.AES128(key), _counter(block)).encryptor()


@lru_cache(maxsize=64)
def _counter(block: int) -> modes.CTR:
    return modes.CTR(block.to_bytes(16, "big"))


def chacha20(key: bytes, block: int) -> Stream:
    """Open the ChaCha20 keystream (RFC 8439, zero nonce) from its 64-byte block number ``block`` on."""
    return Cipher(algorithms.ChaCha20(key, block.to_bytes(4, "little") + bytes(12)), None).encryptor()


def aes128_blocks(key: bytes, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the first word of AES-128 of each block (one, other): a keyed function of pairs, for graphs."""
    cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # noqa: S305 - a PRF on distinct blocks
    blocks = np.empty((one.size, 2), "<u8")
    blocks[:, 0], blocks[:, 1] = one, other
    return np.frombuffer(cipher.update(blocks.view(np.uint8).ravel().data), "<u8")[::2]


class Generator(NamedTuple):
    """A generator has keys and blocks of fixed sizes, and opens its keystream at any block."""

    key_bytes: int
    block_bytes: int
    stream: Callable[[bytes, int], Stream]


#: By the names that configurations, charters and the command line take.
GENERATORS = {"aes128-ctr": Generator(16, 16, aes128_ctr), "chacha20": Generator(32, 64, chacha20)}

#: A multiple of this is a whole number of blocks of every generator, and of words of every size.
ALIGNMENT = math.lcm(*(kind.block_bytes for kind in GENERATORS.values()))
