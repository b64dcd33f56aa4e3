"""The transcript of docs/service.md: a real hub answers its requests with what the page shows."""

import base64
import json
import re
from http import HTTPStatus
from pathlib import Path

import pytest

from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from desks import TASK, answer_challenge, served

PAGE = (Path(__file__).parent.parent.parent / "docs" / "service.md").read_text(encoding="utf-8")
[BLOCK] = re.findall(r"```http\n(.*?)```", PAGE, re.DOTALL)
CALLS = BLOCK.strip().split("\n\n")


def side(call, mark):
    """One side of a call: its first line, headers, and what follows them."""
    lines = [line[2:] for line in call.splitlines() if line[0] == mark]
    first, *rest = lines
    end = rest.index("") if "" in rest else len(rest)
    return first, dict(line.split(": ", 1) for line in rest[:end]), "".join(rest[end + 1 :])


def pattern(text, known):
    """What the page shows, with what differs from run to run."""
    escaped = re.escape(text).replace("…", ".*")
    for name, value in known.items():
        escaped = escaped.replace(name, re.escape(value))
    return escaped


def tags(data):
    return [m.kind_of(bytes(one)).__struct_config__.tag for one in envelope.unpack(data)]


def check_body(shown, data):
    """A message that the page names, or JSON with these keys."""
    if shown.startswith("(envelope: "):
        assert tags(data) == re.findall(r"[a-z]+(?:-[a-z]+)+", shown.removeprefix("(envelope: "))
    elif shown == "(the task)":
        assert data == TASK
    else:
        assert re.fullmatch(pattern(shown, {}), data.decode())


class Reader:
    """A member that does what the page shows, call by call."""

    def __init__(self, hub, http):
        self.hub, self.http, self.known = hub, http, {}
        self.requests, self.challenge = {}, b""

    def others_answer(self, exchange):
        """Play everyone else, and this member where the page leaves calls out, up to an exchange."""
        while self.hub.desk.view.exchange < exchange:
            self.hub.do(self.hub.desk.open_next)

    def body(self, shown, path):
        if not shown:
            return {}
        if shown.startswith("{"):
            said = answer_challenge(self.hub, self.challenge, 0)
            sent = json.dumps(said, separators=(",", ":")).encode()
            check_body(shown, sent)
            return {"content": sent}
        exchange = int(path.split("/")[5])
        reply = self.hub.play.clients[0].receive(self.requests[exchange])
        check_body(shown, reply)
        return {"content": reply}

    def follow(self, call):
        (line, headers, body), (status, due, shown) = side(call, ">"), side(call, "<")
        method, path, _ = line.split(" ")
        for name, value in self.known.items():
            path = path.replace(name, value)
            headers = {key: text.replace(name, value) for key, text in headers.items()}
        answer = self.http.request(method, path, headers=headers, **self.body(body, path))
        _, code, phrase = status.split(" ", 2)
        assert (answer.status_code, HTTPStatus(answer.status_code).phrase) == (int(code), phrase)
        self.learn(answer)
        for name, value in due.items():
            assert re.fullmatch(pattern(value, self.known), answer.headers[name]), name
        check_body(shown, answer.content)

    def learn(self, answer):
        if answer.headers.get("Content-Type") == "application/json":
            found = answer.json()
            self.challenge = base64.b64decode(found.get("challenge", ""))
            self.known |= {"TOKEN": found["token"]} if "token" in found else {}
        if "Ccesa-Task" in answer.headers:
            self.known["DIGEST"] = answer.headers["Ccesa-Task"]
        if "Ccesa-Exchange" in answer.headers:
            self.requests[int(answer.headers["Ccesa-Exchange"])] = answer.content


@pytest.fixture
def reader(tmp_path):
    with served(tmp_path, "active") as hub, hub.client(None) as http:
        yield Reader(hub, http)


def test_a_hub_answers_as_the_page_shows(reader):
    for call in CALLS:
        after = re.search(r"after=(\d+)", call)
        if after:
            reader.others_answer(int(after[1]) + 1)
        reader.follow(call)
    assert len(reader.requests) == 2
