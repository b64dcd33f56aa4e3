"""The demo's report: its numbers are those of the run, everyone can read it, and it loads nothing."""

import html
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import LOW_CONTRAST
from ccesa.demo import learning, pictures, report

COMMAND = "ccesa demo --clients 12 --rounds 3 --dropout 0.1 --seed 2"
STYLE = resources.files("ccesa.demo").joinpath("page.html").read_text(encoding="utf-8")
#: What may not be in a file that loads nothing.
OUTSIDE = ("http://", "https://", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe")


def told(clients, rounds, dropout, seed, **options):
    data = learning.digits(clients, seed)
    plan = learning.plan_rounds(data, dropout, **options)
    history = learning.train_rounds(data, plan, rounds=rounds, dropout=dropout, seed=seed, threads=1)
    return report.Story(history, learning.run_conventional(plan, seed), COMMAND)


@pytest.fixture(scope="module")
def story():
    return told(12, 3, 0.1, 2)


@pytest.fixture(scope="module")
def troubled():
    """A demo that loses some rounds, and not all."""
    found = told(6, 6, 0.45, 1)
    assert 0 < len(found.history.lost) < 6
    return found


class Page(HTMLParser):
    """A page as a list of elements: name, attributes, the names around it, and the text inside."""

    VOID = ("meta", "!doctype")

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        names = [name for name, *_ in self.open]
        assert len(dict(attrs)) == len(attrs)
        element = (tag, dict(attrs), names, [])
        self.elements.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for *_, texts in self.open:
            texts.append(data)

    def all(self, name):
        return [(attributes, around, "".join(texts)) for tag, attributes, around, texts in self.elements if tag == name]

    def texts(self, name):
        return [text for _, _, text in self.all(name)]


def rows(text, caption):
    """Return the cells of the table with this caption, heads first."""
    [table] = [part for part in text.split("<table>")[1:] if part.startswith(f"<caption>{caption}")]
    lines = table.split("</table>")[0].split("<tr>")[1:]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]
    return [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in line] for line in cells]


@pytest.mark.parametrize("which", ["story", "troubled"])
def test_everyone_can_read_it(which, request):
    text = report.to_html(request.getfixturevalue(which))
    page = Page(text)
    assert page.all("html")[0][0] == {"lang": "en"}
    assert page.texts("title")[0]
    for picture, around, _ in page.all("svg"):
        assert picture["role"] == "img"
        assert len(picture["aria-label"]) > 40
        assert "figure" in around
    assert len(page.all("svg")) == len(page.all("figcaption")) == len(page.all("figure"))
    assert all(page.texts("caption"))
    assert all(attributes["scope"] in ("col", "row") for attributes, *_ in page.all("th"))
    for table in text.split("<table>")[1:]:
        assert re.match(r'<caption>[^<]+</caption><thead><tr><th scope="col">', table)
        body = table.split("<tbody>")[1].split("</tbody>")[0]
        assert body.startswith("<tr>")
        assert all(row.startswith('<th scope="row">') for row in body.split("<tr>")[1:])
    assert [len(page.all(name)) for name in ("h1", "header", "main", "footer")] == [1, 1, 1, 1]
    levels = [int(name[1]) for name, *_ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes, *_ in page.elements if "id" in attributes]
    named = [attributes["aria-labelledby"] for attributes, *_ in page.all("section")]
    assert ids == named
    assert len(set(ids)) == len(ids) == 6
    assert "$" not in text


def test_it_loads_nothing_and_says_so_to_the_browser(story):
    text = report.to_html(story)
    assert [outside for outside in OUTSIDE if outside in text] == []
    policies = [one for one, *_ in Page(text).all("meta") if "http-equiv" in one]
    assert [one["http-equiv"] for one in policies] == ["Content-Security-Policy"]
    assert policies[0]["content"].startswith("default-src 'none'; style-src 'unsafe-inline';")


@pytest.mark.parametrize("which", ["story", "troubled"])
def test_the_numbers_are_those_of_the_run(which, request):
    found = request.getfixturevalue(which)
    history, text = found.history, report.to_html(found)
    curves = history.plain, history.everyone, history.secure
    assert rows(text, "Accuracy")[1:] == [
        [str(number), *(f"{curve[number - 1]:.1%}" for curve in curves)] for number in range(1, len(history.secure) + 1)
    ]
    assert rows(text, "Clients that left")[0] == ["round", *history.gone[0], "in the sum"]
    for line, gone, one in zip(rows(text, "Clients that left")[1:], history.gone, history.reports, strict=True):
        assert line[1:-1] == [str(count) for count in gone.values()]
        assert line[-1] == (str(one.survivors) if one.outcome == "aggregate" else "lost")
        before_the_sum = sum(count for step, count in gone.items() if step != "unmask")
        assert not one.survivors or one.survivors == one.clients - before_the_sum
    lost = rows(text, "Rounds without a sum")[1:] if history.lost else []
    assert [int(number) for number, _ in lost] == list(history.lost)
    assert text.count('class="lost"') == 2 * len(lost)  # in both pictures
    sums = f"{len(history.sums)} of {len(history.reports)}"
    assert sums in Page(text).texts("p")[0]
    assert sums in Page(text).texts("dd")
    assert tuple(map(tuple, rows(text, "Measured in this demo")[1:])) == tuple(
        report.compare_costs(history, found.conventional)
    )


def test_the_sum_that_is_shown_came_out_of_masked_vectors_and_is_the_plain_one(story):
    tap = story.history.wiretap
    own, received, masked, opened, plain = tap.vectors.values()
    assert np.array_equal(opened, story.history.reports[tap.number - 1].result.vector)
    assert np.array_equal(opened, plain)
    assert np.mean(masked == plain) < 0.1
    assert np.mean(received == own) < 0.1
    text = report.to_html(story)
    assert f"<strong>{plain.size} of {plain.size} words are equal</strong>" in text
    shown = rows(text, "4 words of each vector")[1:]
    assert len(shown) == 4
    for place, *hexadecimal in shown:
        assert [int(one, 16) for one in hexadecimal] == [int(one[int(place)]) for one in tap.vectors.values()]
        assert hexadecimal[3] == hexadecimal[4] != hexadecimal[2]


def test_the_plain_sum_is_that_of_the_survivors_updates(story):
    data, tap = learning.digits(12, 2), story.history.wiretap
    survivors = story.history.reports[0].result.survivors
    assert (tap.number, tap.senders, tap.client) == (1, len(survivors), survivors[0])
    updates = [data.update(learning.new_model(), client)[0].ravel() for client in survivors]
    weights = [data.sizes[client] for client in survivors]
    shown = tap.numbers(tap.vectors["plain"])[: updates[0].size]
    scale = np.linalg.norm(shown) / np.linalg.norm(np.average(updates, axis=0, weights=weights))
    assert np.allclose(shown / scale, np.average(updates, axis=0, weights=weights), atol=1e-5)


def test_a_wrong_sum_is_not_called_right(story):
    history = story.history
    wrong = history.wiretap.vectors["opened"].copy()
    wrong[7] += 1
    tap = replace(history.wiretap, vectors={**history.wiretap.vectors, "opened": wrong})
    reports = [replace(history.reports[0], exact=False), *history.reports[1:]]
    text = report.to_html(story._replace(history=replace(history, wiretap=tap, reports=reports)))
    assert f"{wrong.size - 1} of {wrong.size} words are equal" in text
    assert "NOT always the plain sum of the clients that stayed" in Page(text).texts("strong")


def test_where_every_round_is_lost_it_says_so():
    found = told(3, 2, 0.95, 1)
    text = report.to_html(found)
    assert "so nothing was learnt" in Page(text).texts("strong")
    assert "0 of 2" in Page(text).texts("dd")
    assert "No plan is reliable" in text
    for gone in found.history.gone:
        before = [sum(list(gone.values())[:place]) for place in range(len(gone))]
        reached = [left < 1 for left in before]  # the round needs all three
        assert all(here or not count for here, count in zip(reached, gone.values(), strict=True))


def test_what_falls_short_of_the_promise_is_noted():
    found = told(12, 1, 0.1, 1, degree=4)
    notes = [text for attributes, _, text in Page(report.to_html(found)).all("p") if attributes]
    assert [one for one in notes if "privacy: " in one and "bits instead of 40" in one]
    assert found.history.plan.shortfalls


def test_the_promise_is_the_certificate_of_the_rounds_that_ran(story):
    plan, text = story.history.plan, report.to_html(story)
    assert plan.config().graph == plan.graph
    certificate = {name: one for name, one, *_ in rows(text, "Certificate of the plan")[1:]}
    for name, shown in certificate.items():
        assert shown == re.sub("<[^>]*>", "", report.write_chance(getattr(plan.certificate, name)))
    assert list(certificate) == ["unreliable", "disconnected", "exposed"]
    assert COMMAND in Page(text).texts("code")
    versions = dict(rows(text, "Versions")[1:])
    assert versions["seed"].startswith("2:")
    assert {"ccesa", "kernel", "Python", "numpy"} <= versions.keys()


def test_the_curve_reaches_a_hundred_thousand_clients(story):
    bills = report.price_plans(story.history.plan)
    assert (min(bills), max(bills)) == (10, 100_000)
    most = bills[100_000]
    assert 10 * most.plan.sent_bytes < most.paper.sent_bytes < most.conventional.sent_bytes / 10
    shown = rows(report.to_html(story), "By plan")
    assert [line[0] for line in shown[1:]] == ["100", "1,000", "10,000", "100,000"]
    assert shown[-1][3] == report.bytes_in_words(most.plan.sent_bytes + most.plan.received_bytes)


@given(st.text(max_size=20) | st.text("<>&;/'\"= amplt", max_size=20))
def test_text_stays_text(text):
    made = pictures.tag("p", text, aria_label=text)
    page = Page(made)
    name, attributes, _, texts = page.elements[0]
    assert (len(page.elements), name) == (1, "p")
    if "\r" not in text and "\0" not in text:
        assert attributes == {"aria-label": text}
        assert "".join(texts) == text


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_axis_lies_close_around_what_it_shows(values):
    axis = pictures.percentages(values, "accuracy")
    assert all(-1e-6 <= axis.place(value) <= 1 + 1e-6 for value in values)
    assert 2 <= len(axis.ticks) <= 7
    steps = (max(axis.ticks) - min(axis.ticks)) / (len(axis.ticks) - 1)
    assert max(axis.ticks) - max(values) < steps + 1e-6
    assert min(values) - min(axis.ticks) < steps + 1e-6


@given(st.integers(1, 5000))
def test_few_rounds_have_their_number_written(rounds):
    written = pictures.every_fifth(rounds)
    assert written == sorted(set(written))
    assert (written[0], written[-1]) == (1, rounds)
    assert len(written) <= 8


@given(st.floats(-2000, 0))
def test_a_chance_is_never_said_to_be_less_than_it_is(log2):
    said = re.sub("<[^>]*>", "", report.write_chance(log2).replace("10<sup>", "1e"))
    said = said.replace("\N{MINUS SIGN}", "-")
    exponent = float(said[2:]) if said.startswith("1e") else math.log10(float(said))
    assert log2 * math.log10(2) - 1e-9 <= exponent <= log2 * math.log10(2) + 1


def colours(dark):
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(blocks) == 2
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", blocks[dark]))


def rgb(colour):
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def lightness(channels):
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(part * c for part, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((lightness(one), lightness(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_inks_stand_out_from_their_paper(dark):
    known = {name: rgb(colour) for name, colour in colours(dark).items()}
    shaded = [0.55 * cell + 0.45 * gone for cell, gone in zip(known["panel"], known["band"], strict=True)]
    texts = [("ink", "paper"), ("quiet", "paper"), ("ink", "panel"), ("quiet", "panel"), ("warn", "paper")]
    lines = [(name, "paper") for name in ("solid", "band", "dash", "warn")]
    lines += [(name, "tile") for name in ("up", "down")]
    assert min(contrast(known[one], known[other]) for one, other in texts) >= 4.5
    assert contrast(known["ink"], shaded) >= 4.5  # numbers in the cells of those who left
    assert min(contrast(known[one], known[other]) for one, other in lines) >= 3
    assert set(re.findall(r"var\(--(\w+)\)", STYLE)) == known.keys()


def test_lines_differ_by_more_than_colour():
    styles = [re.search(rf"\.{name} \{{ stroke: [^;]*; (.*?) \}}", STYLE) for name in ("solid", "dash", "dot")]
    assert len({one[1] for one in styles}) == 3


def test_it_fits_phones_tablets_and_desks_by_day_and_by_night(troubled, tmp_path, browser):
    path = tmp_path / "report.html"
    path.write_text(report.to_html(troubled), encoding="utf-8")
    papers, said = set(), []
    with browser.new_page() as page:
        page.on("console", lambda message: said.append(message.text))
        page.on("request", lambda request: said.append(request.url))
        page.goto(path.as_uri())
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            seen, low = page.evaluate(LOW_CONTRAST)
            assert (seen > 200, low) == (True, [])
        page.emulate_media(color_scheme="dark", media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.querySelector('.box')).overflowY") == "visible"
        page.emulate_media(color_scheme="light", media="screen")
        for width in (390, 820, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") == width
            outside = page.evaluate(
                "[...document.querySelectorAll('svg text')].filter(one => { const box = "
                "one.getBoundingClientRect(), all = one.closest('svg').getBoundingClientRect(); return "
                "box.left < all.left - 1 || box.right > all.right + 1 }).map(one => one.textContent)"
            )
            assert outside == []
            smallest = page.evaluate(
                "Math.min(...[...document.querySelectorAll('svg text')].map(one => one.getBoundingClientRect().height))"
            )
            assert smallest > 10
    assert len(papers) == 2
    assert said == [path.as_uri()]
