"""The audit log: nothing in it is changed or left out unseen, and ``ccesa audit`` says so."""

import io
import json
import math
import sqlite3
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import NamedTuple
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.cli import main
from ccesa.errors import ConfigError
from ccesa.service.errors import DamagedAudit
from ccesa.service.store import open_store, records
from ccesa.service.store.audit import entry, verify

FEDERATION = """
name = "five hospitals"
rounds = 3

[round]
clients = 5

[form]
type = "words"
words = 10
"""


def chain(*bodies):
    rows = []
    for place, body in enumerate(bodies):
        rows.append(entry(rows[-1] if rows else None, "round", body, 1.5 + place))
    return rows


class Done(NamedTuple):
    """What a command printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments) -> Done:
    """Run a command as ``ccesa`` does, in this process."""
    out, err = io.StringIO(), io.StringIO()
    argv = mock.patch("sys.argv", ["ccesa", *map(str, arguments)])
    with redirect_stdout(out), redirect_stderr(err), argv, pytest.raises(SystemExit) as ended:
        main()
    return Done(ended.value.code, out.getvalue(), err.getvalue())


@pytest.fixture
def rows():
    return chain(*({"number": number, "survivors": [0, 3]} for number in range(6)))


def test_a_chain_is_whole(rows):
    assert verify(rows) == rows
    assert verify(rows, rows[2].hash) == rows
    assert verify([]) == []
    assert rows[0].body == '{"number":0,"survivors":[0,3]}'


@given(place=st.integers(0, 5), data=st.data())
def test_whatever_is_changed_is_found(place, data):
    rows = chain(*({"number": number} for number in range(6)))
    row = rows[place]
    changes = {
        "time": st.floats(allow_nan=False).filter(lambda time: time != row.time),
        "kind": st.text().filter(lambda kind: kind != row.kind),
        "body": st.text().filter(lambda body: body != row.body),
        "hash": st.binary(min_size=32, max_size=32).filter(lambda digest: digest != row.hash),
        "place": st.integers().filter(lambda other: other != place),
    }
    name = data.draw(st.sampled_from(sorted(changes)))
    rows[place] = replace(row, **{name: data.draw(changes[name])})
    with pytest.raises(DamagedAudit) as damaged:
        verify(rows)
    assert damaged.value.place == place


def test_parts_of_an_entry_cannot_be_moved_into_each_other(rows):
    first = rows[0]
    with pytest.raises(DamagedAudit):
        verify([replace(first, kind=first.kind + first.body[0], body=first.body[1:])])


@given(place=st.integers(0, 4))
def test_what_is_left_out_or_put_in_is_found(place):
    rows = chain(*({"number": number} for number in range(6)))
    with pytest.raises(DamagedAudit):
        verify(rows[:place] + rows[place + 1 :])
    with pytest.raises(DamagedAudit):
        verify(rows[: place + 1] + rows[place:])
    with pytest.raises(DamagedAudit):
        verify([*rows[:place], rows[place + 1], rows[place], *rows[place + 2 :]])


def test_a_log_that_was_cut_or_written_anew_lacks_the_hash_that_was_noted(rows):
    noted = rows[-1].hash
    assert verify(rows[:-1]) == rows[:-1]
    with pytest.raises(DamagedAudit, match=r"entry 5 .* noted"):
        verify(rows[:-1], noted)
    with pytest.raises(DamagedAudit, match="noted"):
        verify(chain(*({"number": number} for number in range(9))), noted)
    with pytest.raises(DamagedAudit, match="noted"):
        verify([], noted)


@pytest.mark.parametrize("body", [{"x": math.nan}, {"x": b"bytes"}, {"x": {1, 2}}])
def test_what_json_has_no_word_for_is_no_entry(body):
    with pytest.raises(ConfigError, match="not JSON"):
        entry(None, "round", body, 1.0)


@pytest.mark.parametrize("now", [math.nan, math.inf])
def test_an_entry_has_a_time(now):
    with pytest.raises(ConfigError, match="time"):
        entry(None, "round", {}, now)


def test_the_store_appends_to_its_chain(database_url):
    store = open_store(database_url)
    assert store.head() is None
    added = [store.audit("round", {"text": "\0 “x” \x1b[2J", "number": place}, 1e9 + place / 7) for place in range(5)]
    assert store.head() == added[-1]
    assert verify(store.audit_rows()) == added
    assert list(store.audit_rows(since=3)) == added[3:]
    assert store.audit("round", {"number": 4, "text": "\0 “x” \x1b[2J"}, 1e9 + 4 / 7) == added[-1]  # said again
    assert list(store.audit_rows()) == added
    store.close()


def test_a_long_log_is_read_in_parts(database_url, monkeypatch):
    monkeypatch.setattr(records, "_ENTRIES", 2)
    store = open_store(database_url)
    for place in range(7):
        store.audit("round", {"number": place}, float(place))
    assert len(verify(store.audit_rows())) == 7
    store.close()


# The command


@pytest.fixture
def federation(tmp_path):
    """A federation's file, in whose database three entries are."""
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION)
    store = open_store(f"sqlite:///{tmp_path}/federation.db")
    for number in range(3):
        store.audit("round", {"number": number, "reason": "\x1b[2J"}, 1e9 + number)
    store.close()
    return path


def test_entries_are_printed_for_people(federation):
    done = run("audit", federation)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1] == '1  2001-09-09 01:46:41Z  round  number: 1, reason: "\\u001b[2J"'
    assert "3 entries, each as it was written" in done.stdout
    assert "\x1b" not in done.stdout


def test_entries_are_printed_for_programs(federation):
    with closing(open_store(f"sqlite:///{federation.parent}/federation.db")) as store:
        head = store.head().hash.hex()
    done = run("audit", f"sqlite:///{federation.parent}/federation.db", "--json", "--head", head)
    told = json.loads(done.stdout)
    assert told["head"] == head
    assert [one["body"]["number"] for one in told["entries"]] == [0, 1, 2]


def test_a_damaged_log_ends_with_1(federation):
    with closing(sqlite3.connect(federation.parent / "federation.db", isolation_level=None)) as database:
        database.execute("UPDATE audit SET body = replace(body, '1', '7') WHERE place = 1")
    done = run("audit", federation)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("entry 1 of the audit log was changed")


def test_a_hash_that_was_noted_and_is_gone_ends_with_1(federation):
    assert run("audit", federation, "--head", "ab" * 32).returncode == 1
    done = run("audit", federation, "--head", "abc")
    assert (done.returncode, "64 hexadecimal digits" in done.stderr) == (2, True)


def test_nothing_is_made_by_looking(tmp_path):
    done = run("audit", f"sqlite:///{tmp_path}/none.db")
    assert done.returncode == 2
    assert "does not exist" in done.stderr
    assert not any(tmp_path.iterdir())


def test_a_database_that_is_away_is_said_in_one_line(tmp_path):
    done = run("audit", f"postgresql://user:geheim@/x?host={tmp_path}")
    assert done.returncode == 1
    assert "PostgreSQL cannot be reached" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "geheim" not in done.stderr
