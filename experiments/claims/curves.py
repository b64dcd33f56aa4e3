"""X25519 instead of the paper's "NIST SP800-56 curve" (P-256): time of an agreement, and bytes of a key.

Both from the same library, in turns, in processor time; a key pair and an agreement each, the peer's public
key read from its bytes as it comes in a message.
"""

import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from experiments import bounds

_CURVE = ec.SECP256R1()
#: Agreements, or key pairs, of one measurement.
_IN_A_ROW = 20
_SHARE_BITS = 256


def _nist() -> tuple[Callable[[], object], Callable[[], object], dict[str, int]]:
    own, peer = ec.generate_private_key(_CURVE), ec.generate_private_key(_CURVE).public_key()
    forms = {"compressed": PublicFormat.CompressedPoint, "whole": PublicFormat.UncompressedPoint}
    raw = {name: peer.public_bytes(Encoding.X962, form) for name, form in forms.items()}

    def agree() -> bytes:
        return own.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, raw["whole"]))

    def pair() -> object:
        return ec.generate_private_key(_CURVE).public_key()

    return agree, pair, {name: len(key) for name, key in raw.items()}


def _x25519() -> tuple[Callable[[], object], Callable[[], object], dict[str, int]]:
    own, raw = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key().public_bytes_raw()

    def agree() -> bytes:
        return own.exchange(X25519PublicKey.from_public_bytes(raw))

    def pair() -> object:
        return X25519PrivateKey.generate().public_key()

    return agree, pair, {"whole": len(raw)}


def _microseconds(work: Callable[[], object]) -> float:
    start = time.process_time_ns()
    for _ in range(_IN_A_ROW):
        work()
    return (time.process_time_ns() - start) / _IN_A_ROW / 1e3


def find(repeats: int) -> dict[str, Any]:
    curves = {"X25519": _x25519(), "P-256": _nist()}
    took: dict[str, dict[str, list[float]]] = {name: {"agreement": [], "pair": []} for name in curves}
    for _ in range(repeats):
        for name, (agree, pair, _sizes) in curves.items():
            took[name]["agreement"].append(_microseconds(agree))
            took[name]["pair"].append(_microseconds(pair))
    times = {name: {what: _spread(all_) for what, all_ in found.items()} for name, found in took.items()}
    sizes = {name: found[2] for name, found in curves.items()}
    return {
        "microseconds": times,
        "ratio": times["P-256"]["agreement"]["median"] / times["X25519"]["agreement"]["median"],
        "key_bytes": sizes,
        "bytes_per_client": {
            f"{name}, {form}": bounds.client_bandwidth_sa(1000, 8 * size, _SHARE_BITS) / 8
            for name, forms in sizes.items()
            for form, size in forms.items()
        },
        # The paper's client needs two agreements for each neighbour, in steps 1 and 2.
        "nist_more_ms_a_neighbour": 2
        * (times["P-256"]["agreement"]["median"] - times["X25519"]["agreement"]["median"])
        / 1e3,
    }


def _spread(values: list[float]) -> dict[str, float]:
    low, *_, high = quantiles(values, n=20)
    return {"median": median(values), "low": low, "high": high}


def verdict(found: dict[str, Any]) -> str:
    return "a difference" if found["key_bytes"]["X25519"] != found["key_bytes"]["P-256"] else "the same"
