"""What libsodium does faster than OpenSSL, and ways to derive keys: all in turn (decision 22).

Run with ``python -m bench.crypto.sodium``, where PyNaCl is installed. Loading keys is included.
"""

import hmac
import os
import time
from collections.abc import Callable
from statistics import median

from ccesa.crypto import primitives as p

#: As many times in a row as a client of 1,000 has neighbours.
TEXT, TURNS, EACH = bytes(100), 100, 38


def compare() -> dict[str, float]:
    """Return microseconds of processor time, as medians."""
    signing, private = p.signing_key(os.urandom(32)), p.private_key(os.urandom(32))
    signed = p.public_key(signing), p.sign(signing, TEXT), TEXT
    own, others = p.private_bytes(private), [p.public_key(p.private_key(os.urandom(32))) for _ in range(EACH)]
    secret, info = os.urandom(32), bytes(50)
    works: dict[str, Callable[[], object]] = {
        "verify, libsodium": _often(lambda: p.verify_by_sodium(*signed)),
        "verify, OpenSSL": _often(lambda: p.verify_by_openssl(*signed)),
        "agree, libsodium": lambda: p.agree_by_sodium(own, others),
        "agree, OpenSSL": lambda: [p.agree(private, p.load_public_key(other)) for other in others],
        "32 bytes, HKDF": _often(lambda: p.derive(secret, info, 32)),
        "32 bytes, hmac": _often(lambda: _derive(secret, info, 1)),
        "56 bytes, HKDF": _often(lambda: p.derive(secret, info, 56)),
        "56 bytes, hmac": _often(lambda: _derive(secret, info, 2)),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TURNS):
        for name, work in works.items():
            start = time.process_time()
            work()
            times[name].append((time.process_time() - start) * 1e6 / EACH)
    return {name: median(each) for name, each in times.items()}


def _often(work: Callable[[], object]) -> Callable[[], None]:
    def often() -> None:
        for _ in range(EACH):
            work()

    return often


def _derive(secret: bytes, info: bytes, blocks: int) -> bytes:
    key, found = hmac.digest(bytes(32), secret, "sha256"), [b""]
    for number in range(blocks):
        found.append(hmac.digest(key, found[-1] + info + bytes([number + 1]), "sha256"))
    return b"".join(found)


if __name__ == "__main__":
    for what, microseconds in compare().items():
        print(f"{what:18} {microseconds:6.1f} µs")
