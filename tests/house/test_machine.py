"""Tests of a missing part are skipped, and a table says so; where all parts are required they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import machine

ROOT = Path(__file__).parents[2]
SMALL = """
import machine, pytest

@pytest.fixture(scope="session")
def database():
    return machine.need("postgresql")

@pytest.mark.needs("chromium")
@pytest.mark.parametrize("one", range(3))
def test_a_page(one):
    raise AssertionError("no part, no test")

def test_a_store(database):
    raise AssertionError("no part, no test")

def test_anything_else():
    pass
"""


def run(tmp_path, **environment):
    """Run small tests in two workers on a machine that has nothing."""
    (tmp_path / "test_small.py").write_text(SMALL)
    own = {key: value for key, value in os.environ.items() if key != machine.REQUIRE}
    own |= {"PATH": "/nowhere/bin", "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'tests' / 'support'}"} | environment
    options = ["-n", "2", "-p", "conftest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml"]
    command = [sys.executable, "-m", "pytest", *options, tmp_path / "test_small.py"]
    return subprocess.run([str(word) for word in command], env=own, capture_output=True, text=True)


def test_tests_of_missing_parts_are_skipped_and_a_table_says_how_to_run_them(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    table = done.stdout.partition("parts of this machine that are missing")[2].splitlines()[1:4]
    assert [line.split() for line in table] == [
        ["missing", "part", "tests", "skipped", "to", "run", "them"],
        ["Chromium", "3", "sudo", ".ci/packages"],
        ["PostgreSQL", "1", "sudo", ".ci/packages"],
    ]
    assert "1 passed, 4 skipped" in done.stdout


def test_where_all_parts_are_required_a_missing_one_is_an_error_of_the_test(tmp_path):
    done = run(tmp_path, **{machine.REQUIRE: "1"})
    assert done.returncode == 1
    assert "missing part: chromium, and CCESA_REQUIRE_PARTS is set: sudo .ci/packages" in done.stdout
    assert "1 passed, 4 errors" in done.stdout


def test_before_a_change_lands_all_parts_are_required():
    assert f"export {machine.REQUIRE}=1" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_a_whole_machine_has_no_table():
    assert machine.table(["Skipped: needs torch"]) == []


def packages(folder, *arguments):
    """Run .ci/packages where a folder has every program that is found."""
    (folder / "python3").symlink_to(sys.executable)
    command = ["/bin/sh", str(ROOT / ".ci" / "packages"), *arguments]
    return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True)


def test_what_cannot_be_installed_is_named(tmp_path):
    done = packages(tmp_path)
    assert done.returncode == 0
    assert "missing: Chromium, PostgreSQL, Node 20 or newer, with npm, C and C++ compiler" in done.stderr
    assert "there is no apt-get here" in done.stderr


@pytest.mark.parametrize("part", [key for key, part in machine.PARTS.items() if part.packages])
def test_a_part_is_asked_for_by_its_name(part, tmp_path):
    assert packages(tmp_path, "--has", part).returncode == 1
    assert packages_found(tmp_path, part).returncode == 0


def packages_found(folder, part):
    for name in ("chromium", "initdb", "npm", "cc", "g++"):
        program(folder / name)
    program(folder / "node", "echo v20.1.0")
    (folder / "python3").unlink()
    return packages(folder, "--has", part)


def program(path, text=""):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("said", ["v18.20.4", "20.1.0", "", "v"])
def test_an_old_node_is_none(said, tmp_path, monkeypatch):
    program(tmp_path / "node", f"echo {said}")
    program(tmp_path / "npm")
    monkeypatch.setenv("PATH", str(tmp_path))
    machine.find_node.cache_clear()
    try:
        assert machine.find_node() is None
    finally:
        machine.find_node.cache_clear()


def test_the_newest_database_beside_the_path_is_found(tmp_path, monkeypatch):
    for version in ("9", "15", "14"):
        folder = tmp_path / "lib" / "postgresql" / version / "bin"
        folder.mkdir(parents=True)
        program(folder / "initdb")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert machine.find_postgres() == str(tmp_path / "lib" / "postgresql" / "15" / "bin")
    monkeypatch.setenv("PATH", "/nowhere/bin")
    assert machine.find_postgres() is None


def test_a_link_on_the_path_leads_to_all_programs_of_the_database(tmp_path, monkeypatch):
    for name in ("bin", "server"):
        (tmp_path / name).mkdir()
    program(tmp_path / "server" / "initdb")
    (tmp_path / "bin" / "initdb").symlink_to(tmp_path / "server" / "initdb")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert machine.find_postgres() == str(tmp_path / "server")
