"""hybrid.json: the agreement x25519-mlkem768, from ciphertexts that are fixed, and what must be refused."""

from typing import Any

from cases.ciphertexts import CIPHERTEXTS
from cases.common import Case, configurations, sample, secret
from ccesa.crypto import keys, primitives
from ccesa.crypto.agreements import AGREEMENTS, POST_QUANTUM
from ccesa.crypto.keys import Beside, Ends, Half

DESCRIPTION = (
    "The agreement x25519-mlkem768, section 6.4 of docs/protocol.md. decapsulation: the secret behind a "
    "ciphertext, also behind one that is for another key, which gives a secret that nobody else has. keys: "
    "all public keys of a client as they travel. sealed: open with recipient_private (of c), "
    "recipient_kem_seed and what stands beside. seeds: what follows from the secret behind s_i for another "
    "client, and the deposit that i leaves of the seed received. pairs: from an agreement by s_i and s_j and "
    "both seeds to the key of the mask. Cases under bad must be refused by the operation of their list."
)
_AGREEMENT = AGREEMENTS[POST_QUANTUM]
_CONTEXT = configurations()["harary"].context
_PAIRS = tuple(CIPHERTEXTS)


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "decapsulation": [_decapsulated(recipient, *pair) for *pair, recipient in _openings()],
        "keys": {
            "good": [{"client": client, "keys": _keys(client)} for client in (3, 7)],
            "bad": _bad_keys(),
        },
        "sealed": {"good": [_sealed(*pair) for pair in _PAIRS], "bad": _bad_texts()},
        "seeds": {"good": [_seeds(*pair) for pair in _PAIRS], "bad": _bad_deposits()},
        "pairs": [_pair(*pair) for pair in _PAIRS],
    }


def _openings() -> list[tuple[int, int, int]]:
    """Sender, recipient, and who tries to open: the recipient; at last somebody else."""
    return [(*pair, pair[1]) for pair in _PAIRS] + [(3, 7, 3)]


def _kem_seed(client: int) -> bytes:
    return sample(f"kem seed {client}", 64)


def _secret_behind(client: int, ciphertext: bytes) -> bytes:
    return _AGREEMENT.decapsulate_each(_kem_seed(client), [ciphertext])[0]


def _decapsulated(client: int, sender: int, recipient: int) -> Case:
    ciphertext, seed = CIPHERTEXTS[sender, recipient], _kem_seed(client)
    public = primitives.kem_public_key(primitives.kem_private_key(seed))
    return {
        "name": f"from {sender} for {recipient}, opened by {client}",
        "seed": seed,
        "public": public,
        "ciphertext": ciphertext,
        "secret": _secret_behind(client, ciphertext),
    }


def _private(client: int) -> bytes:
    return sample(f"sealing key {client}")


def _mask_secret(client: int) -> bytes:
    return secret(f"secret of s {client}")


def _mask_key(client: int) -> bytes:
    return primitives.public_key(keys.mask_private_key(_mask_secret(client), _CONTEXT, client))


def _keys(client: int) -> bytes:
    public = primitives.public_key(primitives.private_key(_private(client)))
    return _AGREEMENT.bundle(public, _mask_key(client), _kem_seed(client))


def _bad_keys() -> list[Case]:
    good = _keys(3)
    modulus = (3329).to_bytes(2, "little")
    bad = {
        "the first number is the modulus": good[:64]
        + modulus[:1]
        + bytes([modulus[1] | good[65] & 0xF0])
        + good[66:],
        "all bits of the numbers are set": good[:64] + b"\xff" * 1152 + good[-32:],
        "c of low order": bytes(32) + good[32:],
        "s not in reduced form": good[:32] + b"\xff" * 32 + good[64:],
    }
    errors = ["BadKey", "BadKey", "LowOrderKey", "LowOrderKey"]
    return [
        {"reason": reason, "keys": found, "error": error}
        for (reason, found), error in zip(bad.items(), errors, strict=True)
    ]


def _agreed(one: int, other: int) -> bytes:
    public = primitives.load_public_key(_keys(other)[:32])
    return primitives.agree(primitives.private_key(_private(one)), public)


def _shares(sender: int, recipient: int) -> bytes:
    return secret(f"b share {sender} to {recipient}") + secret(f"s share {sender} to {recipient}")


def _seed(client: int, other: int) -> bytes:
    return keys.pair_seed(_mask_secret(client), _CONTEXT, client, other)


def _text(sender: int, recipient: int, seed: bytes, promised: bytes, **others: Any) -> bytes:
    """Seal, with this seed inside and this promise beside the text."""
    ciphertext = CIPHERTEXTS[sender, recipient]
    ends = _ends(sender, recipient)._replace(**others)
    key = keys.hybrid_sealing(
        _agreed(sender, recipient),
        _secret_behind(recipient, ciphertext),
        _CONTEXT,
        ends,
        Beside(ciphertext, promised),
    )
    return ciphertext + keys.seal_once(key, _shares(sender, recipient) + seed) + promised


def _ends(sender: int, recipient: int) -> Ends:
    return Ends(sender, recipient, _keys(sender), _keys(recipient), True, sample(f"commitment {sender}"))


def _sealed(sender: int, recipient: int) -> Case:
    seed = _seed(sender, recipient)
    promised = keys.seed_commitment(seed, _CONTEXT, sender, recipient)
    return {
        "name": f"{sender} to {recipient}",
        "sender": sender,
        "recipient": recipient,
        "context": _CONTEXT,
        "sender_keys": _keys(sender),
        "recipient_keys": _keys(recipient),
        "masked": True,
        "commitment": sample(f"commitment {sender}"),
        "recipient_private": _private(recipient),
        "recipient_kem_seed": _kem_seed(recipient),
        "sealed": _text(sender, recipient, seed, promised),
        "shares": _shares(sender, recipient),
        "seed": seed,
    }


def _bad_texts() -> list[Case]:
    good, other = _sealed(3, 7), _sealed(7, 3)
    text, seed = good["sealed"], good["seed"]
    promised = text[-32:]
    changes: dict[str, Case] = {
        "the ciphertext is for another": {"sealed": other["sealed"][:1088] + text[1088:]},
        "a bit of the ciphertext": {"sealed": _flipped(text, 0)},
        "a bit of what is sealed": {"sealed": _flipped(text, 1088)},
        "a bit of the tag": {"sealed": _flipped(text, 1199)},
        "a bit of the commitment to the seed": {"sealed": _flipped(text, 1231)},
        "another seed than the promised one": {"sealed": _text(3, 7, sample("another seed"), promised)},
        "another promise than the seed": {"sealed": _text(3, 7, seed, sample("another promise"))},
        "a seed for another recipient": {
            "sealed": _text(3, 7, _seed(3, 8), keys.seed_commitment(_seed(3, 8), _CONTEXT, 3, 8))
        },
        "sealed for an edge without masks": {"sealed": _text(3, 7, seed, promised, carries_masks=False)},
        "another commitment to b": {"commitment": sample("another commitment")},
        "another key of c": {"recipient_private": sample("another key of c")},
        "another key of ML-KEM": {"recipient_kem_seed": sample("another kem seed", 64)},
        "another key of ML-KEM of the sender": {"sender_keys": good["sender_keys"][:64] + _keys(7)[64:]},
        "another context": {"context": sample("another context")},
        "returned to its sender": {
            **{name: other[name] for name in ("recipient_private", "recipient_kem_seed")},
            "sender": 7,
            "recipient": 3,
            "sender_keys": good["recipient_keys"],
            "recipient_keys": good["sender_keys"],
        },
    }
    kept = {name: value for name, value in good.items() if name not in ("name", "shares", "seed")}
    return [{"reason": reason, **kept, **change, "error": "SealBroken"} for reason, change in changes.items()]


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def _seeds(client: int, other: int) -> Case:
    secret_of_s, seed, received = _mask_secret(client), _seed(client, other), _seed(other, client)
    return {
        "name": f"{client} and {other}",
        "secret": secret_of_s,
        "context": _CONTEXT,
        "client": client,
        "other": other,
        "seed": seed,
        "commitment": keys.seed_commitment(seed, _CONTEXT, client, other),
        "received": received,
        "deposit": keys.deposit(secret_of_s, received, _CONTEXT, client, other),
    }


def _bad_deposits() -> list[Case]:
    good = _seeds(3, 7)
    kept = {name: good[name] for name in ("secret", "context", "client", "other", "deposit")}
    private = primitives.private_bytes(keys.mask_private_key(good["secret"], _CONTEXT, 3))
    changes: dict[str, Case] = {
        "zeros": {"deposit": bytes(48)},
        "a bit of it": {"deposit": _flipped(good["deposit"], 0)},
        "under the private key of s": {"deposit": keys.deposit(private, good["received"], _CONTEXT, 3, 7)},
        "of another secret": {"secret": secret("another secret")},
        "for another client": {"other": 8},
        "of the other direction": {"client": 7, "other": 3},
        "of another round": {"context": sample("another context")},
    }
    return [{"reason": reason, **kept, **change, "error": "SealBroken"} for reason, change in changes.items()]


def _pair(one: int, other: int) -> Case:
    private = keys.mask_private_key(_mask_secret(one), _CONTEXT, one)
    agreed = primitives.agree(private, primitives.load_public_key(_mask_key(other)))
    halves = Half(one, _mask_key(one), _seed(one, other)), Half(other, _mask_key(other), _seed(other, one))
    found = keys.pair_secret(agreed, _CONTEXT, *halves)
    return {
        "name": f"{one} and {other}",
        "context": _CONTEXT,
        "agreed": agreed,
        "one": halves[0]._asdict(),
        "other": halves[1]._asdict(),
        "secret": found,
        "mask_keys": {
            generator: keys.pair_mask_key(found, _CONTEXT, one, other, generator)
            for generator in ("aes128-ctr", "chacha20")
        },
    }
