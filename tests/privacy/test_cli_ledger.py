"""``ccesa ledger`` as users have it: a process, its output, its files."""

import json
import os
import stat
import subprocess
from datetime import date
from pathlib import Path

import pytest

import commands
from ccesa.agreement.identity import Admission, Member
from ccesa.plan import charter, plan
from ccesa.privacy import DifferentialPrivacy
from ccesa.privacy.ledger import Ledger
from rounds import identity
from test_ledger import ROUND, TASK, mechanism

BUDGET = ("--epsilon", 3, "--delta", 1e-6)


def run(*arguments) -> subprocess.CompletedProcess:
    return commands.run("ledger", *arguments)


def fails(done: subprocess.CompletedProcess, says: str, code: int = 2) -> None:
    assert done.returncode == code
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def path(tmp_path) -> Path:
    """A ledger with two vectors under a charter, and one without."""
    ledger = Ledger.new(tmp_path / "ledger", epsilon=3.0, delta=1e-6)
    for digest in (b"\7" * 32, b"\7" * 32, None):
        ledger.account(mechanism(), digest).charge(TASK, ROUND)
    return tmp_path / "ledger"


def test_a_new_ledger_has_the_budget_that_was_said(tmp_path):
    done = run("new", tmp_path / "ledger", *BUDGET)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'ledger'}: epsilon = 3 at delta = 1e-06, nothing spent\n"
    made = Ledger(tmp_path / "ledger")
    assert (made.epsilon, made.delta, made.spent().vectors) == (3.0, 1e-6, 0)
    if os.name == "posix":
        assert {stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()} == {0o600}
    fails(run("new", tmp_path / "ledger", *BUDGET), "already exists and will not be overwritten")


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (("--epsilon", 0, "--delta", 1e-6), "epsilon must lie above 0"),
        (("--epsilon", 3, "--delta", 1), "delta must be at least 1e-12 and below 1"),
        (("--epsilon", 3), "--delta"),
        (("--delta", 1e-6), "--epsilon"),
        (("--epsilon", "much", "--delta", 1e-6), "--epsilon"),
    ],
)
def test_a_budget_that_cannot_be_leaves_no_file(tmp_path, budget, says):
    fails(run("new", tmp_path / "ledger", *budget), says)
    assert not os.listdir(tmp_path)


def test_show_says_what_is_spent_and_what_is_left(path):
    done = run("show", path)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    ledger = Ledger(path)
    assert "budget epsilon = 3 at delta = 1e-06" in text
    assert f"3 vector(s) have spent epsilon = {ledger.spent().epsilon:.4g}" in text
    assert "left 2 more vector(s) with the noise of the last one" in text
    assert "charter 0707070707070707... 2 vector(s) have spent" in text
    assert "no charter 1 vector(s) have spent" in text


def test_show_says_whether_a_charter_fits(path, tmp_path):
    identities = [Member(f"site-{i}", identity(i).public) for i in range(20)]
    asked = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=5, norm=1.0)
    for privacy in (asked, None):
        planned = plan(20, 0.1, guard="active", length=10, privacy=privacy)
        agreed = charter(planned, Admission(identities), expires=date(2100, 1, 1))
        (tmp_path / ("noisy" if privacy else "plain")).write_text(str(agreed), encoding="utf-8")
    Ledger.new(tmp_path / "wide", epsilon=8.0, delta=1e-5)
    for ledger, room in ((tmp_path / "wide", 5), (path, 0)):
        done = run("show", ledger, "--charter", tmp_path / "noisy")
        assert f"room for {room} more vector(s) under this charter, which is made for 5" in " ".join(
            done.stdout.split()
        )
        assert json.loads(run("show", ledger, "--charter", tmp_path / "noisy", "--json").stdout)["room"] == room
    fails(run("show", path, "--charter", tmp_path / "plain"), "is a charter without noise")


def test_show_has_the_same_as_json(path):
    found, ledger = json.loads(run("show", path, "--json").stdout), Ledger(path)
    assert (found["epsilon"], found["delta"], found["left"]) == (3.0, 1e-6, 2)
    assert found["spent"]["epsilon"] == ledger.spent().epsilon
    assert [(one["charter"], one["vectors"]) for one in found["charters"]] == [("07" * 32, 2), (None, 1)]


def test_a_ledger_that_is_whole_is_checked_in_one_line(path):
    done = run("check", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: whole, 3 vector(s) have spent epsilon = ")


def test_a_damaged_ledger_is_said_to_be(path):
    path.write_bytes(path.read_bytes().replace(b'"number":2', b'"number":3'))
    fails(run("check", path), f"line 3 of {path} is damaged", 1)
    fails(run("show", path), f"line 3 of {path} is damaged", 2)


@pytest.mark.parametrize("command", ["show", "check"])
def test_a_ledger_that_is_not_there(command, tmp_path):
    fails(run(command, tmp_path / "ledger"), "No such file or directory; if there never was one: ccesa ledger new")


@pytest.mark.parametrize("arguments", [[], ["new"], ["show"], ["check"]])
def test_help_says_what_there_is(arguments):
    done = run(*arguments, "--help")
    assert done.returncode == 0
    assert "ledger" in done.stdout
