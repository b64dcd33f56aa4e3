"""Clients in TypeScript, driven from here: in Node by lines of JSON, in Chromium by a function of a page."""

import contextlib
import functools
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pytest

import machine
from browser import BrowserThread

PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"
#: Seconds in which a command is carried out, or something hangs.
PATIENCE = 120


class Runner(Protocol):
    """Carries out the commands of clients/typescript/test/runner.ts."""

    name: str

    def call(self, op: str, **fields: Any) -> Any:
        """Return what the command gives."""


class Mistake(AssertionError):
    """Raised for what the client in TypeScript threw and is none of its refusals."""


class Node:
    """The runner in a process of Node."""

    name = "node"

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [machine.need("node"), str(built("build/test/runner-node.js"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def call(self, op: str, **fields: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        line = self._process.stdout.readline()
        if not line:
            raise Mistake(f"node ended with {self._process.wait()}")
        return unmistaken(json.loads(line))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Page:
    """The runner in a page of the one browser."""

    name = "chromium"
    _SCRIPT = "command => handle(command).catch(error => ({mistake: String(error?.stack ?? error)}))"

    def __init__(self, page: Any, thread: BrowserThread) -> None:
        self._page, self._thread = page, thread

    def call(self, op: str, **fields: Any) -> Any:
        answer = self._thread.submit(self._page.evaluate, self._SCRIPT, {"op": op, **fields})
        return unmistaken(answer.result(PATIENCE))


def unmistaken(answer: Any) -> Any:
    if isinstance(answer, dict) and "mistake" in answer:
        raise Mistake(answer["mistake"])
    return answer


def built(name: str) -> Path:
    """Return a file of the package that make has built."""
    machine.need("node")
    path = PACKAGE / name
    if not path.exists():
        pytest.fail(f"{path} is not there: make client builds it")
    return path


class _Files(http.server.SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; the address is a secure context for browsers."""
    handler = functools.partial(_Files, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def in_node() -> Iterator[Runner]:
    """Run clients in Node."""
    node = Node()
    try:
        yield node
    finally:
        node.close()


@contextlib.contextmanager
def in_chromium(thread: BrowserThread) -> Iterator[Runner]:
    """Run clients in Debian's Chromium."""
    built("build/test/runner.js")

    def open_page(address: str) -> Any:
        page = thread.browser.new_page()
        page.goto(f"{address}/test/page.html")
        page.evaluate("import('/build/test/runner.js').then(({ handle }) => void (globalThis.handle = handle))")
        return page

    with served(PACKAGE) as address:
        page = thread.run(open_page, address)
        try:
            yield Page(page, thread)
        finally:
            thread.run(page.close)


#: The names of the runners' fixtures.
PLATFORMS = ("node", "chromium")
