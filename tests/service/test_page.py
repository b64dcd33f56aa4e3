"""The operator's page in a real browser: it follows the hub, acts with the token, and runs nobody's text."""

import re
import time

import msgspec
import pytest

from browser import opened
from ccesa.service.desk import MemberStatus, StepStatus
from ccesa.service.operator import change
from shown_desk import TOKEN, ShownDesk, served


@pytest.fixture
def desk():
    one = ShownDesk(20)
    one.play()
    return one


def test_a_federation_is_followed_from_gathering_to_its_end(browser):
    desk = ShownDesk(5, questions=2)
    with served(desk) as serving, opened(browser, serving.url) as shown:
        shown.wait("#state", "Gathering")
        shown.wait("#steps", "0 members are here")
        desk.come(range(5))
        shown.wait("#members-count", "5 present, 0 absent, 0 set aside")
        desk.open(0)
        shown.wait("#state", "Running")
        shown.wait("#left", "Closes in 1:")
        desk.answer([0, 1])
        shown.wait("#steps", "2 of 5")
        shown.wait("#waiting", "Not answered yet: Coimbra hospital, Delft hospital, Espoo hospital")
        desk.answer(range(5))
        shown.wait("#waiting", "Everyone has answered")
        desk.end_round("TooFewClients")
        shown.wait("#round-rows", "lost: too few members answered")
        shown.wait("#said", "Round 1.0 is over: lost, too few members answered.")
        desk.end_round(accuracy=0.5)
        desk.end_round(accuracy=0.75)
        desk.put(state="over", steps=[])
        shown.wait("#state", "Over")
        shown.wait("#round-rows", "0, attempt 2")
        shown.wait("#figures", "2 of 2")
        assert shown.page.locator("#timeline li").count() == 3
        assert shown.page.title() == "Over 2/2: Five hospitals"
        label = shown.page.get_by_role("img", name="accuracy over questions").get_attribute("aria-label")
        assert label == "accuracy over questions: from 0.5 at question 0 to 0.75 at question 1"
        assert shown.is_clean()


def test_helpers_have_rows_and_are_waited_for_by_name(browser):
    desk = ShownDesk(5)
    desk.come(range(5))
    desk.open(0)
    desk.answer(range(5))
    with served(desk) as serving, opened(browser, serving.url) as shown:
        assert shown.page.locator("#helpers").is_hidden()
        here = MemberStatus(client=5, name="uni-a", state="present", asked=True, answered=True, seen=time.time())
        away = MemberStatus(client=6, name="clinic <b>", state="absent", asked=True)
        desk.put(helpers=[here, away], reason="waits for helper clinic <b> since 14:02:11 UTC", since=time.time())
        shown.wait("#helpers-count", "1 of 2 here; every one is needed")
        rows = shown.page.locator("#helper-rows tr")
        assert rows.count() == 2
        assert "uni-a" in rows.nth(0).inner_text()
        assert "answered" in rows.nth(0).inner_text()
        assert "clinic <b>" in rows.nth(1).inner_text()
        assert "absent" in rows.nth(1).inner_text()
        assert "not answered" in rows.nth(1).inner_text()
        shown.wait("#reason", "waits for helper clinic <b> since 14:02:11 UTC")
        shown.wait("#waiting", "Not answered yet: clinic <b>")
        desk.end_round("HelpersMissing", pairs=[(2, 6)])
        shown.wait("#round-rows", "lost: a helper did not answer")
        shown.wait("#faults", "clinic <b> (#6): one of the two lied")
        assert shown.is_clean()


def test_what_is_promised_spent_and_accused_is_said_in_words(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        assert shown.text("#epsilon") == "ε 6.93 of 8 spent"
        assert "δ = 1e-6. 9 of 12 planned rounds used." in shown.text("#delta")
        assert "at least 10 honest members" in shown.text("#certificate")
        assert shown.text("#faults") == "Bern hospital (#1) and Espoo hospital (#4): one of the two lied, in round 1.5."
        assert shown.text("#head") == "9f2c" * 16
        assert shown.text("#hubs") == "hub-1:4711 leads\nhub-2:4712"
        desk.put(privacy=msgspec.structs.replace(desk.now.privacy, epsilon=8.0), hubs=["hub-2:4712"])
        shown.wait("#delta", "Nothing is left.")
        shown.wait("#hubs", "hub-2:4712 leads")


def test_a_lost_connection_is_said_and_mended(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        serving.stop()
        shown.wait("#banner", "The connection to the hub is lost. This page shows the state at")
        assert "not connected" in shown.text("#live")
        desk.put(state="paused", reason="the disk is full")
        serving.start()
        shown.wait("#state", "Paused")
        shown.wait("#reason", "the disk is full")
        assert shown.page.locator("#banner").is_hidden()


def test_what_holds_a_federation_up_is_a_banner(browser, desk):
    """The reason, since when, and what to do; nothing where all is well."""
    with served(desk) as serving, opened(browser, serving.url) as shown:
        assert shown.page.locator("#held").is_hidden()
        reason, advice = "4 of 6 are here, 5 are needed", "Start the sites that are missing: clinic-02."
        desk.put(state="gathering", reason=reason, since=time.time() - 90, advice=advice)
        shown.wait("#held", reason)
        assert re.fullmatch(rf"{reason}\n\nSince \d\d:\d\d\. {re.escape(advice)}", shown.text("#held"))
        desk.put(state="running", reason="", since=0.0, advice="")
        shown.page.locator("#held").wait_for(state="hidden")


def test_actions_need_the_token_and_a_yes(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        page = shown.page
        assert page.get_by_role("button", name="Pause").count() == 0
        assert page.get_by_role("button", name="Set aside").count() == 0
        shown.use_token(TOKEN)
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Cancel").click()
        assert desk.done == []
        page.get_by_role("button", name="Pause").click()
        page.get_by_label("Reason (optional)").fill("maintenance")
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        shown.wait("#toast", "Paused.")
        shown.wait("#reason", "maintenance")
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        shown.wait("#state", "Running")
        assert desk.done == [("pause", None, "maintenance"), ("resume", None, "")]


def test_setting_aside_needs_a_reason(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        page = shown.page
        shown.use_token(TOKEN)
        page.get_by_role("button", name="Set aside Delft hospital (#3)").click()
        assert page.get_by_role("heading", name="Set Delft hospital (#3) aside?").is_visible()
        page.get_by_role("dialog").get_by_role("button", name="Set aside").click()
        assert page.get_by_role("dialog").is_visible()
        assert desk.done == []
        page.get_by_label("Reason").fill("its disk is broken")
        page.keyboard.press("Enter")
        shown.wait("#member-rows", "its disk is broken")
        shown.wait("#said", "Delft hospital is set aside.")
        page.get_by_role("button", name="Let in Delft hospital (#3)").click()
        page.get_by_role("dialog").get_by_role("button", name="Let in").click()
        shown.wait("#toast", "Let in.")
        assert desk.done == [("set-aside", 3, "its disk is broken"), ("let-in", 3, "")]


def test_a_wrong_token_does_nothing_and_is_forgotten(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        shown.use_token("guessed")
        shown.page.get_by_role("button", name="Finish").click()
        shown.page.get_by_role("dialog").get_by_role("button", name="Finish").click()
        shown.wait("#dialog-error", "This is not the operator's token. Nothing has changed.")
        shown.page.get_by_role("button", name="Cancel").click()
        assert shown.page.get_by_label("Operator's token").is_visible()
        assert desk.done == []


def test_what_the_hub_refuses_is_said(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        shown.use_token(TOKEN)
        desk.away = True
        shown.page.get_by_role("button", name="Pause").click()
        shown.page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        shown.wait("#dialog-error", "Nothing has changed. Temporarily unavailable: the store cannot be reached.")


def test_the_token_is_kept_in_memory_only(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        shown.use_token(TOKEN)
        kept = shown.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie, $('token').value]")
        assert kept == [0, 0, "", ""]
        assert TOKEN not in shown.page.content()
        shown.page.reload()
        assert shown.page.get_by_label("Operator's token").is_visible()


HOSTILE = [
    "<img src=x onerror=window.hit=1>",
    "</script><script>window.hit=1</script>",
    "<svg onload=window.hit=1>",
    "${window.hit=1}",
    "\u202egnissim\u2066\x00\x07\nline",
    "javascript:window.hit=1",
    "A" * 20_000,
    "e" + "\u0301" * 500,
    "",
]


def test_hostile_names_are_text(browser):
    desk = ShownDesk(len(HOSTILE), names=HOSTILE.__getitem__)
    desk.play(6)
    for text in HOSTILE[:6]:
        desk.end_round(text, [(0, 1)], **{text: 0.5})
        desk.put_members([1], state="set aside", reason=text)
        desk.put(name=text, reason=text, hubs=[text], head=text, certificate=[text], guard=text)
        desk.put(steps=[StepStatus(round=1, step=text, asked=5, answered=1)])
    with served(desk) as serving, opened(browser, serving.url, viewport={"width": 360, "height": 800}) as shown:
        for text in HOSTILE:
            desk.put(state=text, name=text, reason=text, hubs=[text], head=text, certificate=[text], guard=text)
            desk.put(steps=[StepStatus(round=1, step=text, asked=5, answered=1)])
            desk.put_members([1], state="set aside" if text else "present", reason=text)
            shown.page.wait_for_timeout(350)
            assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), text[:40]
        shown.use_token(TOKEN)
        shown.page.get_by_role("button", name="Set aside <img").click()
        assert "<img src=x onerror=window.hit=1> (#0)" in shown.text("#dialog-head")
        assert shown.page.evaluate("window.hit") is None
        assert shown.page.locator("main img:not([role]), main script, main svg[onload]").count() == 0
        assert HOSTILE[0] in shown.text("#member-rows")
        assert "\u202e" not in shown.text("body")
        assert shown.is_clean()


def test_markup_from_text_is_an_error_in_this_page(browser, desk):
    """The policy asks for trusted types and allows none: a slip in the script would not run either."""
    with served(desk) as serving, opened(browser, serving.url) as shown:
        for slip in ("document.body.innerHTML = '<b>x</b>'", "document.write('x')", "setTimeout('window.hit = 1', 0)"):
            refused = shown.page.evaluate(
                f"(() => {{ try {{ {slip}; return false }} catch (error) {{ return error.name }} }})()"
            )
            assert refused in ("TypeError", "EvalError"), slip
        shown.page.evaluate(
            "() => { const one = document.createElement('img'); one.src = 'http://127.0.0.1:1/x.png';"
            " document.body.append(one); }"
        )
        shown.page.wait_for_timeout(200)
        assert any("Content Security Policy" in line for line in shown.logged)


def test_five_thousand_members_stay_fluid(browser):
    desk = ShownDesk(5000)
    desk.play()
    with served(desk) as serving, opened(browser, serving.url, viewport={"width": 1280, "height": 800}) as shown:
        assert shown.page.locator("#cells").is_visible()
        assert shown.page.locator("#show").input_value() == "attention"
        slowest = shown.page.evaluate(
            "() => Math.min(...[1, 2, 3, 4, 5].map(() => { changed(['members', 'rounds', 'steps']);"
            " const start = performance.now(); draw(); $('cells').getContext('2d').getImageData(0, 0, 1, 1);"
            " return performance.now() - start; }))"
        )
        assert slowest < 150
        assert shown.page.evaluate("document.querySelectorAll('*').length") < 3000
        before = desk.now
        desk.answer([4999])
        assert len(msgspec.json.encode(change(before, desk.now))) < 2000
        shown.page.locator("#find").fill("#4999")
        shown.wait("#member-rows", "Jena site 500 #4999")
        shown.wait("#member-rows", "answered")
        shown.page.locator("#find").fill("")
        shown.page.locator("#show").select_option("present")
        shown.page.get_by_role("button", name="Next").click()
        assert shown.text("#page").startswith("51 to 100 of 4,")


def test_the_grid_says_who_is_where(browser):
    desk = ShownDesk(100)
    desk.play()
    with served(desk) as serving, opened(browser, serving.url) as shown:
        cells = shown.page.locator("#cells")
        assert cells.get_attribute("aria-label").startswith("Members: 88 present, 10 absent, 2 set aside")
        cells.hover(position={"x": 5, "y": 5})
        shown.wait("#under-pointer", "Aachen hospital (#0)")
        cells.click(position={"x": 5, "y": 5})
        assert shown.page.locator("#member-rows tr").count() == 1


def test_whoever_has_the_focus_keeps_it_through_updates(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        shown.use_token(TOKEN)
        shown.page.get_by_role("button", name="Set aside Jena hospital (#9)").focus()
        desk.put_members([9], blames=2)
        shown.wait("#member-rows tr:nth-child(4)", "Jena hospital")
        assert (
            shown.page.evaluate("document.activeElement.getAttribute('aria-label')") == "Set aside Jena hospital (#9)"
        )


def test_many_changes_are_few_announcements(browser, desk):
    with served(desk) as serving, opened(browser, serving.url) as shown:
        shown.page.evaluate(
            "() => { window.count = 0; new MutationObserver(() => count += 1).observe($('said'), {childList: true}); }"
        )
        for _ in range(20):
            desk.end_round()
            time.sleep(0.1)
        shown.page.wait_for_timeout(2500)
        assert 1 <= shown.page.evaluate("count") <= 3
