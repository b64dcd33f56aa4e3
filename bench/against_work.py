"""The work that ``bench.against`` compares: public names only, one JSON object of milliseconds."""

import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import numpy as np

_START = time.process_time()
import ccesa  # noqa: E402 - its import is one of the things that are measured

_IMPORT = time.process_time() - _START


def play(server: Any, clients: Mapping[int, Any], lost: int) -> dict[str, float]:
    """Play a round in which the first ``lost`` clients send no vector; return times per side and step."""
    found = {"server": 0.0}
    requests = server.open()
    while requests:
        name = server.step.name
        start = time.process_time()
        replies = {i: clients[i].receive(r) for i, r in requests.items() if name != "mask" or i >= lost}
        found[name] = (time.process_time() - start) / len(replies)
        gc.collect()
        gc.freeze()  # the clients' objects would be walked on the server's time; it has a machine to itself
        start = time.process_time()
        for i, reply in replies.items():
            server.receive(i, reply)
        requests = server.close()
        found["server"] += time.process_time() - start
    server.result()
    return found


def curious(n: int, length: int, lost: int, bits: int = 32, **others: Any) -> dict[str, float]:
    config = ccesa.RoundConfig(clients=n, length=length, bits=bits, **others)  # type: ignore[arg-type]
    vector = np.ones(length, np.dtype(f"u{bits // 8}"))
    return play(
        ccesa.Server(config, threads=1), {i: ccesa.Client(config, i, vector, threads=1) for i in range(n)}, lost
    )


def active(n: int, length: int, lost: int) -> dict[str, float]:
    identities = [ccesa.Identity.new() for _ in range(n)]
    members = ccesa.Admission(ccesa.Member(f"site-{i}", one.public) for i, one in enumerate(identities))
    planned = ccesa.plan.plan(n, dropout=0.1, guard="active", length=length)
    charter = ccesa.plan.charter(planned, members, expires=date(2100, 1, 1))
    config, vector = charter.config(length=length), np.ones(length, np.uint32)
    clients = [ccesa.ActiveClient(config, one, charter, vector, tasks=None, threads=1) for one in identities]
    return play(ccesa.Server(config, charter, threads=1), dict(enumerate(clients)), lost)


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    found = {"import ccesa": _IMPORT}
    ccesa.plan.plan(100, 0.1)  # the first plan loads scipy
    found["plan, 1,000 clients, curious"] = timed(lambda: ccesa.plan.plan(1000, 0.1, collusion=0.05))
    found["plan, 300 clients, active"] = timed(lambda: ccesa.plan.plan(300, 0.1, guard="active"))
    paper = curious(500, 10_000, 50, 16, graph=ccesa.ErdosRenyi(p=0.4171), threshold=ccesa.Fixed(t=133))
    large = curious(51, 1_000_000, 5)
    many = curious(2000, 1000, 200, graph=ccesa.Harary(degree=38))
    guarded = active(200, 10_000, 20)
    rounds = {
        "n = 500, paper's row": paper,
        "n = 51, a million words": large,
        "n = 2,000, a thousand words": many,
        "active, n = 200": guarded,
    }
    for title, times in rounds.items():
        found |= {f"{title}: {name}": seconds for name, seconds in times.items()}
    json.dump({name: 1e3 * seconds for name, seconds in found.items()}, sys.stdout)


if __name__ == "__main__":
    main()
