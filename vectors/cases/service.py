"""service.json: what clients of a hub compute besides: the texts of sessions, and digests of tasks."""

from cases.common import Case, sample
from cases.identities import identity
from ccesa.service.tasks import task_digest
from ccesa.service.tokens import signed_text

DESCRIPTION = (
    'docs/service.md, "HTTP, for those who write another client". sessions: the charter\'s digest, the '
    "origin that the member talks to and the hub's challenge give the text that the member signs; signature "
    "is that of the identity with this seed. tasks: payload is what GET /v1/tasks/DIGEST returns, digest is "
    "the task of section 3.4 of docs/protocol.md, which is also the header Ccesa-Task."
)
ORIGINS = {
    "a name": "https://hub.example",
    "a name and a port": "https://hub.example:8470",
    "loopback without TLS": "http://127.0.0.1:8470",
    "an address of version 6": "https://[2001:db8::1]:8470",
}
PAYLOADS = {
    "empty": b"",
    "a question and its number": b"how many patients came in each month#0",
    "bytes that are no text": bytes(range(256)),
    "more than one block": sample("a model", 1000),
}


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "sessions": [_session(name, origin) for name, origin in ORIGINS.items()],
        "tasks": [
            {"name": name, "payload": payload, "digest": task_digest(payload)} for name, payload in PAYLOADS.items()
        ],
    }


def _session(name: str, origin: str) -> Case:
    member, charter, challenge = identity("0"), sample("charter of a hub"), sample(f"challenge {name}")
    text = signed_text(charter, origin, challenge)
    return {
        "name": name,
        "seed": member.seed,
        "public": member.public,
        "charter": charter,
        "origin": origin,
        "challenge": challenge,
        "text": text,
        "signature": member.sign(text),
    }
