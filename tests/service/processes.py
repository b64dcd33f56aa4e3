"""Federations of real processes: hubs, and sites in a few of them, that are killed and started again.

Hubs are ``ccesa serve``, or the same in a process that is forked from one that has imported everything: that
one is up in a tenth of a second, so that it can be killed two hundred times.
"""

import ctypes
import hashlib
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx
import msgspec
import numpy as np

from ccesa.agreement.charter import Charter
from ccesa.errors import CcesaError
from ccesa.memory import FolderMemory
from ccesa.service.errors import Unavailable
from ccesa.service.federation import Federation
from ccesa.service.hub.hub import Hub
from ccesa.service.participant import driver
from ccesa.service.participant.calls import Call, HubAnswer
from ccesa.service.participant.core import take_part
from ccesa.service.participant.driver import carry, drive
from ccesa.service.participant.site import Site, standing_of
from ccesa.service.store import audit, open_store
from engines import check_asked
from rounds import charter, identity

WORDS = 50
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_FORKING = multiprocessing.get_context("forkserver")


def vector(client: int, task: bytes) -> np.ndarray:
    return np.random.default_rng([client, *task]).integers(0, 2**32, WORDS, dtype=np.uint32)


def free_ports(count: int) -> list[int]:
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in made]
    for one in made:
        one.close()
    return ports


@dataclass(kw_only=True)
class Place:
    """A folder with everything that a federation's processes need, and the processes themselves."""

    folder: Path
    store: str
    guard: str = "curious"
    clients: int = 20
    rounds: int = 5000
    hubs: int = 1
    policy: dict[str, float] = field(default_factory=dict)
    #: Whether hubs are ``ccesa serve`` as it is typed.
    typed: bool = False

    def __post_init__(self) -> None:
        ports = free_ports(2 * self.hubs)
        self.urls = [f"http://127.0.0.1:{port}" for port in ports[: self.hubs]]
        least = self.clients // 2
        (self.folder / "charter.toml").write_text(str(charter(self.clients, bits=32, min_survivors=least)))
        for place in range(self.hubs):
            written = self._written(ports[place], ports[self.hubs + place], place, least)
            self._file(place).write_text(written)
        self.federation = Federation.load(self._file(0))
        store = open_store(self.federation.store)
        for client in range(self.clients):
            store.add_token(hashlib.sha256(f"token-{client}".encode()).digest(), client, "")
        store.close()
        self.running: dict[str, BaseProcess | subprocess.Popen[bytes]] = {}

    def _file(self, place: int) -> Path:
        return self.folder / f"federation-{place}.toml"

    def _written(self, listen: int, operate: int, place: int, least: int) -> str:
        agreed = (
            'charter = "charter.toml"'
            if self.guard == "active"
            else f"[round]\nclients = {self.clients}\nmin_survivors = {least}\n"
            'graph = {type = "complete"}\nthreshold = {type = "majority"}'
        )
        waits = {
            "enough": 0.8,
            "after": 1,
            "deadline": 3,
            "vector_after": 1,
            "vector_deadline": 3,
            "gather": 2,
            "absent": 20,
            **self.policy,
        }
        policy = "\n".join(f"{name} = {value}" for name, value in waits.items())
        return f"""\
name = "kills"
rounds = {self.rounds}
question = "kills"
{agreed}
[form]
type = "words"
words = {WORDS}
bits = 32
[policy]
{policy}
[hub]
store = "{self.store}"
listen = "127.0.0.1:{listen}"
operate = "127.0.0.1:{operate}"
origins = [{", ".join(f'"{url}"' for url in self.urls)}]
spool = "spool-{place}"
counter = "federation-{place}.counter"
"""

    # Processes

    def start_hub(self, place: int = 0) -> None:
        name = f"hub{place}"
        if self.typed:
            with (self.folder / f"{name}.log").open("ab") as log:
                self.running[name] = subprocess.Popen(
                    [sys.executable, "-m", "ccesa", "serve", str(self._file(place)), "--name", name],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=_child,
                )
        else:
            self._fork(name, _serve, str(self._file(place)), name, str(self.folder / f"{name}.log"))

    def start_sites(self, group: int, groups: int = 4) -> None:
        """Start a process with every so manieth site in it."""
        clients = list(range(group, self.clients, groups))
        self._fork(f"sites{group}", _sites, str(self.folder), self.guard, clients, self.clients, self.urls)

    def _fork(self, name: str, work, *arguments) -> None:
        _preload()
        self.running[name] = process = _FORKING.Process(target=work, args=arguments, daemon=True)
        process.start()

    def kill(self, name: str) -> None:
        """SIGKILL, as when the power goes."""
        process = self.running.pop(name)
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait() if isinstance(process, subprocess.Popen) else process.join()

    def signal(self, name: str, what: signal.Signals) -> None:
        os.kill(self.running[name].pid, what)

    def is_up(self, name: str) -> bool:
        process = self.running[name]
        return process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive()

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.kill(name)

    # What has come of it

    def wait_over(self, seconds: float) -> None:
        """Wait until a hub says that all is over; hubs that have ended by themselves are a failure."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for place, url in enumerate(self.urls):
                assert self.is_up(f"hub{place}"), (self.folder / f"hub{place}.log").read_text()[-3000:]
                with suppress(httpx.HTTPError):
                    if httpx.get(f"{url}/v1/federation", timeout=5).json()["state"] == "over":
                        return
            time.sleep(0.2)
        raise AssertionError(self.told())

    def leader(self) -> int:
        """Which hub holds the lease."""
        store = open_store(self.federation.store)
        with store._database.reading() as run:
            [(name,)] = run("SELECT hub FROM lease")
        store.close()
        return int(name.removeprefix("hub"))

    def sums(self) -> int:
        """How many there are."""
        store = open_store(self.federation.store)
        rows = store.rounds()
        store.close()
        return sum(row.outcome == "sum" for row in rows)

    def told(self) -> str:
        """The last that everyone said."""
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in self.folder.glob("*.log"))

    def errors(self) -> str:
        """What ended sites that should not have."""
        return "".join(path.read_text() for path in self.folder.glob("*.errors"))


def check(place: Place) -> list:
    """Sums are the plain ones over the survivors listed, lost rounds have names, and the audit log holds."""
    made, store = place.federation, open_store(place.federation.store)
    rows = store.rounds(totals=True)
    sums = [row for row in rows if row.outcome == "sum"]
    for row in sums:
        assert len(set(row.survivors)) == len(row.survivors) >= made.min_survivors
        expected = sum(vector(client, store.task_of(row.question)) for client in row.survivors)
        assert np.array_equal(np.frombuffer(row.total, np.uint32), expected)
    assert len({row.question for row in sums}) == len(sums)
    assert all(row.outcome.isidentifier() and row.reason for row in rows if row.outcome != "sum")
    for question in {row.question for row in rows} - {None}:
        assert sum(row.question == question for row in rows) <= made.agreement.attempts
    check_asked(store, made, rows)
    entries = list(store.audit_rows())
    audit.verify(entries)
    told = [msgspec.json.decode(entry.body) for entry in entries if entry.kind == "round"]
    found = sorted((one["series"], one["number"], one["outcome"], one["survivors"]) for one in told)
    assert found == [(row.series, row.number, row.outcome, list(row.survivors)) for row in rows]
    store.close()
    assert not place.errors()
    return rows


# What runs in processes


@cache
def _preload() -> None:
    """Import everything once, in the process that all others are forked from."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        _FORKING.set_forkserver_preload(["processes"])
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _child() -> None:
    """End with whoever started this, and listen to SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _serve(path: str, name: str, log: str) -> None:
    """What ``ccesa serve`` does."""
    from ccesa.service import logs

    _child()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    logs.set_up("text")
    Hub(Federation.load(path), name=name).serve()


def _sites(folder: str, guard: str, clients: list[int], of: int, urls: list[str]) -> None:
    """Run some sites, each in a thread of its own; they soon give up a hub that stands still."""
    _child()
    driver._SILENCE = 2.0
    agreed = charter(of, bits=32, min_survivors=of // 2) if guard == "active" else None
    threads = [threading.Thread(target=_site, args=(Path(folder), client, agreed, urls)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _site(folder: Path, client: int, agreed: Charter | None, urls: list[str]) -> None:
    """Be a site that goes to another hub whenever one does not answer, and now and then anyway."""
    memory = FolderMemory(folder / f"memory-{client}")
    standing = standing_of(
        origin=random.choice(urls),
        charter=agreed,
        identity=identity(client) if agreed else None,
        token=None if agreed else f"token-{client}",
    )
    site = Site(standing=standing, contribute=lambda task, number: vector(client, task), memory=memory, wait=5)
    lines = [httpx.Client(base_url=url) for url in urls]

    def call(what: Call) -> HubAnswer:
        if random.random() < 0.1:
            lines.append(lines.pop(0))
        answer = carry(lines[0], what)
        if answer.status in (0, 503):
            lines.append(lines.pop(0))
        return answer

    try:
        drive(take_part(site), call, lambda seconds: time.sleep(min(seconds, 0.3)))
    except (CcesaError, OSError):
        (folder / f"site-{client}.errors").write_text(traceback.format_exc())


def finish(place: Place) -> None:
    """Ask for no more than what is under way."""
    for _ in range(100):
        with suppress(Unavailable):
            store = open_store(place.federation.store)
            store.finish()
            store.close()
            return
        time.sleep(0.1)
    raise AssertionError("the store stays away")
