"""``ccesa attack`` as users have it: a process, its output, its exit code."""

import json
import re
from dataclasses import replace

import pytest

from attacks.base import Outcome
from attacks.registry import ATTACKS
from ccesa.cli import main
from test_cli import run


@pytest.mark.parametrize("word", ["list", "LIST"])
def test_list(word):
    done = run("attack", word)
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
    assert lines[-1] == "held"


def test_an_attack_that_succeeds():
    done = run("attack", "cut-v2", "--defence", "off")
    assert done.returncode == 0
    shown, last = done.stdout.splitlines()[-2:]
    stolen, own = re.fullmatch(r"stolen (\[.*\]), the victim's own (\[.*\])", shown).groups()
    assert stolen == own
    assert last == "broken"


def test_an_attack_without_a_vector():
    done = run("attack", "impossible-ids", "--defence", "off")
    assert done.returncode == 0
    assert "stolen" not in done.stdout
    assert done.stdout.splitlines()[-1] == "broken"


@pytest.mark.parametrize("defended", [True, False])
def test_the_same_for_a_program(defended):
    done = run("attack", "S17", "--json", "--defence", "on" if defended else "off")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["number"], found["name"], found["guard"]) == ("S17", "cut-v2", "curious")
    assert found["defended"] is defended
    assert found["as_it_should"] is True
    assert found["verdict"] == ("held" if defended else "broken")
    assert (found["stolen"] == found["victim"]) is not defended
    assert any("client 3" in line for line in found["story"])


def test_the_list_for_a_program():
    listed = json.loads(run("attack", "list", "--json").stdout)
    assert [(one["number"], one["name"]) for one in listed] == [
        (attack.number, attack.name) for attack in ATTACKS.values()
    ]


@pytest.mark.parametrize(("succeeds", "defence"), [(True, "on"), (False, "off")])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_what_must_not_be_has_a_status_of_its_own(monkeypatch, capsys, succeeds, defence, as_json):
    """A defence that fails, or an attack that needs no defence to fail: both would be a wrong row."""
    outcome = Outcome(succeeded=succeeds, summary="it came out otherwise")
    monkeypatch.setitem(ATTACKS, "cut-v2", replace(ATTACKS["cut-v2"], run=lambda *_: outcome))
    monkeypatch.setattr("sys.argv", ["ccesa", "attack", "cut-v2", "--defence", defence, *as_json])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    assert ("broken" if succeeds else "held") in capsys.readouterr().out


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
