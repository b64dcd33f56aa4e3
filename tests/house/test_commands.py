"""Commands in processes that were forked are what they are in processes that start anew."""

import os
from pathlib import Path

import pytest

from commands import _forker, fresh, run

TASKS = Path("/proc/self/task")


@pytest.mark.parametrize(
    ("command", "status"), [("simulate --help", 0), ("identity show no-such.key", 1), ("plan --clients 2", 2)]
)
def test_status_and_output_are_those_of_a_process_that_starts_anew(command, status):
    forked, started = run(*command.split()), fresh(*command.split())
    assert forked.returncode == started.returncode == status
    assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)


def test_every_command_draws_randomness_of_its_own(tmp_path):
    one, two = (run("identity", "new", tmp_path / name, "--name", "site").stdout for name in "ab")
    assert one.startswith("site ")
    assert one != two


def test_every_command_has_its_own_folder_and_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    narrow = run("--help", cwd=tmp_path).stdout
    monkeypatch.setenv("COLUMNS", "120")
    assert max(map(len, narrow.splitlines())) == 40 < max(map(len, run("--help").stdout.splitlines()))
    assert run("ledger", "new", "here", "--epsilon", 3, "--delta", 1e-6, cwd=tmp_path).returncode == 0
    assert (tmp_path / "here").exists()


@pytest.mark.skipif(not TASKS.exists(), reason="threads are counted in /proc")
def test_what_forks_has_one_thread():
    run("--version")
    assert len(os.listdir(f"/proc/{_forker().pid}/task")) == 1
