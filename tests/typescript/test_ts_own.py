"""The client's own tests hold: those in TypeScript, file by file, in Node."""

import shutil
import subprocess

import pytest

from runners import PACKAGE, built

FILES = sorted(path.stem for path in (PACKAGE / "test").glob("*.test.ts"))


@pytest.mark.parametrize("file", FILES)
def test_all_tests_of_a_file_pass(file: str):
    script = built(f"build/test/{file}.js")
    command = [shutil.which("node") or "node", "--test", str(script)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]


def test_there_are_such_files():
    assert "client.test" in FILES
