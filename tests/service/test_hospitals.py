"""Five hospitals with CSV files, as examples/hospitals/README.md has it: every command, as processes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import commands
from ccesa import Admission, Identity, Ledger, Member
from ccesa.cli.join import contribute_table
from ccesa.errors import VectorError
from ccesa.statistics import Schema, read_csv
from processes import free_ports

EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals"


def ccesa(folder: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "ccesa", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def done(folder: Path, *arguments: str) -> str:
    ended = commands.run(*arguments, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Hospitals:
    """Five sites in one folder: tables, keys, and a charter that the command line has written."""

    def __init__(self, folder: Path, schema: str, *options: str, guard: str = "active") -> None:
        self.folder, self.names = folder, sorted(path.stem for path in (EXAMPLE / "data").glob("*.csv"))
        shutil.copytree(EXAMPLE / "data", folder / "data")
        (folder / "schema.toml").write_text(schema)
        self.schema = Schema.load(folder / "schema.toml")
        members = []
        for name in self.names:
            identity = Identity.new(name)
            identity.save(folder / f"{name}.key")
            members.append(Member(name, identity.public))
        (folder / "members.txt").write_text(str(Admission(members)))
        planned = ["--guard", guard, "--members", "members.txt", "--dropout", "0.01"]
        if guard == "assisted":
            planned += ["--helpers", ",".join(self.names[:3]), "--min-survivors", "4", "--colluders", "1"]
        done(folder, "plan", *planned, "--statistics", "schema.toml", *options, "--charter", "charter.toml")
        self.public, operate = free_ports(2)
        text = (EXAMPLE / "federation.toml").read_text()
        text = text.replace("8470", str(self.public)).replace("8471", str(operate))
        (folder / "federation.toml").write_text(text)

    def run(self, *options: str) -> list[str]:
        """Run hub and sites as processes; return what the sites print. {} in an option is a site's name."""
        with ccesa(self.folder, "serve", "federation.toml", "--until-over") as hub:
            joined = [self.join(name, *(option.format(name) for option in options)) for name in self.names]
            said = [one.communicate(timeout=120) for one in joined]
            assert [one.returncode for one in joined] == [0] * 5, said
            _, err = hub.communicate(timeout=60)
            assert hub.returncode == 0, err
        return [out for out, _ in said]

    def join(self, name: str, *options: str) -> subprocess.Popen:
        own = ["--charter", "charter.toml", "--identity", f"{name}.key", "--statistics", f"data/{name}.csv"]
        return ccesa(self.folder, "join", f"http://127.0.0.1:{self.public}", *own, *options)

    def rows(self, name: str):
        return read_csv(EXAMPLE / "data" / f"{name}.csv", self.schema)


@pytest.mark.parametrize("guard", ["active", pytest.param("assisted", marks=pytest.mark.service)])
def test_five_hospitals_count_together(tmp_path, guard):
    hospitals = Hospitals(tmp_path, (EXAMPLE / "schema.toml").read_text(), guard=guard)
    said = hospitals.run()
    total = sum(hospitals.schema.encode(hospitals.rows(name)) for name in hospitals.names)
    report = str(hospitals.schema.decode(total, 5))
    assert [out.strip() for out in said] == [report.strip()] * 5
    printed = done(tmp_path, "results", "federation.toml").splitlines()
    assert printed[0] == "question 0: a sum over 5"
    assert [line.strip() for line in printed[1:]] == [line.strip() for line in report.splitlines()]
    audit = done(tmp_path, "audit", "federation.toml", "--json")
    rounds = [one for one in json.loads(audit)["entries"] if one["kind"] == "round"]
    assert [one["body"]["survivors"] for one in rounds] == [[0, 1, 2, 3, 4]]


def test_a_table_with_other_columns_is_refused_before_anybody_counts_on_it(tmp_path):
    hospitals = Hospitals(tmp_path, (EXAMPLE / "schema.toml").read_text())
    (tmp_path / "data" / "north.csv").write_text("ward,sex\nsurgery,f\n")
    said = hospitals.join("north").communicate(timeout=60)[1]
    assert said == "ccesa: data/north.csv, line 1, column 'age' is missing\n"


def test_no_record_is_looked_at_before_a_site_takes_part(tmp_path):
    """With noise, that a site is there must not depend on what its table says."""
    hospitals = Hospitals(tmp_path, (EXAMPLE / "schema.toml").read_text())
    table = tmp_path / "data" / "north.csv"
    header, *_ = table.read_text().splitlines()
    table.write_text(f"{header}\nno record at all\n")
    contribute = contribute_table(table, tmp_path / "charter.toml")
    with pytest.raises(VectorError, match="line 2, expected"):
        list(contribute(hospitals.schema, 0))


@pytest.mark.service
@pytest.mark.parametrize("guard", ["active", "assisted"])
def test_five_hospitals_with_noise_that_hides_every_record(tmp_path, guard):
    kept = [one for one in (EXAMPLE / "schema.toml").read_text().splitlines() if not one.startswith("least")]
    schema = "\n".join(['privacy_unit = "record"', "least_group = 1", *kept])
    hospitals = Hospitals(tmp_path, schema, "--epsilon", "3", "--delta", "1e-6", "--rounds", "2", guard=guard)
    for name in hospitals.names:
        Ledger.new(tmp_path / f"{name}.ledger", epsilon=3.0, delta=1e-6)
    hospitals.run("--ledger", "{}.ledger", "--results", "{}.results")
    (result,) = map(json.loads, (tmp_path / f"{hospitals.names[0]}.results").read_text().splitlines())
    assert result["survivors"] == [0, 1, 2, 3, 4]
    assert "records" in result["value"]["text"]
    for name in hospitals.names:
        assert Ledger(tmp_path / f"{name}.ledger").spent().vectors == 1
