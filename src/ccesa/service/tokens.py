"""Tokens authenticate a client or the operator; a member signs a challenge to get a session token."""

import hashlib
import secrets

from ccesa import labels

PREFIX = "ccesa_"  # the prefix by which scanners for secrets recognize a token


def new_token() -> str:
    """Make a token of 32 random bytes; the store keeps only its hash."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str, charter: bytes = b"") -> bytes:
    """Return the hash of a token. Under another charter, where numbers may change, a session is void."""
    return hashlib.sha256(charter + token.encode("utf-8", "surrogatepass")).digest()


def signed_text(charter: bytes, origin: str, challenge: bytes) -> bytes:
    """Return the text that a member signs to get a session from the hub at an origin: scheme, host and port."""
    return labels.frame(labels.SESSION, charter, origin.encode(), challenge)
