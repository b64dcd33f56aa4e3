"""``ccesa statistics check``: what becomes of a site's table, said to the site before anything leaves it."""

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import commands
from ccesa import Admission, Member
from ccesa.errors import VectorError
from ccesa.plan import charter, plan
from ccesa.statistics import Category, Number, Schema
from ccesa.statistics.tally import LeftOut, count_table, preview
from rounds import identity
from tables import is_missing, rows_of, schemas

TOML = """
name = "loads"
least_group = 3
group_by = ["town"]
missing = ["n/a"]
[[numbers]]
name = "load"
lower = 0
upper = 10
[[categories]]
name = "town"
values = ["Z\u00fcrich", "St. Gallen"]
"""
TABLE = """town;load
Zu\u0308rich;1
z\u00fcrich;2
Zurich ;n/a
st.gallen;
St Gallen;11
Bern;1
St. Gallen;2
St. Gallen;
St. Gallen;
N/A;3
"""


def run(*arguments: object):
    return commands.run("statistics", "check", *map(str, arguments))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "schema.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "table.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path / "schema.toml", tmp_path / "table.csv"


def test_a_table_in_words(files):
    done = run(*files)
    text = " ".join(done.stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert "records 10, at most 1,000,000 least group 3 values missing clipped other" in text
    assert "load 6 4 1 town 10 0 6" in text
    assert 'town: 2 record(s) are counted as other and look like "Z\u00fcrich"' in text
    assert 'look like "n/a": compare case, accents and spaces' in text
    assert "left out: town = Z\u00fcrich: 1 record(s), fewer than 3" in text
    assert "left out: town = St. Gallen, load: 1 value(s), fewer than 3" in text
    assert "Bern" not in text  # no value that the schema does not name


def test_the_same_as_json(files):
    found = json.loads(run(*files, "--json").stdout)
    assert (found["records"], found["least_group"]) == (10, 3)
    assert found["columns"][1] == {
        "name": "town",
        "values": 10,
        "missing": 0,
        "clipped": None,
        "other": 6,
        "alike": {"Z\u00fcrich": 2, "St. Gallen": 2, "n/a": 1},
    }
    assert found["left_out"][1] == {"group": {"town": "St. Gallen"}, "column": "load", "count": 1}


def test_the_schema_of_a_charter(files, tmp_path):
    schema = Schema.load(files[0])
    members = Admission([Member(f"site-{i}", identity(i).public) for i in range(5)])
    planned = plan(5, 0.01, guard="active", length=schema.length, bits=64)
    for name, statistics in (("with", schema), ("without", None)):
        agreed = charter(planned, members, expires=date(2100, 1, 1), statistics=statistics)
        (tmp_path / name).write_text(str(agreed), encoding="utf-8")
    assert run(tmp_path / "with", files[1]).stdout == run(*files).stdout
    done = run(tmp_path / "without", files[1])
    assert (done.returncode, done.stderr) == (2, f"ccesa: {tmp_path / 'without'} is a charter without statistics\n")


@pytest.mark.parametrize(
    ("schema", "table", "says"),
    [
        ("name = 3", TABLE, "schema.toml: this is not a schema: "),
        ("not TOML", TABLE, "schema.toml: this is not a schema: "),
        (TOML, "town;load\nZ\u00fcrich;x17\n", "table.csv, line 2, column 'load': not a number"),
        (TOML, "town\nZ\u00fcrich\n", "table.csv, line 1, column 'load' is missing"),
        (TOML.replace("least_group = 3", "least_group = 1\nmax_records = 1"), TABLE, "more than max_records = 1"),
    ],
)
def test_what_cannot_be_counted_is_one_line(files, schema, table, says):
    files[0].write_text(schema, encoding="utf-8")
    files[1].write_text(table, encoding="utf-8")
    done = run(*files)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "x17" not in done.stderr


@pytest.mark.parametrize("place", [0, 1])
def test_a_file_that_is_not_there(files, place, tmp_path):
    given = list(files)
    given[place] = tmp_path / "nothing"
    done = run(*given)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ccesa: No such file or directory: {tmp_path / 'nothing'}\n"


# What it counts


@settings(max_examples=60)
@given(st.data())
def test_what_is_left_out_is_what_the_vector_lacks(data):
    schema = data.draw(schemas())
    rows = data.draw(rows_of(schema))
    found, tally = preview(schema, rows), count_table(schema, rows)
    assert found.records == tally.records == len(rows)
    assert sum(one.count for one in found.left_out if one.column is None) == tally.left_out
    for place, column in enumerate(schema.numbers):
        left = sum(one.count for one in found.left_out if one.column == column.name)
        small = [one.group for one in found.left_out if one.column is None]
        there = [
            row
            for row in rows
            if not is_missing(row[column.name])
            and {one.name: _label(one, row[one.name]) for one in schema.grouped} not in small
        ]
        assert sum(tally.sums[column.name, "present"]) == len(there) - left
        assert found.columns[place].values == sum(not is_missing(row[column.name]) for row in rows)
        assert found.columns[place].missing == len(rows) - found.columns[place].values
    for column, seen in zip(schema.categories, found.columns[len(schema.numbers) :], strict=True):
        labels = [_label(column, row[column.name]) for row in rows]
        assert (seen.missing, seen.other) == (labels.count("missing"), labels.count("other"))


def _label(category: Category, value: object) -> str:
    return "missing" if is_missing(value) else value if value in category.values else "other"


def test_noise_leaves_nothing_out_and_what_is_clipped_is_seen_all_the_same():
    number = Number(name="age", lower=0, upper=10)
    schema = Schema(name="x", least_group=1, privacy_unit="record", numbers=(number,))
    found = preview(schema, [{"age": 11}, {"age": None}])
    assert (found.columns[0].values, found.columns[0].clipped, found.left_out) == (1, 1, ())


def test_without_groups_everything_is_one():
    number = Number(name="age", lower=0, upper=10)
    found = preview(Schema(name="x", least_group=3, numbers=(number,)), [{"age": 1}] * 2)
    assert found.left_out == (LeftOut(group={}, column=None, count=2),)


def test_signs_alone_are_not_alike():
    """A text without letters and digits looks like itself only."""
    schema = Schema(name="x", least_group=1, categories=(Category(name="sign", values=("+", "++")),))
    found = preview(schema, [{"sign": one} for one in ("+", "-", "- -", "++")])
    assert (found.columns[0].other, found.columns[0].alike) == (2, {})


def test_a_record_that_cannot_be_counted_is_refused():
    schema = Schema(name="x", least_group=1, numbers=(Number(name="age", lower=0, upper=10),))
    with pytest.raises(VectorError, match=r"^record 2, column 'age': not a number"):
        preview(schema, [{"age": 1}, {"age": "old"}])
