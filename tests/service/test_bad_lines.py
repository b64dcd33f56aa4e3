"""A site behind a bad line: everything arrives, at a bounded price, and the site does not end."""

import base64
import hashlib
import select
import socket
from dataclasses import replace

import numpy as np
import pytest

from bad_lines import BadLine, bad_line
from ccesa.policy import Policy
from ccesa.service.coordinator import Coordinator
from ccesa.service.hub.hub import Hub
from ccesa.service.participant import driver
from test_participant_http import CLIENTS, check, federation, participant, run, vector

#: Bytes of a task and of a vector, and how many times as many may travel, by default and in long runs. What
#: a line lets through is learned once, and that weighs more where there is little to send.
QUICK, LONG = (1_600_000, 1.6), (32_000_000, 1.3)


class Large(Coordinator):
    """Asks one question, which is long."""

    def __init__(self, size: int) -> None:
        self._task = np.random.default_rng(1).bytes(size)

    def task(self, question: int) -> bytes:
        return self._task

    def result(self, result) -> None:
        pass


def contribution(client: int, task: bytes, words: int) -> np.ndarray:
    return vector(client, hashlib.sha256(task).digest(), words)


def play(folder, line: BadLine, size: int, most: float) -> None:
    """Run one round in which a site has its task, its vector and the result over a bad line."""
    policy = Policy(gather=60, after=900, deadline=900, vector_after=900, vector_deadline=900, absent=600)
    form = {"type": "words", "words": size // 4, "bits": 32}
    made = federation(folder, "curious", rounds=1, form=form, policy=policy)
    events, results = [], []

    def site(client: int, **options):
        def work(url: str) -> None:
            if client == 0:
                line.carry(url)
                url = line.url
            member = participant(made, client, url, folder, **options)
            member.run(lambda task, number: contribution(client, task, size // 4))

        return work

    told = {"progress": events.append, "results": results.append}
    run(made, site(0, **told), *map(site, range(1, CLIENTS)), coordinator=Large(size))
    assert check(made, contribution) == [tuple(range(CLIENTS))]
    assert [event.text for event in events if event.kind == "summed"] == ["in the sum of round 0"]
    task = Large(size).task(0)
    total = sum(contribution(client, task, size // 4) for client in range(CLIENTS))
    assert base64.b64decode(results[0]["value"]["words"]) == total.tobytes()
    assert line.up <= most * size, f"{line.up / size:.3f} times"
    back = size + len(results[0]["value"]["words"])
    assert line.down <= most * back, f"{line.down / back:.3f} times"


CUTS = {
    "400 kB": {"cut": 400_000},
    "1 MB": {"cut": 1_000_000},
    "400 kB, passed on when all is there": {"cut": 400_000, "collects": True},
}


def test_a_line_that_cuts_every_connection(tmp_path):
    with bad_line(cut=400_000) as line:
        play(tmp_path, line, *QUICK)
        assert line.connections > 10


@pytest.mark.service
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_32_megabytes_over_a_line_that_cuts_every_connection(tmp_path, cut):
    with bad_line(**cut) as line:
        play(tmp_path, line, *LONG)
        assert line.connections > 90


def fall_silent(folder, monkeypatch, after: int, size: int, most: float) -> None:
    """A hub and a site whose limits on silence are short; the hub's is the longer one, as ever."""
    limits = Hub._limits.fget
    monkeypatch.setattr(driver, "_SILENCE", 1.0)
    monkeypatch.setattr(Hub, "_limits", property(lambda hub: replace(limits(hub), yield_seconds=0.5)))
    with bad_line(silent=after) as line:
        play(folder, line, size, most)
        assert line.connections > 2


def test_a_line_that_falls_silent(tmp_path, monkeypatch):
    fall_silent(tmp_path, monkeypatch, 1_200_000, *QUICK)


@pytest.mark.service
def test_32_megabytes_over_a_line_that_falls_silent(tmp_path, monkeypatch):
    fall_silent(tmp_path, monkeypatch, 5_000_000, *LONG)


class InBetween:
    """Answers two requests in a row, each time that three quarters of a task have been carried."""

    def __init__(self, size: int, *answers: bytes) -> None:
        self._step, self._answers, self._windows, self._left = size * 0.75, answers, 0, 2

    def __call__(self, carried: int) -> bytes | None:
        if carried >= self._windows * self._step:
            self._windows, self._left = self._windows + 1, 2
        if not self._left:
            return None
        self._left -= 1
        return self._answers[self._windows % len(self._answers)]


def page(status: int, elsewhere: str) -> bytes:
    """What a box on the way answers: a redirect to its own page, or an error in HTML."""
    body = b"<html><title>Not today</title></html>"
    head = f"HTTP/1.1 {status} Box\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
    return (head + f"Location: {elsewhere}\r\n" * (status == 302) + "\r\n").encode() + body


STATUSES = (200, 302, 403, 404, 502, 520)


def be_refused(folder, statuses: tuple[int, ...], size: int, most: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        url = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/login"
        with bad_line(refuse=InBetween(size, *(page(status, url) for status in statuses))) as line:
            play(folder, line, size, most)
            assert line.refused >= 2 * len(statuses)
        assert not select.select([elsewhere], [], [], 0)[0], "nobody followed"


def test_boxes_on_the_way_that_answer_in_place_of_the_hub(tmp_path):
    """A box may swallow a part before it answers, and the first ones are most of so little."""
    be_refused(tmp_path, STATUSES, QUICK[0], 4.0)


@pytest.mark.service
@pytest.mark.parametrize("status", STATUSES)
def test_32_megabytes_past_a_box_that_answers_in_place_of_the_hub(tmp_path, status):
    be_refused(tmp_path, (status,), *LONG)
