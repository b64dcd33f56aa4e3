"""What it costs to save a server: ``python -m bench.protocol.checkpoints curious 1000000``."""

import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.plan import plan
from ccesa.simulate.enrolment import federate, new_client, new_server

CLIENTS, DROPOUT, COLLUSION = 1000, 0.1, 0.1


class Cost(NamedTuple):
    """Of one checkpoint, when all replies to a step have come."""

    step: str
    bytes: int
    #: Of them, beside the running sum.
    small_bytes: int
    checkpoint_ms: float
    restore_ms: float

    def __str__(self) -> str:
        return (
            f"{self.step:10} {self.bytes:12,} bytes, {self.small_bytes:11,} beside the sum, "
            f"{self.checkpoint_ms:7.1f} ms to save, {self.restore_ms:7.0f} ms to restore"
        )


def costs(guard: str, length: int) -> Iterator[Cost]:
    """Play a round of the planned graph with real clients; yield what each of its steps costs."""
    planned = plan(CLIENTS, DROPOUT, COLLUSION, guard=guard, length=length)
    federation = federate(CLIENTS, graph=planned.graph, threshold=planned.threshold)
    config = (
        RoundConfig(clients=CLIENTS, length=length, graph=planned.graph, threshold=planned.threshold)
        if guard == "curious"
        else federation.charter.config(length=length)
    )
    vector, openings = words.zeros(length, config.bits), set[bytes]()
    clients = [new_client(config, i, vector, federation) for i in range(CLIENTS)]
    server = new_server(config, federation, openings=openings)
    requests = server.open()
    while requests:
        for client, request in requests.items():
            server.receive(client, clients[client].receive(request))
        start = time.perf_counter()
        saved = server.checkpoint()
        middle = time.perf_counter()
        restored = new_server(config, federation, openings=openings)
        if restored.restore(saved) != requests:
            raise SystemExit("a restored server sends other bytes")
        end = time.perf_counter()
        summed = 0 if server.step.name in ("advertise", "share") else config.vector_bytes
        step = server.step.name
        requests = server.close()
        yield Cost(step, len(saved), len(saved) - summed, (middle - start) * 1e3, (end - middle) * 1e3)


if __name__ == "__main__":
    guard, length = sys.argv[1:]
    for cost in costs(guard, int(length)):
        print(cost, flush=True)
