"""Every vector holds in Node and in Chromium: TypeScript's client gives the same bytes and refusals."""

import json
from typing import Any

import pytest

from runners import PACKAGE, PLATFORMS, Runner

VECTORS = PACKAGE.parents[1] / "vectors"
README = (PACKAGE / "README.md").read_text()
FILES = sorted(path.name for path in VECTORS.glob("*.json"))


def content(file: str) -> Any:
    return json.loads((VECTORS / file).read_text())


@pytest.mark.parametrize("file", FILES)
def test_all_vectors_hold(file: str, runner: Runner):
    counts = runner.call("vectors", file=file, data=content(file), beside=content("active_round.json"))
    assert counts["failed"] == []
    assert counts["passed"] + counts["servers"] > 0
    row = (counts["cases"], *[counts["passed"]] * len(PLATFORMS), counts["servers"])
    assert f"| `{file}` | {' | '.join(map(str, row))} |" in README, "the table in the README is an old one"
