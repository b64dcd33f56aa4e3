"""Tables in files: separators, encodings, and errors that say where and never what."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import VectorError
from ccesa.statistics import Category, Number, Schema, read_csv
from tables import check_report, rows_of, schemas

SCHEMA = Schema(
    name="beds",
    least_group=1,
    missing=("NA",),
    numbers=(Number(name="age", lower=0, upper=120),),
    categories=(Category(name="ward", values=("surgery", "medicine, old")),),
    group_by=("ward",),
)


@pytest.fixture
def records(tmp_path):
    """Reads a file with these bytes or this text."""

    def read(content: str | bytes, schema: Schema = SCHEMA) -> list[dict]:
        path = tmp_path / "table.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_csv(path, schema))

    return read


@settings(max_examples=60)
@given(st.data())
def test_a_table_that_was_written_is_counted_as_it_is(tmp_path_factory, data):
    schema = data.draw(schemas().filter(lambda one: one.columns))
    rows = data.draw(rows_of(schema, 8))
    text = io.StringIO(newline="")
    dialect = {
        "delimiter": data.draw(st.sampled_from(",;\t|")),
        "quoting": data.draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])),
        "lineterminator": data.draw(st.sampled_from(["\n", "\r\n"])),
    }
    writer = csv.DictWriter(text, ["more, of it", *schema.columns], restval="x;y", **dialect)
    writer.writeheader()
    writer.writerows(rows)
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    path.write_text(data.draw(st.sampled_from(["", "\ufeff"])) + text.getvalue(), "utf-8", newline="")
    check_report(schema, schema.decode(schema.encode(read_csv(path, schema)), 1), [rows])


def test_columns_lie_in_any_order_among_others_and_blank_lines_are_nothing(records):
    found = records('ward,bed, age \n"medicine, old",3,17\n\n,4,NA\n')
    assert [(one["age"], one["ward"]) for one in found] == [(17, "medicine, old"), (None, "")]
    assert records("age;ward") == records("age;ward\n\n\n") == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "the file is empty; its first line must name the columns"),
        ("ward\nsurgery", "line 1, column 'age' is missing"),
        ("age,ward,age\n1,surgery,2", "line 1, column 'age' appears 2 times"),
        ("age,ward\n17,surgery\n1x7,surgery", "line 3, column 'age': not a number; write it as in 36.6"),
        ("age,ward\n1_7,surgery", "line 2, column 'age': not a number; write it as in 36.6"),
        ("age,ward\n\N{ARABIC-INDIC DIGIT ONE}7,surgery", "line 2, column 'age': not a number; write it as"),
        ("age,ward\n\n\ninf,surgery", "line 4, column 'age': not a finite number"),
        ("age,ward\n17", "line 2, expected 2 fields, got 1"),
        ("age,ward\n17,surgery,secret", "line 2, expected 2 fields, got 3"),
        ('age,ward\n17,"surgery', "line 2: not CSV"),
        ('age,ward\n17,"sur"gery', "line 2: not CSV"),
        ('"age,ward\n17,surgery', "line 1, column 'age' is missing"),
        (b"age,ward\n17,surgery\n17,surg\xe9ry\n", "line 3: not UTF-8"),
        (b"\xff\xfea\x00g\x00e\x00", "line 1: not UTF-8"),
        ("age,ward\n17," + "x" * 200_000, "line 2: not CSV"),
        ('age,ward\n17,"two\nlines"\nsecret,surgery', "line 4, column 'age': not a number"),
    ],
)
def test_errors_name_file_line_and_column_and_no_value(records, content, says):
    with pytest.raises(VectorError) as refused:
        records(content)
    text = str(refused.value)
    assert f"table.csv, {says}" in text or f"table.csv: {says}" in text
    for value in ("1x7", "secret", "surg", "inf,", "xxx"):
        assert value not in text
    assert refused.value.__suppress_context__


def test_errors_come_while_counting_and_no_vector_does(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("age,ward\n17,surgery\nx,surgery\n")
    with pytest.raises(VectorError, match=r"table\.csv, line 3, column 'age': not a number"):
        SCHEMA.encode(read_csv(path, SCHEMA))
    with pytest.raises(OSError, match="No such file"):
        SCHEMA.encode(read_csv(tmp_path / "nothing.csv", SCHEMA))
