"""How a server grows with the number of clients: it alone, in a process of its own, among stand-ins."""

import hashlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.crypto import crowd
from bench.progress import say
from bench.protocol.rounds import server_work
from bench.protocol.stand_ins import StandIns
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import masks, primitives, shamir
from ccesa.plan import plan
from ccesa.protocol.server import Aggregate, Server
from ccesa.simulate.simulation import peak_rss_mb

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIENTS = (1_000, 10_000, 100_000)
MILLION = 1_000_000
LENGTH, DROPOUT = 1_000, 0.1
#: What is drawn, and in which units.
WHAT = {"cpu_s": "server, seconds of processor time", "memory_mb": "server, MB"}
#: Replies that travel together.
BATCH = 256
#: Calls in one sample of the floor, and samples.
ROW, TIMES = 500, 5


class Watch:
    """Adds up the processor time of a server, by what it does."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.process_time() - start


def compare() -> dict[str, Any]:
    """Measure servers of all sizes but the largest, and a client in crowds."""
    servers = {str(clients): measure(clients) for clients in CLIENTS}
    say("one client of the guard active among 100,000")
    return {"servers": servers, "crowd": crowd.compare()}


def measure(clients: int, length: int = LENGTH, dropout: float = DROPOUT) -> dict[str, Any]:
    """Run one round between stand-ins here and a server in another process; return what that one took."""
    say(f"a server among {clients:,} stand-ins")
    planned = plan(clients, dropout, length=length)
    config = RoundConfig(clients=clients, length=length, graph=planned.graph, threshold=planned.threshold)
    stand_ins = StandIns(config, dropout, seed=clients)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there, config), daemon=True)
    process.start()
    there.close()
    while isinstance(asked := here.recv(), tuple):
        step, ids = asked
        replies = stand_ins.replies(step, ids)
        while some := list(islice(replies, BATCH)):
            here.send(some)
            here.recv()  # both at work at a time would share a core, and its processor time
        here.send([])
    process.join()
    survivors, total = asked.pop("survivors"), asked.pop("total")
    asked["floor_s"] = sum(asked["floor"].values())
    return {
        "clients": clients,
        "degree": planned.degree,
        **asked,
        "survivors": len(survivors),
        "exact": bool(np.array_equal(total, stand_ins.sum_of(survivors))),
    }


def exponents(servers: dict[str, dict[str, Any]]) -> tuple[float, float]:
    """Fit time and memory as powers of the number of clients, over all but the smallest."""
    rows = sorted(servers.values(), key=lambda one: int(one["clients"]))[1:]
    sizes = np.log([one["clients"] for one in rows])
    time, memory = (np.polyfit(sizes, np.log([one[what] for one in rows]), 1)[0] for what in WHAT)
    return float(time), float(memory)


def picture(servers: dict[str, dict[str, Any]]) -> "Figure":
    """Draw time and memory over the number of clients."""
    from matplotlib.figure import Figure

    rows = sorted(servers.values(), key=lambda one: int(one["clients"]))
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    sizes = [one["clients"] for one in rows]
    for panel, (what, label), power in zip(figure.subplots(1, 2), WHAT.items(), exponents(servers), strict=True):
        values = [one[what] for one in rows]
        panel.loglog(sizes, values, color="black", marker="o", label=f"measured, grows as n^{power:.2f}")
        panel.loglog(
            sizes, [values[-1] * size / sizes[-1] for size in sizes], color="0.6", ls="--", label="in proportion"
        )
        panel.set(xlabel="clients", ylabel=label)
        panel.grid(color="0.9")
        panel.legend(fontsize=8)
    return figure


def _serve(stand_ins: Connection, config: RoundConfig) -> None:
    """Run the server; only its own calls are timed."""
    watch, server = Watch(), Server(config)
    before, request_bytes = peak_rss_mb(), 0
    with watch.on("open"):
        requests = server.open()
    while requests:
        step = server.step.name
        stand_ins.send((step, np.fromiter(requests, np.int64)))
        with watch.on("requests"):
            request_bytes += sum(len(requests[client]) for client in requests)
        while some := stand_ins.recv():
            with watch.on(f"receive {step}"):
                for client, reply in some:
                    server.receive(client, reply)
            stand_ins.send("taken")
        with watch.on(f"close {step}"):
            requests = server.close()
    result = server.result()
    stand_ins.send(
        {
            "seconds": watch.seconds,
            "cpu_s": sum(watch.seconds.values()),
            "memory_mb": peak_rss_mb() - before,
            "request_bytes": request_bytes,
            "floor": _floor(config, result),
            "survivors": result.survivors,
            "total": result.vector,
        }
    )


def _floor(config: RoundConfig, result: Aggregate) -> dict[str, float]:
    """Return the seconds of those calls of libraries that no server of this round can do without."""
    evolution, (agreements, streams) = result.evolution, server_work(result)
    survivors, dropped = len(result.survivors), int((evolution.v2 & ~evolution.v3).sum())
    threshold, rng = int(evolution.thresholds[0]), np.random.default_rng(0)
    secret, private = rng.bytes(32), primitives.private_key(rng.bytes(32))
    public = primitives.load_public_key(primitives.public_key(private))
    vector, total = result.vector.copy(), result.vector.copy()
    xs = np.tile(np.arange(1, threshold + 1), (ROW, 1))
    shares = rng.integers(65521, size=(*xs.shape, shamir.SECRET_ELEMENTS), dtype=np.uint16)
    every = [masks.Mask(rng.bytes(16), 1) for _ in range(ROW)]
    rows: dict[str, tuple[int, Callable[[], object]]] = {
        "agreements": (agreements, lambda: [primitives.agree(private, public) for _ in range(ROW)]),
        "key pairs": (dropped, lambda: [primitives.private_key(secret) for _ in range(ROW)]),
        "derivations": (streams + dropped, lambda: [primitives.derive(secret, secret, 16) for _ in range(ROW)]),
        "hashes": (3 * survivors, lambda: [hashlib.sha256(secret * 3).digest() for _ in range(ROW)]),
        "tags": (survivors, lambda: [primitives.gmac(secret[:16], vector.data.cast("B")) for _ in range(ROW)]),
        "additions": (survivors, lambda: [np.add(total, vector, out=total) for _ in range(ROW)]),
        "keystreams": (streams, lambda: masks.add_masks(total, every, config.generator, 1)),
        "secrets": (survivors + dropped, lambda: shamir.join_each(xs, shares)),
    }
    return {what: count * _seconds(work) / ROW for what, (count, work) in rows.items()}


def _seconds(work: Callable[[], object]) -> float:
    """Return the median of the processor time that something takes."""
    times = []
    for _ in range(TIMES):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return median(times)


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    servers = sorted(found["servers"].values(), key=lambda one: int(one["clients"]))
    time, memory = exponents(found["servers"])
    lines = [
        f"The server alone, in a process of its own, {LENGTH:,} words, a planned circle, a tenth drop out "
        "over the round (`bench/protocol/scale.py`). Clients are stand-ins (`bench/protocol/stand_ins.py`) "
        "with real keys and shares and real masks of whoever drops out: every sum below is compared with the "
        "plain one. Memory is the peak beyond a server that has not been opened. The floor is what calls of "
        "libraries take that no server can do without: agreements, key pairs, derivations, hashes, tags, "
        "keystreams, additions, secrets from shares.\n",
        "| clients | neighbours | exact | requests, s | receiving, s | closing, s | all, s | floor, s | MB |",
        "|--:|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for one in servers:
        part = {name: _sum_of(one["seconds"], name) for name in ("requests", "receive", "close")}
        lines.append(
            f"| {one['clients']:,} | {one['degree']:.0f} | {'yes' if one['exact'] else 'no'} "
            f"| {part['requests']:.2f} | {part['receive']:.2f} | {part['close']:.2f} "
            f"| {one['cpu_s']:.2f} | {one['floor_s']:.2f} | {one['memory_mb']:,.0f} |"
        )
    lines += [
        f"\nFrom 10,000 clients on time grows as n^{time:.2f} and memory as n^{memory:.2f}; neighbours grow "
        "with log n besides.\n",
        "![growth of a server](../bench/scale.png)\n",
        crowd.text(found["crowd"]),
    ]
    return "\n".join(lines)


def _sum_of(seconds: dict[str, float], name: str) -> float:
    return sum(value for what, value in seconds.items() if what.startswith(name))
