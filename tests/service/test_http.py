"""A whole series over HTTP, and every route with what it gives and what it refuses."""

import base64
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import RoundConfig
from ccesa.service.desk import Receipt, Taken
from ccesa.service.http.app import _range
from ccesa.service.problems import KINDS, Problem
from desks import TASK, answer_challenge, served
from series_rounds import GUARDS, task_of


@pytest.fixture
def hub(tmp_path):
    with served(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A hub for requests that change nothing."""
    with served(tmp_path_factory.mktemp("standing")) as made:
        yield made


def problem(answer):
    """The status and the name of a problem; its document says the same as its status line."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    document = answer.json()
    name = document["type"].removeprefix("urn:ccesa:problem:")
    assert (document["status"], document["title"]) == (answer.status_code, KINDS[name][1])
    assert document.get("retry_after") == (int(answer.headers.get("Retry-After", -1)) % 2**32) or (
        "retry_after" not in document and "Retry-After" not in answer.headers
    )
    return name


def tokens_of(hub, http):
    if hub.play.guard == "curious":
        return [f"token-{client}" for client in range(hub.play.config.clients)]
    return [session(hub, http, client) for client in range(hub.play.config.clients)]


def session(hub, http, client):
    challenge = base64.b64decode(http.get("/v1/challenge").json()["challenge"])
    answer = http.post("/v1/sessions", json=answer_challenge(hub, challenge, client))
    assert answer.status_code == 201
    assert answer.json()["client"] == client
    return answer.json()["token"]


@pytest.mark.parametrize("guard", GUARDS)
def test_a_series_is_played_over_http_and_its_sums_are_the_plain_ones(guard, tmp_path):
    with served(tmp_path, guard) as hub, hub.client(None) as http:
        tokens, after = tokens_of(hub, http), -1
        while http.get("/v1/federation").json()["state"] != "over":
            for client, token in enumerate(tokens):
                own = {"Authorization": f"Bearer {token}"}
                asked = http.get("/v1/series/1/exchanges", params={"after": after}, headers=own)
                assert asked.status_code == 200
                exchange = int(asked.headers["Ccesa-Exchange"])
                reply = hub.play.clients[client].receive(asked.content)
                assert http.put(hub.path(exchange), content=reply, headers=own).status_code == 204
            after = exchange
        assert len(hub.desk.ended) == 3
        for ended in hub.desk.ended:
            hub.play.check(ended)
            shown = http.get(f"/v1/results/{ended.number}", headers=own).json()
            assert np.array_equal(shown["sum"], ended.result().vector)
        over = http.get("/v1/series/1/exchanges", headers={**own, "Prefer": "wait=60"})
        assert problem(over) == "series-over"


# The federation, for everyone


def test_everyone_is_told_what_the_federation_runs(standing):
    with standing.client(None) as http:
        told = http.get("/v1/federation").json()
    assert RoundConfig.decode(base64.b64decode(told["config"])) == standing.play.config
    assert (told["name"], told["guard"], told["charter"], told["clients"]) == ("a test", "curious", None, 4)
    assert (told["series"], told["state"], told["question"]) == (1, "running", -1)
    assert told["form"] == {"type": "words", "words": 5, "bits": 16}


def test_whoever_waits_for_the_next_series_hears_of_it_at_once(hub):
    def next_series():
        time.sleep(0.3)
        hub.do(lambda: hub.desk.publish(series=2, exchange=-1, requests={}))

    with hub.client(None) as http:
        changing = threading.Thread(target=next_series)
        changing.start()
        began = time.monotonic()
        told = http.get("/v1/federation?after=1", headers={"Prefer": "wait=20"}).json()
        changing.join()
        assert told["series"] == 2
        assert 0.2 < time.monotonic() - began < 5
        hub.do(lambda: hub.desk.publish(state="over"))
        assert http.get("/v1/federation?after=2", headers={"Prefer": "wait=20"}).json()["state"] == "over"
        assert time.monotonic() - began < 5


# Exchanges


def test_an_exchange_is_waited_for_and_only_as_long_as_was_asked(hub):
    with hub.client() as http:
        path = "/v1/series/1/exchanges?after=0"
        nothing = http.get(path)
        assert (nothing.status_code, nothing.content, nothing.headers["Retry-After"]) == (204, b"", "1")
        began = time.monotonic()
        assert http.get(path, headers={"Prefer": "respond-async, wait=1"}).status_code == 204
        assert 0.9 < time.monotonic() - began < 5
        opening = threading.Timer(0.3, lambda: hub.do(hub.desk.open_next))
        opening.start()
        found = http.get(path, headers={"Prefer": "wait=20"})
        opening.join()
        assert (found.status_code, found.headers["Ccesa-Exchange"]) == (200, "1")
        assert found.content == hub.do(lambda: hub.desk.view.requests[0])
        assert 50 < float(found.headers["Ccesa-Closes-In"]) <= 60
        assert found.headers["Cache-Control"] == "no-store, no-transform"


def test_the_digest_of_the_task_comes_with_the_exchange_that_asks_for_vectors(hub):
    with hub.client() as http:
        seen = []
        while hub.desk.view.state != "over":
            asked = http.get("/v1/series/1/exchanges")
            seen.append(asked.headers.get("Ccesa-Task"))
            for client in range(4):
                reply = hub.reply(client)
                assert http.put(hub.path(), content=reply, headers=hub.own(client)).status_code == 204
    assert [one for one in seen if one is not None] == [task_of(number).hex() for number in range(3)]


def test_a_client_of_which_nothing_is_wanted_waits(hub):
    hub.do(lambda: hub.desk.publish(requests={1: b"for another"}))
    with hub.client(0) as http:
        assert http.get("/v1/series/1/exchanges").status_code == 204
    with hub.client(1) as http:
        assert http.get("/v1/series/1/exchanges").content == b"for another"


def test_a_series_that_this_hub_has_not_heard_of_is_waited_for_and_an_old_one_is_over(hub):
    with hub.client() as http:
        assert http.get("/v1/series/2/exchanges").status_code == 204
        over = http.get("/v1/series/0/exchanges", headers={"Prefer": "wait=60"})
        assert (problem(over), over.json()["series"]) == ("series-over", 1)


@pytest.mark.parametrize("after", ["x", "", "-2", "1.0", "9" * 5000, "١", "0x1", "1;2", "%00"])
def test_a_number_that_is_none_is_refused(standing, after):
    with standing.client() as http:
        assert problem(http.get(f"/v1/series/1/exchanges?after={after}")) == "malformed"
        assert problem(http.get(f"/v1/federation?after={after}")) == "malformed"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/federation/",
        "/v2/federation",
        "/v1/series/-1/exchanges",
        "/v1/series/" + "9" * 5000 + "/exchanges",
        "/v1/series/\u0661/exchanges",
        "/v1/series/1/exchanges/0/reply%00",
        "/v1/../v1/challenges",
        "/v1/tasks/00",
        "/v1/tasks/..%2f..%2fetc%2fpasswd",
        f"/v1/tasks/{'AB' * 32}",
    ],
)
def test_there_is_nothing_elsewhere(standing, path):
    with standing.client() as http:
        assert problem(http.get(path)) == "not-found"


@pytest.mark.parametrize("method", ["DELETE", "POST", "OPTIONS", "TRACE", "PUT"])
def test_other_methods_are_refused_and_those_that_are_not_are_named(standing, method):
    with standing.client() as http:
        answer = http.request(method, "/v1/federation")
        assert problem(answer) == "method-not-allowed"
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}


# Tasks and results


def test_a_task_is_fetched_whole_in_ranges_and_once(standing):
    with standing.client() as http:
        path = f"/v1/tasks/{task_of(0).hex()}"
        whole = http.get(path)
        assert (whole.status_code, whole.content, whole.headers["ETag"]) == (200, TASK, f'"{task_of(0).hex()}"')
        assert "Content-Encoding" not in whole.headers
        part = http.get(path, headers={"Range": "bytes=100-199"})
        assert (part.status_code, part.content) == (206, TASK[100:200])
        assert part.headers["Content-Range"] == f"bytes 100-199/{len(TASK)}"
        again = http.get(path, headers={"If-None-Match": f'"other", {whole.headers["ETag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        behind = http.get(path, headers={"Range": f"bytes={len(TASK)}-"})
        assert (problem(behind), behind.headers["Content-Range"]) == ("range", f"bytes */{len(TASK)}")
        other = http.get(path, headers={"Range": "bytes=0-9", "If-Range": '"another"'})
        assert (other.status_code, other.content) == (200, TASK)
        head = http.head(path)
        assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(len(TASK)), b"")
        assert problem(http.get(f"/v1/tasks/{'00' * 32}")) == "not-found"


class Asked:
    """As much of a request as ranges are read from."""

    def __init__(self, text):
        self.headers = {"range": text}


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 200))
def test_a_range_is_the_slice_of_its_first_and_last_byte(first, last, size):
    content = bytes(size)
    asked = Asked(f"bytes={first}-{last}")
    if last < first:
        assert _range(asked, "", size) is None
    elif first >= size:
        with pytest.raises(Problem, match="range"):
            _range(asked, "", size)
    else:
        found = _range(asked, "", size)
        assert len(content[first : last + 1]) == len(found)
        assert found.start == first


@given(st.integers(0, 300), st.integers(1, 200))
def test_a_range_without_a_first_byte_counts_from_the_end(count, size):
    asked = Asked(f"bytes=-{count}")
    if count == 0:
        with pytest.raises(Problem, match="range"):
            _range(asked, "", size)
    else:
        assert list(_range(asked, "", size)) == list(range(size))[-count:]


@pytest.mark.parametrize("text", ["bytes=-", "bytes=a-b", "items=0-1", "bytes=0-1,3-4", "", "bytes=1" * 1000])
def test_a_range_that_cannot_be_understood_is_all(text):
    assert _range(Asked(text), "", 100) is None


def test_a_result_that_is_not_known_yet_is_waited_for(hub):
    with hub.client() as http:
        assert problem(http.get("/v1/results/0")) == "no-result"

        def end():
            while not hub.desk.ended:
                for client in range(4):
                    reply = hub.reply(client)
                    assert http.put(hub.path(), content=reply, headers=hub.own(client)).status_code == 204

        playing = threading.Thread(target=end)
        playing.start()
        with hub.client() as other:
            found = other.get("/v1/results/0", headers={"Prefer": "wait=20"})
        playing.join()
        assert found.json()["sum"] == hub.desk.ended[0].result().vector.tolist()


def test_results_are_for_members_and_only_where_they_are_published(tmp_path):
    with served(tmp_path, publish=False) as hub, hub.client() as http:
        assert problem(http.get("/v1/results/0")) == "not-found"


# Replies


def test_the_same_reply_again_gets_the_same_answer_and_another_is_a_conflict(hub):
    with hub.client() as http:
        reply = hub.reply(0)
        assert [http.put(hub.path(), content=reply).status_code for _ in range(3)] == [204] * 3
        assert problem(http.put(hub.path(), content=reply + b"\0")) == "conflict"
        assert http.put(hub.path(), content=reply).status_code == 204


def test_a_late_reply_is_told_when_the_next_round_starts(hub):
    with hub.client() as http:
        start = time.time() + 100
        hub.do(lambda: (hub.desk.open_next(), hub.desk.publish(next_start=start)))
        late = http.put(hub.path(0), content=b"late")
        assert problem(late) == "late"
        assert late.json()["next_start"] == start
        assert 90 < int(late.headers["Retry-After"]) <= 100
        assert problem(http.put(hub.path(0, series=0), content=b"late")) == "late"


def test_a_reply_to_what_this_hub_has_not_heard_of_is_sent_again(hub):
    """It may have been started a moment ago, or another hub may be ahead of it by any number of exchanges."""
    early = [hub.path(1), hub.path(2), hub.path(0, series=2), hub.path(7, series=9)]
    now = hub.path()
    with hub.client() as http:
        assert [problem(http.put(path, content=b"early")) for path in early] == ["unavailable"] * 4
        hub.do(lambda: hub.desk.publish(series=0, exchange=-1, latest=-1, requests={}))
        assert problem(http.put(now, content=b"?")) == "unavailable"


def test_a_reply_is_late_also_while_nothing_is_open(hub):
    """As in a federation that is paused: whoever waited for the next exchange would wait in vain."""
    with hub.client() as http:
        hub.do(lambda: hub.desk.publish(exchange=-1, requests={}))
        assert problem(http.put(hub.path(0), content=b"late")) == "late"
        assert problem(http.put(hub.path(1), content=b"early")) == "unavailable"


def test_a_faulty_reply_is_told_why_in_printable_words(standing):
    with standing.client() as http:
        answer = http.put(standing.path(), content=b"\xff" * 100)
        assert problem(answer) == "faulty"
        assert answer.json()["detail"].startswith("client 0: ")
        assert answer.json()["detail"].isprintable()


@pytest.mark.parametrize(
    ("taken", "name"),
    [(Taken.CONFLICT, "conflict"), (Taken.LATE, "late"), (Taken.AGAIN, "unavailable"), (Taken.FAULTY, "faulty")],
)
def test_what_became_of_a_reply_is_told_and_nothing_in_it_can_break_out(hub, taken, name):
    async def taking(client, reply):
        return Receipt(taken=taken, reason='<script>"\r\n\x1b[31m' + "\N{SNOWMAN}" * 1000)

    hub.desk.taking = taking
    with hub.client() as http:
        answer = http.put(hub.path(), content=b"reply")
        assert problem(answer) == name
        assert answer.json()["detail"].isascii()
        assert answer.json()["detail"].isprintable()
        assert len(answer.json()["detail"]) < 300


def test_the_size_of_a_reply_is_checked_before_it_is_read(standing):
    with standing.client() as http:
        most = standing.desk.view.most_bytes
        answer = http.put(standing.path(), content=bytes(most + 1))
        assert (problem(answer), answer.json()["most_bytes"]) == ("too-large", most)
    with standing.client() as http:  # of that body more came than a hub reads for nothing
        assert problem(http.put(standing.path(), content=iter([b"a", b"b"]))) == "length-required"
        packed = http.put(standing.path(), content=b"a", headers={"Content-Encoding": "gzip"})
        assert problem(packed) == "encoded"


def test_a_store_that_is_away_is_told_and_comes_back(hub):
    with hub.client() as http:
        hub.desk.away = True
        for path in ("/v1/series/1/exchanges", f"/v1/tasks/{task_of(0).hex()}"):
            assert problem(http.get(path)) == "unavailable"
        assert http.get("/v1/federation").status_code == 200
        hub.desk.away = False
        assert http.get("/v1/series/1/exchanges").status_code == 200


def test_a_mistake_of_the_hub_is_told_without_details(hub, caplog):
    async def taking(client, reply):
        raise RuntimeError("something that is nobody's business")

    hub.desk.taking = taking
    with hub.client() as http:
        answer = http.put(hub.path(), content=b"reply")
        assert problem(answer) == "internal"
        assert "business" not in answer.text
    with hub.client() as http:
        assert http.get("/v1/federation").status_code == 200
    hub.stop()
    assert "nobody's business" in caplog.text


def test_no_answer_says_what_serves_it(standing):
    with standing.client() as http:
        for answer in (http.get("/v1/federation"), http.get("/nowhere"), http.put(standing.path(), content=b"?")):
            assert "Server" not in answer.headers
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_what_is_refused_sent_and_received_is_counted(hub):
    with hub.client() as http:
        envelope, reply = http.get("/v1/series/1/exchanges").content, hub.reply(0)
        assert http.put(hub.path(), content=reply).status_code == 204
        assert http.put(hub.path(), content=reply + b"0").status_code == 409
        assert http.get(f"/v1/tasks/{task_of(0).hex()}", headers={"Range": "bytes=0-9"}).status_code == 206
        assert hub.count("sent_bytes_total") == len(envelope) + 10
        assert hub.count("received_bytes_total") == 2 * len(reply) + 1
        assert hub.count("refusals_total", reason="conflict") == 1
        deadline = time.monotonic() + 5
        while hub.count("connections") != 1:
            assert time.monotonic() < deadline


# Pages


def test_only_pages_of_allowed_origins_may_take_part(tmp_path):
    asks = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}
    with served(tmp_path, pages=("https://page.example",)) as hub, hub.client() as http:
        allowed = http.options(hub.path(), headers={"Origin": "https://page.example", **asks})
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://page.example"
        answer = http.put(hub.path(), content=b"?", headers={"Origin": "https://page.example"})
        assert answer.headers["Access-Control-Allow-Origin"] == "https://page.example"
        other = http.options(hub.path(), headers={"Origin": "https://evil.example", **asks})
        assert other.status_code == 400
        assert "Access-Control-Allow-Origin" not in other.headers


def test_without_allowed_origins_no_page_may(standing):
    with standing.client() as http:
        answer = http.get("/v1/federation", headers={"Origin": "https://page.example"})
        assert "Access-Control-Allow-Origin" not in answer.headers
