"""docs/performance.md is written from what was measured, and says what was not."""

import json
from pathlib import Path

import pytest

from bench import report, targets
from bench.parts import PARTS

RESULTS = json.loads((Path(report.__file__).parent / "results.json").read_text())


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_was_not_measured_is_named_and_the_others_stay(part):
    page = report.page({name: found for name, found in RESULTS.items() if name != part})
    assert f"Not measured yet, or not all of it: `python -m bench --only {part}`." in page
    assert page.count("\n## ") == len(PARTS) + 1
    assert (f"| `{part}` | not measured | |" in page) == (part in targets.TARGETS)


def test_a_part_that_an_older_bench_measured_is_named_and_the_others_stay():
    page = report.page(RESULTS | {"server": {"clients": 1000}})
    assert "Not measured yet, or not all of it: `python -m bench --only server`." in page
    assert "| `server` | not measured | |" in page
    assert page.count("\n## ") == len(PARTS) + 1


def test_a_tree_without_results_has_a_page():
    page = report.page({"machine": RESULTS["machine"]})
    assert page.count("Not measured yet") == len(PARTS)


def test_every_target_belongs_to_a_section():
    assert set(targets.TARGETS) <= set(PARTS)
