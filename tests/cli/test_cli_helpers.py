"""``ccesa plan --guard assisted`` and ``ccesa charter`` with helpers, as users have them."""

import json
import re

import pytest

from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Admission, Member
from commands import run
from rounds import identity
from test_cli_charter import fails

NAMES = ["uni-a", "clinic-b", "trust-c", *(f"site-{place}" for place in range(3, 20))]


def member(place: int) -> Member:
    return Member(NAMES[place], identity(place).public)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twenty members, of whom three help, the charter of these, and a list with a helper from outside."""
    found = tmp_path_factory.mktemp("federation")
    court = Member("court", identity(99).public)
    (found / "members.txt").write_text(str(Admission(map(member, range(20)))))
    (found / "helpers.txt").write_text(str(Admission([member(0), member(1), court])))
    identity(99).save(found / "court.key")
    identity(98).save(found / "stranger.key")
    done = plan(
        found, "--helpers", "uni-a,clinic-b,trust-c", "--min-survivors", "16", "--charter", found / "charter.toml"
    )
    assert done.returncode == 0, done.stderr
    (found / "plan.txt").write_text(done.stdout)
    return found


def plan(folder, *more):
    expires = ("--expires", "2100-01-01") if "--charter" in more else ()
    return run("plan", "--guard", "assisted", "--members", folder / "members.txt", *expires, *more)


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_plan_says_its_promise_its_price_and_what_a_graph_would_do(folder):
    text = words((folder / "plan.txt").read_text())
    assert "20 members, 0.1 drop out, at most 2 collude, guard assisted" in text
    assert "uni-a, clinic-b, trust-c: 3, of whom 3 are members" in text
    assert (
        "A member's vector is opened only if the hub and all of uni-a, clinic-b and trust-c work together. Otherwise "
        "every sum covers at least 14 honest members if at most 2 of 20 work with the hub"
    ) in text
    assert "A round waits while a helper is away" in text
    assert "at most 2 members work with the hub; then one of the 3 helpers that are members does not" in text
    assert "1 for a member in a round, 3 or more for a helper; 2 in each round of a series" in text
    assert "with probability 0.043: fewer than 16 members answer" in text
    assert "a graph does this, under guard active: whatever is opened for a task" in text
    assert "covers at least 10 honest clients" in text
    assert "a member a helper the hub sends 4 MB 4 MB 29.1 kB receives 419 B 6.9 kB 92 MB" in text
    assert "key agreements 3 20 0 checks signatures 3 20 29 makes keystream 12 MB 80 MB 0 B" in text
    assert "sums of at least 16: it is 4.5; try --reliability-bits 4 or --min-survivors 10" in text


def test_where_no_graph_does_the_same_the_plan_says_why():
    text = words(run("plan", "--guard", "assisted", "--clients", "3").stdout)
    assert "opened only if the hub and all 3 helpers work together" in text
    assert (
        "a graph does not do the same, under guard active: privacy of 128 bits is out of reach with 3 clients" in text
    )
    assert "or name helpers" not in text
    assert "two things: at most 1 member works with the hub, and at least one helper does not" in text


@pytest.mark.parametrize("clients", ["3", "8", "20"])
def test_the_advice_of_a_plan_without_a_guard_works(clients):
    asked = ("plan", "--clients", clients, "--reliability-bits", "20")
    done = run(*asked)
    assert done.returncode == 2
    advice = re.search(r"or name helpers, (--[^:]*): members then hold no shares", done.stderr)
    followed = run("plan", "--clients", clients, *advice[1].split(), "--json")
    assert followed.returncode == 0, followed.stderr
    found = json.loads(followed.stdout)
    assert (found["guard"], found["clients"], found["helpers"]) == ("assisted", int(clients), 3)
    assert f"fewer than {found['min_survivors']} of {clients} members answer" in done.stderr


def test_a_plan_as_json(folder):
    found = json.loads(plan(folder, "--helpers", "uni-a,clinic-b", "--colluders", "1", "--json", "--calibrate").stdout)
    assert (found["helpers"], found["helping_members"], found["names"]) == (2, 2, ["uni-a", "clinic-b"])
    assert (found["colluders"], found["least_honest"]) == (1, found["min_survivors"] - 1)
    assert found["one_must_be_honest"] is True
    assert found["no_graph"] is None
    assert found["exchanges"] == {"member": 1, "helper": 3, "series": 2}
    assert "honest clients" in found["graph"]
    assert all(found["cost"][party]["seconds"] > 0 for party in ("member", "helper", "hub"))
    none = json.loads(run("plan", "--guard", "assisted", "--clients", "3", "--json").stdout)
    assert (none["graph"], none["names"]) == (None, [])
    assert "no threshold gives it" in none["no_graph"]
    assert "seconds" not in none["cost"]["member"]


def test_a_plan_with_noise_counts_on_the_minimum_against_a_hub_that_lies():
    noise = ("--epsilon", "8", "--delta", "1e-6", "--rounds", "100", "--norm", "1", "--against", "lies")
    text = words(run("plan", "--guard", "assisted", "--clients", "200", "--length", "100", *noise).stdout)
    assert "if the server lies" in text
    assert "by the noise of 137 honest clients in every sum server lies" in text
    assert "one sum for each task" not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--min-survivors", "3"],
            "min_survivors = 3 members, of whom 2 may work with the hub, covers fewer than two honest",
        ),
        (["--helpers", "uni-a,nobody"], "'nobody' is not in --members; give names from that list"),
        (["--helpers", "9" * 5000], "is not in --members; give names from that list"),
        (["--helpers", "uni-a"], "helpers must lie in 2..16, not 1"),
        (["--helpers", "uni-a,uni-a"], "appears twice"),
        (["--helpers", "uni-a,clinic-b", "--helper-list", "x"], "--helpers and --helper-list say the same thing"),
        (["--helpers", "3", "--charter", "new.toml"], "--charter needs the helpers by name"),
        (["--charter", "new.toml"], "--charter needs the helpers by name"),
        (["--degree", "4"], "--degree does not go with --guard assisted"),
        (["--graph", "complete"], "--graph does not go with --guard assisted"),
        (["--accept"], "--accept does not go with --guard assisted"),
        (["--privacy-bits", "100"], "--privacy-bits does not go with --guard assisted"),
        (["--dropout-per-step", "0.1"], "--dropout-per-step does not go with --guard assisted"),
        (["--guard", "active", "--helpers", "3"], "--helpers goes with --guard assisted: guard active has no helpers"),
        (["--guard", "active", "--key-days", "3"], "--key-days goes with --guard assisted"),
        (
            ["--key-days", "0", "--helpers", "uni-a,site-3", "--charter", "new.toml"],
            "key_days of a charter must lie in",
        ),
    ],
)
def test_a_mistake_ends_in_one_clear_line(folder, tmp_path, arguments, says):
    done = run("plan", "--guard", "assisted", "--members", folder / "members.txt", *arguments, cwd=tmp_path)
    fails(done, says)
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "new.toml").exists()


# The charter


def test_a_charter_names_its_helpers_and_what_they_are_trusted_with(folder):
    charter = Charter.load(folder / "charter.toml")
    text = words(run("charter", "show", folder / "charter.toml").stdout)
    assert "3: uni-a (also a member), clinic-b (also a member), trust-c (also a member)" in text
    assert "not to open vectors together with the hub and all other helpers" in text
    assert "destroys each key after 7 day(s) at the latest" in text
    assert "up to 2 of the members working with it" in text
    assert words(charter.promises[0]) in text
    assert "then one of the 3 helpers that are members does not" in text
    assert "in one series, and each helper answers about it in one round" in text
    assert "needs 16 of the 20 members and all helpers" in text
    assert "graph" not in text
    found = json.loads(run("charter", "show", folder / "charter.toml", "--json").stdout)
    assert [name for name, _ in found["helpers"]] == ["uni-a", "clinic-b", "trust-c"]
    assert (found["colluders"], found["key_days"], found["min_survivors"]) == (2, 7, 16)
    assert found.keys().isdisjoint({"graph", "threshold", "least_roster", "certificate"})


def test_helpers_check_it_with_their_keys_and_strangers_do_not(folder):
    done = plan(
        folder, "--helper-list", folder / "helpers.txt", "--charter", folder / "outside.toml", "--key-days", "2"
    )
    assert done.returncode == 0, done.stderr
    assert "uni-a, clinic-b, court: 3, of whom 2 are members" in words(done.stdout)
    text = words(run("charter", "show", folder / "outside.toml").stdout)
    assert "clinic-b (also a member), court trusted with" in text
    assert "two things: at most 2 members work with the hub, and at least one helper does not" in text
    assert "after 2 day(s)" in text
    check = ("charter", "check", folder / "outside.toml", "--identity")
    assert run(*check, folder / "court.key").returncode == 0
    fails(run(*check, folder / "stranger.key"), "this identity is not among the members", 1)
    fails(run("charter", "check", folder / "charter.toml", "--identity", folder / "court.key"), "not among the", 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("min_survivors = 16", "min_survivors = 3"), "sums of 3 members, of which 2 collude"),
        (("2100-01-01T", "2001-01-01T"), "expired on 2001-01-01"),
    ],
)
def test_a_charter_that_cannot_keep_its_promise_does_not_pass(folder, change, says):
    text = (folder / "charter.toml").read_text()
    assert change[0] in text
    (folder / "changed.toml").write_text(text.replace(*change))
    fails(run("charter", "check", folder / "changed.toml"), says, 1)


def test_the_charter_after_it_keeps_guard_helpers_and_figures_and_says_what_it_changes(folder):
    again = ("plan", "--replaces", folder / "charter.toml", "--members", folder / "members.txt", "--charter")
    done = run(*again, folder / "same.toml")
    assert done.returncode == 0, done.stderr
    assert "changed" not in done.stderr
    before, same = (Charter.load(folder / name) for name in ("charter.toml", "same.toml"))
    for name in ("helpers", "key_days", "colluders", "min_survivors", "members", "guard"):
        assert getattr(before, name) == getattr(same, name)
    assert same.serial == 2
    done = run(
        *again,
        folder / "next.toml",
        "--helper-list",
        folder / "helpers.txt",
        "--min-survivors",
        "12",
        "--key-days",
        "9",
    )
    said = done.stderr
    for line in (
        "helpers that leave: trust-c",
        "helpers that join: court",
        "least_honest: 14 -> 10",
        "key_days: 7 -> 9",
        "min_survivors: 16 -> 12",
    ):
        assert f"changed  {line}\n" in said
    assert run("charter", "accept", folder / "charter.toml", "--as", folder / "accepted.toml").returncode == 0
    done = run("charter", "accept", folder / "next.toml", "--as", folder / "accepted.toml")
    assert "changed  min_survivors: 16 -> 12\n" in done.stdout


def test_another_guard_is_said_to_be_a_change(folder):
    again = ("plan", "--replaces", folder / "charter.toml", "--members", folder / "members.txt", "--guard", "active")
    done = run(*again, "--charter", folder / "graph.toml")
    assert done.returncode == 0, done.stderr
    assert "changed  guard: assisted -> active\n" in done.stderr
    assert "changed  helpers that leave: clinic-b, trust-c, uni-a\n" in done.stderr
    assert "changed  graph: none -> complete\n" in done.stderr
    again = ("plan", "--replaces", folder / "graph.toml", "--members", folder / "members.txt", "--guard", "assisted")
    done = run(*again, "--helpers", "uni-a,clinic-b", "--charter", folder / "back.toml")
    assert "changed  guard: active -> assisted\n" in done.stderr
    assert "changed  graph: complete -> none\n" in done.stderr


def test_learning_and_statistics_go_with_helpers(folder):
    done = plan(folder, "--helpers", "uni-a,clinic-b", "--learning", "--charter", folder / "learning.toml")
    assert done.returncode == 0, done.stderr
    agreed = Charter.load(folder / "learning.toml")
    assert (agreed.bits, agreed.learning is None, len(agreed.helper_seats)) == (64, False, 2)
    (folder / "schema.toml").write_text('name = "visits"\nnumbers = [{name = "age", lower = 0, upper = 120}]\n')
    more = ("--statistics", folder / "schema.toml", "--charter", folder / "statistics.toml")
    done = plan(folder, "--helpers", "uni-a,clinic-b", *more)
    assert done.returncode == 0, done.stderr
    assert Charter.load(folder / "statistics.toml").schema.name == "visits"
