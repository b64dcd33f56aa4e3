"""``ccesa charter``, and ``ccesa plan`` that writes one, as users have them: processes and files."""

import json
import subprocess
from datetime import date
from pathlib import Path

import pytest

from ccesa.agreement.charter import Charter, Learning
from ccesa.agreement.identity import Admission, Member
from commands import run
from rounds import identity

MEMBERS = 30


def fails(done: subprocess.CompletedProcess, says: str, code: int = 2) -> None:
    assert done.returncode == code
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A list of thirty hospitals, the key of the first, and the charter that the planner writes for them."""
    found = tmp_path_factory.mktemp("federation")
    members = [Member(f"hospital-{i}", identity(i).public) for i in range(MEMBERS)]
    (found / "admitted.txt").write_text(str(Admission(members)))
    (found / "nobody.txt").write_text("# nobody yet\n")
    identity(0).save(found / "site.key")
    identity(99).save(found / "stranger.key")
    planned = ("plan", "--guard", "active", "--members", found / "admitted.txt")
    done = run(*planned, "--charter", found / "charter.toml", "--learning", "--expires", "2100-01-01")
    assert done.returncode == 0, done.stderr
    return found


def edited(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    text = (folder / "charter.toml").read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / name).write_text(text)
    return folder / name


def test_the_planner_writes_a_charter_that_keeps_its_promises(folder):
    charter = Charter.load(folder / "charter.toml")
    assert len(charter.members) == MEMBERS
    assert (charter.serial, charter.expiry) == (1, "2100-01-01 00:00 UTC")
    assert charter.certificate.privacy_bits == 128
    assert charter.certificate.colluders >= 1
    assert (charter.bits, charter.learning) == (64, Learning())
    done = run("charter", "check", folder / "charter.toml", "--identity", folder / "site.key")
    assert done.returncode == 0
    assert charter.fingerprint in done.stdout


def test_what_is_shown_says_against_whom_how_many_collude_and_how_many_are_in_every_sum(folder):
    charter = Charter.load(folder / "charter.toml")
    words = " ".join(run("charter", "show", folder / "charter.toml").stdout.split())
    told = charter.certificate
    assert f"a server that lies, and up to {told.colluders} of the members working with it" in words
    honest = f"at least {told.least_honest} honest members"
    assert f"whatever is opened for a task, in all attempts together, covers {honest}" in words
    assert "each roster that the server tries; there is at most one sum for a task" in words
    assert "gets up to 2 vector(s) of a member, in one series, and shares for it are released once" in words
    assert "excepted a server that calls the same work another task" in words
    assert charter.fingerprint in words
    assert "agreement x25519 vectors" in words
    found = json.loads(run("charter", "show", folder / "charter.toml", "--json").stdout)
    assert found["digest"] == charter.digest.hex()
    assert found["certificate"]["least_honest"] == told.least_honest


def test_a_charter_with_two_releases_says_what_they_cost(folder):
    changed = edited(folder, "twice.toml", ("attempts = 2", "attempts = 3\nreleases = 2"))
    words = " ".join(run("charter", "show", changed).stdout.split())
    assert "any sum covers at least 14 honest members" in words
    assert "shares for it are released 2 times: its sums may differ by few members" in words
    assert "one sum" not in words
    assert run("charter", "check", changed).returncode == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("least_honest = 14", "least_honest = 20"), "it states least_honest = 20, but the computed value is 14"),
        (("colluders = 3", "colluders = 9"), "it states colluders = 9, but the computed value is 3"),
        (("t = 17", "t = 16"), "it keeps less than it demands: privacy"),
        (("privacy_bits = 128.0", "privacy_bits = 120.0"), ""),
        (("least_roster = 14", "least_roster = 3"), "least_roster = 3 is below the certified minimum 14"),
        (("least_roster = 14", "least_roster = 30"), "least_roster = 30 is above 14"),
        (("min_survivors = 14", "min_survivors = 30"), "it keeps less than it demands: reliability"),
        (("2100-01-01T", "2001-01-01T"), "expired on 2001-01-01"),
        (("unreliable = -1", "unreliable = -3"), "it states unreliable = -3"),
    ],
)
def test_a_charter_that_flatters_or_has_expired_does_not_pass(folder, change, says):
    done = run("charter", "check", edited(folder, "changed.toml", change))
    if says:
        fails(done, says, 1)
    else:
        assert done.returncode == 0  # asking for less is no lie


def test_a_stranger_is_told(folder):
    done = run("charter", "check", folder / "charter.toml", "--identity", folder / "stranger.key")
    fails(done, "this identity is not among the members", 1)


def test_a_site_accepts_the_newest_and_never_an_older_one(folder):
    accepted = folder / "accepted.toml"
    first, second = folder / "charter.toml", edited(folder, "second.toml", ("serial = 1\n", "serial = 2\n"))
    other = edited(folder, "other.toml", ("attempts = 2", "attempts = 1"))
    assert run("charter", "accept", first, "--as", accepted).returncode == 0
    fails(run("charter", "accept", other, "--as", accepted), "serial 1 is not above 1")
    assert run("charter", "accept", second, "--as", accepted).returncode == 0
    fails(run("charter", "accept", first, "--as", accepted), "serial 1 is not above 2")
    assert run("charter", "accept", second, "--as", accepted).returncode == 0  # the same again is no news
    assert Charter.load(accepted).serial == 2
    flattering = edited(folder, "third.toml", ("serial = 1\n", "serial = 3\n"), ("t = 17", "t = 16"))
    fails(run("charter", "accept", flattering, "--as", accepted), "is not accepted")
    assert Charter.load(accepted).serial == 2


def test_a_new_charter_goes_on_from_the_one_before(folder):
    planned = ("plan", "--guard", "active", "--members", folder / "admitted.txt", "--json")
    before = edited(folder, "before.toml", ("attempts = 2", "attempts = 1"))
    done = run(*planned, "--charter", folder / "next.toml", "--replaces", before)
    assert done.returncode == 0
    found, before = Charter.load(folder / "next.toml"), Charter.load(before)
    assert json.loads(done.stdout)["least_honest"] == found.certificate.least_honest
    assert found.fingerprint in done.stderr
    assert found.serial == before.serial + 1
    assert found.learning == before.learning
    assert found.attempts == before.attempts == 1
    again = (*planned, "--charter", folder / "wished.toml", "--replaces", folder / "before.toml")
    assert run(*again, "--value-bits", "8").returncode == 0
    assert Charter.load(folder / "wished.toml").learning.field_bits == 13  # 30 * 127 < 2^12
    assert date.today().year < int(found.expiry[:4]) <= date.today().year + 1


def test_a_new_charter_never_falls_back_to_a_weaker_agreement(folder):
    planned = ("plan", "--guard", "active", "--members", folder / "admitted.txt")
    first, second, old = folder / "hybrid.toml", folder / "hybrid-next.toml", folder / "charter.toml"
    assert run(*planned, "--charter", first, "--replaces", old, "--post-quantum").returncode == 0
    assert run(*planned, "--charter", second, "--replaces", first).returncode == 0
    assert Charter.load(second).agreement == Charter.load(first).agreement == "x25519-mlkem768"
    assert "agreement x25519-mlkem768" in " ".join(run("charter", "show", second).stdout.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--charter", "new.toml"), "--charter goes with --guard active"),
        (("--guard", "active", "--clients", "30", "--charter", "new.toml"), "--charter needs --members"),
        (("--guard", "active", "--members", "admitted.txt", "--clients", "29"), "the 30 members"),
        (("--guard", "active", "--members", "nobody.txt"), "the list has no members"),
        (("--guard", "active", "--members", "nowhere.txt"), "nowhere.txt"),
        (("--guard", "active", "--members", "admitted.txt", "--charter", "charter.toml"), "will not be overwritten"),
        (("--guard", "active", "--members", "admitted.txt", "--charter", "a/b.toml"), "there is no folder"),
        (
            (
                *("--guard", "active", "--members", "admitted.txt"),
                *("--charter", "old.toml", "--expires", "2001-01-01"),
            ),
            "--expires 2001-01-01 is in the past",
        ),
        (("--clients", "40", "--attempts", "1"), "go with --charter FILE"),
        (
            (*("--guard", "active", "--members", "admitted.txt"), *("--charter", "none.toml", "--attempts", "0")),
            "0 is not in the range 1<=x<=1000",
        ),
    ],
)
def test_what_cannot_become_a_charter_is_refused_and_leaves_no_file(folder, monkeypatch, arguments, says):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    done = run("plan", *arguments)
    assert done.returncode in (1, 2)
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == before


def test_a_charter_that_others_can_write_to_is_refused(folder):
    path = edited(folder, "open.toml")
    path.chmod(0o666)
    fails(run("charter", "show", path), "can be changed by others")


@pytest.mark.parametrize("against", ["follows", "lies"])
def test_the_noise_of_a_charter_is_shown_in_words(folder, against):
    path = folder / f"noise-{against}.toml"
    planned = ("plan", "--guard", "active", "--members", folder / "admitted.txt", "--charter", path)
    asked = ("--epsilon", 6, "--delta", 1e-6, "--rounds", 20, "--norm", 1.5, "--length", 1000)
    done = run(*planned, *asked, "--against", against)
    assert done.returncode == 0, done.stderr
    noise = Charter.load(path).privacy
    words = " ".join(run("charter", "show", path).stdout.split())
    server = {"follows": "follows the protocol", "lies": "lies"}[against]
    for says in (
        f"epsilon = 6 at delta = 1e-06 if the server {server}, for 20 vectors of a client, each with 1,000 "
        "parameters and an L2 norm of at most 1.5",
        f"{noise.honest} honest members in every sum that can be opened, and on ledgers",
        f"noise with a standard deviation of {noise.noise(1):.3g} to each parameter; a sum has "
        f"{noise.noise(noise.honest):.3g} from that many members, {noise.noise(MEMBERS):.3g} if all",
        f"a trusted curator would add {noise.curator:.3g}",
        f"fields of {noise.field_bits} bits",
    ):
        assert says in words
    found = json.loads(run("charter", "show", path, "--json").stdout)
    assert found["privacy"]["epsilon"] == 6
    assert found["privacy"]["honest"] == noise.honest
    assert run("charter", "check", path).returncode == 0
    path.write_text(path.read_text(encoding="utf-8").replace("epsilon = 6.0", "epsilon = 5.0"), encoding="utf-8")
    done = run("charter", "check", path)
    assert done.returncode == 1
    assert "not the 5 it promises" in done.stderr


def test_a_charter_without_noise_says_nothing_of_it(folder):
    shown = run("charter", "show", folder / "charter.toml").stdout
    assert "epsilon" not in shown
    assert "privacy" not in json.loads(run("charter", "show", folder / "charter.toml", "--json").stdout)
