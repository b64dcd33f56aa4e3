"""The operator's port over HTTP: who may ask, what is answered, and what is sent when something changes."""

import asyncio
import json
import re
from types import SimpleNamespace

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.service import operator
from ccesa.service.desk import ACTIONS, TO_MEMBERS, Status
from ccesa.service.http import Front, Limits
from ccesa.service.meters import Meters
from ccesa.service.operator import MAXIMUM_BYTES, MAXIMUM_VIEWERS, app, page
from shown_desk import TOKEN, ShownDesk, served

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def side():
    """The operator's side of a federation in the middle of things, without a socket."""
    desk, meters = ShownDesk(20), Meters()
    desk.play()
    made = app(desk, meters, hosts=["hub.example"])

    def ask(method, path, *, host="127.0.0.1:8471", **options):
        async def asked():
            transport = httpx.ASGITransport(made)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
                return await client.request(method, path, **options)

        return asyncio.run(asked())

    return SimpleNamespace(desk=desk, meters=meters, ask=ask)


def is_problem(answer, status, name):
    document = answer.json()
    return (
        answer.status_code == document["status"] == status
        and answer.headers["content-type"] == "application/problem+json"
        and document["type"] == f"urn:ccesa:problem:{name}"
        and document["title"]
    )


def test_the_status_is_the_desk_s(side):
    answer = side.ask("GET", "/status")
    assert msgspec.json.decode(answer.content, type=Status) == side.desk.now


def test_the_page_runs_its_own_script_and_nothing_else(side):
    answer = side.ask("GET", "/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy)) == 2
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_is_one_file_without_other_sources():
    text = page()[0].decode()
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert not re.findall(r"@import|url\(|import\(|localStorage|sessionStorage|innerHTML|document\.cookie", text)
    assert not re.findall(r"""\s(?:on[a-z]+|style)=["']""", text)
    assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("path", ["/", "/status", "/events", "/metrics", "/readyz", "/actions/pause", "/nothing"])
def test_other_names_of_this_machine_are_refused(side, path):
    """A page of somebody else's could give its own name this address, and read along."""
    method = "POST" if "actions" in path else "GET"
    assert is_problem(side.ask(method, path, host="evil.example", headers=BEARER), 421, "misdirected")
    assert side.desk.done == []


@pytest.mark.parametrize("host", ["localhost:8471", "127.0.0.1", "[::1]:8471", "10.0.0.7:80", "hub.example"])
def test_names_that_were_agreed_on_and_addresses_are_answered(side, host):
    assert side.ask("GET", "/status", host=host).status_code == 200


def test_a_probe_may_call_the_machine_as_it_likes(side):
    """What it hears is that the process works, and nothing else."""
    answer = side.ask("GET", "/healthz", host="hub")
    assert (answer.status_code, answer.content) == (204, b"")


# Health


def test_health_is_the_engine_s(side):
    assert side.ask("GET", "/healthz").status_code == 204
    side.desk.living = False
    assert is_problem(side.ask("GET", "/healthz"), 503, "dead")
    assert is_problem(side.ask("GET", "/readyz"), 503, "not-ready")


def test_a_hub_is_ready_when_members_can_be_served(side):
    assert side.ask("GET", "/readyz").status_code == 204
    side.desk.why = "the store is away\n\x1b[31m"
    answer = side.ask("GET", "/readyz")
    assert is_problem(answer, 503, "not-ready")
    assert answer.headers["retry-after"] == "5"
    assert answer.json()["detail"] == "the store is away\\n\\x1b[31m"
    assert side.ask("GET", "/healthz").status_code == 204  # a restart would not help


# Actions


def path_of(action):
    return f"/actions/{action}" if action in ACTIONS else f"/members/3/{action}"


@pytest.mark.parametrize("action", ACTIONS + TO_MEMBERS)
def test_the_operator_acts(side, action):
    answer = side.ask("POST", path_of(action), headers=BEARER, json={"reason": " because\n "})
    assert answer.status_code == 204
    assert side.desk.done == [(action, None if action in ACTIONS else 3, "because")]


@pytest.mark.parametrize("action", ACTIONS + TO_MEMBERS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer guessed"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Cookie": f"token={TOKEN}"},
    ],
)
def test_nobody_else_acts(side, action, headers):
    answer = side.ask("POST", path_of(action), headers=headers, json={"reason": "because"})
    assert is_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="operator"'
    assert side.desk.done == []
    assert b'ccesa_refusals_total{reason="unauthorized"} 1.0' in side.meters.render("")[0]


@pytest.mark.parametrize(
    ("path", "body", "status", "name"),
    [
        ("/actions/open-a-sum", b"{}", 404, "not-found"),
        ("/actions/set-aside", b"{}", 404, "not-found"),
        ("/members/3/pause", b"{}", 404, "not-found"),
        ("/members/x/let-in", b"{}", 404, "not-found"),
        ("/members/-1/let-in", b"{}", 404, "not-found"),
        ("/members/999/let-in", b"{}", 422, "refused"),
        ("/members/3/set-aside", b"{}", 422, "no-reason"),
        ("/members/3/set-aside", b'{"reason": " "}', 422, "no-reason"),
        ("/actions/pause", b"{", 400, "malformed"),
        ("/actions/pause", b"\xff", 400, "malformed"),
        ("/actions/pause", b'{"reason": "\xff"}', 400, "malformed"),
        ("/actions/pause", b'{"reason": 3}', 400, "malformed"),
        ("/actions/pause", b'{"because": "x"}', 400, "malformed"),
        ("/actions/pause", b"[]", 400, "malformed"),
        ("/actions/pause", b" " * (MAXIMUM_BYTES + 1), 413, "too-large"),
    ],
)
def test_what_is_no_action_is_refused(side, path, body, status, name):
    assert is_problem(side.ask("POST", path, headers=BEARER, content=body), status, name)
    assert side.desk.done == []


def test_a_reason_is_kept_as_one_short_line(side):
    side.ask("POST", "/actions/pause", headers=BEARER, json={"reason": "a\n\x1b]0;b\x07" + "c" * 1000})
    (_, _, reason), *_ = side.desk.done
    assert reason.isprintable()
    assert len(reason) < 250


def test_a_store_that_is_away_is_said(side):
    side.desk.away = True
    answer = side.ask("POST", "/actions/pause", headers=BEARER)
    assert is_problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "5"
    assert b"ccesa_store_unavailable_total 1.0" in side.meters.render("")[0]


@pytest.mark.parametrize(("method", "path"), [("GET", "/actions/pause"), ("POST", "/status"), ("DELETE", "/")])
def test_other_methods_are_refused(side, method, path):
    assert is_problem(side.ask(method, path), 405, "method-not-allowed")
    assert is_problem(side.ask("GET", "/favicon.ico"), 404, "not-found")


@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    st.sampled_from(["/", "/status", "/metrics", "/healthz", "/actions/", "/members/"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/?#"), max_size=12),
    st.binary(max_size=40),
)
def test_no_request_is_too_much(method, path, more, body):
    async def asked():
        desk = ShownDesk(3)
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app(desk)), base_url="http://localhost")
        async with client:
            answer = await client.request(method, path + more, content=body, headers=BEARER)
        assert answer.status_code < 500
        assert answer.status_code < 400 or answer.headers["content-type"] == "application/problem+json"

    asyncio.run(asked())


# Events


def applied(shown: Status, told: dict) -> Status:
    """What the page makes of news."""
    members = {one.client: one for one in [*shown.members, *told.get("members", ())]}
    rounds = {(one.series, one.number): one for one in [*shown.rounds, *told.get("rounds", ())]}
    news = told | {"members": list(members.values()), "rounds": list(rounds.values())}
    return msgspec.structs.replace(shown, **news)


def doing(desk: ShownDesk, what: int, client: int) -> None:
    acts = [
        lambda: desk.come([client]),
        lambda: desk.open(len(desk.now.rounds)),
        lambda: desk.answer([client]),
        lambda: desk.end_round("sum" if client % 2 else "Disconnected", [(0, client)], accuracy=client / 5),
        lambda: desk.put_members([client], state="set aside", reason="x", blames=client),
        lambda: desk.put(state="paused", reason=str(client)),
        lambda: desk.put(hubs=[f"hub-{client}"], head=f"{client:064x}"),
        lambda: desk.put_members([client], seen=desk.now.members[client].seen + 10),
        lambda: None,
    ]
    acts[what]()


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=30), st.integers(1, 5))
def test_news_lead_to_the_same_as_the_whole(moves, every):
    desk = ShownDesk(5)
    sent = seen = desk.now
    for place, (what, client) in enumerate(moves):
        doing(desk, what, client)
        if place % every == 0:
            told = operator.change(sent, desk.now)
            seen, sent = applied(seen, told), operator.merge(sent, desk.now, told)
            for shown, true in zip(seen.members, desk.now.members, strict=True):
                assert 0 <= true.seen - shown.seen <= 20
                assert msgspec.structs.replace(shown, seen=true.seen) == true
            whole = msgspec.structs.replace(seen, members=desk.now.members, now=desk.now.now)
            assert whole == desk.now


def test_whoever_polls_is_no_news_for_a_while():
    desk = ShownDesk(5)
    desk.come([0])
    before, seen = desk.now, desk.now.members[0].seen
    desk.put_members([0], seen=seen + 20)
    assert operator.change(before, desk.now) == {}
    desk.put_members([0], seen=seen + 21)
    assert [one.client for one in operator.change(before, desk.now)["members"]] == [0]


def test_new_members_are_a_new_whole():
    assert operator.change(ShownDesk(5).now, ShownDesk(6).now) is None


def parsed(one: bytes) -> tuple[str, dict]:
    name, data, *rest = one.decode().split("\n")
    assert rest == ["", ""]
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_viewers_are_told_the_whole_then_changes_then_signs_of_life(monkeypatch):
    monkeypatch.setattr(operator, "PERIOD", 0.01)
    monkeypatch.setattr(operator, "HEARTBEAT", 0.05)

    async def followed():
        desk = ShownDesk(5)
        following = operator.follow(desk)
        found = [await anext(following)]
        desk.put(state="paused", reason="x\n\ndata: y")
        found.append(await anext(following))
        found.append(await anext(following))
        desk.now = ShownDesk(6).now
        found.append(await anext(following))
        await following.aclose()
        return found

    whole, change, tick, again = (parsed(one) for one in asyncio.run(followed()))
    assert (whole[0], len(whole[1]["members"])) == ("status", 5)
    assert change[0] == "change"
    assert set(change[1]) == {"state", "reason", "now"}
    assert change[1]["reason"] == "x\n\ndata: y"
    assert tick[0] == "tick"
    assert set(tick[1]) == {"now"}
    assert (again[0], len(again[1]["members"])) == ("status", 6)


def test_a_member_that_polls_all_the_time_is_news_now_and_then(monkeypatch):
    """What counts is what the page shows, and not what the hub knew a moment before."""
    desk = ShownDesk(2)

    async def nap(seconds):
        desk.put_members([0], seen=desk.now.members[0].seen + 8)
        desk.put(exchange=desk.now.exchange + 1)

    monkeypatch.setattr(operator.asyncio, "sleep", nap)

    async def followed():
        following = operator.follow(desk)
        return [parsed(await anext(following))[1] for _ in range(7)][1:]

    assert [len(one.get("members", ())) for one in asyncio.run(followed())] == [0, 0, 1, 0, 0, 1]


def test_news_come_at_most_four_times_a_second(monkeypatch):
    desk = ShownDesk(5)
    naps = []

    async def nap(seconds):
        naps.append(seconds)
        desk.put(exchange=desk.now.exchange + 1)

    monkeypatch.setattr(operator.asyncio, "sleep", nap)

    async def followed():
        following = operator.follow(desk)
        for _ in range(9):
            await anext(following)

    asyncio.run(followed())
    assert naps == [0.25] * 8


def test_pages_that_others_open_keep_no_page_out():
    """So many are open; the oldest makes room for the next, and asks again."""
    desk, meters = ShownDesk(2), Meters()
    with served(desk, meters) as serving, httpx.Client(base_url=serving.url, timeout=10) as client:
        limits = httpx.Limits(max_connections=MAXIMUM_VIEWERS + 2)
        with httpx.Client(base_url=serving.url, limits=limits, timeout=10) as many:
            streams = [many.stream("GET", "/events") for _ in range(MAXIMUM_VIEWERS)]
            answers = [one.__enter__().iter_raw() for one in streams]
            assert all(next(one).startswith(b"event: status") for one in answers)
            with client.stream("GET", "/events") as newest:
                assert newest.status_code == 200
                followed = newest.iter_raw()
                assert next(followed).startswith(b"event: status")
                assert list(answers[0]) == []
                desk.put(exchange=desk.now.exchange + 1)
                assert next(followed).startswith(b"event: change")
                assert next(answers[1]).startswith(b"event: change")
                shown = many.get("/metrics").text
            assert f"ccesa_viewers {MAXIMUM_VIEWERS}.0" in shown
            assert client.head("/events").status_code == 200
            for one in streams:
                one.__exit__(None, None, None)
        for _ in range(100):
            desk.put(exchange=desk.now.exchange + 1)
            if "ccesa_viewers 0.0" in client.get("/metrics").text:
                return
            asyncio.run(asyncio.sleep(0.05))
        pytest.fail("pages that were closed count as open")


def test_open_pages_do_not_keep_a_hub_from_stopping():
    async def stopped():
        front = Front(app(ShownDesk(2)), "127.0.0.1:0")
        serving = asyncio.create_task(front.run_until_stopped())
        while not front.started:
            await asyncio.sleep(0.01)
        url = "http://{}:{}".format(*front.address)
        async with httpx.AsyncClient(timeout=10) as client, client.stream("GET", f"{url}/events") as answer:
            events_of = answer.aiter_raw()
            assert (await anext(events_of)).startswith(b"event: status")
            front.should_exit = True
            started = asyncio.get_running_loop().time()
            assert [one async for one in events_of] == []
        await serving
        return asyncio.get_running_loop().time() - started

    assert asyncio.run(stopped()) < Limits().shutdown_seconds - 1


@pytest.mark.parametrize("digits", [10, 19, 5000])
def test_a_member_of_many_digits_is_nobody(side, digits):
    answer = side.ask("POST", f"/members/{'9' * digits}/let-in", headers=BEARER)
    assert is_problem(answer, 404, "not-found")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/events"), ("GET", "/status"), ("POST", "/actions/pause"), ("GET", "/metrics")]
)
def test_pages_of_others_ask_in_vain(side, site, method, path):
    """A browser says who asks. The page itself, a link to it, and whatever is no browser are answered."""
    asked = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert is_problem(side.ask(method, path, headers=BEARER | asked), 403, "another-page")
    if method == "POST":
        asked["Sec-Fetch-Mode"] = "navigate"  # a form
        assert is_problem(side.ask(method, path, headers=BEARER | asked), 403, "another-page")
        own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
        assert side.ask(method, path, headers=BEARER | own).status_code == 204


def test_a_link_from_elsewhere_leads_to_the_page(side):
    for asked in ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, {"Sec-Fetch-Site": "none"}):
        assert side.ask("GET", "/", headers=asked).status_code == 200


def test_whoever_guesses_the_token_does_not_fill_the_log(side, caplog):
    asked = []
    side.desk.is_operator, known = lambda token: asked.append(token) or known(token), side.desk.is_operator
    for guess in ({}, {"Authorization": "Bearer"}, {"Authorization": "Basic x"}, {"Authorization": "Bearer x"}) * 5:
        assert is_problem(side.ask("POST", "/actions/pause", headers=guess), 401, "unauthorized")
    assert len([one for one in caplog.records if one.getMessage() == "operator-refused"]) <= 3
    assert asked == ["x"] * 5
