"""active_messages.json: the messages that only the guard ``active`` has, and bytes that are none."""

from typing import Any

from cases.common import Case, configurations, sample
from cases.messages import bad_of, message_case
from ccesa.protocol import messages as m

DESCRIPTION = (
    "Every message that only the guard active has, with its fields and its only encoding, a msgpack array. "
    "Everything under bad_messages must be refused with the named error, under the bound of 'most' bytes."
)
_CONTEXT = configurations()["active"].context


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "messages": [message_case(message) for message in [*_small(), *_large()]],
        "bad_messages": [bad for message in _small() for bad in bad_of(message)],
    }


def _small() -> list[m.Message]:
    """One message of each type, for two neighbours."""
    head: dict[str, Any] = {"context": _CONTEXT, "client": 5}
    signature = sample("signature", 64)
    return [
        m.SignedAdvertiseReply(**head, keys=sample("keys", 64), signature=signature),
        m.RosterRequest(
            **head,
            v1=b"\xff\x0f\x01",
            root=sample("root"),
            keys=sample("keys", 128),
            signatures=sample("signatures", 128),
            proof=sample("proof", 96),
        ),
        m.MaskAmongRequest(**head, v2=b"\xfe\x0f\x01", task=sample("task")),
        m.MaskAmongAtOnceRequest(
            **head,
            v2=b"\xfe\x0f\x01",
            commitments=sample("commitments", 64),
            sealed=sample("sealed", 160),
            task=sample("task"),
        ),
        m.SignedMaskReply(
            **head,
            digest=sample("digest"),
            among=sample("among"),
            task=sample("task"),
            signature=signature,
            receipt=sample("receipt", 64),
            vector=memoryview(sample("vector", 20)),
        ),
        m.ConfirmRequest(**head, v3=b"\xfe\x0f\x00"),
        m.ConfirmReply(**head, signature=signature),
        m.SignedUnmaskRequest(**head, confirmed=b"\x01\x00", signatures=sample("signatures", 128)),
    ]


def _large() -> list[m.Message]:
    """Ids and byte strings at the sizes where a msgpack header grows."""
    return [
        m.ConfirmRequest(context=_CONTEXT, client=client, v3=bytes(size))
        for client, size in ((127, 255), (128, 256), (255, 300), (65536, 0))
    ]
