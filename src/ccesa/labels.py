"""One label for each use of a hash or a key derivation separates their domains.

A frame has each part behind its length, so that no two different lists of parts share an encoding.
"""

import hashlib
import struct
from functools import lru_cache

CONTEXT = b"ccesa/2/0 context"
ROSTER = b"ccesa/2/1 roster"
GRAPH_SEED = b"ccesa/2/2 graph seed"
MASK_KEY_PAIR = b"ccesa/2/3 mask key pair"
SEALING = b"ccesa/2/4 sealing"
PAIR_MASK = b"ccesa/2/5 pair mask"
SELF_MASK = b"ccesa/2/6 self mask"
COMMITMENT = b"ccesa/2/7 commitment"
SEALED = b"ccesa/2/8 sealed shares"
# The active guard.
CHARTER = b"ccesa/2/9 charter"
BUNDLE = b"ccesa/2/10 bundle"
ROSTER_LEAF = b"ccesa/2/11 roster leaf"
ROSTER_NODE = b"ccesa/2/12 roster node"
COMMITTED_ROSTER = b"ccesa/2/13 committed roster"
MASKING_AMONG = b"ccesa/2/14 masking among V2"
CONFIRMED = b"ccesa/2/15 confirmed V2 and V3"
# Both guards, then the active one again.
MASKED_VECTOR = b"ccesa/2/16 masked vector"
MASKED_AMONG = b"ccesa/2/17 masked among"
HANDED_OVER = b"ccesa/2/18 handed over"
# The hybrid agreement.
HYBRID_SEALING = b"ccesa/2/19 hybrid sealing"
PAIR_SEED = b"ccesa/2/20 pair seed"
SEED_COMMITMENT = b"ccesa/2/21 seed commitment"
DEPOSIT = b"ccesa/2/22 deposit"
PAIR_SECRET = b"ccesa/2/23 pair secret"
# Differential privacy: the signs of a rotation, and the digest of noise in a ledger.
ROTATION = b"ccesa/2/24 rotation"
MECHANISM = b"ccesa/2/25 mechanism"
# The guard with helpers.
HELPER_KEYS = b"ccesa/2/26 helper keys"
HELPERS = b"ccesa/2/27 helpers"
HELPED_MASK = b"ccesa/2/28 helped mask"
CIPHERTEXT = b"ccesa/2/29 ciphertext"
SUBMISSION = b"ccesa/2/30 submission"
CHECK_WORDS = b"ccesa/2/31 check words"
BOXES = b"ccesa/2/32 boxes"
CONFIRMED_BOXES = b"ccesa/2/33 confirmed boxes"
QUESTION = b"ccesa/2/34 question"
MASK_SUM = b"ccesa/2/35 mask sum"
# A ledger: each line, bound to the one before.
LEDGER = b"ccesa-ledger-1 line"
# Flower: the task of a round, the task that a node counts, names under the masks, and a node's introduction.
FLOWER_TASK = b"ccesa-flower-2 task"
FLOWER_COUNTED_TASK = b"ccesa-flower-2 subject"
FLOWER_NAMES = b"ccesa-flower-2 names"
FLOWER_INTRODUCTION = b"ccesa-flower-2 introduce"
# The service: the owner of a database, the task of a round, the sign-in of a member, the audit log.
FEDERATION = b"ccesa-service-1 federation"
SERVICE_TASK = b"ccesa-service-1 task"
SESSION = b"ccesa-service-1 session"
CHALLENGE = b"ccesa-service-1 challenge"
AUDIT = b"ccesa-service-1 audit"

#: The labels of the protocol, in the order of their numbers.
ALL = tuple(one for one in list(globals().values()) if isinstance(one, bytes) and one.startswith(b"ccesa/2/"))

_CLIENT = struct.Struct("<II")
_PAIR = struct.Struct("<IIII")


def frame(*parts: bytes) -> bytes:
    """Join the parts, each behind its length as four little-endian bytes."""
    return b"".join([len(part).to_bytes(4, "little") + part for part in parts])


def client_bytes(client: int) -> bytes:
    """Return a client id, or the number of a round, for frames and messages."""
    return client.to_bytes(4, "little")


def client_frame(label: bytes, context: bytes, client: int) -> bytes:
    """Return ``frame(label, context, client)``; the first two are framed once."""
    return _head(label, context) + _CLIENT.pack(4, client)


def pair_frame(label: bytes, context: bytes, one: int, other: int) -> bytes:
    """Return ``frame(label, context, one, other)``; the first two are framed once."""
    return _head(label, context) + _PAIR.pack(4, one, 4, other)


@lru_cache(maxsize=64)
def _head(label: bytes, context: bytes) -> bytes:
    return frame(label, context)


def digest(*parts: bytes | memoryview) -> bytes:
    """Return the SHA-256 of a frame. Parts may be large: they are not copied."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(4, "little"))
        whole.update(part)
    return whole.digest()
