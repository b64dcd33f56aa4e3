"""Tokens: 32 random bytes that whoever has them speaks for a client with, or for the operator."""

import hashlib
import secrets

#: What scanners for secrets know a token by.
PREFIX = "ccesa_"


def new_token() -> str:
    """Make a token; only ``hashed`` of it is kept."""
    return PREFIX + secrets.token_urlsafe(32)


def hashed(token: str) -> bytes:
    """Return what the store knows a token by; 32 random bytes need no salt."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
