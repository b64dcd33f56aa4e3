"""The client for browsers and Node beside Python's: degree 40, a million words of 32 bits.

All clients of one round take turns, a third of them in Python, in Node and in Chromium. A step is timed by
the clock where it runs, from the request's bytes to the reply's, with threads and workers as by default.
"""

import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.progress import say
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import Complete
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server

DEGREE, LENGTH = 40, 1_000_000
#: By generator: rounds that are measured. ChaCha20 has no target, and a browser takes seconds for it.
ROUNDS = {"aes128-ctr": 5, "chacha20": 1}
#: By the names of steps: the most times that Python's client may be faster, in Node and in Chromium.
MOST = {"share": {"node": 5, "chromium": 5}, "mask": {"node": 4, "chromium": 6}}
PLATFORMS = ("python", "node", "chromium")
PACKAGE = Path(__file__).parents[1] / "clients" / "typescript"

#: Carries a command of clients/typescript/bench/timed.ts out.
Call = Callable[[dict[str, Any]], Any]


def compare() -> dict[str, Any]:
    """Measure rounds of both generators."""
    with _node() as node, _chromium() as chromium:
        elsewhere = {"node": node, "chromium": chromium}
        return {"degree": DEGREE, "length": LENGTH, "generators": {name: _measured(name, elsewhere) for name in ROUNDS}}


def _measured(generator: str, elsewhere: dict[str, Call]) -> dict[str, dict[str, float]]:
    """Return, by steps and platforms, medians of milliseconds."""
    found: dict[str, dict[str, list[float]]] = {step: {name: [] for name in PLATFORMS} for step in MOST}
    for number in range(ROUNDS[generator]):
        say(f"typescript: {generator}, round {number + 1} of {ROUNDS[generator]}")
        for step, ms in _round(generator, elsewhere):
            for place, one in enumerate(ms):
                found[step][PLATFORMS[place % len(PLATFORMS)]].append(one)
    return {step: {name: median(ms) for name, ms in all_ms.items()} for step, all_ms in found.items()}


def _round(generator: str, elsewhere: dict[str, Call]) -> Iterator[tuple[str, list[float]]]:
    """Give the milliseconds of every client in the steps that have targets, in the order of ids."""
    config = RoundConfig(clients=DEGREE + 1, length=LENGTH, graph=Complete(), generator=generator)
    task = bytes(32)
    server = Server(config, task=task)
    clients = [_joined(config, i, task, elsewhere) for i in range(config.clients)]
    requests = server.open()
    while True:
        step, ms, sizes = server.step.name, [], set()
        for i, request in requests.items():
            taken, reply, size = clients[i](bytes(request))
            ms.append(taken)
            sizes.add(size)
            if step != "mask":
                server.receive(i, reply)
        if len(sizes) > 1:
            raise RuntimeError(f"replies of {sizes} bytes")
        if step in MOST:
            yield step, ms
        if step == "mask":
            return
        requests = server.close()


def _joined(
    config: RoundConfig, i: int, task: bytes, elsewhere: dict[str, Call]
) -> Callable[[bytes], tuple[float, bytes, int]]:
    """Return what answers a request: milliseconds, the reply, and its size."""
    place = PLATFORMS[i % len(PLATFORMS)]
    if place == "python":
        return functools.partial(_here, Client(config, i, np.full(LENGTH, i, np.uint32), task=task))
    call = elsewhere[place]
    call({"op": "join", "config": config.encode().hex(), "client": i, "task": task.hex()})
    return functools.partial(_there, call, i)


def _here(client: Client, request: bytes) -> tuple[float, bytes, int]:
    start = time.perf_counter()
    reply = client.receive(request)
    return (time.perf_counter() - start) * 1e3, reply, len(reply)


def _there(call: Call, client: int, request: bytes) -> tuple[float, bytes, int]:
    timed = call({"op": "receive", "client": client, "request": request.hex()})
    return timed["ms"], bytes.fromhex(timed["reply"]), timed["bytes"]


@contextlib.contextmanager
def _node() -> Iterator[Call]:
    """Run clients in Node, in a process of their own."""
    script = PACKAGE / "build" / "bench" / "node.js"
    if not script.exists():
        raise SystemExit(f"{script} is not there: make client builds it")
    command = ["node", str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        sent, received = process.stdin, process.stdout

        def call(asked: dict[str, Any]) -> Any:
            print(json.dumps(asked), file=sent, flush=True)
            return json.loads(received.readline() if received else "")

        yield call
        process.terminate()


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def _chromium() -> Iterator[Call]:
    """Run clients in a page of Debian's Chromium; pages of loopback may use WebCrypto."""
    from playwright.sync_api import sync_playwright  # of the tests' tools: pages are made without

    files = functools.partial(_Files, directory=os.fspath(PACKAGE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), files) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/test/page.html")
        page.evaluate("import('/build/bench/timed.js').then(({ handle }) => void (globalThis.handle = handle))")
        yield lambda asked: page.evaluate("asked => handle(asked)", asked)
        browser.close()
        server.shutdown()


_NAMES = {"python": "Python", "node": "Node", "chromium": "Chromium"}


def targets(found: dict[str, Any]) -> list[tuple[str, float, float, bool]]:
    """Return how many times as long as Python's client others take, and how many they may."""
    steps = found["generators"]["aes128-ctr"]
    what = "the {} step in {}, 40 neighbours, a million words: times Python's"
    return [
        (what.format(step, _NAMES[name]), _times(steps[step], name), most, True)
        for step, each in MOST.items()
        for name, most in each.items()
    ]


def _times(ms: dict[str, float], name: str) -> float:
    return ms[name] / ms["python"]


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    lines = [
        f"One client of `clients/typescript`, {found['degree']} neighbours, {found['length']:,} words of 32 "
        "bits, from the request's bytes to the reply's: milliseconds by the clock, medians, in turn with "
        "clients in Python in the same rounds (`bench/typescript.py`). In brackets: times Python's. All take "
        "as many threads as they do by themselves. Chromium has no ChaCha20 of its own.\n",
        "| generator | step | Python | Node | Chromium |",
        "|---|---|--:|--:|--:|",
    ]
    for generator, steps in found["generators"].items():
        for step, ms in steps.items():
            others = [f"{ms[name]:.1f} ({_times(ms, name):.1f})" for name in PLATFORMS[1:]]
            lines.append(f"| `{generator}` | {step} | {ms['python']:.1f} | {' | '.join(others)} |")
    return "\n".join(lines)
