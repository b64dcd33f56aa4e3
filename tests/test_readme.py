"""What the README shows, run."""

import re
from pathlib import Path

import numpy as np
import pytest

import ccesa
import commands

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SETUP, LOOP = re.split(r"(?=^requests = server\.open)", BLOCKS[1], maxsplit=1, flags=re.MULTILINE)


def run(code: str, names: dict) -> None:
    exec(code, names)  # noqa: S102 - our own words


def weighted_mean(names: dict, kept) -> float:
    """Of the numbers that fill the example's models."""
    return np.average(np.arange(40.0)[list(kept)], weights=np.array(names["sizes"])[list(kept)])


def test_the_examples_run_as_they_stand(capsys):
    """One after the other, as a reader pastes them; the fifth and the last end where the loop begins."""
    names: dict = {}
    run(BLOCKS[0], names)
    kept = names["result"].survivors
    assert np.allclose(names["result"].mean["weights"], weighted_mean(names, kept), atol=1e-5)
    run(BLOCKS[1], names)
    assert np.allclose(names["mean"].arrays["weights"], weighted_mean(names, range(40)), atol=1e-3)
    assert names["mean"].weight == sum(names["sizes"])
    run(BLOCKS[2], names)
    assert (names["ended"].number, names["ended"].result().survivors) == (2, tuple(range(40)))
    assert not any(client.rounds for client in names["members"].values())
    assert np.allclose(names["mean"].arrays["weights"], weighted_mean(names, range(40)), atol=1e-3)
    run(BLOCKS[3], names)
    assert names["server"].waiting == names["requests"].keys() == set(range(40))
    run(BLOCKS[4], names)
    run(LOOP, names)
    assert isinstance(names["server"], ccesa.ActiveServer)
    assert np.allclose(names["mean"].arrays["weights"], weighted_mean(names, range(40)), atol=1e-3)
    run(BLOCKS[-2], names)
    result, away = names["result"], names["result"].mean["weights"] - np.mean(names["result"].survivors)
    assert abs(away.mean()) < 7 * result.noise / np.sqrt(away.size) < 12  # of about 19.5
    run(BLOCKS[-1], names)
    run(LOOP.split("mean =")[0], names)
    run(f"mean = {BLOCKS[-1].split('In the end: ')[1]}", names)
    assert names["mean"].arrays["weights"].shape == (3, 2)
    assert names["mean"].weight == 40
    assert {ledger.spent().vectors for ledger in names["ledgers"]} == {1}


class Garbling:
    """A client whose reply in one step is damaged on the way."""

    def __init__(self, client: ccesa.Client, step: int) -> None:
        self.client, self.left = client, step

    def receive(self, request: bytes) -> bytes:
        reply, self.left = self.client.receive(request), self.left - 1
        return reply if self.left >= 0 else b"garbage"


def prepared(garbling: list[int]) -> dict:
    """The example up to its loop, with some clients that garble their masked vectors."""
    names: dict = {}
    run(BLOCKS[0], names)
    run(SETUP, names)
    names["clients"] |= {i: Garbling(names["clients"][i], 2) for i in garbling}
    return names


def test_the_loop_shown_outlives_a_faulty_client(capsys):
    names = prepared([3])
    run(LOOP, names)
    kept = [i for i in range(40) if i != 3]
    assert "client 3: " in capsys.readouterr().out
    assert names["server"].result().survivors == tuple(kept)
    assert np.allclose(names["mean"].arrays["weights"], weighted_mean(names, kept), atol=1e-3)


def test_the_loop_shown_ends_by_name_when_too_few_are_left():
    with pytest.raises(ccesa.RoundFailed):
        run(LOOP, prepared(list(range(38))))


def test_the_commands_shown_are_there():
    shown = re.findall(r"^\$ \.venv/bin/ccesa (.*)$", README, re.MULTILINE)
    assert shown
    for line in shown:
        smaller = line.replace("--clients 1000", "--clients 90").replace("--length 100000", "--length 10")
        status = commands.run(*smaller.split()).returncode
        assert status in ((0, 3) if line.startswith("simulate") else (0,)), line  # a round may be lost


def test_the_plan_shown_is_what_the_command_prints():
    command, *shown = re.search(r"^\$ (ccesa plan .*?)\n…$", README, re.MULTILINE | re.DOTALL)[1].splitlines()
    done = commands.run(*command.split()[1:])
    assert len(shown) > 3
    assert [line.rstrip() for line in done.stdout.splitlines()[: len(shown)]] == shown


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 5
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page}: {link}"
