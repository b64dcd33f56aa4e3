"""A large server: two front ends take the vectors, and workers of an executor take the masks off their sum.

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
import time
from collections.abc import Mapping
from concurrent.futures import Executor, ProcessPoolExecutor

import numpy as np

import ccesa
from ccesa.plan import plan

CLIENTS, WORDS = 40, 1_000_000


def main() -> None:
    """Run one round, with the workers that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dask", metavar="ADDRESS", help="the scheduler of a Dask cluster")
    parser.add_argument(
        "--kill", action="store_true", help="end a worker of the process pool before its work"
    )
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
    """Set up on one server, take vectors on two, and open the sum of both on the first."""
    config = plan(CLIENTS, dropout=0.1, length=WORDS, bits=64).config()
    clients = [ccesa.Client(config, i, np.full(WORDS, i, np.uint64)) for i in range(CLIENTS)]
    openings: set[bytes] = set()  # for real a table that all of them reach, and that no backup sets back
    server = ccesa.Server(config, executor=executor, openings=openings)

    requests = server.open()
    while server.step.name != "mask":
        take(server, clients, requests)
        requests = server.close()

    front = ccesa.Server(config, openings=openings)  # on another machine; it opens nothing: no executor
    asked = front.restore(server.checkpoint())
    take(server, clients, {i: request for i, request in requests.items() if i % 2 == 0})
    take(front, clients, {i: request for i, request in asked.items() if i % 2 == 1})
    server.merge(front.checkpoint())  # each client belongs to one front end; both is OverlappingSums

    take(server, clients, server.close())
    start = time.perf_counter()
    server.close()
    found = server.result()
    print(f"masks taken off in {time.perf_counter() - start:.2f} s")
    right = bool((found.vector == sum(found.survivors)).all())
    print(f"the sum over {len(found.survivors)} clients is {'right' if right else 'wrong'}")


def take(server: ccesa.Server, clients: list[ccesa.Client], requests: Mapping[int, bytes]) -> None:
    """Carry requests to clients and replies back; over your transport, if it is not all in one process."""
    for i, request in requests.items():
        server.receive(i, clients[i].receive(request))


if __name__ == "__main__":
    main()
