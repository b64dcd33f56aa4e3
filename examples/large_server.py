"""A large server: two front ends take replies, workers take the masks off, and a log outlives a crash.

    python examples/large_server.py                          # two processes of this machine work
    python examples/large_server.py --dask tcp://host:8786   # those of a Dask cluster that has ccesa
    python examples/large_server.py --kill                   # one worker dies, and the server does its part

All clients live in this process, to have something to add. Workers get mask keys: they and the way to them
belong to whoever runs the server (docs/security.md, "Workers").
"""

import argparse
import logging
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import numpy as np

import ccesa
from ccesa.plan import plan

CLIENTS, WORDS = 40, 1_000_000


def main() -> None:
    """Run one round, with the workers that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dask", metavar="ADDRESS", help="the scheduler of a Dask cluster")
    parser.add_argument("--kill", action="store_true", help="end a worker of the process pool before its work")
    options = parser.parse_args()
    logging.basicConfig(format="%(name)s: %(message)s")  # the server warns of parts that did not come back
    if options.dask:
        from distributed import Client

        with Client(options.dask) as cluster:
            run(cluster.get_executor())
    else:
        with ProcessPoolExecutor(2) as pool:
            if options.kill:
                pool.submit(die)
            run(pool)


def die() -> None:
    """End the process that runs this as the system does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def run(executor: Executor) -> None:
    """Take replies on two servers, and open the sum of both on the first."""
    config = plan(CLIENTS, dropout=0.1, length=WORDS, bits=64).config()
    clients = [ccesa.Client(config, i, np.full(WORDS, i, np.uint64)) for i in range(CLIENTS)]
    with tempfile.TemporaryDirectory() as folder:
        found = run_logged(executor, config, clients, Path(folder))
    right = bool((found.vector == sum(found.survivors)).all())
    print(f"the sum over {len(found.survivors)} clients is {'right' if right else 'wrong'}")


def run_logged(
    executor: Executor, config: ccesa.RoundConfig, clients: list[ccesa.Client], folder: Path
) -> ccesa.Aggregate:
    """Run the round on a server with a log, which is lost when all vectors have come."""
    files = {"path": folder / "log", "counter": folder / "counter"}  # for real on two disks
    log = ccesa.RoundLog(**files)
    server, front = ccesa.Server(config, executor=executor, log=log), ccesa.Server(config)
    requests = server.open()
    front.open()  # on another machine: it follows the first, and asks its own clients the same
    while True:
        take(server, clients, {i: request for i, request in requests.items() if i % 2 == 0})
        take(front, clients, {i: request for i, request in requests.items() if i % 2 == 1})
        own, others = answers_of(server), answers_of(front)
        server.take_over(*others)  # each client belongs to one front end; both is OverlappingSums
        if server.step.name == "unmask":
            break
        front.take_over(*own)
        if server.step.name == "mask":
            log.close()  # the server is lost here, and another one goes on
            log = ccesa.RoundLog(**files)
            server = ccesa.Server(config, executor=executor, log=log)
            server.replay()
        requests = server.close()
        front.close()

    start = time.perf_counter()
    server.close()
    log.close()
    print(f"masks taken off in {time.perf_counter() - start:.2f} s")
    return server.result()


def answers_of(server: ccesa.Server) -> tuple[dict[int, bytes], memoryview]:
    """Return what another front end takes over: all answers, and the sum of their vectors."""
    summed = server.total is not None and server.step.name == "mask"
    total = server.total.copy().data.cast("B") if summed else memoryview(b"")
    return {i: server.recall(i) for i in server.answered}, total


def take(server: ccesa.Server, clients: list[ccesa.Client], requests: Mapping[int, bytes]) -> None:
    """Carry requests to clients and replies back; over your transport, if it is not all in one process."""
    for i, request in requests.items():
        server.receive(i, clients[i].receive(request))


if __name__ == "__main__":
    main()
