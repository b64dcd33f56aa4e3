"""A federation on one machine: a hub and eight sites, each a process of its own, two of which are killed.

    python examples/service_demo.py          # or: make service-demo
    python examples/service_demo.py --keep   # the hub stays up afterwards, to look at its page

Three sums are asked for. In the second one a site is killed before its vector leaves, and another one after.
The sums must be those of the sites' own files, over exactly the sites that are in them; else the exit status
is 1. Nothing listens outside this machine, and everything lies in a temporary folder. `admissions.py` is what
runs at the hub and at the sites.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import admissions

import ccesa

SITES = tuple(f"hospital-{letter}" for letter in "abcdefgh")
QUESTIONS, HELD_QUESTION = 3, 1
BEFORE_ITS_VECTOR, AFTER_ITS_VECTOR = 3, 6  # client ids
MOST_SECONDS = 120.0
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy reaches this machine's loopback


# ---------------------------------------------------------------- what people would do by hand


def prepare(folder: Path, public: int, operator: int) -> ccesa.Charter:
    """Write keys and charter, as `ccesa identity new` and `ccesa plan` do, data, and federation.toml."""
    identities = [ccesa.Identity.new(name) for name in SITES]
    for one in identities:
        one.save(folder / f"{one.name}.key")
        admissions.invent(folder / f"{one.name}.csv")
    members = ccesa.Admission(ccesa.Member(one.name, one.public) for one in identities)
    planned = ccesa.plan.plan(len(SITES), dropout=0.25, guard="active", length=admissions.MONTHS, reliability_bits=1)
    charter = ccesa.plan.charter(planned, members, expires=datetime.now(UTC) + timedelta(days=1))
    (folder / "charter.toml").write_text(str(charter), encoding="utf-8")
    (folder / "federation.toml").write_text(federation(public, operator), encoding="utf-8")
    return charter


def federation(public: int, operator: int) -> str:
    """Return what the hub is told; docs/service.md has every key."""
    return f"""\
name = "eight hospitals"
question = "how many patients came in each month"
rounds = {QUESTIONS}
charter = "charter.toml"

[form]
type = "words"
words = {admissions.MONTHS}

[policy]  # people watch: nobody is waited for long
enough = 0.7
after = 4
deadline = 10
vector_after = 5
vector_deadline = 20
absent = 20

[hub]
listen = "127.0.0.1:{public}"
operate = "127.0.0.1:{operator}"
"""


# ---------------------------------------------------------------- processes


class Processes:
    """Everything that was started; leaving the context kills all of it, whatever happened."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.running = folder, {}

    def start(self, name: str, *arguments: str, **environment: str) -> None:
        """Run `ccesa` with these arguments, in a process group of its own; what it says goes to a file."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - our own words
                [sys.executable, "-m", "ccesa", *arguments],
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": _python_path()} | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """SIGKILL: no farewell, as when the power goes."""
        process = self.running.pop(name)
        _kill_group(process)
        process.wait()

    def check(self, *names: str) -> None:
        """End the demo if one of these is gone, with the last lines that it wrote."""
        for name in names:
            status = self.running[name].poll()
            if status is not None:
                said = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                raise SystemExit("\n".join([f"{name} ended with status {status}:", *said.splitlines()[-20:]]))

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.kill(name)


def _kill_group(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _python_path() -> str:
    """Where the processes find `admissions`, and the package that this one runs."""
    folders = [Path(__file__).parent, Path(ccesa.__file__).parent.parent]
    return os.pathsep.join(map(str, folders))


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, of this machine's loopback."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


# ---------------------------------------------------------------- what happens, as it happens


class Watcher:
    """Prints what changes in the hub's status; the page shows the same."""

    def __init__(self, address: str) -> None:
        self.address, self.said = address, set()

    def status(self) -> dict | None:
        """Return the hub's status; None as long as it is starting."""
        try:
            with _LOCAL.open(f"{self.address}/status", timeout=5) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError):
            return None

    def look(self) -> dict:
        """Print what is new, and return the status."""
        status = self.status() or {"steps": [], "members": [], "rounds": [], "state": "starting"}
        for line in _lines(status):
            if line not in self.said:
                self.said.add(line)
                print(line, flush=True)
        return status


def _lines(status: dict) -> Iterator[str]:
    """Yield what is worth a line, the same text as long as it is the same."""
    if status["state"] == "gathering":
        here = sum(member["state"] == "present" for member in status["members"])
        yield f"hub        {here} of {len(SITES)} sites are here"
    for step in status["steps"]:
        yield f"round {step['round']}    {step['step']}: {step['asked']} sites are asked"
    for round in reversed(status["rounds"]):
        how = f"a sum over {round['survivors']}" if round["outcome"] == "sum" else round["reason"]
        yield f"round {round['number']}    over: {how}"


def masked(status: dict, client: int) -> bool:
    """Tell whether a client's vector has come, in the round that its sum is asked for."""
    return any(step["step"] == "mask" for step in status["steps"]) and status["members"][client]["answered"]


def wait_for(what: Callable[[dict], bool], watcher: Watcher, processes: Processes, *names: str) -> None:
    """Look until something is true; the demo ends if one of these processes does, or if it takes too long."""
    until = time.monotonic() + MOST_SECONDS
    while not what(watcher.look()):
        processes.check(*names)
        if time.monotonic() > until:
            raise SystemExit(f"nothing happened for {MOST_SECONDS:.0f} seconds; see {processes.folder}")
        time.sleep(0.05)


# ---------------------------------------------------------------- the demo


def run(folder: Path, keep: bool) -> bool:
    """Run a federation to its end; return whether every sum is that of the survivors' own files."""
    public, operator = free_ports(2)
    charter = prepare(folder, public, operator)
    page = f"http://127.0.0.1:{operator}"
    print(f"page       {page}/", f"charter    {charter.fingerprint}", f"files      {folder}", sep="\n", flush=True)
    with Processes(folder) as processes:
        processes.start("hub", "serve", "federation.toml", "--run", "admissions:Admissions")
        for client in range(len(SITES)):
            join(processes, client, f"http://127.0.0.1:{public}")
        watcher = Watcher(page)
        kill_two(processes, watcher)
        results = [folder / f"result-{question}.json" for question in range(QUESTIONS)]
        wait_for(lambda _: all(result.exists() for result in results), watcher, processes, "hub")
        watcher.look()
        right = [compare(folder, question) for question in range(QUESTIONS)]
        if keep:
            print(f"the page is still there: {page}/ (Ctrl-C ends it)", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    return all(right)


def join(processes: Processes, client: int, hub: str) -> None:
    """Start one site, with its own key, its own copy of the charter and its own memory."""
    name = SITES[client]
    held = {"HOLD": f"admissions#{HELD_QUESTION}"} if client == BEFORE_ITS_VECTOR else {}
    agreed = ("--charter", "charter.toml", "--identity", f"{name}.key", "--memory", f"{name}.memory")
    processes.start(name, "join", hub, *agreed, "--run", "admissions:contribute", ADMISSIONS=f"{name}.csv", **held)


def kill_two(processes: Processes, watcher: Watcher) -> None:
    """Kill a site whose vector has come, and one that is still at work on its own."""
    after, before = SITES[AFTER_ITS_VECTOR], SITES[BEFORE_ITS_VECTOR]
    held = processes.folder / f"{before}.held"
    wait_for(lambda status: held.exists() and masked(status, AFTER_ITS_VECTOR), watcher, processes, *SITES, "hub")
    for name, when in ((after, "after its vector has left"), (before, "before its vector has left")):
        processes.kill(name)
        print(f"killed     {name}, {when}", flush=True)


def compare(folder: Path, question: int) -> bool:
    """Print a sum beside the plain sum of the survivors' files; return whether they are the same."""
    result = json.loads((folder / f"result-{question}.json").read_text(encoding="utf-8"))
    names = [SITES[client] for client in result["survivors"]]
    plain = sum(admissions.patients(folder / f"{name}.csv").astype(int) for name in names).tolist()
    missing = [name for name in SITES if name not in names]
    without = f", without {' and '.join(missing)}" if missing else ""
    print(f"sum {question}      over {len(names)} sites{without}")
    print(f"  secure   {' '.join(map(str, result['sum']))}")
    print(
        f"  plain    {' '.join(map(str, plain))}  {'the same' if plain == result['sum'] else 'DIFFERENT'}", flush=True
    )
    return plain == result["sum"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the hub running at the end")
    given = parser.parse_args()
    for stop in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: everything that was started ends, too
        signal.signal(stop, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="ccesa-demo-") as folder:
        right = run(Path(folder), given.keep)
    raise SystemExit(0 if right else 1)


if __name__ == "__main__":
    main()
