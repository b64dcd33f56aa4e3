"""Statistics in charters, in whole rounds, in the example of five hospitals and on the command line."""

import contextlib
import importlib.util
import io
import json
import math
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from ccesa import Admission, Ledger, Member
from ccesa.agreement.charter import Charter, Learning
from ccesa.cli.app import app
from ccesa.errors import ConfigError
from ccesa.plan import charters, plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import federate, new_client, new_helpers, new_server
from ccesa.statistics import Category, Number, Schema, read_csv
from ccesa.statistics.packing import Scale
from rounds import charter, identity
from series_rounds import SeriesPlay
from tables import check_report, schemas

HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals"
PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
SITES = ("north", "south", "east", "west", "harbour")
SCHEMA = Schema.load(HOSPITALS / "schema.toml")
NOISY = msgspec.structs.replace(SCHEMA, least_group=1, privacy_unit="record")


def with_(part, **fields):
    return msgspec.structs.replace(part, **fields)


def table(site: int) -> list[dict]:
    return list(read_csv(HOSPITALS / "data" / f"{SITES[site]}.csv", SCHEMA))


def asked(schema: Schema = NOISY, **others) -> DifferentialPrivacy:
    told = {"epsilon": 3.0, "delta": 1e-6, "rounds": 2, "norm": schema.norm, "unit": "record"}
    return DifferentialPrivacy(**(told | others))


@cache
def planned(privacy: DifferentialPrivacy | None = None) -> Charter:
    """Of the five hospitals, with identities 0 to 4."""
    schema = SCHEMA if privacy is None else NOISY
    noise = {} if privacy is None else {"privacy": privacy, "field_bits": 64}
    made = plan(5, 0.01, guard="active", length=schema.length, bits=64, **noise)
    members = Admission(Member(name, identity(place).public) for place, name in enumerate(SITES))
    return charters.charter(made, members, expires=2**40, statistics=schema)


# In a charter


@settings(max_examples=60)
@given(schemas())
def test_the_text_of_a_charter_gives_its_schema_back(schema):
    agreed = charter(8, bits=64, statistics=schema)
    again = Charter.parse(str(agreed))
    assert (again, again.schema, again.digest) == (agreed, schema, agreed.digest)
    assert agreed.length == agreed.config(length=schema.length).length == schema.length


#: Another value for every field.
OTHERS = {
    Schema: {
        "name": "others",
        "max_records": 99,
        "least_group": 6,
        "privacy_unit": "record",
        "group_by": (),
        "missing": ("?",),
        "numbers": SCHEMA.numbers[:1],
        "categories": SCHEMA.categories[::-1],
    },
    Number: {
        "name": "years",
        "lower": -1.0,
        "upper": 111.0,
        "places": 1,
        "measures": ("mean", "histogram"),
        "edges": (18.0,),
        "quantiles": (0.5,),
    },
    Category: {"name": "unit", "values": ("medicine", "surgery")},
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, fields in OTHERS.items() for name in fields],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_digest_is_over_every_field_of_a_schema(kind, name):
    assert OTHERS[kind].keys() == set(kind.__struct_fields__)
    change = {name: OTHERS[kind][name]}
    base, noise = SCHEMA, {}
    if (kind, name) == (Schema, "privacy_unit"):
        base = with_(SCHEMA, least_group=1)
        changed = with_(base, **change)
        mechanism = choose_mechanism(asked(), clients=8, honest=1, dimension=NOISY.dimension, field_bits=64)
        certificate = with_(charter(8).certificate, least_honest=8)
        noise = {"privacy": mechanism, "certificate": certificate}
    elif kind is Schema:
        changed = with_(SCHEMA, **change)
    elif kind is Number:
        changed = with_(SCHEMA, numbers=(with_(SCHEMA.numbers[0], **change), *SCHEMA.numbers[1:]))
    else:
        categories = (with_(SCHEMA.categories[0], **change), *SCHEMA.categories[1:])
        grouped = (categories[0].name,)
        base, changed = (with_(SCHEMA, group_by=("ward",)), with_(SCHEMA, categories=categories, group_by=grouped))
    before, after = charter(8, bits=64, statistics=base), charter(8, bits=64, statistics=changed, **noise)
    assert before.digest != after.digest
    assert Charter.parse(str(after)) == after


def test_a_charter_without_statistics_has_no_word_of_them():
    plain = charter(8, bits=64)
    assert (plain.schema, plain.length) == (None, None)
    assert "statistics" not in str(plain)
    assert plain.encode()[0] == 0x80 + 14  # a map of as many entries, in the shortest form


@pytest.mark.parametrize(
    ("noisy", "fields", "match"),
    [
        (False, {"bits": 32}, "a charter with statistics has words of 64 bits, and no learning"),
        (False, {"learning": Learning()}, "a charter with statistics has words of 64 bits, and no learning"),
        (False, {"statistics": NOISY}, "privacy_unit = record needs noise"),
        (True, {"statistics": SCHEMA}, "statistics with noise need privacy_unit = record"),
        (True, {"statistics": msgspec.UNSET}, "noise that hides a record goes with statistics"),
    ],
)
def test_what_does_not_go_together_is_refused(noisy, fields, match):
    agreed = planned(asked() if noisy else None)
    with pytest.raises(ConfigError, match=match):
        with_(agreed, **fields)


def test_noise_for_whole_clients_is_no_noise_for_records():
    """The other way round would promise a hundred times what it keeps."""
    agreed = planned(asked())
    with pytest.raises(ConfigError, match="noise for this schema needs unit = record"):
        with_(agreed, privacy=with_(agreed.privacy, unit=msgspec.UNSET))


def test_a_round_has_the_length_of_the_schema():
    with pytest.raises(ConfigError, match=rf"has 7 words, but the charter's statistics have {SCHEMA.length}"):
        planned().config(length=7)


def test_the_keys_of_a_schema_are_listed_in_order():
    found = re.findall(r"^\| `(\w+)` \|", PAGE.split("| key of `statistics` |")[1].split("\n\n")[0], re.MULTILINE)
    assert found == list(Schema.__struct_fields__)
    cells = re.findall(r"^\| (`.*?) \|", PAGE.split("| key of `numbers` |")[1].split("\n\n")[0], re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == list(Number.__struct_fields__)
    (categories,) = re.findall(r"^\| `categories` \|.*$", PAGE, re.MULTILINE)
    assert set(Category.__struct_fields__) <= set(re.findall(r"`(\w+)`", categories))


# In rounds


def test_a_round_over_five_files_gives_the_plain_numbers():
    agreed = planned()
    config = agreed.config(length=SCHEMA.length)
    clients = {
        i: ActiveClient(config, identity(i), agreed, lambda i=i: SCHEMA.encode(table(i)), tasks=None) for i in range(5)
    }
    found = run_round(Server(config, agreed), in_memory(clients))
    report = SCHEMA.decode(found.vector, len(found.survivors))
    assert report.sites == 5
    check_report(SCHEMA, report, [table(i) for i in range(5)])


class Hospitals(SeriesPlay):
    """A series in which every hospital counts its own file in every round."""

    def vector(self, i: int, number: int) -> np.ndarray:
        return SCHEMA.encode(table(i))


@pytest.mark.parametrize("guard", ["curious", "active"])
def test_a_series_over_five_files_with_one_site_gone_gives_the_plain_numbers_of_the_others(guard):
    agreed = {"statistics": SCHEMA} if guard == "active" else {}
    play = Hospitals(guard, 5, rounds=3, bits=64, length=SCHEMA.length, **agreed)
    ended = play.run(lambda exchange, client: client == 3 and exchange > 5)
    sites = {len(one.aggregate.survivors) for one in ended}
    assert sites == {4, 5}
    for one in ended:
        who = one.aggregate.survivors
        check_report(SCHEMA, SCHEMA.decode(one.aggregate.vector, len(who)), [table(i) for i in who])


def test_a_round_with_helpers_gives_the_plain_numbers_of_who_was_there():
    """Each site sends one message, and one of them is away."""
    enrolment = federate(5, helpers=3, statistics=SCHEMA, bits=64)
    config = enrolment.charter.config(length=SCHEMA.length)
    parties = {i: new_client(config, i, SCHEMA.encode(table(i)), enrolment) for i in range(5)}
    carry = in_memory(parties | new_helpers(config, enrolment), lambda step, party: party == 3)
    found = run_round(new_server(config, enrolment), carry)
    assert found.survivors == (0, 1, 2, 4)
    check_report(SCHEMA, SCHEMA.decode(found.vector, 4), [table(i) for i in found.survivors])


def test_a_round_with_noise_charges_every_site_and_is_near_the_plain_numbers():
    agreed = planned(asked())
    ledgers = [Ledger.in_memory(epsilon=3.0, delta=1e-6) for _ in range(5)]
    config = agreed.config(length=NOISY.length)
    clients = {
        i: ActiveClient(
            config,
            identity(i),
            agreed,
            lambda i=i: NOISY.encode(table(i), agreed.mechanism),
            tasks=None,
            account=ledgers[i].account(agreed.mechanism, agreed.digest),
        )
        for i in range(5)
    }
    found = run_round(Server(config, agreed), in_memory(clients))
    report = NOISY.decode(found.vector, 5, agreed.mechanism)
    plain = {one.key["ward"]: one for one in with_(SCHEMA, least_group=1).decode(summed(), 5).groups}
    for group in report.groups:
        right = plain[group.key["ward"]].records if group.key["ward"] in plain else 0
        assert abs(group.records - right) < 10 * report.noise
    assert [one.spent().vectors for one in ledgers] == [1] * 5
    assert ledgers[0].charges()[0].unit == "record"


def summed() -> np.ndarray:
    schema = with_(SCHEMA, least_group=1)
    return np.sum([schema.encode(table(i)) for i in range(5)], axis=0, dtype=np.uint64)


# The example


def test_the_files_of_the_hospitals_are_those_that_the_script_writes(tmp_path):
    spec = importlib.util.spec_from_file_location("tables_of_hospitals", HOSPITALS / "tables.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv" for name in SITES}
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (HOSPITALS / "data" / path.name).read_bytes()


def test_the_noise_on_the_page_is_that_of_the_example():
    page = (HOSPITALS.parents[1] / "docs" / "statistics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| ± (\S+) \| ± (\S+) years \| ± (\S+) days \|$", page, re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "3", "8"]
    for epsilon, *told in rows:
        mechanism = planned(asked(epsilon=float(epsilon))).mechanism
        count = Scale(NOISY, mechanism).noise(NOISY.quantities[0], 5)
        age, days = (count * math.hypot(most, most - 2 * mean) / 540 for most, mean in ((110, 58.5), (365, 5.6)))
        assert [float(one) for one in told] == pytest.approx([count, age, days], rel=0.06)


def test_the_example_runs_and_says_what_the_page_says():
    done = subprocess.run([sys.executable, str(HOSPITALS / "together.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    *report, last = done.stdout.splitlines()
    assert last == "as without masks: True"
    told = (HOSPITALS / "README.md").read_text(encoding="utf-8")
    shown = told.split("```text\n")[1].split("```")[0].splitlines()
    assert shown == report[: len(shown)]


# The command line


def run(*arguments) -> str:
    """What a command prints, in one line; 0 is its exit status."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert not app([str(one) for one in arguments], standalone_mode=False)
    return " ".join(printed.getvalue().split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("hospitals")
    members = [Member(name, identity(place).public) for place, name in enumerate(SITES)]
    (found / "members.txt").write_text(str(Admission(members)))
    text = (HOSPITALS / "schema.toml").read_text()
    (found / "noisy.toml").write_text(
        re.sub("^least_group.*$", 'least_group = 1\nprivacy_unit = "record"', text, flags=re.MULTILINE)
    )
    return found


def planning(folder: Path, *arguments) -> str:
    common = ("plan", "--guard", "active", "--members", folder / "members.txt", "--dropout", 0.01)
    return run(*common, *arguments)


def test_a_charter_with_statistics_is_written_shown_and_replaced(folder):
    path, again = folder / "charter.toml", folder / "again.toml"
    planning(folder, "--statistics", HOSPITALS / "schema.toml", "--charter", path)
    found = Charter.load(path)
    assert (found.schema, found.bits, found.mechanism) == (SCHEMA, 64, None)
    shown = run("charter", "show", path)
    assert f"in 6 group(s), by ward; {SCHEMA.length:,} words" in shown
    assert "age, 0 to 110 with 0 decimal place(s): mean variance histogram" in shown
    assert "a member leaves out each group with fewer than 5 records" in shown
    assert json.loads(run("charter", "show", path, "--json"))["statistics"]["name"] == SCHEMA.name
    assert "keeps its promise" in run("charter", "check", path)
    planning(folder, "--charter", again, "--replaces", path)
    assert (Charter.load(again).schema, Charter.load(again).serial) == (SCHEMA, 2)


def test_a_charter_that_leaves_no_group_out_says_so(folder):
    (folder / "bare.toml").write_text('name = "bare"\nleast_group = 1')
    planning(folder, "--statistics", folder / "bare.toml", "--charter", folder / "bare-charter.toml")
    assert "a group of one record is visible" in run("charter", "show", folder / "bare-charter.toml")


def test_a_charter_with_noise_for_records_is_written_and_says_so(folder):
    path = folder / "noisy-charter.toml"
    budget = ("--epsilon", 3, "--delta", 1e-6, "--rounds", 2)
    told = planning(folder, "--statistics", folder / "noisy.toml", "--charter", path, *budget)
    found = Charter.load(path)
    assert isinstance(found.mechanism, Mechanism)
    assert (found.schema, found.mechanism.unit, found.length) == (NOISY, "record", NOISY.dimension)
    assert "about any one record" in told
    assert "little but noise" not in told
    shown = run("charter", "show", path)
    assert "epsilon = 3 at delta = 1e-06 about any one record if the server follows the protocol" in shown
    assert "to each count" in shown
    assert "leaves out" not in shown
    assert "keeps its promise" in run("charter", "check", path)


@pytest.mark.parametrize(
    ("schema", "arguments", "says"),
    [
        ("schema.toml", ["--epsilon", 3], "noise needs privacy_unit = record in the schema"),
        ("noisy.toml", ["--epsilon", 3], "add --delta, --rounds"),
        ("noisy.toml", [], "add --epsilon, --delta, --rounds"),
        ("noisy.toml", ["--norm", 3], "leave out --norm and --field-bits"),
        ("noisy.toml", ["--field-bits", 32], "leave out --norm and --field-bits"),
        ("schema.toml", ["--value-bits", 12], "statistics are exact: leave out --value-bits"),
    ],
)
def test_what_cannot_be_planned_for_says_why(folder, schema, arguments, says):
    path = HOSPITALS / schema if schema == "schema.toml" else folder / schema
    with pytest.raises(ConfigError, match=says):
        planning(folder, "--statistics", path, *arguments)
