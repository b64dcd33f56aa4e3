"""The operator's page is read on a phone, in the dark, by a screen reader, and without colours."""

import re
from importlib import resources

import pytest

from browser import LOW_CONTRAST, opened
from shown_desk import TOKEN, ShownDesk, served

HTML = resources.files("ccesa.service").joinpath("page.html").read_text()


@pytest.fixture(scope="module")
def serving():
    desk = ShownDesk(60)
    desk.play()
    with served(desk) as one:
        yield one


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_nothing_is_wider_than_the_screen(browser, serving, width):
    with opened(browser, serving.url, viewport={"width": width, "height": 800}) as shown:
        shown.use_token(TOKEN)
        shown.page.locator("summary").click()
        shown.page.get_by_role("button", name="Show all").click()
        assert shown.page.evaluate("document.documentElement.scrollWidth") == width
        small = shown.page.evaluate(
            "[...document.querySelectorAll('button, input, select, summary')]"
            ".map(one => one.getBoundingClientRect())"
            ".filter(box => box.width && (box.height < 24 || box.width < 24)).length"
        )
        assert small == 0  # a thumb finds everything
        assert shown.is_clean()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_text_has_enough_contrast(browser, serving, scheme, width):
    with opened(browser, serving.url, color_scheme=scheme, viewport={"width": width, "height": 800}) as shown:
        shown.use_token(TOKEN)
        shown.page.evaluate("toast('Paused.'); $('banner').hidden = false; put($('banner'), 'The connection is lost.')")
        seen, low = shown.page.evaluate(LOW_CONTRAST)
        assert seen > 100
        assert low == []
        shown.page.get_by_role("button", name="Pause").click()
        assert shown.page.evaluate(LOW_CONTRAST)[1] == []


def luminance(colour):
    colour = "".join(2 * c for c in colour) if len(colour) == 3 else colour
    parts = [int(colour[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(v * w for v, w in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_bars_borders_and_cells_stand_out(place):
    palette = re.findall(r":root \{(.*?)\}", HTML, re.DOTALL)[place]
    colours = dict(re.findall(r"--([a-z-]+): #([0-9a-f]+);", palette))
    for name, behind in [
        ("edge", "card"),
        ("edge", "paper"),
        ("good", "card"),
        ("good", "good-soft"),
        ("bad", "card"),
        ("bad", "bad-soft"),
    ]:
        light, dark = sorted((luminance(colours[name]), luminance(colours[behind])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, (name, behind)


def test_a_screen_reader_finds_its_way(browser, serving):
    with opened(browser, serving.url) as shown:
        tree = shown.page.locator("body").aria_snapshot()
        for wanted in (
            "banner",
            "main",
            'heading "Federation of 60 sites" [level=1]',
            'region "Now"',
            'region "Rounds"',
            'region "Results"',
            'region "Members"',
            'region "Privacy"',
            'region "Accusations"',
            'region "Operator"',
            'region "Record"',
            'heading "Members" [level=2]',
            'progressbar "Round 1.9, mask: members that have answered"',
            'progressbar "ε 6.93 of 8 spent"',
            'columnheader "Outcome"',
            'columnheader "State"',
            'searchbox "Find a member"',
            'combobox "Show"',
            'combobox "Metric"',
            'textbox "Operator\'s token"',
            'img "Members: ',
            'img "accuracy over questions: from ',
            'list "Rounds from the oldest to the newest"',
            "Round 1.3: lost, too few members answered",
            'link "Skip to the main content"',
        ):
            assert wanted in tree, wanted
        unnamed = re.findall(
            r"- (?:button|textbox|searchbox|combobox|img|region|progressbar|table)(?::| \[|$)", tree, re.M
        )
        assert unnamed == []


def test_tables_stay_tables_on_a_phone(browser, serving):
    with opened(browser, serving.url, viewport={"width": 360, "height": 800}) as shown:
        tree = shown.page.locator("main").aria_snapshot()
        assert 'table "Members"' in tree
        assert 'columnheader "Blamed"' in tree
        assert "cell" in tree
        assert shown.page.locator("#member-rows tr").first.inner_text().startswith("Coimbra hospital")


def test_the_dialog_is_named_and_described_and_the_focus_is_in_it(browser, serving):
    with opened(browser, serving.url) as shown:
        shown.use_token(TOKEN)
        shown.page.get_by_role("button", name="Finish").click()
        assert 'dialog "Finish the federation?"' in shown.page.locator("body").aria_snapshot()
        assert shown.page.evaluate("document.activeElement.id") == "why"
        shown.page.keyboard.press("Escape")
        assert shown.page.get_by_role("dialog").count() == 0
        assert shown.page.evaluate("document.activeElement.dataset.action") == "finish"


def test_the_page_is_used_with_a_keyboard(browser, serving):
    with opened(browser, serving.url) as shown:
        shown.page.keyboard.press("Tab")
        assert shown.page.evaluate("document.activeElement.className") == "skip"
        visited = set()
        for _ in range(12):
            shown.page.keyboard.press("Tab")
            one = shown.page.evaluate(
                "[document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle,"
                " parseFloat(getComputedStyle(document.activeElement).outlineWidth)]"
            )
            if one[0]:
                visited.add(one[0])
                assert one[1] != "none"
                assert one[2] >= 2, one
        assert {"more-rounds", "metric", "find", "show", "token"} <= visited


def test_nothing_is_told_by_colour_alone(browser, serving):
    """Each state has a word and a sign of its own."""
    with opened(browser, serving.url, forced_colors="active") as shown:
        table = shown.text("#member-rows")
        assert "✕ set aside" in table
        assert "● present" in table
        assert "in an accusation" in table
        assert "✕ lost" in shown.text("#round-rows")
        assert "✓ sum" in shown.text("#round-rows")
        assert shown.text("#state") == "● Running"


def test_nothing_moves_where_that_is_not_wanted(browser, serving):
    moving = "getComputedStyle(document.querySelector('progress'), '::-webkit-progress-value').transitionDuration"
    found = []
    for motion in ("no-preference", "reduce"):
        with opened(browser, serving.url, reduced_motion=motion) as shown:
            found.append(shown.page.evaluate(f"matchMedia('(prefers-reduced-motion: reduce)').matches || {moving}"))
    assert found[1] is True
    rules = re.sub(r"@media \(prefers-reduced-motion: no-preference\) \{.*?\}\s*\}", "", HTML, flags=re.DOTALL)
    assert not re.search(r"\b(transition|animation)\b", rules[: rules.index("<body>")])


def test_without_its_script_the_page_says_where_to_look(browser, serving):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(serving.url)
    assert "/status" in page.locator("noscript").inner_text()
    context.close()
