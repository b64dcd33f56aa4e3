"""Tokens: whoever has one speaks for a client, or for the operator; and what members sign to be given one."""

import hashlib
import secrets

from ccesa import labels

#: What scanners for secrets know a token by.
PREFIX = "ccesa_"


def new_token() -> str:
    """Make a token of 32 random bytes; only ``hashed`` of it is kept."""
    return PREFIX + secrets.token_urlsafe(32)


def hashed(token: str, charter: bytes = b"") -> bytes:
    """Return what the store knows a token by; 32 random bytes need no salt.

    A session is of one charter, by its digest: in the next one the same number may be another member's, and a
    key that was replaced opens nothing any more.
    """
    return hashlib.sha256(charter + token.encode("utf-8", "surrogatepass")).digest()


def signed_text(charter: bytes, origin: str, challenge: bytes) -> bytes:
    """Return what a member signs to be given a session.

    Args:
        charter: Its digest.
        origin: Scheme, host and port that the member talks to.
        challenge: What that hub gave it.
    """
    return labels.frame(labels.SESSION, charter, origin.encode(), challenge)
