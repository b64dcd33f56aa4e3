"""The floor: what the cryptographic library alone needs for the same agreements and keystream."""

import os
import time
from collections.abc import Callable
from statistics import median

from ccesa.crypto import primitives


class Floor:
    """Unit costs in milliseconds, as medians of samples taken between the things they are compared with."""

    def __init__(self, stream_bytes: int) -> None:
        self._private = primitives.private_key(os.urandom(32))
        self._public = [primitives.public_key(primitives.private_key(os.urandom(32))) for _ in range(20)]
        self._key = os.urandom(16)
        self._bytes = stream_bytes
        chunk = min(stream_bytes, 256 * 1024)
        self._zeros, self._buffer = bytes(chunk), memoryview(bytearray(chunk + 16))
        self._agreements: list[float] = []
        self._streams: list[float] = []

    def sample(self, times: int = 1) -> None:
        """Warm, as in the middle of a long row: the first of each is not counted."""
        for _ in range(times):
            self._agreements.append(_mean_ms(self._agree, 1) / len(self._public))
            self._streams.append(_mean_ms(self._keystream, max(2, min(20, (4 << 20) // self._bytes))))

    def of(self, agreements: float, streams: float) -> float:
        return agreements * median(self._agreements) + streams * median(self._streams)

    def _agree(self) -> None:
        """From the 32 bytes of a peer's key, as it arrives; every peer is another one."""
        for public in self._public:
            self._private.exchange(primitives.load_public_key(public))

    def _keystream(self) -> None:
        stream = primitives.aes128_ctr(self._key, 0)
        for _ in range(self._bytes // len(self._zeros)):
            stream.update_into(self._zeros, self._buffer)
        rest = self._bytes % len(self._zeros)
        stream.update_into(self._zeros[:rest], self._buffer)


def _mean_ms(work: Callable[[], object], times: int) -> float:
    work()
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) * 1e3 / times
