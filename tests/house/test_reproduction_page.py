"""Every number on the page of the reproduction is one of the results, and whatever differs is noticed."""

import copy
import itertools
import re

import pytest
from experiments.page import __main__ as command
from experiments.page import markdown, page
from experiments.page.held import Results, Said, Section, findings, renewed
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import RoundFailed
from ccesa.graphs import Harary
from ccesa.plan import plan
from ccesa.simulate import Exactly, simulate

TEXT = page.PAGE.read_text(encoding="utf-8")
KNOWN = page.wanted()
HELD = [part for part in page.parts(TEXT) if part.title in KNOWN]
DIGITS = [(part, match.start()) for part in HELD for match in re.finditer(r"\d", part.text)]
#: One result of each part, which the page names: where it is, and another value.
CHANGED = {
    "running_time": (("rows", 0, "server_ms"), 1234.5),
    "error_bounds": (("few_clients", 0, "drawn"), 0.123),
    "cifar_masked": (("ratio",), 3.21),
    "cifar_reliability": (("seeds", "1", "accuracy", "iid", "p0.2", -1), 0.123),
    "costs": (("rows", -1, "n"), 7000),
    "claims": (("arbitrary", "most_exact"), 0.87),
    "faces_reliability": (("summary", 0, "lost_in_all"), 17),
    "faces_inversion": (("schemes", "SA", "identified"), 97),
    "membership": (("rows", 0, "attacks", "plain", "auc"), 0.123),
}


def test_the_page_says_what_the_results_say():
    assert "\n".join(command.told(TEXT, page.wrong(TEXT, KNOWN))) == ""


@settings(max_examples=100)
@given(st.sampled_from(DIGITS), st.integers(1, 9))
def test_a_digit_that_changes_anywhere_is_noticed_and_a_result_is_written_anew(place, step):
    part, at = place
    changed = part.text[:at] + str((int(part.text[at]) + step) % 10) + part.text[at + 1 :]
    found = findings(changed, KNOWN[part.title])
    assert found
    if all(one.right is not None for one in found):
        assert renewed(changed, found) == part.text


@pytest.mark.parametrize("name", CHANGED)
def test_a_result_that_changes_is_noticed(name):
    results, (path, value) = Results(), CHANGED[name]
    results[name] = copy.deepcopy(results[name])
    inner = results[name]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    known = page.wanted(results)
    found = page.wrong(TEXT, known)
    rights = [one.right for title in found if title in known for one in found[title]]
    assert rights
    assert all(right is not None for right in rights)


def section(**parts):
    return Section(title="", **parts).wanted(Results())


def test_a_number_that_nothing_covers_is_found():
    wanted = section(said=[Said("loses {:.0%} of {} rounds at n = 40", lambda _: [0.68, 50])], fixed=["step 2"])
    assert not findings("In step 2 it\nloses 68 % of 50\n  rounds at n = 40, on CIFAR-10.", wanted)
    for more in ("7", "3·10⁻⁴", "twice", "halves", "tenfold", "a tenth", "twenty", "CIFAR-100", "½"):
        found = findings(f"In step 2 it loses 68 % of 50 rounds at n = 40, {more}.", wanted)
        assert [one.right for one in found] == [None] * len(found) != []


def test_a_number_in_the_text_around_fields_is_not_covered():
    wanted = section(said=[Said("loses {} of 50 rounds", lambda _: [3])])
    (found,) = findings("loses 3 of 50 rounds", wanted)
    assert found.says == "nothing covers 'loses 3 of 50 rounds'"


@pytest.mark.parametrize("text", ["", "it took 3 s and it took 3 s"])
def test_what_is_said_never_or_more_than_once_is_found(text):
    (found, *_) = findings(text, section(said=[Said("it took {} s", lambda _: [3])]))
    assert "times instead of once" in found.says


@pytest.mark.parametrize(("text", "values"), [("{} of {}", [3]), ("it took {} s", []), ("it took 3 s", [])])
def test_what_is_said_has_fields_and_a_value_for_each(text, values):
    with pytest.raises(ValueError, match=f"{len(values)} values for"):
        section(said=[Said(text, lambda _: values)])


def test_a_table_is_known_by_its_head_and_renewed_with_its_indent():
    wanted = section(tables=[lambda _: markdown.table(["", "n = 5"], [["SA", 7], ["ours", 8]])])
    text = "- so:\n\n  | | n = 4 |\n  |---|--:|\n  | SA | 6 |\n\n  and on"
    (found,) = findings(text, wanted)
    assert renewed(text, [found]) == "- so:\n\n  | | n = 5 |\n  |---|--:|\n  | SA | 7 |\n  | ours | 8 |\n\n  and on"


def test_a_section_without_a_module_and_a_module_without_a_section_are_found():
    found = page.wrong("## Here\n", {"": [], "There": []})
    assert {title: one.says for title, (one,) in found.items()} == {
        "Here": "nothing holds this section to the results",
        "There": "no such section on the page",
    }


def test_on_the_circle_planned_without_dropouts_any_two_in_step_2_lose_the_round():
    """One may leave, and the page says of this circle that two may not."""
    config = plan(8, 0.0, length=1).config()
    assert config.graph == Harary(degree=2)
    for gone in [{0}, *map(set, itertools.combinations(range(8), 2))]:
        dropouts = {"advertise": (), "share": (), "mask": gone, "unmask": ()}
        found = simulate(config, seed=1, dropout=Exactly({step: frozenset(of) for step, of in dropouts.items()}))
        assert isinstance(found.result, RoundFailed) == (len(gone) == 2)


def test_numbers_as_the_page_writes_them():
    assert markdown.formatted(-0.684, ".1%") == "−68.4 %"
    assert markdown.formatted("a-b") == "a-b"
    assert [markdown.word(count) for count in (0, 12, 20, 21, 1000)] == ["none", "twelve", "twenty", "21", "1,000"]
    assert markdown.power(10, -41.5) == "10⁻⁴¹·⁵"
    assert markdown.scientific(2.96e-4) == "3·10⁻⁴"
    assert markdown.spread([0.584, 0.582, 0.579], ".1%") == "58.2 % (57.9 to 58.4 %)"
    assert markdown.spread([0, 0, 0], "d") == "0"


def test_the_command_renews_the_page(monkeypatch, tmp_path, capsys):
    copied = tmp_path / "page.md"
    text = "at n = 40 it took 3 s\n\n## Other\n"
    copied.write_text(text)
    monkeypatch.setattr(command, "PAGE", copied)
    monkeypatch.setattr(command, "wanted", lambda: {"": section(said=[Said("it took {} s", lambda _: [4])])})
    assert command.main([]) == 1
    assert copied.read_text() == text
    assert "page.md:1: introduction: the page says '3', the results '4'" in capsys.readouterr().out
    assert command.main(["--write"]) == 1
    assert copied.read_text() == "at n = 40 it took 4 s\n\n## Other\n"
    assert "page.md:3: Other: nothing holds" in capsys.readouterr().out
