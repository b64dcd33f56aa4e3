"""``python -m attacks`` as users have it: a process, its output, its exit code."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import commands
from attacks.__main__ import main
from attacks.base import Outcome
from attacks.registry import ATTACKS

ROOT = Path(__file__).parents[2]


def fresh(module: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


def run(*arguments: str) -> subprocess.CompletedProcess:
    return commands.run(*arguments, program="attacks", cwd=ROOT)


@pytest.mark.parametrize("word", ["list", "LIST"])
def test_list(word):
    done = fresh("attacks", word)
    assert done.returncode == 0
    for attack in ATTACKS.values():
        assert re.search(rf"^{attack.number} +{attack.name} +{attack.guard}", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", ["cut-v2", "S17"])
def test_an_attack_that_fails(name):
    done = run(name)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("S17 cut-v2: ")
    assert "client 3 aborted" in done.stdout
    assert lines[-1] == "held"


def test_an_attack_that_succeeds():
    done = run("cut-v2", "--defence", "off")
    assert done.returncode == 0
    shown, last = done.stdout.splitlines()[-2:]
    stolen, own = re.fullmatch(r"stolen (\[.*\]), the victim's own (\[.*\])", shown).groups()
    assert stolen == own
    assert last == "broken"


def test_an_attack_without_a_vector():
    done = run("impossible-ids", "--defence", "off")
    assert done.returncode == 0
    assert "stolen" not in done.stdout
    assert done.stdout.splitlines()[-1] == "broken"


@pytest.mark.parametrize("defended", [True, False])
def test_the_same_for_a_program(defended):
    done = run("S17", "--json", "--defence", "on" if defended else "off")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["number"], found["name"], found["guard"]) == ("S17", "cut-v2", "curious")
    assert found["defended"] is defended
    assert found["as_it_should"] is True
    assert found["verdict"] == ("held" if defended else "broken")
    assert (found["stolen"] == found["victim"]) is not defended
    assert any("client 3" in line for line in found["story"])


def test_the_list_for_a_program():
    listed = json.loads(run("list", "--json").stdout)
    assert [(one["number"], one["name"]) for one in listed] == [
        (attack.number, attack.name) for attack in ATTACKS.values()
    ]


@pytest.mark.parametrize(("succeeds", "defence"), [(True, "on"), (False, "off")])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_what_must_not_be_has_a_status_of_its_own(monkeypatch, capsys, succeeds, defence, as_json):
    """A defence that fails, or an attack that needs no defence to fail: both would be a wrong row."""
    outcome = Outcome(succeeded=succeeds, summary="it came out otherwise")
    monkeypatch.setitem(ATTACKS, "cut-v2", replace(ATTACKS["cut-v2"], run=lambda *_: outcome))
    monkeypatch.setattr("sys.argv", ["attacks", "cut-v2", "--defence", defence, *as_json])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    assert ("broken" if succeeds else "held") in capsys.readouterr().out


def test_an_unknown_name_ends_in_one_line():
    done = run("nonsense")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "attacks: there is no attack 'nonsense'; `python -m attacks list` shows those there are"
    ]


def test_a_wrong_defence_ends_in_one_line():
    done = run("split-view", "--defence", "maybe")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_a_call_without_a_name_says_whose_help_helps():
    done = run()
    assert done.returncode == 2
    assert done.stderr.endswith("(see python -m attacks --help)\n")


def test_help_says_what_there_is():
    done = run("--help")
    assert done.returncode == 0
    assert "python -m attacks list" in done.stdout


def test_the_search_for_strategies_can_be_run():
    done = fresh("attacks.strategies", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--honest" in done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(
    ("given", "called"),
    [
        ([], "list"),
        (["NAME=split-view"], "split-view"),
        (["NAME=S2", "DEFENCE=off", "JSON=1"], "S2 --defence off --json"),
        (["NAME=S2", "JSON=0"], "S2"),
    ],
    ids=str,
)
def test_make_calls_it(given, called):
    """Without making anything: the line that it would run, of a virtual environment that is there."""
    command = ["make", "--dry-run", "--no-print-directory", "--assume-old=install", "attack", *given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.splitlines()[-1].split() == [".venv/bin/python", "-m", "attacks", *called.split()]
