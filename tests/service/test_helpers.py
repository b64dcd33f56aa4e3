"""Federations with helpers, as processes over HTTP: sums are those of the members, and keys are gone in the end."""

import base64
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest

from ccesa.agreement.identity import Identity
from ccesa.cli import LOST, STOPPED
from ccesa.service.federation import Federation
from ccesa.service.store import open_store
from ccesa.simulate.enrolment import make_charter
from processes import _child, free_ports

MEMBERS, OUTSIDE, WORDS = 3, 2, 12
SITE = f"""
import os
import time

import numpy as np


def contribute(task, number):
    print("asked", number, flush=True)
    time.sleep(float(os.environ.get("WORKS_FOR", "0")))
    return np.full({WORDS}, int(os.environ["SITE"]) + 1, np.uint32)
"""


class Federated:
    """Three members, the first of which helps, and two helpers from outside, each a process of ``ccesa``."""

    def __init__(self, folder: Path, rounds: int, **policy: float) -> None:
        self.folder, self.running = folder, dict[str, subprocess.Popen[str]]()
        self.said: dict[str, str] = {}
        members = [Identity.new(f"clinic-{one}") for one in range(MEMBERS)]
        outside = [Identity.new(f"uni-{one}") for one in range(OUTSIDE)]
        for one in (*members, *outside):
            one.save(folder / f"{one.name}.key")
        charter = make_charter(members, helpers=[members[0], *outside], bits=32)
        (folder / "charter.toml").write_text(str(charter))
        (folder / "clinic.py").write_text(SITE)
        listen, operate = free_ports(2)
        self.url, self.page = f"http://127.0.0.1:{listen}", f"http://127.0.0.1:{operate}"
        waits = "\n".join(f"{name} = {value}" for name, value in ({"gather": 2} | policy).items())
        (folder / "federation.toml").write_text(
            f'name = "helped"\nrounds = {rounds}\ncharter = "charter.toml"\n'
            f'[form]\ntype = "words"\nwords = {WORDS}\n[policy]\n{waits}\n'
            f'[hub]\nlisten = "127.0.0.1:{listen}"\noperate = "127.0.0.1:{operate}"\n'
        )

    def __enter__(self) -> "Federated":
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.kill(name)

    @property
    def names(self) -> list[str]:
        return ["hub", *(f"clinic-{one}" for one in range(MEMBERS)), *(f"uni-{one}" for one in range(OUTSIDE))]

    def start(self, *names: str, **environment: str) -> None:
        for name in names:
            role, _, place = name.partition("-")
            call = ["serve", "federation.toml", "--until-over"]
            if role != "hub":
                call = [self.url, "--charter", "charter.toml", "--identity", f"{name}.key"]
                call = ["assist", *call] if role == "uni" else ["join", *call, "--run", "clinic:contribute"]
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "ccesa", *call],
                cwd=self.folder,
                env=os.environ | {"SITE": place, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=_child,
            )

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        self.said[name] = self.said.get(name, "") + process.communicate()[0]

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until everybody has ended."""
        end = time.monotonic() + seconds
        for name in list(self.running):
            process = self.running[name]
            try:
                said = process.communicate(timeout=max(0.1, end - time.monotonic()))[0]
            except subprocess.TimeoutExpired:
                for one in list(self.running):
                    self.kill(one)
                raise AssertionError(f"{name} does not end: {self.said}") from None
            del self.running[name]
            self.said[name] = self.said.get(name, "") + said
            assert process.returncode in ((0, LOST) if name == "hub" else (0,)), self.said

    def status(self) -> dict:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.page}/status", timeout=5).json()
        return {}

    def until(self, found, seconds: float = 30.0):
        """Wait until something is found in the status of the hub."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status = self.status()
            if status and (seen := found(status)):
                return seen
            time.sleep(0.05)
        raise AssertionError(f"it never came: {self.status()}")

    def check(self) -> int:
        """Sums are the plain ones over survivors, and no helper has a key; return how many there are."""
        command = [sys.executable, "-m", "ccesa", "results", "federation.toml", "--json"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        printed = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        results = [json.loads(line) for line in printed.stdout.splitlines()]
        for one in results:
            found = np.frombuffer(base64.b64decode(one["value"]["words"]), "<u4")
            assert (found == sum(client + 1 for client in one["survivors"])).all()
        folders = list(self.folder.glob("*.keys"))
        assert len(folders) == 1 + OUTSIDE
        assert not [path for folder in folders for path in folder.glob("*.key")]
        return len(results)


def test_three_members_and_three_helpers_have_their_sums(tmp_path):
    """One member helps, too; in the end everybody's process ends by itself."""
    with Federated(tmp_path, rounds=2) as federated:
        federated.start(*federated.names)
        federated.wait()
        assert federated.check() == 2
    assert "gave its part of the sum of round 1" in federated.said["clinic-0"]
    assert "gave its part of the sum of round 1" in federated.said["uni-1"]
    assert "sent a masked vector" in federated.said["clinic-0"]


@pytest.mark.service
def test_anyone_who_is_killed_at_any_moment_makes_a_sum_late_or_loses_it_by_name(tmp_path):
    chance = random.Random(28)
    with Federated(tmp_path, rounds=1000, deadline=20, vector_after=3, vector_deadline=10) as federated:
        federated.start(*federated.names, WORKS_FOR="0.3")
        federated.until(lambda status: status["answered"] > 1)
        for _ in range(30):
            time.sleep(chance.uniform(0, 1.5))
            name = chance.choice(federated.names)
            federated.kill(name)
            time.sleep(chance.uniform(0, 0.5))
            federated.start(name, WORKS_FOR="0.3")
        before = federated.until(lambda status: status["answered"])
        federated.until(lambda status: status["answered"] > before + 2, seconds=120)
        with closing(open_store(Federation.load(tmp_path / "federation.toml").store)) as store:
            store.finish()
        federated.wait(120)
        assert federated.check() > before
    with closing(open_store(Federation.load(tmp_path / "federation.toml").store, create=False)) as store:
        rows = store.rounds()
    assert {row.outcome for row in rows} <= {"sum", "TooFewClients", "HelpersMissing", "TaskLost"}
    assert all(row.reason for row in rows if row.outcome != "sum")
    summed = [row.question for row in rows if row.outcome == "sum"]
    assert len(set(summed)) == len(summed)


@pytest.mark.service
def test_keys_stay_while_a_helper_is_stopped_and_are_gone_in_the_end(tmp_path):
    """It is stopped between its key and the sum; the round waits for it, and the page says so."""
    with Federated(tmp_path, rounds=1, after=1) as federated:
        federated.start(*federated.names, WORKS_FOR="3")
        federated.until(lambda status: any(one["step"] == "mask" for one in status["steps"]))
        federated.running["uni-0"].send_signal(signal.SIGTERM)
        assert federated.running["uni-0"].wait(timeout=20) == STOPPED
        federated.kill("uni-0")
        assert len(list((tmp_path / "uni-0.key.memory.keys").glob("*.key"))) == 1
        federated.until(lambda status: status["reason"].startswith("waits for helper helper-1 since "))
        federated.start("uni-0")
        federated.wait()
        assert federated.check() == 1
