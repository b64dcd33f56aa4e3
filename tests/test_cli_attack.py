"""``ccesa attack`` as users have it: a process, its output, its exit code."""

import re

import pytest

from ccesa.attacks.registry import ATTACKS
from test_cli import run


def test_list():
    done = run("attack", "list")
    assert done.returncode == 0
    for attack in ATTACKS.values():
        assert re.search(rf"^{attack.number} +{attack.name} +{attack.guard}", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", ["cut-v2", "S17"])
def test_an_attack_that_fails(name):
    done = run("attack", name)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("S17 cut-v2: ")
    assert "client 3 aborted" in done.stdout
    assert lines[-1] == "FAILED (defence held)"


def test_an_attack_that_succeeds():
    done = run("attack", "cut-v2", "--defence", "off")
    assert done.returncode == 0
    last = done.stdout.splitlines()[-1]
    stolen, own = re.fullmatch(r"SUCCEEDED: stolen (\[.*\]), the victim's own (\[.*\])", last).groups()
    assert stolen == own


def test_an_attack_without_a_vector():
    done = run("attack", "impossible-ids", "--defence", "off")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "SUCCEEDED"


def test_an_unknown_name_ends_in_one_line():
    done = run("attack", "nonsense")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "ccesa: there is no attack 'nonsense'; `ccesa attack list` shows those there are"
    ]


def test_a_wrong_defence_ends_in_one_line():
    done = run("attack", "split-view", "--defence", "maybe")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
