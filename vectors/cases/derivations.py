"""derivations.json: everything that is hashed or derived, with its framing."""

import numpy as np

from cases.common import Case, configurations, fields, sample, secret
from ccesa import labels
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import keys, primitives
from ccesa.crypto.primitives import GENERATORS
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts

DESCRIPTION = (
    "Framing, contexts and every derived key. Compute each value from the others of its case; public keys "
    "under bad_public_keys must be refused with the named error before any key agreement."
)
_P = 2**255 - 19
#: u-coordinates of order 8, the only low orders that are not 0, 1 or -1.
_ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
_PAIRS = ((3, 7), (7, 3), (0, 2**32 - 2), (255, 256))


def make() -> Case:
    context = configurations()["defaults"].context
    return {
        "description": DESCRIPTION,
        "labels": {label.decode().partition(" ")[2]: label for label in labels.ALL},
        "framing": [_framing(name, parts) for name, parts in _parts().items()],
        "contexts": [_context(name, config) for name, config in configurations().items() if config.guard == "curious"],
        "mask_key_pairs": [_mask_key_pair(context, client) for client in (0, 7, 2**32 - 2)],
        "self_mask_keys": [_self_mask_key(context, client, kind) for kind in GENERATORS for client in (0, 7)],
        "commitments": [_commitment(context, client) for client in (0, 7, 2**32 - 2)],
        "pair_mask_keys": [_pair_mask_key(context, *pair, kind) for kind in GENERATORS for pair in _PAIRS],
        "sealing_keys": [_sealing_keys(context, *pair) for pair in _PAIRS],
        "vector_digests": [_vector_digest(context, client, size) for client, size in ((0, 0), (7, 20), (8, 40))],
        "among": [_among(context, *case) for case in _knowledge()],
        "bad_public_keys": [_bad_public_key(reason, value) for reason, value in _low_order().items()],
    }


def _parts() -> dict[str, list[bytes]]:
    return {
        "no part": [],
        "one empty part": [b""],
        "two empty parts": [b"", b""],
        "a boundary moves, the frame changes": [b"ab", b"c"],
        "the same bytes, cut elsewhere": [b"a", b"bc"],
        "a long part": [sample("a long part", 300)],
        "a label and a pair of ids": [labels.PAIR_MASK, labels.client_bytes(3), labels.client_bytes(7)],
    }


def _framing(name: str, parts: list[bytes]) -> Case:
    return {"name": name, "parts": parts, "frame": labels.frame(*parts), "digest": labels.digest(*parts)}


def _context(name: str, config: RoundConfig) -> Case:
    return {
        "name": name,
        "label": labels.CONTEXT,
        "fields": fields(config),
        "encoded": config.encode(),
        "context": config.context,
    }


def _mask_key_pair(context: bytes, client: int) -> Case:
    seed = secret(f"mask secret {client}")
    private = keys.mask_private_key(seed, context, client)
    return {
        "label": labels.MASK_KEY_PAIR,
        "secret": seed,
        "context": context,
        "client": client,
        "private": private.private_bytes_raw(),
        "public": primitives.public_key(private),
    }


def _self_mask_key(context: bytes, client: int, generator: str) -> Case:
    seed = secret(f"self secret {client}")
    return {
        "label": labels.SELF_MASK,
        "secret": seed,
        "context": context,
        "client": client,
        "generator": generator,
        "key": keys.self_mask_key(seed, context, client, generator),
    }


def _vector_digest(context: bytes, client: int, size: int) -> Case:
    vector = sample(f"masked vector of {size}", size)
    return {
        "client": client,
        "context": context,
        "vector": vector,
        "digest": keys.vector_digest(vector, context, client),
        "tag": keys.vector_tag(vector, context, client),
    }


def _knowledge() -> list[tuple[int, list[int], bytes]]:
    """What a client knows of V2: the ids of its own part of it under curious, a set under active."""
    return [
        (0, [0, 3, 7], m.pack_ids(np.array([0, 3, 7]))),
        (7, [0, 3, 7], m.pack_ids(np.array([0, 3, 7]))),
        (7, [1, 7, 8], m.pack_members([1, 7, 8], 20)),
    ]


def _among(context: bytes, client: int, members: list[int], known: bytes) -> Case:
    return {
        "label": labels.MASKED_AMONG,
        "client": client,
        "context": context,
        "members": members,
        "known": known,
        "digest": signed_texts.among(context, client, known),
    }


def _commitment(context: bytes, client: int) -> Case:
    seed = secret(f"self secret {client}")
    return {
        "label": labels.COMMITMENT,
        "secret": seed,
        "context": context,
        "client": client,
        "commitment": keys.commitment(seed, context, client),
    }


def _agreement(client: int, neighbour: int) -> Case:
    mine = primitives.private_key(sample(f"private key {client}"))
    theirs = primitives.private_key(sample(f"private key {neighbour}"))
    return {
        "client": client,
        "neighbour": neighbour,
        "private": mine.private_bytes_raw(),
        "neighbour_public": primitives.public_key(theirs),
        "agreed": primitives.agree(mine, theirs.public_key()),
    }


def _pair_mask_key(context: bytes, client: int, neighbour: int, generator: str) -> Case:
    pair = _agreement(client, neighbour)
    return {
        "label": labels.PAIR_MASK,
        "context": context,
        **pair,
        "generator": generator,
        "sign": keys.pair_sign(client, neighbour),
        "key": keys.pair_mask_key(pair["agreed"], context, client, neighbour, generator),
    }


def _sealing_keys(context: bytes, client: int, neighbour: int) -> Case:
    """Each direction is a key of 16 bytes and a nonce of 12, one after the other."""
    pair = _agreement(client, neighbour)
    both = keys.AGREEMENTS[keys.DEFAULT].sealing(pair["agreed"], context, client, neighbour)
    return {
        "label": labels.SEALING,
        "context": context,
        **pair,
        "outgoing": both[: keys.ONE_TIME_BYTES],
        "incoming": both[keys.ONE_TIME_BYTES :],
    }


def _low_order() -> dict[str, int]:
    return {
        "zero": 0,
        "one": 1,
        "minus one": _P - 1,
        "order 8, first": _ORDER_8[0],
        "order 8, second": _ORDER_8[1],
        "the prime: zero, not reduced": _P,
        "the prime and one: one, not reduced": _P + 1,
        "nine with the unused top bit set": 9 + 2**255,
        "all ones": 2**256 - 1,
    }


def _bad_public_key(reason: str, value: int) -> Case:
    return {"reason": reason, "public": value.to_bytes(32, "little"), "error": "LowOrderKey"}
