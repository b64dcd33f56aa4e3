"""A server of PostgreSQL for tests: Debian's binaries, a folder of its own, no port."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

import machine

_FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB", "max_connections": "60"}
_QUIET = {"listen_addresses": "", "logging_collector": "off", "autovacuum_naptime": "5s"}


def _unprivileged() -> dict[str, object]:
    """Whose processes these are: root may not run a server."""
    if os.getuid():
        return {}
    return {"user": "nobody", "group": "nogroup", "extra_groups": []}


def _children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


class Server:
    """A server that can be stopped, killed and started again with what it has on its disk."""

    def __init__(self) -> None:
        self._binaries = Path(machine.need("postgresql"))
        self.folder = Path(tempfile.mkdtemp(prefix="ccesa-pg-"))  # short: it is a socket's name
        self._process: subprocess.Popen[bytes] | None = None
        self._names = count()
        if not os.getuid():
            shutil.chown(self.folder, "nobody", "nogroup")
        self._call("initdb", "-D", self._data, "-U", "ccesa", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(command, capture_output=True, cwd="/", check=False, **_unprivileged())
        assert done.returncode == 0, done.stderr.decode()

    def start(self, **settings: str) -> None:
        """Start it; settings take precedence over those that make it fast."""
        every = _QUIET | {"unix_socket_directories": str(self.folder)} | _FAST | settings
        options = [part for name, value in every.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", self._data, *options],
                cwd="/",
                stdout=log,
                stderr=log,
                **_unprivileged(),
            )
        ready = [str(self._binaries / "pg_isready"), "-q", "-h", str(self.folder), "-t", "1"]
        for _ in range(600):
            if subprocess.run(ready, check=False).returncode == 0:
                return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self) -> None:
        """Stop it in order; whoever is connected is cut off."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill it and all its processes, as if the power went."""
        processes = [self._process.pid, *_children(self._process.pid)]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        self._process = None
        while any(Path(f"/proc/{process}").exists() for process in processes):
            time.sleep(0.01)

    def url(self) -> str:
        """The URL of a new place for tables, in which there are none."""
        name = f"place{next(self._names)}"
        self.psql(f"CREATE SCHEMA {name}")
        host = quote(str(self.folder), safe="")
        return f"postgresql://ccesa@/postgres?host={host}&options=-csearch_path%3D{name}"

    def psql(self, sql: str) -> str:
        """What statements print, or a dump that is read."""
        command = [self._binaries / "psql", "-h", self.folder, "-U", "ccesa", "-d", "postgres", "-XAtq"]
        command += ["-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(command, input=sql, capture_output=True, check=True, text=True)
        return done.stdout.strip()

    def dump(self, *options: str) -> str:
        """What ``pg_dump`` prints."""
        command = [self._binaries / "pg_dump", "-h", self.folder, "-U", "ccesa", *options, "postgres"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def remove(self) -> None:
        """Stop it, and leave nothing behind."""
        self.stop()
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def postgres_server():
    """A server for all tests of this process."""
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of an empty database of PostgreSQL."""
    return postgres_server.url()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """The URL of an empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/federation.db"
    return request.getfixturevalue("postgres_url")
