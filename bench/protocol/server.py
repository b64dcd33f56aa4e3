"""The server of a large round beside its floor, and one whole client of the same round under both guards.

A thousand clients on the planned graph, a tenth of them lost on the way, a million 32-bit words. The floor is
the keystreams that the server has to add, with the kernel that runs, its agreements by the library, and one
addition per vector, all sampled between the replies. Processor time, one thread.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, TypeVar

import numpy as np

from bench.crypto import kernels
from bench.protocol.rounds import server_work
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import masks, primitives
from ccesa.crypto.kernels import kernel
from ccesa.graphs import Complete
from ccesa.plan import plan
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import steps_of
from ccesa.simulate import federate
from ccesa.simulate.enrolment import Enrolment, new_client, new_server
from ccesa.simulate.simulation import Independent

T = TypeVar("T")
CLIENTS, LENGTH, DROPOUT = 1000, 1_000_000, 0.1
#: Keystreams, agreements and additions in one sample of the floor.
ROW = 16
#: Replies that a server gets in a row, as one that has a machine to itself; then the floor is sampled.
BATCH = 40


def compare() -> dict[str, Any]:
    """Measure the server's parts, its floor, and whole clients of such a round."""
    made = plan(CLIENTS, DROPOUT)
    config = RoundConfig(clients=CLIENTS, length=LENGTH, graph=made.graph, threshold=made.threshold)
    server, spent, floor = _played(config)
    found = server.result()
    agreements, streams = server_work(found)
    work = {"agreement": agreements, "keystream": streams, "addition": len(found.survivors)}
    least = {name: count * median(floor[name]) for name, count in work.items()}
    return {
        "clients": CLIENTS,
        "length": LENGTH,
        "degree": made.degree,
        "mask_degree": made.mask_degree,
        "survivors": len(found.survivors),
        "kernel": kernel().name,
        "work": work,
        "floor_ms": least,
        "server_ms": spent,
        "ratio": sum(spent.values()) / sum(least.values()),
        **_clients(int(made.degree), int(made.mask_degree)),
    }


def _played(config: RoundConfig) -> tuple[Server, dict[str, float], dict[str, list[float]]]:
    """Play one round; return its server, what that spent by part, and samples of the floor."""
    vector = np.random.default_rng(0).integers(2**32, size=config.length, dtype=np.uint32)
    clients = {i: Client(config, i, vector, threads=1) for i in range(config.clients)}
    gone = Independent(DROPOUT).draw(steps_of(config), config.clients, np.random.default_rng(0))
    server, spent = Server(config, threads=1), defaultdict[str, float](float)
    sample, floor = _floor(vector), defaultdict[str, list[float]](list)
    requests = server.open()
    while requests:
        step, left = server.step, sorted(requests.keys() - gone[server.step.name])
        part = "vectors" if m.has_vector(step.reply) else "the rest"
        for first in range(0, len(left), BATCH):
            replies = {i: clients[i].receive(requests[i]) for i in left[first : first + BATCH]}
            for i, reply in replies.items():
                spent[part] += _timed(partial(server.receive, i, reply))[0]
            for name, work in sample.items():
                floor[name].append(_timed(work)[0] / ROW)
        part = "unmasking" if server.next_step is None else "the rest"
        ms, requests = _timed(server.close)
        spent[part] += ms
    return server, dict(spent), floor


def _floor(vector: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return what is in the floor, each as a row of as many."""
    total, every = vector.copy(), [masks.Mask(os.urandom(16), 1 - 2 * (k % 2)) for k in range(ROW)]
    vectors = [vector.copy() for _ in range(ROW)]
    private = primitives.private_key(os.urandom(32))
    public = [primitives.public_key(primitives.private_key(os.urandom(32))) for _ in range(ROW)]
    return {
        "keystream": lambda: kernel().add(total, total, 0, every, "aes128-ctr"),
        "agreement": lambda: [private.exchange(primitives.load_public_key(one)) for one in public],
        "addition": lambda: [np.add(total, one, out=total) for one in vectors],
    }


def _clients(degree: int, mask_degree: int) -> dict[str, Any]:
    """Return the time of one client in all steps: with as many masks as planned, and under ``active`` all.

    Beside it stands what the bare instructions take for the keystream of the first.
    """
    federation = federate(degree + 1, graph=Complete())
    planned = RoundConfig(clients=degree + 1, length=LENGTH, graph=Complete(mask_degree=mask_degree))
    instructions = kernels.bare(planned.generator, (mask_degree + 1) * planned.vector_bytes)
    curious, least = _client_ms(planned, None, instructions)
    active, _ = _client_ms(federation.charter.config(length=LENGTH), federation, None)
    return {"client_ms": {"curious": curious, "active": active}, "client_limit_ms": least}


def _client_ms(
    config: RoundConfig, federation: Enrolment | None, instructions: Callable[[], object] | None
) -> tuple[float, float | None]:
    """Return the median over the clients of a round in which all are neighbours, and that of instructions."""
    vector = np.random.default_rng(0).integers(2**32, size=LENGTH, dtype=np.uint32)
    clients = {i: new_client(config, i, vector, federation, threads=1) for i in range(config.clients)}
    server, times = new_server(config, federation), dict.fromkeys(clients, 0.0)
    bare: list[float] = []
    requests = server.open()
    while requests:
        for i, request in requests.items():
            ms, reply = _timed(partial(clients[i].receive, request))
            times[i] += ms
            if instructions:
                bare.append(_timed(instructions)[0])
            server.receive(i, reply)
        requests = server.close()
    return median(times.values()), median(bare) if bare else None


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    found = work()
    return (time.process_time() - start) * 1e3, found


def whole_client(found: dict[str, Any]) -> list[tuple[str, float, float, bool]]:
    """Return the row of targets, where there are bare instructions to compare with."""
    least = found["client_limit_ms"]
    what = "whole client of that round: times the bare instructions for its keystream"
    return [(what, found["client_ms"]["curious"] / least, 2.3, True)] if least else []


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    spent, floors, work = found["server_ms"], found["floor_ms"], found["work"]
    rows = [
        f"| {name} | {spent[part]:,.0f} | {what} | {sum(floors[one] for one in floor):,.0f} |"
        for name, part, what, floor in (
            ("taking in the vectors", "vectors", f"{work['addition']:,} additions", ["addition"]),
            (
                "unmasking",
                "unmasking",
                f"{work['keystream']:,} keystreams, {work['agreement']:,} agreements",
                ["keystream", "agreement"],
            ),
            ("all other messages and steps", "the rest", "", []),
        )
    ]
    ms = {guard: f"{found['client_ms'][guard]:.1f}" for guard in ("curious", "active")}
    least = found["client_limit_ms"]
    bare = f", of which bare instructions for its keystream would take {least:.1f}" if least else ""
    return (
        f"{found['clients']:,} clients, the planned circle of {found['degree']:.0f} neighbours with masks on "
        f"{found['mask_degree']:.0f}, {found['length']:,} words of 32 bits, a tenth of the clients lost on "
        f"the way, {found['survivors']} in the sum; one thread, processor time, kernel {found['kernel']} "
        "(`bench/protocol/server.py`). The floor is the keystreams that have to be added, by the same "
        "kernel, the agreements by the library, and one addition per vector, sampled between the replies. "
        f"The server takes {found['ratio']:.2f} times its floor.\n\n"
        "| | server, ms | floor | floor, ms |\n|---|---:|---|---:|\n" + "\n".join(rows) + "\n\n"
        f"A client of that round takes {ms['curious']} ms for all its steps{bare}. Under `active`, where "
        f"masks run on all {found['degree']:.0f} edges and signatures are checked, {ms['active']} ms."
    )


if __name__ == "__main__":
    print(compare())
