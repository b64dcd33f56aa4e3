"""The package's own tests, which ``npm test`` runs, file by file; vectors have a test of their own."""

import subprocess

import pytest

import machine
from runners import PACKAGE, built

FILES = sorted(path.stem for path in (PACKAGE / "test").glob("*.test.ts") if path.name != "vectors.test.ts")


@pytest.mark.parametrize("name", FILES)
def test_a_file(name: str):
    script, seeded = built(f"build/test/{name}.js"), built("build/test/seeded.js")
    command = [machine.need("node"), "--import", seeded.as_uri(), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE, timeout=300)
    assert done.returncode == 0, failures(done.stdout) or done.stderr[-2000:]


def failures(report: str) -> str:
    """Return the part of a report that is about what failed."""
    lines = report.splitlines()
    places = [place for place, line in enumerate(lines) if line.lstrip().startswith("not ok")]
    return "\n".join(line for place in places for line in lines[place : place + 20])
