"""Federations with sites in Node, in Chromium and in Python, and a hub that is ``ccesa serve``."""

import hashlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import BrowserContext, Page

import machine
from ccesa.agreement.identity import Identity
from ccesa.service.federation import Federation
from ccesa.service.participant.assistant import Assistant
from ccesa.service.participant.driver import Participant
from ccesa.service.store import open_store
from rounds import charter, identity
from runners import built

WORDS = 50
#: How many helpers a charter of the guard assisted names. None is a member.
HELPERS = 3


def contribution(client: int, task: bytes, words: int = WORDS) -> np.ndarray:
    """Return what clients/typescript/test/service/site.ts contributes."""
    seed = client + 1
    for byte in task:
        seed = (seed * 31 + byte) % 2**32
    return ((seed + np.arange(words, dtype=np.uint64)) * np.uint64(2654435761)).astype(np.uint32)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in made]


@dataclass(kw_only=True)
class Hub:
    """``ccesa serve`` in a folder of its own."""

    folder: Path
    guard: str
    clients: int = 6
    rounds: int = 2
    words: int = WORDS
    policy: dict[str, float] = field(default_factory=dict)
    options: str = ""
    #: What a charter says besides, such as learning; then it says the form, too.
    agreed: dict[str, Any] = field(default_factory=dict)
    #: A module with a coordinator that is called Mine.
    coordinator: str = ""

    def __post_init__(self) -> None:
        listen, operate = _free_ports(2)
        self.url = f"http://127.0.0.1:{listen}"
        helpers = tuple(map(helper_identity, range(HELPERS))) if self.guard == "assisted" else ()
        self.charter = charter(self.clients, **{"bits": 32, "min_survivors": 3, "helpers": helpers, **self.agreed})
        (self.folder / "mine.py").write_text(self.coordinator)
        (self.folder / "charter.toml").write_text(str(self.charter))
        agreed = (
            'charter = "charter.toml"'
            if self.chartered
            else f"[round]\nclients = {self.clients}\nmin_survivors = 3\n"
            'graph = {type = "complete"}\nthreshold = {type = "majority"}'
        )
        waits = {
            "gather": 20,
            "enough": 0.8,
            "after": 5,
            "deadline": 10,
            "vector_after": 5,
            "vector_deadline": 10,
            "absent": 20,
        } | self.policy
        form = "" if self.agreed else f'[form]\ntype = "words"\nwords = {self.words}\nbits = 32'
        policy = "\n".join(f"{name} = {value}" for name, value in waits.items())
        self.file = self.folder / "federation.toml"
        self.file.write_text(
            f"""\
name = "mixed sites"
rounds = {self.rounds}
question = "how many"
{agreed}
{form}
[policy]
{policy}
[hub]
store = "sqlite:///federation.db"
listen = "127.0.0.1:{listen}"
operate = "127.0.0.1:{operate}"
{self.options}
"""
        )
        self.tokens = [f"token-{client}" for client in range(self.clients)]
        store = open_store(Federation.load(self.file).store)
        for client, token in enumerate(self.tokens):
            store.add_token(hashlib.sha256(token.encode()).digest(), client, "")
        store.close()

    @property
    def chartered(self) -> bool:
        return self.guard != "curious"

    @contextmanager
    def running(self) -> Iterator["Hub"]:
        command = [sys.executable, "-m", "ccesa", "serve", str(self.file)]
        command += ["--run", "mine:Mine"] * bool(self.coordinator)
        with (self.folder / "hub.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        try:
            self._wait_up(process)
            yield self
        finally:
            process.terminate()
            process.wait(20)

    def _wait_up(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end and process.poll() is None:
            with suppress(httpx.HTTPError):
                httpx.get(f"{self.url}/v1/federation", timeout=5).raise_for_status()
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "hub.log").read_text()[-3000:])

    def told(self, client: int) -> dict[str, Any]:
        """Return what a site in TypeScript is told."""
        who: dict[str, Any] = (
            {"charter": str(self.charter), "identity": client.to_bytes(32, "little").hex()}
            if self.chartered
            else {"token": self.tokens[client]}
        )
        return {"url": self.url, "client": client, "words": self.words, **who}

    def survivors(self) -> list[tuple[int, ...]]:
        """Check that every sum is the plain one; return who is in each."""
        store = open_store(Federation.load(self.file).store)
        rows = [row for row in store.rounds(totals=True) if row.outcome == "sum"]
        for row in rows:
            task = store.task_of(row.question)
            expected = sum(contribution(client, task, self.words).astype(np.uint64) for client in row.survivors)
            assert np.array_equal(np.frombuffer(row.total, np.uint32), expected.astype(np.uint32))
        store.close()
        return [row.survivors for row in rows]


class NodeSite:
    """A participant in a process of Node."""

    def __init__(self, hub: Hub, client: int, **options: Any) -> None:
        told = {**hub.told(client), "memory": str(hub.folder / f"memory-{client}"), **options}
        self._process = subprocess.Popen(
            [machine.need("node"), str(built("build/test/service/site-node.js"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        self.events: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        for line in self._process.stdout:
            self.events.append(json.loads(line))

    def wait_for(self, stage: str, seconds: float = 30) -> None:
        """Wait until the site has said that it is this far: a stage, or an event by its name."""
        end = time.monotonic() + seconds
        while not any(stage in (event.get("stage"), event["event"]) for event in self.events):
            assert time.monotonic() < end, self.events
            time.sleep(0.02)

    def said(self, stage: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("stage") == stage]

    def kill(self) -> None:
        """SIGKILL, as when a tab crashes."""
        self._process.kill()
        self.close()

    def stop(self) -> None:
        """Ask it to stop, as a page that is closed."""
        self._process.terminate()

    def ended(self, seconds: float = 60) -> dict[str, Any]:
        """Return the last that it said."""
        self._process.wait(seconds)
        self._thread.join(10)
        self.close()
        return self.events[-1]

    def close(self) -> None:
        self._process.wait(20)
        self._process.stdin.close()
        self._process.stdout.close()


class PageSite:
    """A participant in a tab of a browser."""

    def __init__(self, context: BrowserContext, address: str, hub: Hub, client: int, **options: Any) -> None:
        self.page = opened(context, address)
        told = {**hub.told(client), "memory": f"client-{client}", **options}
        self.page.evaluate("async said => { globalThis.site = await start(said) }", told)

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.page.evaluate("events")

    def wait_for(self, stage: str, seconds: float = 30) -> None:
        """Wait until the site has said that it is this far: a stage, or an event by its name."""
        far = "stage => events.some(event => [event.stage, event.event].includes(stage))"
        self.page.wait_for_function(far, arg=stage, timeout=1000 * seconds)

    def ended(self, seconds: float = 60) -> dict[str, Any]:
        """Return the last that it said."""
        self.page.wait_for_function("events.at(-1)?.event === 'ended'", timeout=1000 * seconds)
        return self.events[-1]


def opened(context: BrowserContext, address: str) -> Page:
    """Open a tab that can take part."""
    page = context.new_page()
    page.goto(f"{address}/test/page.html")
    load(page)
    return page


def load(page: Page) -> None:
    """Load what a tab needs to take part, when it is opened or reloaded."""
    page.evaluate("import('/build/test/service/site-page.js').then(() => undefined)")


class PythonSite(threading.Thread):
    """A participant in a thread here."""

    def __init__(self, hub: Hub, client: int) -> None:
        super().__init__(daemon=True)
        who = (
            {"charter": hub.charter, "identity": identity(client), "memory": hub.folder / f"memory-{client}"}
            if hub.chartered
            else {"token": hub.tokens[client]}
        )
        self._site = Participant(hub.url, **who)
        self._contribute = lambda task, number: contribution(client, task, hub.words)
        self.start()

    def run(self) -> None:
        self._site.run(self._contribute)


def helper_identity(place: int) -> Identity:
    """Return the identity of a helper, which is not a member's."""
    return identity(1000 + place)


class PythonHelper(threading.Thread):
    """A helper in a thread here."""

    def __init__(self, hub: Hub, place: int) -> None:
        super().__init__(daemon=True)
        who = {"charter": hub.charter, "identity": helper_identity(place)}
        self._helper = Assistant(hub.url, memory=hub.folder / f"helper-{place}", **who)
        self.start()

    def run(self) -> None:
        self._helper.run()


def helpers(hub: Hub) -> list[PythonHelper]:
    """Start all helpers of a federation, if it has any."""
    return [PythonHelper(hub, place) for place in range(len(hub.charter.helper_seats))]


@contextmanager
def sites(
    hub: Hub, node: Sequence[int], own: dict[int, dict[str, Any]] | None = None, **options: Any
) -> Iterator[dict[int, NodeSite]]:
    """Start sites in Node, some with options of their own, and one in Python for every other client and helper."""
    with ExitStack() as stack:
        made = {client: NodeSite(hub, client, **options, **(own or {}).get(client, {})) for client in node}
        for one in made.values():
            stack.callback(one.close)
            stack.callback(one.stop)
        others: list[threading.Thread]
        others = [PythonSite(hub, client) for client in range(hub.clients) if client not in made]
        others += helpers(hub)
        yield made
        for other in others:
            other.join(60)
            assert not other.is_alive()
