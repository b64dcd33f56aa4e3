"""hybrid.json, hybrid_round.json and hybrid_active_round.json: the agreement x25519-mlkem768."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from cases import active_rounds, rounds
from cases.active_rounds import plan_of
from cases.common import STREAM, Case, Stream, configurations, sample, secret
from cases.encapsulation import encapsulate
from cases.parties import Party, changed, flipped
from cases.refused_curious import from_round
from cases.rounds import Plan
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import keys, primitives
from ccesa.crypto.keys import Content, Hybrid
from ccesa.protocol import messages as m

DESCRIPTION = (
    "The agreement x25519-mlkem768. kem: key pairs of ML-KEM-768 from their seeds d || z, ciphertexts and "
    "the secrets in them; the message of each encapsulation is SHA-256 of the recipient's public key, where "
    "a client draws a fresh one. sealing: open sealed with the recipient's keys. bad_sealing: the first of "
    "sealing with these fields in place of its own does not open, or has another seed than it promises. "
    "pair_secrets: from agreed as it is given, the seeds that follow from mask_secrets, and mask_keys, which "
    "are not the public keys of those secrets. deposits: of seed, under mask_secret."
)
ROUND_DESCRIPTION = (
    "Rounds with the agreement x25519-mlkem768, in the form of round.json. The texts in share-replies cannot "
    "be compared, since a client encapsulates anew; everything else can. parties and exchanges: as in "
    "refused.json, with the same exception."
)
ACTIVE_DESCRIPTION = (
    "Rounds with the agreement x25519-mlkem768 under the guard active, in the form of hybrid_round.json."
)
_HYBRID = Hybrid()
_CONTEXT = configurations()["with accept"].context
Made = Callable[[], Case]


@contextmanager
def repeatable() -> Iterator[None]:
    """Encapsulate the same each time: what the library draws cannot be given."""

    def fixed(public: bytes) -> tuple[bytes, bytes]:
        return encapsulate(public, hashlib.sha256(public).digest())

    with patch.object(primitives, "encapsulate", fixed):
        yield


def repeated(made: Made) -> Made:
    @wraps(made)
    def run() -> Case:
        with repeatable():
            return made()

    return run


@repeated
def make() -> Case:
    return {
        "description": DESCRIPTION,
        "kem": [_kem(name) for name in ("one", "two")],
        "bad_keys": _bad_keys(),
        "sealing": [_sealing(3, 7), _sealing(7, 3)],
        "bad_sealing": _bad_sealing(),
        "pair_secrets": [_pair_secret(3, 7), _pair_secret(7, 3)],
        "deposits": [_deposit(3, 7), _deposit(7, 3)],
    }


@repeated
def make_round() -> Case:
    party = _party()
    return {
        "description": ROUND_DESCRIPTION,
        "randomness": STREAM,
        "rounds": [rounds.play(plan) for plan in plans()],
        "parties": [party.case()],
        "exchanges": party.tried,
    }


@repeated
def make_active() -> Case:
    plan = plan_of(
        "complete, hybrid; a client drops after it has accepted",
        "hybrid",
        5,
        {3: "mask"},
        length=2,
        bits=8,
        task=sample("task"),
        accept=True,
        agreement="x25519-mlkem768",
    )
    rounds = [active_rounds.play(plan)]
    return {"description": ACTIVE_DESCRIPTION, "randomness": STREAM, "rounds": rounds}


def plans() -> list[Plan]:
    return [
        Plan("complete, hybrid; a client drops after it has accepted", _config("drop"), {2: "mask"}),
        Plan(
            "complete, hybrid; a client that drops has deposited something else",
            _config("deposit"),
            {2: "mask"},
            {("accept", 2): _wrong_deposit},
        ),
    ]


def _config(name: str) -> RoundConfig:
    fields: dict[str, Any] = {"clients": 3, "length": 2, "bits": 8, "accept": True, "min_survivors": 2}
    return RoundConfig(series_id=sample(f"hybrid {name}"), agreement="x25519-mlkem768", **fields)


def _wrong_deposit(reply: bytes) -> bytes:
    message: Any = m.decode(reply, len(reply))
    return changed(message, deposits=flipped(message.deposits))


# Keys and texts


def _kem_seed(name: str) -> bytes:
    return sample(f"kem {name}", 64)


def _kem_public(name: str) -> bytes:
    return primitives.public_key(primitives.kem_private_key(_kem_seed(name)))


def _kem(name: str) -> Case:
    found, ciphertext = primitives.encapsulate(_kem_public(name))
    return {"seed": _kem_seed(name), "public": _kem_public(name), "ciphertext": ciphertext, "secret": found}


def _bad_keys() -> list[Case]:
    good = _kem_public("one")
    wrong = {
        "the first number is the modulus": (3329).to_bytes(2, "little") + good[2:],
        "all ones": b"\xff" * 1152 + good[1152:],
        "a byte too short": good[:-1],
        "a byte too long": good + b"\x00",
    }
    return [{"reason": reason, "public": key, "error": "BadKey"} for reason, key in wrong.items()]


def _keys(client: int) -> bytes:
    private = primitives.private_key(sample(f"sealing key {client}"))
    return primitives.public_key(private) + sample(f"mask key {client}") + _kem_public(str(client))


def _agreed(client: int, other: int) -> bytes:
    private = primitives.private_key(sample(f"sealing key {client}"))
    return primitives.agree(private, primitives.load_public_key(_keys(other)[:32]))


def _ends(sender: int, recipient: int) -> keys.Ends:
    return keys.Ends(sender, recipient, _keys(sender), _keys(recipient), True, sample(f"commitment {sender}"))


def _seed(client: int, other: int) -> bytes:
    return _HYBRID.pair_seed(secret(f"mask secret {client}"), _CONTEXT, client, other)


def _shares(sender: int, recipient: int) -> bytes:
    return secret(f"b share {sender} to {recipient}") + secret(f"s share {sender} to {recipient}")


def _sealed(sender: int, recipient: int, seed: bytes | None = None) -> bytes:
    content = Content(_shares(sender, recipient), _seed(sender, recipient) if seed is None else seed)
    ends = _ends(sender, recipient)
    (encapsulated,) = _HYBRID.encapsulate_each([ends.recipient_keys])
    return _HYBRID.seal(_agreed(sender, recipient), encapsulated, content, _CONTEXT, ends)


def _sealing(sender: int, recipient: int) -> Case:
    ends = _ends(sender, recipient)
    return {
        "context": _CONTEXT,
        "sender": sender,
        "recipient": recipient,
        "sender_keys": ends.sender_keys,
        "recipient_keys": ends.recipient_keys,
        "recipient_private": sample(f"sealing key {recipient}"),
        "recipient_seed": _kem_seed(str(recipient)),
        "masked": True,
        "commitment": ends.commitment,
        "mask_secret": secret(f"mask secret {sender}"),
        "shares": _shares(sender, recipient),
        "seed": _seed(sender, recipient),
        "sealed": _sealed(sender, recipient),
    }


def _bad_sealing() -> list[Case]:
    good, sealed = _sealing(3, 7), _sealed(3, 7)
    other = _seed(3, 5)
    lying = _sealed(3, 7, other)
    promise = _HYBRID.seed_commitment(_seed(3, 7), _CONTEXT, 3, 7)
    wrong: dict[str, Case] = {
        "a ciphertext with one wrong bit": {"sealed": flipped(sealed)},
        "a text with one wrong bit": {"sealed": flipped(sealed, 1088)},
        "a tag with one wrong bit": {"sealed": flipped(sealed, 1199)},
        "a seed commitment with one wrong bit": {"sealed": flipped(sealed, 1200)},
        "the seed commitment of another seed": {"sealed": lying[:-32] + promise},
        "a ciphertext for somebody else": {"recipient_seed": _kem_seed("5")},
        "another key of the sender": {"sender_keys": flipped(good["sender_keys"], 40)},
        "another key of the recipient": {"recipient_keys": flipped(good["recipient_keys"], 70)},
        "another commitment": {"commitment": sample("commitment 5")},
        "no masks between them": {"masked": False},
        "another context": {"context": configurations()["defaults"].context},
        "from another client": {"sender": 5},
        "for another client": {"recipient": 5},
        "a byte too short": {"sealed": sealed[:-1]},
    }
    wrong["a seed that is not the promised one"] = {"sealed": _broken_promise()}
    return [{"reason": reason, **change, "error": "SealBroken"} for reason, change in wrong.items()]


def _broken_promise() -> bytes:
    """Seal another seed than the one that the commitment is to, with everything else in order."""
    ends = _ends(3, 7)
    encapsulated, ciphertext = primitives.encapsulate(ends.recipient_keys[64:])
    promised = _HYBRID.seed_commitment(_seed(3, 7), _CONTEXT, 3, 7)
    key = _HYBRID.text_key(_agreed(3, 7), encapsulated, _CONTEXT, ends, ciphertext, promised)
    text = keys.seal_once(key, _shares(3, 7) + _seed(3, 5))
    return ciphertext + text + promised


def _pair_secret(client: int, other: int) -> Case:
    agreed, mask_keys = sample("agreed"), [_keys(one)[32:64] for one in (client, other)]
    seeds = _seed(client, other), _seed(other, client)
    halves = keys.Half(client, mask_keys[0], seeds[0]), keys.Half(other, mask_keys[1], seeds[1])
    return {
        "context": _CONTEXT,
        "client": client,
        "other": other,
        "mask_keys": mask_keys,
        "mask_secrets": [secret(f"mask secret {one}") for one in (client, other)],
        "seeds": list(seeds),
        "agreed": agreed,
        "pair_secret": _HYBRID.pair_secret(agreed, _CONTEXT, *halves),
    }


def _deposit(client: int, other: int) -> Case:
    own, received = secret(f"mask secret {client}"), _seed(other, client)
    return {
        "context": _CONTEXT,
        "client": client,
        "other": other,
        "mask_secret": own,
        "seed": received,
        "deposit": _HYBRID.deposit(own, received, _CONTEXT, client, other),
    }


# What a client makes of wrong keys and texts


def _party() -> Party:
    party = from_round("hybrid", plans()[0], 0)
    shared, shown = party.request(1), party.request(2)
    first, size = shared.keys[:1248], 1232
    texts = [shown.sealed[place : place + size] for place in range(0, len(shown.sealed), size)]

    def with_keys(bundle: bytes) -> bytes:
        return changed(shared, keys=bundle + shared.keys[1248:])

    own = party.reply(0).keys
    party.tries(
        1,
        {
            "a key of ML-KEM that is none": with_keys(first[:64] + b"\xff\xff" + first[66:]),
            "a key of ML-KEM of two neighbours": with_keys(first[:64] + shared.keys[1248 + 64 : 2 * 1248]),
            "the client's own key of ML-KEM": with_keys(first[:64] + own[64:]),
            "a sealing key of low order": with_keys(bytes(32) + first[32:]),
            "keys without those of ML-KEM": changed(shared, keys=shared.keys[: 2 * 64]),
        },
    )
    party.tries(
        2,
        {
            "a ciphertext with one wrong bit": _with_text(shown, texts, flipped(texts[0])),
            "a text with one wrong bit": _with_text(shown, texts, flipped(texts[0], 1088)),
            "a seed commitment with one wrong bit": _with_text(shown, texts, flipped(texts[0], 1231)),
            "two texts swapped": changed(shown, sealed=b"".join([texts[1], texts[0], *texts[2:]])),
            "texts of the other agreement": changed(shown, sealed=bytes(2 * 80)),
            "a text that keeps no promise": _with_text(shown, texts, _unkept(party, texts[0])),
        },
    )
    return party


def _with_text(shown: Any, texts: list[bytes], text: bytes) -> bytes:
    return changed(shown, sealed=b"".join([text, *texts[1:]]))


def _unkept(party: Party, text: bytes) -> bytes:
    """Seal for client 0 as client 1 does, but for the seed, which is not the promised one."""
    plan, told, shown = plans()[0], party.request(1), party.request(2)
    random = Stream(rounds.seed(plan, 1))
    drawn = b""
    while len(drawn) < 32:  # the secret of its mask key pair comes first
        word = random(2)
        drawn += word if int.from_bytes(word, "little") < 65521 else b""
    private, own = primitives.private_key(random(32)), party.reply(0).keys
    agreed = primitives.agree(private, primitives.load_public_key(own[:32]))
    ends = keys.Ends(1, 0, told.keys[:1248], own, True, shown.commitments[:32])
    encapsulated, ciphertext = primitives.encapsulate(own[64:])
    key = _HYBRID.text_key(agreed, encapsulated, party.context, ends, ciphertext, text[-32:])
    sealed = keys.seal_once(key, bytes(64) + sample("another seed"))
    return ciphertext + sealed + text[-32:]
