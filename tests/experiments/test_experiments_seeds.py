"""Parts over several seeds: what is finished is kept, and never run again."""

import json
from contextlib import suppress
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import record, seeds

KEY = record.Key(seed=3, quick=True, settings={"sizes": [1, 2]})


@pytest.fixture
def part(tmp_path):
    """A part of three seeds, which can be called with options; it returns the seeds that it has run."""

    def call(*options, fails_at=None, key=KEY):
        done = []

        def one(seed):
            if seed == fails_at:
                raise KeyboardInterrupt
            done.append(seed)
            return {"found": 10 * seed}

        wanted = seeds.parse("", tmp_path, "", ["--output", str(tmp_path), *options])
        with suppress(KeyboardInterrupt):
            seeds.run(wanted, key, 3, one, lambda found: {"total": sum(it["found"] for it in found.values())})
        return done

    return call


def stored(folder):
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def test_every_seed_is_run_once(part, tmp_path):
    assert part("--seeds", "1") == [3]
    assert not record.finished(tmp_path / "results.json", KEY)
    assert stored(tmp_path)["total"] == 30, "the summary of what is there"
    assert part() == [4, 5]
    assert record.finished(tmp_path / "results.json", KEY)
    assert list(stored(tmp_path)["seeds"]) == ["3", "4", "5"]
    assert part() == []
    assert stored(tmp_path)["total"] == 120
    assert part("--seeds", "4") == [6], "more than are needed may be there"
    assert part("--again") == [3, 4, 5]


def test_a_seed_that_was_broken_off_leaves_those_before_it(part, tmp_path):
    assert part(fails_at=4) == [3]
    assert list(stored(tmp_path)["seeds"]) == ["3"]
    assert part() == [4, 5]


def test_seeds_of_other_settings_are_not_taken(part):
    part()
    assert part(key=record.Key(seed=3, quick=True, settings={"sizes": [1]})) == [3, 4, 5]
    assert part(key=record.Key(seed=4, quick=True, settings={"sizes": [1]})) == [4, 5, 6]


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_number_of_seeds_that_is_none(part, count, capsys):
    with pytest.raises(SystemExit):
        part("--seeds", count)
    assert "--seeds" in capsys.readouterr().err


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_a_spread_holds_its_middle(values):
    found = seeds.spread(values)
    assert found["lowest"] <= found["median"] == median(values) <= found["highest"]
    assert {found["lowest"], found["highest"]} == {min(values), max(values)}
