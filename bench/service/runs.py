"""One run of the service on this machine: hubs, a crowd and strangers, in processes of their own."""

import asyncio
import hashlib
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.service.crowd import Case, Seen, gather, plain_sum, processor_seconds
from bench.service.strangers import beset
from ccesa.policy import Policy
from ccesa.service.federation import Federation, HubTable
from ccesa.service.hub.hub import Hub
from ccesa.service.store import open_store
from ccesa.service.store.rows import ExchangeRow, RoundRow

#: Everyone is waited for: what is measured is how long that takes.
POLICY = Policy(enough=1.0, after=300, deadline=300, vector_after=300, vector_deadline=300, gather=300, absent=300)
#: Seconds after which a run has failed.
LIMIT = 400.0
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(kw_only=True)
class Ran:
    """What came of a run."""

    case: Case
    seen: Seen
    exchanges: list[ExchangeRow]
    rounds: list[RoundRow]
    #: Of each hub: processor seconds of its event loop and of its other threads, and MB before and at most.
    hubs: list[dict[str, float]]
    wall_s: float
    strangers: dict[str, int] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether every round has a sum, and it is the plain one."""
        return len(self.rounds) == self.case.rounds and all(map(self._is_exact, self.rounds))

    def _is_exact(self, row: RoundRow) -> bool:
        if row.outcome != "sum" or row.question is None:
            return False
        expected = plain_sum(self.case, row.survivors, row.question)
        return np.array_equal(np.frombuffer(row.total, np.uint32), expected)

    @property
    def survivors(self) -> list[int]:
        """How many are in each sum."""
        return [len(row.survivors) for row in self.rounds]

    def acknowledged(self) -> tuple[float, float]:
        """Return median and 99th percentile of the seconds from an opening to an acknowledgement."""
        opened = {one.exchange: one.opened for one in self.exchanges}
        taken = [each.ended - opened[each.exchange] for each in self.seen.sent if each.status == 204]
        return median(taken), float(np.quantile(taken, 0.99))

    def steps(self) -> list[dict[str, Any]]:
        """What each exchange took, as the clients in it saw it."""
        found = []
        for one in self.exchanges:
            of_it = [each for each in self.seen.sent if each.exchange == one.exchange and each.status == 204]
            taken = [each.ended - one.opened for each in of_it]
            answer = [each.ended - each.began for each in of_it]
            found.append(
                {
                    "exchange": one.exchange,
                    "vectors": one.question is not None,
                    "replies": len(of_it),
                    "bytes": sum(each.bytes for each in of_it),
                    "open_s": (one.closed or np.nan) - one.opened,
                    "median_s": median(taken),
                    "p99_s": float(np.quantile(taken, 0.99)),
                    "answer_median_s": median(answer),
                    "answer_p99_s": float(np.quantile(answer, 0.99)),
                }
            )
        return found

    def record(self) -> dict[str, Any]:
        """Return what is kept of it."""
        return {
            "guard": self.case.guard,
            "clients": self.case.clients,
            "words": self.case.words,
            "degree": self.case.planned.degree,
            "edges": self.case.edges,
            "complete": len([row for row in self.rounds if row.outcome == "sum"]),
            "rounds": self.case.rounds,
            "survivors": self.survivors,
            "exact": self.exact,
            "wall_s": self.wall_s,
            "steps": self.steps(),
            "hubs": self.hubs,
            "crowd_cpu_s": self.seen.cpu_s,
            "bytes_to_hub": self.seen.bytes_out,
            "bytes_from_hub": self.seen.bytes_in,
            "told": self.seen.told,
            "strangers": self.strangers,
        }


def run(
    case: Case, folder: Path, *, store: str | None = None, hubs: int = 1, hold: bool = False, strangers: bool = False
) -> Ran:
    """Run a federation to its end; every process is gone when this returns.

    Args:
        case: Who takes part, in what.
        folder: For the database, if no other is given, and for uploads.
        store: URL of an empty database; by default SQLite in the folder.
        hubs: Processes that share it.
        hold: Whether vectors wait for each other before they leave.
        strangers: Whether there are strangers beside the crowd.
    """
    ports = _free_ports(2 * hubs)
    made = [_federation(case, folder, store, ports[2 * hub : 2 * hub + 2]) for hub in range(hubs)]
    addresses = [("127.0.0.1", ports[2 * hub]) for hub in range(hubs)]
    _invite(case, made[0])
    with ExitStack() as stack:
        serving = []
        for hub in range(hubs):
            place = (case, folder, store, ports[2 * hub : 2 * hub + 2])
            process, pipe = stack.enter_context(_process(_serve, *place))
            _received(pipe, 60)
            serving.append((process, pipe, _usage(process.pid or 0)))
        beside = stack.enter_context(_process(_beset, addresses[0])) if strangers else None
        began = time.time()
        held = [process.pid or 0 for process, _, _ in serving] if hold else []
        _, pipe = stack.enter_context(_process(_take_part, case, addresses, held))
        seen = _received(pipe, LIMIT)
        wall_s = time.time() - began
        counts = {} if beside is None else _asked(beside[1])
        used = [_used(before, _usage(process.pid or 0)) for process, _, before in serving]
        for process, _, _ in serving:
            os.kill(process.pid or 0, signal.SIGTERM)
        for process, _, _ in serving:
            process.join(20)
    exchanges, rounds = _log(made[0])
    return Ran(case=case, seen=seen, exchanges=exchanges, rounds=rounds, hubs=used, wall_s=wall_s, strangers=counts)


def _federation(case: Case, folder: Path, store: str | None, ports: Sequence[int]) -> Federation:
    planned = case.planned
    return Federation(
        name="bench",
        rounds=case.rounds,
        charter=case.charter,
        config=None if case.charter else planned.config(length=case.words),
        form={"type": "words", "words": case.words, "bits": 32},
        policy=POLICY,
        hub=HubTable(
            listen=f"127.0.0.1:{ports[0]}",
            operate=f"127.0.0.1:{ports[1]}",
            store=store or "sqlite:///bench.db",
            spool=f"spool-{ports[0]}",
            counter=f"{ports[0]}.counter",
        ),
        folder=folder,
    )


def _invite(case: Case, made: Federation) -> None:
    with closing(open_store(made.store)) as store:
        if not made.signs_in:
            for client in range(case.clients):
                store.add_token(hashlib.sha256(case.token(client).encode()).digest(), client, "")


def _log(made: Federation) -> tuple[list[ExchangeRow], list[RoundRow]]:
    with closing(open_store(made.store)) as store:
        return store.exchanges(1), store.rounds(totals=True)


# Processes


@contextmanager
def _process(target: Any, *arguments: Any) -> Iterator[tuple[BaseProcess, Connection]]:
    """Start a process that has a pipe as its first argument; whatever happens, it ends with the block."""
    here, there = multiprocessing.Pipe()
    process = _SPAWN.Process(target=target, args=(there, *arguments), daemon=True)
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        process.kill()
        process.join()
        here.close()


def _received(pipe: Connection, seconds: float) -> Any:
    if not pipe.poll(seconds):
        raise TimeoutError(f"nothing came in {seconds:.0f} seconds")
    found = pipe.recv()
    if isinstance(found, BaseException):
        raise found
    return found


def _asked(pipe: Connection) -> Any:
    pipe.send("enough")
    return _received(pipe, 20)


def _serve(pipe: Connection, case: Case, folder: Path, store: str | None, ports: Sequence[int]) -> None:
    logging.getLogger().addHandler(logging.NullHandler())
    Hub(_federation(case, folder, store, ports)).serve(lambda hub: pipe.send("ready"))


def _take_part(pipe: Connection, case: Case, addresses: Sequence[tuple[str, int]], hold: Sequence[int]) -> None:
    try:
        pipe.send(asyncio.run(gather(case, range(case.clients), addresses, hold)))
    except BaseException as error:
        pipe.send(RuntimeError(repr(error)))
        raise


def _beset(pipe: Connection, address: tuple[str, int]) -> None:
    counts: Counter[str] = Counter()

    async def until_enough() -> None:
        besetting = asyncio.ensure_future(beset(address, counts))
        await asyncio.to_thread(pipe.recv)
        besetting.cancel()
        await asyncio.wait([besetting])

    asyncio.run(until_enough())
    pipe.send(dict(counts))


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in made]


# What a process has used


def _usage(pid: int) -> dict[str, float]:
    """Return processor seconds of the main thread and of all threads, and MB now and at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    memory = {line.split(":")[0]: int(line.split()[1]) / 1e3 for line in lines if line.startswith("Vm")}
    return {
        "loop_s": processor_seconds(f"/proc/{pid}/task/{pid}/stat"),
        "cpu_s": processor_seconds(f"/proc/{pid}/stat"),
        "now_mb": memory["VmRSS"],
        "peak_mb": memory["VmHWM"],
    }


def _used(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    loop, every = (after[name] - before[name] for name in ("loop_s", "cpu_s"))
    return {
        "cpu_s": every,
        "loop_s": loop,
        "engine_s": every - loop,
        "before_mb": before["now_mb"],
        "peak_mb": after["peak_mb"],
    }
