"""Tokens: 32 random bytes that whoever has them speaks for a client with, or for the operator."""

import hashlib
import secrets

#: What scanners for secrets know a token by.
PREFIX = "ccesa_"


def new_token() -> str:
    """Make a token; only ``hashed`` of it is kept."""
    return PREFIX + secrets.token_urlsafe(32)


def hashed(token: str, charter: bytes = b"") -> bytes:
    """Return what the store knows a token by; 32 random bytes need no salt.

    A session is of one charter, by its digest: in the next one the same number may be another member's, and a
    key that was replaced opens nothing any more.
    """
    return hashlib.sha256(charter + token.encode("utf-8", "surrogatepass")).digest()
