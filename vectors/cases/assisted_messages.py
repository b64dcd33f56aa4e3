"""assisted_messages.json: all that rounds with helpers are made of, apart from the rounds themselves."""

from typing import Any

from cases import assisted_charters
from cases.common import Case, Stream, sample
from cases.messages import bad_of, message_case
from cases.parties import packed
from ccesa import words
from ccesa.crypto import check_words
from ccesa.crypto.primitives import GENERATORS
from ccesa.protocol import messages as m

DESCRIPTION = (
    "The guard assisted. charters, same, bad_charters and bad_configurations: as in charters.json, with "
    "helpers; bad configurations are read under the charter 'plain'. messages and bad_messages: as in "
    "messages.json, for two helpers and two members. check_words: of the vector whose bytes are the first "
    "ones of the stream of seed, in this context."
)
_CONTEXT = assisted_charters.charters()["plain"].config(series_id=sample("series id"), length=9).context


def make() -> Case:
    small = _small()
    return {
        "description": DESCRIPTION,
        "charters": assisted_charters.charter_cases(),
        "same": assisted_charters.same(),
        "bad_charters": assisted_charters.bad_charters(),
        "bad_configurations": assisted_charters.bad_configurations(),
        "messages": [message_case(message) for message in [*small, *_large()]],
        "bad_messages": [bad for message in small for bad in bad_of(message)],
        "check_words": _check_words(),
    }


def _small() -> list[m.Message]:
    """One message of each type, for two helpers and two members."""
    head: dict[str, Any] = {"context": _CONTEXT, "client": 5}
    number, signature, tag = b"\x2c\x01\x00\x00", sample("signature", 64), sample("tag", 16)
    shown: dict[str, Any] = {
        "number": number,
        "task": sample("task"),
        "keyring": sample("keyring"),
        "members": packed(2, 7),
        "records": sample("records", 2 * (32 + 2 * 48 + 16 + 64)),
        "ciphertexts": sample("ciphertexts", 2),
    }
    return [
        m.HelperKeysRequest(**head, number=number),
        m.HelperKeysReply(**head, keys=sample("keys"), not_after=sample("not after", 8), signature=signature),
        m.MaskForHelpersRequest(
            **head,
            number=number,
            keys=sample("keys", 64),
            not_after=sample("not after", 16),
            signatures=sample("signatures", 128),
            task=sample("task"),
        ),
        m.BoxedMaskReply(
            **head,
            key=sample("key"),
            boxes=sample("boxes", 32),
            ciphertexts=sample("ciphertexts", 2),
            tag=tag,
            signature=signature,
            vector=memoryview(sample("vector", 20)),
        ),
        m.ConfirmBoxesRequest(**head, **shown),
        m.ConfirmBoxesReply(**head, boxes=sample("boxes"), refused=packed(7), signature=signature),
        m.UnmaskSumRequest(**head, **shown),
        m.UnmaskSumReply(**head, tag=tag, signature=signature, vector=memoryview(sample("vector", 20))),
    ]


def _large() -> list[m.Message]:
    """Lists of nobody, and a byte string where the header grows."""
    head: dict[str, Any] = {"context": _CONTEXT, "client": 65536}
    nobody: dict[str, Any] = dict.fromkeys(("members", "records", "ciphertexts"), b"")
    about: dict[str, Any] = {"number": bytes(4), "task": sample("task"), "keyring": sample("keyring")}
    return [
        m.ConfirmBoxesReply(**head, boxes=sample("boxes"), refused=b"", signature=sample("signature", 64)),
        m.ConfirmBoxesRequest(**head, **about, **nobody),
        m.UnmaskSumRequest(**head, **about, **{**nobody, "records": bytes(256)}),
    ]


def _check_words() -> list[Case]:
    lengths = {8: (1, 7, 16384, 16385), 16: (5, 40000), 32: (2, 32769), 64: (1, 3, 16385)}
    return [
        _check_word(generator, bits, length)
        for generator in GENERATORS
        for bits, several in lengths.items()
        for length in several
    ]


def _check_word(generator: str, bits: int, length: int) -> Case:
    seed, context = sample(f"check words {bits} {length}"), sample("a context")
    data = Stream(seed)(length * bits // 8)
    found = check_words.make(words.from_bytes(data, bits), context, generator)
    return {
        "generator": generator,
        "bits": bits,
        "length": length,
        "context": context,
        "seed": seed,
        "check_words": found.tobytes(),
    }
