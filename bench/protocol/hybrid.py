"""One client under the hybrid agreement beside the classical one, at the planned degree."""

import time
from statistics import median
from typing import Any

from ccesa.agreement.config import RoundConfig
from ccesa.crypto import primitives
from ccesa.crypto.keys import AGREEMENTS
from ccesa.graphs import Harary
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.simulate.simulation import random_vectors

CLIENTS, GRAPH, LENGTH = 60, Harary(degree=38, mask_degree=18), 1_000_000


def compare() -> dict[str, dict[str, float]]:
    """Time a client with 38 neighbours and 18 masks, 32 bits, one thread; the agreements take turns."""
    stands = {name: Stand(name) for name in AGREEMENTS}
    while all(stand.requests for stand in stands.values()):
        for client in range(CLIENTS):
            for stand in stands.values():
                stand.ask(client)
        for stand in stands.values():
            stand.close()
    return {name: stand.found() for name, stand in stands.items()}


class Stand:
    """A round whose clients are timed, step by step."""

    def __init__(self, agreement: str) -> None:
        config = RoundConfig(clients=CLIENTS, length=LENGTH, bits=32, graph=GRAPH, agreement=agreement, accept=True)
        vectors = random_vectors(config, 0)
        self._clients = {i: Client(config, i, vectors(i), threads=1) for i in range(CLIENTS)}
        self._server, self._times = Server(config, threads=1), [0.0] * CLIENTS
        self._bytes = {"sent": 0, "received": 0}
        self.requests = self._server.open()

    def ask(self, client: int) -> None:
        request = self.requests[client]
        primitives.load_kem_key.cache_clear()  # each client has its own
        start = time.thread_time()
        reply = self._clients[client].receive(request)
        self._times[client] += time.thread_time() - start
        if client == 0:
            self._bytes["sent"] += len(reply)
            self._bytes["received"] += len(request)
        self._server.receive(client, reply)

    def close(self) -> None:
        self.requests = self._server.close()

    def found(self) -> dict[str, float]:
        vector = 4 * LENGTH
        return {
            "client_ms": 1e3 * median(self._times),
            "sent_bytes": self._bytes["sent"] - vector,
            "received_bytes": self._bytes["received"],
        }


def slower(found: dict[str, Any]) -> float:
    """Return how much longer a client takes under the hybrid agreement."""
    return found["x25519-mlkem768"]["client_ms"] / found["x25519"]["client_ms"]


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    rows = ["| | client, ms | sent beside the vector, bytes | received, bytes |", "|---|---:|---:|---:|"]
    rows += [
        f"| `{name}` | {one['client_ms']:.1f} | {one['sent_bytes']:,} | {one['received_bytes']:,} |"
        for name, one in found.items()
    ]
    return (
        "One client through all steps with *accept*, 38 neighbours, 18 masks, a million words of 32 bits, "
        "one thread; processor time, medians of 60 clients, the agreements in turn "
        f"(`bench/protocol/hybrid.py`). The hybrid takes {slower(found):.2f} times as long.\n\n" + "\n".join(rows)
    )
