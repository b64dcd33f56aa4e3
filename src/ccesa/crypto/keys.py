"""Derive keys from secrets, each with its own label and bound to the round's context.

Two clients need secrets to seal shares for each other, and to mask with each other. Under ``x25519`` both rest on
X25519 alone. Under ``x25519-mlkem768`` sealing rests on ML-KEM-768 as well, and masks on *pair seeds* that travel in
the sealed texts: they stay hidden if one of the two is broken.
"""

import hashlib
from typing import NamedTuple

from ccesa import labels
from ccesa.crypto import primitives
from ccesa.crypto.primitives import CIPHERTEXT_BYTES, KEM_KEY_BYTES, KEM_SEED_BYTES, PUBLIC_KEY_BYTES, TAG_BYTES
from ccesa.crypto.shamir import SHARE_BYTES
from ccesa.errors import ConfigError
from ccesa.wire import Data

COMMITMENT_BYTES = DIGEST_BYTES = SEED_BYTES = 32
_KEY = 16
#: A key that seals exactly one text, and its nonce, which is never sent.
ONE_TIME_BYTES = _KEY + 12


def mask_private_key(secret: bytes, context: bytes, client: int) -> primitives.PrivateKey:
    """Derive the key pair s_i from the secret that is dealt, so that a rebuilt one can be checked."""
    info = labels.client_frame(labels.MASK_KEY_PAIR, context, client)
    return primitives.private_key(primitives.derive(secret, info, 32))


def self_mask_key(secret: bytes, context: bytes, client: int, generator: str) -> bytes:
    info = labels.client_frame(labels.SELF_MASK, context, client)
    return primitives.derive(secret, info, primitives.GENERATORS[generator].key_bytes)


def commitment(secret: bytes, context: bytes, client: int) -> bytes:
    """Bind a client to its b_i without showing it: b_i has 256 bits of entropy."""
    head = labels.client_frame(labels.COMMITMENT, context, client)
    return hashlib.sha256(head + labels.frame(secret)).digest()


def pair_mask_key(agreed: bytes, context: bytes, one: int, other: int, generator: str) -> bytes:
    info = labels.pair_frame(labels.PAIR_MASK, context, min(one, other), max(one, other))
    return primitives.derive(agreed, info, primitives.GENERATORS[generator].key_bytes)


def pair_sign(client: int, neighbour: int) -> int:
    """Return the sign with which ``client`` applies the mask."""
    return 1 if client < neighbour else -1


class Ends(NamedTuple):
    """Names who seals for whom, the public keys of both, whether masks run between them, and a promise.

    All of it is bound to the text, so a change on the way to one of the two is noticed before a vector is masked.
    """

    sender: int
    recipient: int
    sender_keys: bytes
    recipient_keys: bytes
    carries_masks: bool
    #: The sender's, to its b_i.
    commitment: bytes

    def frame(self, label: bytes, context: bytes, *more: bytes) -> bytes:
        head, masks = labels.pair_frame(label, context, self.sender, self.recipient), bytes([self.carries_masks])
        return head + labels.frame(self.sender_keys, self.recipient_keys, masks, self.commitment, *more)


def seal_once(one_time: bytes, text: bytes, associated: bytes = b"") -> bytes:
    """Seal the only text of a key and its nonce."""
    return primitives.seal(one_time[:_KEY], one_time[_KEY:], text, associated)


def unseal_once(one_time: bytes, sealed: bytes, associated: bytes = b"") -> bytes:
    """Open the only text of a key and its nonce; raises SealBroken."""
    return primitives.unseal(one_time[:_KEY], one_time[_KEY:], sealed, associated)


class Half(NamedTuple):
    """One end of a mask: a client, the public half of its s_i, and the seed that it gave the other end."""

    client: int
    mask_key: bytes
    seed: bytes

    def __repr__(self) -> str:
        return f"Half({self.client})"


def vector_tag(vector: Data, context: bytes, client: int) -> bytes:
    """Return the tag of a masked vector: by it an accident on the way is noticed.

    The key is public, so the tag is a checksum, and proves nothing to anybody.
    """
    head = labels.client_frame(labels.MASKED_VECTOR, context, client)
    return primitives.gmac(hashlib.sha256(head).digest()[:_KEY], memoryview(vector).cast("B"))


def vector_digest(vector: Data, context: bytes, client: int) -> bytes:
    """Return the digest of a masked vector, by which any change on the way is noticed."""
    return labels.digest(labels.MASKED_VECTOR, context, labels.client_bytes(client), memoryview(vector).cast("B"))


_SHARES_BYTES = 2 * SHARE_BYTES


class Content(NamedTuple):
    """The contents of a sealed text: a pair of shares, and the seed for the masks of the two clients."""

    shares: bytes
    seed: bytes

    def __repr__(self) -> str:
        return "Content(...)"


class Encapsulated(NamedTuple):
    """A fresh secret, and the ciphertext from which one client gets it."""

    secret: bytes
    ciphertext: bytes

    def __repr__(self) -> str:
        return "Encapsulated(...)"


class X25519:
    """Two clients agree by X25519 alone. There are no pair seeds: wherever one is asked for, it is empty."""

    #: All public keys of a client, as they travel: that of c_i, that of s_i, that of ML-KEM.
    bundle_bytes = 2 * PUBLIC_KEY_BYTES
    #: A sealed text for a neighbour.
    text_bytes = _SHARES_BYTES + TAG_BYTES
    #: The commitment to a pair seed, at the end of a sealed text.
    commitment_bytes = 0
    #: The seed that a client was given, sealed for a server that rebuilds the client's secret.
    deposit_bytes = 0
    #: Bytes of the seed of a private key of ML-KEM.
    kem_seed_bytes = 0
    #: The public keys of a helper, as they travel.
    helper_bytes = PUBLIC_KEY_BYTES
    #: The ciphertext of ML-KEM with which a member masks with one helper, and its digest.
    ciphertext_bytes = ciphertext_digest_bytes = 0
    #: Whether seeds have to be accepted before masks can rest on them.
    needs_accept = False

    def check_installed(self) -> None:
        """Refuse an agreement that the installed cryptographic library does not know."""

    def bundle(self, sealing_key: bytes, mask_key: bytes, kem_seed: bytes) -> bytes:
        return sealing_key + mask_key

    def public_keys(self, bundle: bytes) -> tuple[bytes, ...]:
        """Return the public keys of a client: that of c_i, that of s_i, and what else there is."""
        return bundle[:PUBLIC_KEY_BYTES], bundle[PUBLIC_KEY_BYTES:]

    def check_helper_keys(self, bundle: bytes) -> None:
        """Refuse public keys that no honest helper can have; raises BadKey."""
        primitives.check_public_key(bundle[:PUBLIC_KEY_BYTES])

    def check_keys(self, sealing_key: bytes, mask_key: bytes, *more: bytes) -> None:
        """Refuse public keys that no honest client can have; raises BadKey."""
        primitives.check_public_key(sealing_key)
        primitives.check_public_key(mask_key)

    # Many in one row, with nothing else in between, are measurably faster than one by one.

    def encapsulate_each(self, bundles: list[bytes]) -> list[Encapsulated]:
        return [Encapsulated(b"", b"")] * len(bundles)

    def decapsulate_each(self, kem_seed: bytes, texts: list[bytes]) -> list[bytes]:
        """Return the secret with which each text was sealed; a random one if it was for another client."""
        return [b""] * len(texts)

    def sealing(self, agreed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Derive the one-time keys to another client, and from it, of an agreement by c_i."""
        info = labels.pair_frame(labels.SEALING, context, min(client, other), max(client, other))
        both = primitives.derive(agreed, info, 2 * ONE_TIME_BYTES)  # from the smaller id; from the larger
        return both if client < other else both[ONE_TIME_BYTES:] + both[:ONE_TIME_BYTES]

    def seal(self, sealing: bytes, encapsulated: Encapsulated, content: Content, context: bytes, ends: Ends) -> bytes:
        return seal_once(sealing[:ONE_TIME_BYTES], content.shares, ends.frame(labels.SEALED, context))

    def unseal(self, sealing: bytes, decapsulated: bytes, sealed: bytes, context: bytes, ends: Ends) -> Content:
        """Open the text of a neighbour; raises SealBroken, also for a seed that is not the promised one."""
        return Content(unseal_once(sealing[ONE_TIME_BYTES:], sealed, ends.frame(labels.SEALED, context)), b"")

    def pair_seed(self, secret: bytes, context: bytes, client: int, other: int) -> bytes:
        """Derive the seed that a client gives another from the secret behind its s_i."""
        return b""

    def seed_commitment(self, seed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Return a commitment to the seed that a client gives another."""
        return b""

    def deposit(self, secret: bytes, seed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Seal the seed that a client was given by another for a server that rebuilds the client's secret."""
        return b""

    def withdraw(self, secret: bytes, deposit: bytes, context: bytes, client: int, other: int) -> bytes:
        """Return the seed behind a deposit; raises SealBroken."""
        return b""

    def pair_secret(self, agreed: bytes, context: bytes, one: Half, other: Half) -> bytes:
        """Return the secret under the mask of two clients that agreed by their s_i."""
        return agreed


class Hybrid(X25519):
    """Two clients agree by X25519 and ML-KEM-768: their secrets stay hidden unless both are broken."""

    bundle_bytes = X25519.bundle_bytes + KEM_KEY_BYTES
    commitment_bytes = COMMITMENT_BYTES
    text_bytes = CIPHERTEXT_BYTES + X25519.text_bytes + SEED_BYTES + commitment_bytes
    deposit_bytes = SEED_BYTES + TAG_BYTES
    kem_seed_bytes = KEM_SEED_BYTES
    helper_bytes = X25519.helper_bytes + KEM_KEY_BYTES
    ciphertext_bytes, ciphertext_digest_bytes = CIPHERTEXT_BYTES, DIGEST_BYTES
    needs_accept = True

    def check_installed(self) -> None:
        if not primitives.has_kem():
            raise ConfigError(
                "the agreement x25519-mlkem768 needs ML-KEM, which cryptography has since version 48: "
                "run pip install 'cryptography>=48', or use the agreement x25519"
            )

    def bundle(self, sealing_key: bytes, mask_key: bytes, kem_seed: bytes) -> bytes:
        return sealing_key + mask_key + primitives.public_key(primitives.kem_private_key(kem_seed))

    def public_keys(self, bundle: bytes) -> tuple[bytes, ...]:
        both = 2 * PUBLIC_KEY_BYTES
        return bundle[:PUBLIC_KEY_BYTES], bundle[PUBLIC_KEY_BYTES:both], bundle[both:]

    def check_helper_keys(self, bundle: bytes) -> None:
        super().check_helper_keys(bundle)
        primitives.load_kem_key(bundle[PUBLIC_KEY_BYTES:])

    def check_keys(self, sealing_key: bytes, mask_key: bytes, *more: bytes) -> None:
        super().check_keys(sealing_key, mask_key)
        for key in more:
            primitives.load_kem_key(key)

    def encapsulate_each(self, bundles: list[bytes]) -> list[Encapsulated]:
        return [Encapsulated(*primitives.encapsulate(bundle[-KEM_KEY_BYTES:])) for bundle in bundles]

    def decapsulate_each(self, kem_seed: bytes, texts: list[bytes]) -> list[bytes]:
        private = primitives.kem_private_key(kem_seed)
        return [private.decapsulate(text[:CIPHERTEXT_BYTES]) for text in texts]

    def sealing(self, agreed: bytes, context: bytes, client: int, other: int) -> bytes:
        return agreed  # each text has a key of its own, from a secret of ML-KEM besides

    def text_key(self, agreed: bytes, encapsulated: bytes, context: bytes, ends: Ends, *beside: bytes) -> bytes:
        """Derive key and nonce of one text from both secrets. All that is bound to the text enters here."""
        info = ends.frame(labels.HYBRID_SEALING, context, *beside)
        return primitives.derive(agreed + encapsulated, info, ONE_TIME_BYTES)

    def seal(self, sealing: bytes, encapsulated: Encapsulated, content: Content, context: bytes, ends: Ends) -> bytes:
        ciphertext = encapsulated.ciphertext
        promised = self.seed_commitment(content.seed, context, ends.sender, ends.recipient)
        key = self.text_key(sealing, encapsulated.secret, context, ends, ciphertext, promised)
        return ciphertext + seal_once(key, content.shares + content.seed) + promised

    def unseal(self, sealing: bytes, decapsulated: bytes, sealed: bytes, context: bytes, ends: Ends) -> Content:
        ciphertext, text = sealed[:CIPHERTEXT_BYTES], sealed[CIPHERTEXT_BYTES : -self.commitment_bytes]
        promised = sealed[-self.commitment_bytes :]
        opened = unseal_once(self.text_key(sealing, decapsulated, context, ends, ciphertext, promised), text)
        content = Content(opened[:_SHARES_BYTES], opened[_SHARES_BYTES:])
        if self.seed_commitment(content.seed, context, ends.sender, ends.recipient) != promised:
            raise primitives.SealBroken("a pair seed that is not the promised one")
        return content

    def pair_seed(self, secret: bytes, context: bytes, client: int, other: int) -> bytes:
        return primitives.derive(secret, labels.pair_frame(labels.PAIR_SEED, context, client, other), SEED_BYTES)

    def seed_commitment(self, seed: bytes, context: bytes, client: int, other: int) -> bytes:
        head = labels.pair_frame(labels.SEED_COMMITMENT, context, client, other)
        return hashlib.sha256(head + labels.frame(seed)).digest()

    def deposit(self, secret: bytes, seed: bytes, context: bytes, client: int, other: int) -> bytes:
        return seal_once(self._deposit_key(secret, context, client, other), seed)

    def withdraw(self, secret: bytes, deposit: bytes, context: bytes, client: int, other: int) -> bytes:
        return unseal_once(self._deposit_key(secret, context, client, other), deposit)

    def _deposit_key(self, secret: bytes, context: bytes, client: int, other: int) -> bytes:
        """Derive from the secret itself, never from the key of X25519 that comes from it, which may be broken."""
        info = labels.pair_frame(labels.DEPOSIT, context, client, other)
        return primitives.derive(secret, info, ONE_TIME_BYTES)

    def pair_secret(self, agreed: bytes, context: bytes, one: Half, other: Half) -> bytes:
        low, high = sorted((one, other))  # by id
        head = labels.pair_frame(labels.PAIR_SECRET, context, low.client, high.client)
        info = head + labels.frame(low.mask_key, high.mask_key)
        return primitives.derive(agreed + low.seed + high.seed, info, SEED_BYTES)


#: The one list of them: the names that configurations, charters and the command line take.
AGREEMENTS: dict[str, X25519] = {"x25519": X25519(), "x25519-mlkem768": Hybrid()}
DEFAULT, POST_QUANTUM = AGREEMENTS


def needs_accept(name: str) -> bool:
    """Tell whether rounds need the step *accept* for an agreement; an unknown name needs nothing."""
    return name in AGREEMENTS and AGREEMENTS[name].needs_accept
