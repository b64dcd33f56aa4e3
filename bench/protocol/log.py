"""What a log costs a server: ``python -m bench.protocol.log curious 100000``, in the working directory."""

import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.plan import plan
from ccesa.protocol.log import RoundLog
from ccesa.simulate.enrolment import federate, new_client, new_server

CLIENTS, DROPOUT, COLLUSION = 100, 0.1, 0.1


def measure(guard: str, length: int, folder: Path) -> None:
    """Play a round of the planned graph with real clients; print what each of its steps costs."""
    planned = plan(CLIENTS, DROPOUT, COLLUSION, guard=guard, length=length)
    federation = federate(CLIENTS, graph=planned.graph, threshold=planned.threshold)
    config = (
        RoundConfig(clients=CLIENTS, length=length, graph=planned.graph, threshold=planned.threshold)
        if guard == "curious"
        else federation.charter.config(length=length)
    )
    vector, place = words.zeros(length, config.bits), {"path": folder / "log", "counter": folder / "counter"}
    clients = [new_client(config, i, vector, federation) for i in range(CLIENTS)]
    log, plain = RoundLog(**place), new_server(config, federation)
    server = new_server(config, federation, log=log)
    requests = server.open()
    plain.open()
    while requests:
        logged, bare = [], []
        for client, request in requests.items():
            reply = clients[client].receive(request)
            start = time.perf_counter()
            server.receive(client, reply)
            middle = time.perf_counter()
            plain.receive(client, reply)
            logged.append(middle - start)
            bare.append(time.perf_counter() - middle)
        log.close()
        start = time.perf_counter()
        log = RoundLog(**place)
        server = new_server(config, federation, log=log)
        server.replay()
        replayed, size = time.perf_counter() - start, place["path"].stat().st_size
        print(
            f"{server.step.name:10} {median(logged) * 1e3:7.2f} ms for a reply, without a log "
            f"{median(bare) * 1e3:6.2f}; {size:12,} bytes, {replayed * 1e3:6.0f} ms to replay",
            flush=True,
        )
        requests = server.close()
        plain.close()
    log.close()


if __name__ == "__main__":
    with TemporaryDirectory(dir=".") as folder:
        measure(sys.argv[1], int(sys.argv[2]), Path(folder))
