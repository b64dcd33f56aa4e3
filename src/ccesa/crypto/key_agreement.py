"""An agreement is how two clients come to common secrets. Each is one class, and nobody else asks which.

Two clients need secrets for two things: to seal shares for each other, and to mask with each other. Under
``x25519`` both rest on X25519 alone. Under ``x25519-mlkem768`` sealing rests on ML-KEM-768 besides, and masks
on *pair seeds* that travel in the sealed texts: they are hidden as long as one of the two stands.
"""

from typing import NamedTuple

from ccesa.crypto import keys, primitives
from ccesa.crypto.keys import Beside, Ends, Half
from ccesa.crypto.primitives import (
    CIPHERTEXT_BYTES,
    KEM_KEY_BYTES,
    KEM_SEED_BYTES,
    PUBLIC_KEY_BYTES,
    TAG_BYTES,
)
from ccesa.crypto.shamir import SHARE_BYTES
from ccesa.errors import ConfigError

_SHARES_BYTES = 2 * SHARE_BYTES


class Content(NamedTuple):
    """What one client seals for another: a pair of shares, and the seed for the masks of the two."""

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
    #: What a client seals for a neighbour.
    text_bytes = _SHARES_BYTES + TAG_BYTES
    #: The commitment to a pair seed, which is the end of what is sealed.
    commitment_bytes = 0
    #: The seed that a client was given, sealed for whoever rebuilds its secret.
    deposit_bytes = 0
    #: Of the private key of ML-KEM.
    kem_seed_bytes = 0
    #: Whether seeds have to be accepted before masks can rest on them.
    needs_accept = False

    def check_installed(self) -> None:
        """Refuse an agreement that the installed cryptographic library does not know."""

    def bundle(self, sealing_key: bytes, mask_key: bytes, kem_seed: bytes) -> bytes:
        """Return all public keys of a client, as they travel."""
        return sealing_key + mask_key

    def public_keys(self, bundle: bytes) -> tuple[bytes, ...]:
        """Return the public keys of a client: that of c_i, that of s_i, and what else there is."""
        return bundle[:PUBLIC_KEY_BYTES], bundle[PUBLIC_KEY_BYTES:]

    def check_keys(self, sealing_key: bytes, mask_key: bytes, *more: bytes) -> None:
        """Refuse public keys that no honest client can have; raises BadKey."""
        primitives.check_public_key(sealing_key)
        primitives.check_public_key(mask_key)

    # Many in one row, with nothing else in between, are measurably faster than one by one.

    def encapsulate_each(self, bundles: list[bytes]) -> list[Encapsulated]:
        """Make a secret for the owner of each bundle."""
        return [Encapsulated(b"", b"")] * len(bundles)

    def decapsulate_each(self, kem_seed: bytes, texts: list[bytes]) -> list[bytes]:
        """Return the secret with which each text was sealed for this client."""
        return [b""] * len(texts)

    def sealing(self, agreed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Return what a client keeps of an agreement by c_i: to seal for the other, and to open its text."""
        return keys.sealing(agreed, context, client, other)

    def seal(
        self, sealing: bytes, encapsulated: Encapsulated, content: Content, context: bytes, ends: Ends
    ) -> bytes:
        """Seal shares and a seed for a neighbour."""
        return keys.seal_shares(sealing, content.shares, context, ends)

    def unseal(
        self, sealing: bytes, decapsulated: bytes, sealed: bytes, context: bytes, ends: Ends
    ) -> Content:
        """Open what a neighbour sealed; raises SealBroken, also for a seed that is not the promised one."""
        return Content(keys.unseal_shares(sealing, sealed, context, ends), b"")

    def pair_seed(self, secret: bytes, context: bytes, client: int, other: int) -> bytes:
        """Derive the seed that a client gives another from the secret behind its s_i."""
        return b""

    def seed_commitment(self, seed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Return what binds a client to the seed that it gives another."""
        return b""

    def deposit(self, secret: bytes, seed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Seal the seed that a client was given by another for whoever rebuilds the client's secret."""
        return b""

    def withdraw(self, secret: bytes, deposit: bytes, context: bytes, client: int, other: int) -> bytes:
        """Return the seed behind a deposit; raises SealBroken."""
        return b""

    def pair_secret(self, agreed: bytes, context: bytes, one: Half, other: Half) -> bytes:
        """Return what the mask of two clients rests on, who have agreed by their s_i."""
        return agreed


class Hybrid(X25519):
    """Two clients agree by X25519 and ML-KEM-768: what they hide stays hidden unless both fall."""

    bundle_bytes = X25519.bundle_bytes + KEM_KEY_BYTES
    commitment_bytes = keys.COMMITMENT_BYTES
    text_bytes = CIPHERTEXT_BYTES + X25519.text_bytes + keys.SEED_BYTES + commitment_bytes
    deposit_bytes = keys.DEPOSIT_BYTES
    kem_seed_bytes = KEM_SEED_BYTES
    needs_accept = True

    def check_installed(self) -> None:
        """Refuse an agreement that the installed cryptographic library does not know."""
        if not primitives.has_kem():
            raise ConfigError(
                "the agreement x25519-mlkem768 needs ML-KEM, which cryptography has from version 48 on: "
                "pip install 'cryptography>=48' installs it; or use the agreement x25519"
            )

    def bundle(self, sealing_key: bytes, mask_key: bytes, kem_seed: bytes) -> bytes:
        """Return all public keys of a client, as they travel."""
        return sealing_key + mask_key + primitives.kem_public_key(primitives.kem_private_key(kem_seed))

    def public_keys(self, bundle: bytes) -> tuple[bytes, ...]:
        """Return the public keys of a client: that of c_i, that of s_i, that of ML-KEM."""
        both = 2 * PUBLIC_KEY_BYTES
        return bundle[:PUBLIC_KEY_BYTES], bundle[PUBLIC_KEY_BYTES:both], bundle[both:]

    def check_keys(self, sealing_key: bytes, mask_key: bytes, *more: bytes) -> None:
        """Refuse public keys that no honest client can have; raises BadKey."""
        super().check_keys(sealing_key, mask_key)
        for key in more:
            primitives.check_kem_key(key)

    def encapsulate_each(self, bundles: list[bytes]) -> list[Encapsulated]:
        """Make a secret for the owner of each bundle."""
        return [Encapsulated(*primitives.encapsulate(bundle[-KEM_KEY_BYTES:])) for bundle in bundles]

    def decapsulate_each(self, kem_seed: bytes, texts: list[bytes]) -> list[bytes]:
        """Return the secret with which each text was sealed; a random one if it was for another client."""
        private = primitives.kem_private_key(kem_seed)
        return [private.decapsulate(text[:CIPHERTEXT_BYTES]) for text in texts]

    def sealing(self, agreed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Return the agreed secret: each text has a key of its own, from a secret of ML-KEM besides."""
        return agreed

    def seal(
        self, sealing: bytes, encapsulated: Encapsulated, content: Content, context: bytes, ends: Ends
    ) -> bytes:
        """Seal shares and a seed, behind the ciphertext and before the commitment to the seed."""
        promised = self.seed_commitment(content.seed, context, ends.sender, ends.recipient)
        beside = Beside(encapsulated.ciphertext, promised)
        key = keys.hybrid_sealing(sealing, encapsulated.secret, context, ends, beside)
        return beside.ciphertext + keys.seal_once(key, content.shares + content.seed) + promised

    def unseal(
        self, sealing: bytes, decapsulated: bytes, sealed: bytes, context: bytes, ends: Ends
    ) -> Content:
        """Open what a neighbour sealed; raises SealBroken, also for a seed that is not the promised one."""
        ciphertext, text = sealed[:CIPHERTEXT_BYTES], sealed[CIPHERTEXT_BYTES : -self.commitment_bytes]
        promised = sealed[-self.commitment_bytes :]
        key = keys.hybrid_sealing(sealing, decapsulated, context, ends, Beside(ciphertext, promised))
        opened = keys.unseal_once(key, text)
        found = Content(opened[:_SHARES_BYTES], opened[_SHARES_BYTES:])
        if self.seed_commitment(found.seed, context, ends.sender, ends.recipient) != promised:
            raise primitives.SealBroken("a pair seed that is not the promised one")
        return found

    def pair_seed(self, secret: bytes, context: bytes, client: int, other: int) -> bytes:
        """Derive the seed that a client gives another from the secret behind its s_i."""
        return keys.pair_seed(secret, context, client, other)

    def seed_commitment(self, seed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Return what binds a client to the seed that it gives another."""
        return keys.seed_commitment(seed, context, client, other)

    def deposit(self, secret: bytes, seed: bytes, context: bytes, client: int, other: int) -> bytes:
        """Seal the seed that a client was given by another for whoever rebuilds the client's secret."""
        return keys.deposit(secret, seed, context, client, other)

    def withdraw(self, secret: bytes, deposit: bytes, context: bytes, client: int, other: int) -> bytes:
        """Return the seed behind a deposit; raises SealBroken."""
        return keys.withdraw(secret, deposit, context, client, other)

    def pair_secret(self, agreed: bytes, context: bytes, one: Half, other: Half) -> bytes:
        """Return what the mask of two clients rests on, who have agreed by their s_i."""
        return keys.pair_secret(agreed, context, one, other)


#: The one list of them: the names that configurations, charters and the command line take.
AGREEMENTS: dict[str, X25519] = {"x25519": X25519(), "x25519-mlkem768": Hybrid()}
DEFAULT, POST_QUANTUM = AGREEMENTS


def needs_accept(name: str) -> bool:
    """Tell whether rounds need the step *accept* for an agreement; what has no such name needs nothing."""
    return name in AGREEMENTS and AGREEMENTS[name].needs_accept
