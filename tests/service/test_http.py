"""A whole series over HTTP, and every route with what it gives and refuses."""

import base64

import numpy as np
import pytest

from desks import TASK, answer_challenge, served
from series_rounds import GUARDS, task_of


def session(hub, http, client):
    challenge = base64.b64decode(http.get("/v1/challenge").json()["challenge"])
    answer = http.post("/v1/sessions", json=answer_challenge(hub, challenge, client))
    assert answer.status_code == 201, answer.text
    assert answer.json()["client"] == client
    return answer.json()["token"]


def tokens_of(hub, http):
    if hub.play.guard == "curious":
        return [f"token-{client}" for client in range(hub.play.config.clients)]
    return [session(hub, http, client) for client in range(hub.play.config.clients)]


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
                put = http.put(hub.path(exchange), content=reply, headers=own)
                assert put.status_code == 204, put.text
            after = exchange
        assert len(hub.desk.ended) == 3
        for ended in hub.desk.ended:
            hub.play.check(ended)
            shown = http.get(f"/v1/results/{ended.number}", headers=own).json()
            assert np.array_equal(shown["sum"], ended.result().vector)
        over = http.get("/v1/series/1/exchanges", headers={**own, "Prefer": "wait=60"})
        assert (over.status_code, over.json()["type"]) == (410, "urn:ccesa:problem:series-over")


def test_a_task_is_fetched_whole_in_ranges_and_once(tmp_path):
    with served(tmp_path) as hub, hub.client() as http:
        path = f"/v1/tasks/{task_of(0).hex()}"
        whole = http.get(path)
        assert (whole.status_code, whole.content) == (200, TASK)
        part = http.get(path, headers={"Range": "bytes=100-199"})
        assert (part.status_code, part.content) == (206, TASK[100:200])
        assert part.headers["Content-Range"] == f"bytes 100-199/{len(TASK)}"
