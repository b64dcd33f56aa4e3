"""How much memory ``ccesa join`` takes at its limits, a real process; docs/service.md has the figures."""

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import desks
import series_rounds
from ccesa.agreement.identity import in_base64
from ccesa.files import write_new
from ccesa.service.tasks import pack_arrays, task_digest
from desks import served

MIB = 1 << 20
PAGE = (Path(__file__).parent.parent.parent / "docs" / "service.md").read_text(encoding="utf-8")
RUN = """
import numpy as np

def contribute(task, number):
    return np.zeros(5, np.uint16)
"""


#: The command as it is, which says in the end what was most. (What the system tells a parent counts the
#: parent's own memory, too.)
JOIN = """
import atexit, re, sys
from pathlib import Path

@atexit.register
def note():
    Path("peak").write_text(re.search("VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

from ccesa.cli import main

main()
"""


def peak(folder, hub, *options: str) -> int:
    """Take part as client 0, and return the most MiB that its process had in memory."""
    (folder / "mine.py").write_text(RUN)
    write_new(folder / "token", "token-0\n", private=True)
    command = [sys.executable, "-c", JOIN, "join", hub.url, "--token", "@token", "--run", "mine:contribute"]
    with (folder / "said").open("w+") as said, hub.client() as http:
        process = subprocess.Popen([*command, *options], cwd=folder, stdout=said, stderr=said)
        exchange = -1
        while process.poll() is None:
            if hub.desk.view.exchange > exchange:
                exchange = hub.desk.view.exchange
                for client in range(1, 4):
                    http.put(hub.path(exchange), content=hub.reply(client), headers=hub.own(client))
            time.sleep(0.05)
        said.seek(0)
        text = said.read()
    assert process.returncode == 0, text
    assert "in the sum of round 0" in text
    return int((folder / "peak").read_text()) // 1024


def stated(what: str) -> int:
    """The MiB that the page says, with what is stated there about it."""
    [found] = re.findall(rf"{re.escape(what)}[^|]*\| ([\d,]+) MiB", PAGE)
    return int(found.replace(",", ""))


@pytest.fixture
def asking(monkeypatch, tmp_path):
    """Make a hub whose question is this."""

    def asked(task: bytes, **options):
        monkeypatch.setattr(desks, "TASK", task)
        digest = task_digest(task)
        for module in (desks, series_rounds):
            monkeypatch.setattr(module, "task_of", lambda number: digest)
        return served(tmp_path, rounds=1, **options)

    return asked


@pytest.mark.service
def test_a_task_of_a_gigabyte(asking, tmp_path):
    with asking(np.random.default_rng(0).bytes(1024 * MIB)) as hub:
        found = peak(tmp_path, hub, "--max-task-mib", "1024")
    assert found <= 1.1 * stated("a task of 1 GiB")


@pytest.mark.service
def test_arrays_of_a_gigabyte(tmp_path):
    """What a function is given; the vector that is made of its arrays comes on top."""
    (tmp_path / "task").write_bytes(pack_arrays({f"a{i}": np.zeros(32 * MIB, np.float32) for i in range(8)}))
    script = """
import re, sys
from pathlib import Path
from ccesa.service.forms import Arrays
payload = open(sys.argv[1], "rb").read()
form = Arrays(clients=5)
given, length = form.argument(payload), form.length(payload)
print(re.search("VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""
    command = [sys.executable, "-c", script, str(tmp_path / "task")]
    found = int(subprocess.run(command, check=True, capture_output=True).stdout) // 1024
    assert found <= 1.1 * stated("1 GiB of arrays")


@pytest.mark.service
def test_a_thousand_results(asking, tmp_path):
    """A megabyte each; and what a hub that lies might send in place of one is not read to its end."""
    value = {"words": in_base64(bytes(MIB)), "bits": 32}

    async def result(question: int) -> dict:
        said = {"outcome": "sum", "series": 1, "number": question, "survivors": [0], "metrics": {}, "head": ""}
        return {"question": question, "value": value, **said}

    with asking(b"what") as hub:
        publish = hub.desk.publish

        def publish_many(**changes) -> None:
            publish(**changes | ({"question": 999} if changes.get("state") == "over" else {}))

        hub.desk.publish, hub.desk.result = publish_many, result
        found = peak(tmp_path, hub, "--results", "results")
    with (tmp_path / "results").open() as lines:
        assert sum(1 for _ in lines) == 1000
    assert found <= 1.1 * stated("1,000 results of 1 MiB")
