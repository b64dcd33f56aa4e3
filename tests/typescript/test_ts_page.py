"""The page to show people: tabs of a real Chromium, a real hub, and sums though tabs are closed."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Error

from browser import ELSEWHERE
from runners import PACKAGE
from tabs import DEMO, Tab, demo, tabs

sys.path.append(str(DEMO.parent))
import qr

#: Widths and colours of screens.
SCREENS = [(1180, "light"), (1180, "dark"), (360, "light"), (360, "dark")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with demo("--pace", "2", "--patience", "15", "--name", ELSEWHERE) as address:
        yield address


def test_numbers_are_averaged_though_a_tab_is_closed_and_the_hub_sees_noise(browser, url):
    with tabs(browser, url, 4) as people:
        for tab, number in zip(people, (10_000, 20_000, 30_001, 999_999), strict=True):
            tab.give(number)
        *others, last = people
        name = last.name
        last.wait_for("Your value leaves in")
        last.close()
        for tab in others:
            said = tab.result()
            assert "20,000.33" in said
            assert "the average of 3 people. Their sum is 60,001." in said
            assert f"{name} left before a value was sent" in said
            assert len(tab.page.inner_text("#hex").split()) == 4
            assert tab.is_clean(), (tab.logged, tab.asked)
        tab = others[0]
        _check_reading(tab, 20)
        tab.page.goto(f"{url}/hub")
        tab.wait_for("3 values have come in, and none can be read")
        tab.wait_for("without masks: the sum of 3 people, 60,001", "#sum-text")
        noise = tab.page.locator("#arrived figcaption").all_inner_texts()
        assert all(int(text.split(": ")[1].replace(",", "")) > 30_001 for text in noise), noise
        _check_reading(tab, 10)


def _check_reading(tab: Tab, least: int) -> None:
    """At every width and in both colours all texts have contrast, and nothing is cut off."""
    for width, scheme in SCREENS:
        tab.page.set_viewport_size({"width": width, "height": 800})
        tab.page.emulate_media(color_scheme=scheme)
        seen, low = tab.low_contrast()
        assert seen > least
        assert low == []
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.typescript
def test_drawings_are_averaged_and_one_that_has_left_counts_though_its_tab_is_closed(browser, url):
    with tabs(browser, url, 4) as people:
        drawn = [tab.draw() for tab in people]
        names = [tab.name for tab in people]
        while not (sent := [tab for tab in people if tab.page.locator("#left").is_visible()]):
            people[0].page.wait_for_timeout(50)
        sent[0].close()  # every tab takes a while of its own: this one was first
        average = [sum(dots) / 4 for dots in zip(*drawn, strict=True)]
        assert max(average) > 200
        for tab in (one for one in people if one is not sent[0]):
            said = tab.result()
            assert "the average of 4 drawings" in said
            assert f"{names[people.index(sent[0])]} left after the masked value was sent" in said
            shown = tab.dots("#average")
            assert all(abs(one - exact) <= 1 for one, exact in zip(shown, average, strict=True))
            noise = tab.dots("#masked")
            assert 100 < sum(noise) / len(noise) < 155  # 784 fair bytes: ten standard deviations either way
            assert tab.is_clean(), (tab.logged, tab.asked)


@pytest.mark.typescript
def test_with_too_few_left_there_is_no_sum_and_the_next_round_has_one(browser, url):
    with tabs(browser, url, 3) as people:
        for number, tab in enumerate(people):
            tab.give(number)
        people[2].wait_for("Your value leaves in")
        people[2].close()
        for tab in people[:2]:
            tab.wait_for("ended without a sum")
            assert not tab.page.locator("#result").is_visible()
        people[2] = Tab(people[0].page.context, url)
        for number, tab in enumerate(people):
            tab.give(number)
        assert all("is the average of 3 people. Their sum is 3." in tab.result() for tab in people)


@pytest.mark.typescript
def test_eight_tabs_of_one_browser_share_its_connections(browser, url):
    with tabs(browser, url, 1) as people:
        people += [Tab(people[0].page.context, url) for _ in range(7)]
        for number, tab in enumerate(people):
            tab.give(number)
        assert all("is the average of 8 people. Their sum is 28." in tab.result() for tab in people)


def test_without_a_secure_context_the_page_runs_on_noble(browser, url):
    with tabs(browser, url.replace("localhost", ELSEWHERE), 3) as people:
        for number, tab in enumerate(people):
            assert tab.page.evaluate("[isSecureContext, crypto.subtle === undefined]") == [False, True]
            tab.give(number)
        for tab in people:
            assert "Their sum is 3." in tab.result()
            assert "a library in JavaScript" in tab.page.inner_text("#engine")
            assert tab.is_clean(), (tab.logged, tab.asked)


@pytest.mark.typescript
def test_under_a_charter_all_screens_show_the_same_words_before_it_begins(browser):
    with demo("--pace", "0.5", "--guard", "active") as url, tabs(browser, url, 3) as people:
        for number, tab in enumerate(people):
            tab.give(number)
        for tab in people:
            tab.page.locator("#same").wait_for(timeout=30_000)
        (words,) = {tab.page.inner_text("#charter-words") for tab in people}
        assert len(words.split()) == 8
        assert people[0].low_contrast()[1] == []
        for tab in people:
            tab.page.locator("#same").click()
        assert all("is the average of 3 people. Their sum is 3." in tab.result() for tab in people)
        assert all(tab.is_clean() for tab in people), [tab.logged for tab in people]


def test_a_reload_keeps_the_name_and_takes_the_button_back(browser, url):
    with tabs(browser, url, 2) as (tab, other):
        name = tab.name
        tab.give(7)
        other.wait_for(f"{name}ready", "#people li")
        tab.page.reload()
        tab.wait_for("You are", "#you")
        assert tab.name == name
        other.wait_for(f"{name}here", "#people li")


@pytest.mark.typescript
def test_a_page_whose_server_is_away_goes_on_saying_so_until_it_is_back(browser, url):
    with tabs(browser, url, 3) as people:
        for number, tab in enumerate(people):
            tab.give(number)
        tab = people[0]
        tab.wait_for("Your value leaves in")
        tab.page.context.set_offline(True)
        tab.wait_for("The server does not answer")
        said = set()
        for _ in range(20):  # a second, in which the page is drawn four times
            said.add(tab.page.inner_text("#says"))
            tab.page.wait_for_timeout(50)
        assert said == {"The server does not answer. Is the demo still running?"}
        tab.page.context.set_offline(False)
        assert all("is the average of 3 people. Their sum is 3." in tab.result() for tab in people)


@pytest.mark.typescript
def test_a_tab_that_was_copied_is_somebody_else(browser, url):
    with tabs(browser, url, 1) as (tab,):
        with tab.page.context.expect_page() as opened:
            tab.page.evaluate("window.open('/')")  # it begins with a copy of this one's storage
        opened.value.locator("#you", has_text="You are").wait_for()
        assert opened.value.inner_text("#you") != tab.page.inner_text("#you")


def test_the_page_lets_nothing_run_but_its_own_files(browser, url):
    with tabs(browser, url, 1) as (tab,):
        policy = tab.page.evaluate("fetch('/').then(answer => answer.headers.get('content-security-policy'))")
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert "http" not in policy
        assert tab.is_clean()
        with pytest.raises(Error, match="TrustedScript"):
            tab.page.evaluate("document.body.setAttribute('onclick', 'globalThis.ran = 1')")
        tab.page.evaluate(
            "document.head.append(Object.assign(document.createElement('img'), {src: 'https://example.org'}))"
        )
        tab.page.wait_for_timeout(200)
        assert "violates" in tab.logged[-1]


def test_phones_find_the_page_by_its_code():
    # The example of error correction that tutorials have: HELLO WORLD, version 1, level M.
    words = [32, 91, 11, 120, 209, 114, 220, 77, 67, 64, 236, 17, 236, 17, 236, 17]
    assert qr._remainder(words, 10) == [196, 35, 39, 119, 235, 215, 231, 226, 93, 23]
    rows = qr.code("http://192.168.1.20:8480/")
    assert (len(rows), {len(row) for row in rows}) == (25, {25})
    # What reads such a code reads its bits in this order.
    dark: dict[tuple[int, int], bool] = {}
    qr._draw_patterns(dark, 25, 2)
    qr._draw_format(dark, 25)
    bits = "".join(str(int(rows[r][c] ^ ((r + c) % 2 == 0))) for r, c in qr._free(dark, 25))
    assert bits[:12] == f"0100{25:08b}"
    assert int(bits[12 : 12 + 200], 2).to_bytes(25, "big") == b"http://192.168.1.20:8480/"
    with pytest.raises(ValueError, match="too long"):
        qr.code("x" * 107)


@pytest.mark.needs("node")
def test_the_page_has_the_types_that_it_says():
    command = [str(PACKAGE / "node_modules" / ".bin" / "tsc"), "-p", str(DEMO.parent)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
