"""What the README shows, run."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import ccesa

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_first_example_gives_the_weighted_mean():
    models = [{"w": np.full((2, 3), float(i))} for i in range(10)]
    names = {"models": models, "sizes": list(range(1, 11))}
    exec(BLOCKS[0], names)  # noqa: S102 - our own words
    kept = names["result"].survivors
    wanted = np.average(np.arange(10.0)[list(kept)], weights=np.arange(1, 11)[list(kept)])
    assert np.allclose(names["result"].mean["w"], wanted, atol=1e-6)


def test_the_second_example_uses_what_there_is():
    """It is cut in two halves by a network, so its lines are played through here in their order."""
    model, weight = [np.ones(3)], 1.0
    code = BLOCKS[1].replace("clients=100", "clients=10")
    lines = [line for line in code.splitlines() if line.strip()]
    names = {"ccesa": ccesa, "model": model, "weight": weight, "train": lambda model: [3 * model[0]]}

    def run(start: str) -> None:
        (line,) = [line for line in lines if line.startswith(start)]
        exec(line, names)  # noqa: S102 - our own words

    for start in ("quantizer =", "config =", "server =", "requests = server.open"):
        run(start)
    clients = {}
    while names["requests"]:
        for number, request in names["requests"].items():
            names |= {"client_id": number, "request": request}
            if number not in clients:
                run("client =")
                clients[number] = names["client"]
            names["client"] = clients[number]
            run("reply =")
            run("server.receive")
        run("requests = server.close")
    run("mean =")
    assert np.allclose(names["mean"].arrays[0], 1.0)  # clipped at 1.0, as the example says


def test_the_commands_shown_are_there():
    shown = re.findall(r"^\$ \.venv/bin/ccesa (.*)$", README, re.MULTILINE)
    assert shown
    for line in shown:
        smaller = line.replace("--clients 1000", "--clients 90").replace("--length 100000", "--length 10")
        command = [str(Path(sys.executable).with_name("ccesa")), *smaller.split()]
        assert subprocess.run(command, capture_output=True, timeout=120).returncode == 0, line


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 5
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page}: {link}"
