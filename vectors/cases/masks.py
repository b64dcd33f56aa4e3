"""masks.json: slices of keystreams, read as words."""

import hashlib

from cases.common import Case, sample
from ccesa import words
from ccesa.crypto.masks import mask_words
from ccesa.crypto.primitives import GENERATORS

DESCRIPTION = (
    "Elements [start, start + count) of one mask for each generator and bit width, as little-endian words; "
    "slices with a sha256 in place of words are too long to print. The keystream is AES-128-CTR (counter: "
    "16 bytes big-endian, from 0) or ChaCha20 (RFC 8439, zero nonce, 32-bit counter from 0); element k "
    "starts at its byte k * bits / 8."
)
#: (start, count): block starts, the middle of a block, across blocks, and far out, up to the last element.
_SLICES = ((0, 20), (1, 3), (5, 40), (63, 2), (64, 8), (1_000_003, 5), (2**31 + 1, 6), (2**32 - 4, 3))
_LONG = ((0, 300_000), (7, 300_001))


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "slices": [
            _slice(generator, bits, start, count)
            for generator in GENERATORS
            for bits in words.BITS
            for start, count in _SLICES + _LONG
        ],
    }


def _slice(generator: str, bits: int, start: int, count: int) -> Case:
    key = sample(f"mask key {generator}", GENERATORS[generator].key_bytes)
    found = mask_words(generator, key, start, count, bits).tobytes()
    shown = {"sha256": hashlib.sha256(found).digest()} if count > 100 else {"words": found}
    return {"generator": generator, "key": key, "bits": bits, "start": start, "count": count, **shown}
