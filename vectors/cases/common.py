"""What the modules share: bytes from a seed, named configurations, how things look in the JSON."""

import hashlib
from typing import Any

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.crypto import shamir
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear, Majority

Case = dict[str, Any]

STREAM = (
    "The bytes are SHA-256(seed || k) for k = 0, 1, 2, ... with k as eight little-endian bytes, one digest "
    "after the other; every draw takes the next bytes of the stream, and none is used twice."
)


class Stream:
    """Deterministic bytes in place of os.urandom; STREAM says how, for other languages."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._blocks, self._left = seed, 0, b""

    def __call__(self, count: int) -> bytes:
        while len(self._left) < count:
            self._left += hashlib.sha256(self._seed + self._blocks.to_bytes(8, "little")).digest()
            self._blocks += 1
        taken, self._left = self._left[:count], self._left[count:]
        return taken


def sample(name: str, count: int = 32) -> bytes:
    return Stream(name.encode())(count)


def secret(name: str) -> bytes:
    """A secret as clients draw it: 16 field elements."""
    return shamir.to_bytes(shamir.random_elements(Stream(name.encode()), shamir.SECRET_ELEMENTS))


def fields(config: RoundConfig) -> Case:
    """A configuration as plain values, in the order in which they are encoded."""
    return msgspec.msgpack.decode(config.encode())


def configurations() -> dict[str, RoundConfig]:
    """One of everything: each graph, threshold rule, generator and bit width."""
    id = sample("series id")
    return {
        "defaults": RoundConfig(series_id=id, clients=8, length=5),
        "the round after it": RoundConfig(series_id=id, number=1, clients=8, length=5),
        "the same number in another series": RoundConfig(series_id=sample("another series id"), clients=8, length=5),
        "with accept": RoundConfig(series_id=id, clients=8, length=5, accept=True),
        "hybrid": RoundConfig(series_id=id, clients=8, length=5, agreement="x25519-mlkem768", accept=True),
        "erdos-renyi": RoundConfig(
            series_id=id, clients=100, length=1000, bits=16, graph=ErdosRenyi(p=0.5, mask_p=0.2), accept=True
        ),
        "erdos-renyi, masks everywhere": RoundConfig(
            series_id=id, clients=1000, length=2**32 - 1, bits=8, graph=ErdosRenyi(p=1.0), generator="chacha20"
        ),
        "harary": RoundConfig(
            series_id=id, clients=300, length=70000, bits=64, graph=Harary(degree=38, mask_degree=18)
        ),
        "harary, masks everywhere": RoundConfig(
            series_id=id, clients=2**32 - 1, length=1, graph=Harary(degree=2), threshold=Majority()
        ),
        "complete, fixed threshold": RoundConfig(
            series_id=id, clients=20, length=256, threshold=Fixed(t=11), min_survivors=11, number=2**32 - 1
        ),
        "erdos-renyi, linear threshold": RoundConfig(
            series_id=id, clients=1000, length=9, graph=ErdosRenyi(p=0.1), threshold=Linear(slope=640, base=9)
        ),
        "complete, largest linear threshold": RoundConfig(
            series_id=id, clients=65520, length=9, threshold=Linear(slope=0, base=65520)
        ),
        "complete, steepest linear threshold": RoundConfig(
            series_id=id, clients=20, length=9, threshold=Linear(slope=1024, base=1)
        ),
        "complete, mask_p": RoundConfig(series_id=id, clients=20, length=9, graph=Complete(mask_p=0.3)),
        "complete, mask_degree": RoundConfig(series_id=id, clients=20, length=9, graph=Complete(mask_degree=6)),
        "active": RoundConfig(
            series_id=id, clients=20, length=9, guard="active", accept=True, charter=sample("charter")
        ),
    }
