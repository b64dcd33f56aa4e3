"""What the README shows, run."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from docs.pictures import make as pictures
from experiments.__main__ import PARTS as EXPERIMENTS
from matplotlib.text import Text

import ccesa
import commands
from attacks.registry import ATTACKS
from bench import __main__ as bench_command
from bench import claims, parts
from ccesa.plan import Rates
from ccesa.plan.price import Timing


def blocks(text: str) -> list[str]:
    """All Python of a page."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LIBRARY = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
CLAIMS = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
FIRST, _FLOWER = blocks(README)
ROUND, SERIES, CHARTER, HELPERS, NOISE = blocks(LIBRARY)
SETUP, LOOP = re.split(r"(?=^requests = server\.open)", ROUND, maxsplit=1, flags=re.MULTILINE)


def run(code: str, names: dict) -> None:
    exec(code, names)  # noqa: S102 - our own words


def weighted_mean(names: dict, kept) -> float:
    """Of the numbers that fill the example's models."""
    return np.average(np.arange(40.0)[list(kept)], weights=np.array(names["sizes"])[list(kept)])


def test_the_first_example_prints_what_is_shown_below_it(capsys):
    names: dict = {}
    run(FIRST, names)
    assert capsys.readouterr().out == re.search(r"```text\n(.*?)```", README, re.DOTALL)[1]
    kept = names["result"].survivors
    assert np.allclose(names["result"].mean["weights"], weighted_mean(names, kept), atol=1e-5)


def test_the_examples_run_as_they_stand(capsys):
    """One after the other, as a reader pastes them; that of the charter ends where the loop begins."""
    names: dict = {}
    run(ROUND, names)
    assert np.allclose(names["mean"].arrays["weights"], weighted_mean(names, range(40)), atol=1e-3)
    assert names["mean"].weight == sum(names["sizes"])
    run(SERIES, names)
    assert (names["ended"].number, names["ended"].result().survivors) == (2, tuple(range(40)))
    assert not any(client.rounds for client in names["members"].values())
    assert np.allclose(names["mean"].arrays["weights"], weighted_mean(names, range(40)), atol=1e-3)
    run(CHARTER, names)
    run(LOOP, names)
    assert names["server"].config.charter == names["charter"].digest
    assert np.allclose(names["mean"].arrays["weights"], weighted_mean(names, range(40)), atol=1e-3)
    capsys.readouterr()
    run(HELPERS, names)
    assert "every sum covers at least 25 honest members" in (printed := capsys.readouterr().out)
    assert float(printed.splitlines()[-1]) == sum(names["sizes"])
    run(NOISE, names)
    result, away = names["result"], names["result"].mean["weights"] - np.mean(names["result"].survivors)
    assert abs(away.mean()) < 7 * result.noise / np.sqrt(away.size) < 12  # of about 19.5


class Garbling:
    """A client whose reply in one step is damaged on the way."""

    def __init__(self, client: ccesa.Client, step: int) -> None:
        self.client, self.left = client, step

    def receive(self, request: bytes) -> bytes:
        reply, self.left = self.client.receive(request), self.left - 1
        return reply if self.left >= 0 else b"garbage"


def prepared(garbling: list[int]) -> dict:
    """The example up to its loop, with some clients that garble their masked vectors."""
    names: dict = {}
    run(SETUP, names)
    names["clients"] |= {i: Garbling(names["clients"][i], 2) for i in garbling}
    return names


def test_the_loop_shown_outlives_a_faulty_client(capsys):
    names = prepared([3])
    run(LOOP, names)
    kept = [i for i in range(40) if i != 3]
    assert "client 3: " in capsys.readouterr().out
    assert names["server"].result().survivors == tuple(kept)
    assert np.allclose(names["mean"].arrays["weights"], weighted_mean(names, kept), atol=1e-3)


def test_the_loop_shown_ends_by_name_when_too_few_are_left():
    with pytest.raises(ccesa.RoundFailed):
        run(LOOP, prepared(list(range(38))))


def test_the_commands_shown_are_there():
    shown = re.findall(r"^\$ \.venv/bin/ccesa (.*)$", INSTALL, re.MULTILINE)
    assert shown
    for line in shown:
        smaller = line.replace("--clients 1000", "--clients 90").replace("--length 100000", "--length 10")
        status = commands.run(*smaller.split()).returncode
        assert status in ((0, 3) if line.startswith("simulate") else (0,)), line  # a round may be lost


def test_the_claims_are_what_was_measured():
    """`python -m bench.claims` writes them; whoever measures anew, or edits the table, runs it."""
    found = claims.table(claims.kept())
    assert found in CLAIMS
    assert "not measured" not in found
    front = claims.table(claims.kept(), front=True)
    assert front in README
    assert len(front.splitlines()) == 2 + 5


def test_the_page_ends_where_a_reader_does():
    assert len(README.split()) <= 1300


def test_a_claim_that_nobody_measured_says_so():
    bench = claims.kept().bench
    told = claims.table(claims.Results({name: bench[name] for name in bench if name != "server"}))
    assert told.count("not measured yet") == 2
    assert claims.page(f"a\n{claims.BEGIN}\nold\n{claims.END}\nb", claims.kept()).endswith(f"\n{claims.END}\nb")


TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def known(command: str) -> bool:
    """Whether there is what a command asks for; it is not run."""
    match command.split():
        case ["python", "-m", "bench", "--only", part]:
            return part in {*parts.PARTS, bench_command.MILLION_CLIENTS}
        case ["python", "-m", "pytest", path] | ["python", path, "--check"]:
            return (ROOT / path).is_file()
        case ["make", target, *settings]:
            named = dict(setting.split("=") for setting in settings)
            attack, part = named.pop("NAME", "split-view"), named.pop("ONLY", "costs")
            defence = named.pop("DEFENCE", "on") in ("on", "off")
            return not named and defence and target in TARGETS and attack in ATTACKS and part in EXPERIMENTS
        case ["ccesa", *arguments]:
            return commands.run(*arguments).returncode == 0
    return False


@pytest.mark.parametrize("command", sorted({one for claim in claims.CLAIMS for one in claim.commands}))
def test_the_command_behind_a_claim_exists(command):
    assert known(command)


@pytest.mark.parametrize(
    "command",
    ["python -m bench --only speed", "make attack NAME=none", "make faster", "make reproduce ONLY=all", "sh x"],
)
def test_a_command_that_does_not_exist_is_noticed(command):
    assert not known(command)


def test_the_picture_of_a_round_is_of_a_real_one():
    held, gone = pictures.handwriting()
    round = pictures.play(held, gone)
    assert len(gone) == pictures.VANISH
    assert set(round.survivors) == round.received.keys() == held.keys() - gone
    assert np.array_equal(round.total, np.sum([held[i] for i in round.survivors], axis=0))
    for client, word in round.received.items():
        assert np.count_nonzero(word == held[client]) < 16  # of 64, where one in 65,536 is alike by chance


def test_the_pictures_are_drawn():
    """With three numbers of clients and made-up speeds."""
    rates = Rates(
        **{field.name: Timing((0, 1), (1e-6, 1e-6)) if "Timing" in str(field.type) else 1e-6 for field in fields(Rates)}
    )
    plans = [ccesa.plan.plan(clients, dropout=0.1) for clients in (100, 1000, 100_000)]
    drawn = [pictures.round_picture(pictures.play(*pictures.handwriting())), pictures.costs_picture(plans, rates)]
    texts = [{text.get_text() for text in figure.findobj(Text)} for figure in drawn]
    assert {"every bit\nthe same", "dropped\nout", "the sum over 37"} <= texts[0]
    assert {" 29 MB", " 1.2 MB", " 14 kB"} <= texts[1]
    assert all(number in CLAIMS for number in ("29 MB", "1.2 MB", "14 kB"))
    front = " ".join(README.split())
    assert all(number in front for number in ("38 for a thousand", "46 for a hundred thousand"))
    assert [plan.degree for plan in plans[1:]] == [38, 46]


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 5
    for page in pages:
        for link in re.findall(r'(?:\]\(|src=")([^)#"]+)', page.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page}: {link}"
