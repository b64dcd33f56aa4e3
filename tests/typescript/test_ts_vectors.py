"""Every vector holds in Node and in Chromium: TypeScript's client gives the same bytes and refusals."""

import json

import pytest

from runners import PACKAGE, Runner

VECTORS = PACKAGE.parents[1] / "vectors"
FILES = sorted(path.name for path in VECTORS.glob("*.json"))


@pytest.mark.parametrize("file", FILES)
def test_all_vectors_hold(file: str, runner: Runner):
    data = json.loads((VECTORS / file).read_text())
    counts = runner.call("vectors", file=file, data=data)
    assert counts["failed"] == []
    assert counts["passed"] + counts["servers"] > 0
