"""Federations with helpers, as processes over HTTP: sums are those of the members, and keys are gone in the end."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np

from ccesa.agreement.identity import Identity
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
            assert process.returncode == 0, self.said

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

    def check(self, sums: int) -> None:
        """Sums are the plain ones over survivors, and no helper has a key."""
        command = [sys.executable, "-m", "ccesa", "results", "federation.toml", "--json"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        printed = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        results = [json.loads(line) for line in printed.stdout.splitlines()]
        assert len(results) == sums
        for one in results:
            found = np.frombuffer(base64.b64decode(one["value"]["words"]), "<u4")
            assert (found == sum(client + 1 for client in one["survivors"])).all()
        folders = list(self.folder.glob("*.keys"))
        assert len(folders) == 1 + OUTSIDE
        assert not [path for folder in folders for path in folder.glob("*.key")]


def step_of(status: dict) -> set[str]:
    return {one["step"] for one in status["steps"]}


def test_three_members_and_three_helpers_have_their_sums(tmp_path):
    """One member helps, too; in the end everybody's process ends by itself."""
    with Federated(tmp_path, rounds=2) as federated:
        federated.start(*federated.names)
        federated.wait()
        federated.check(sums=2)
    assert "gave its part of the sum of round 1" in federated.said["clinic-0"]
    assert "gave its part of the sum of round 1" in federated.said["uni-1"]
    assert "sent a masked vector" in federated.said["clinic-0"]
