"""A helper's core, without socket and clock: what it answers, what it says, and which keys are left."""

import base64
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ccesa.errors import ConfigError, FaultyServer
from ccesa.helper_keys import FolderKeys, ProcessKeys
from ccesa.memory import ProcessMemory
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.schedule import with_number
from ccesa.protocol.series import Series
from ccesa.protocol.series_client import SeriesHelper
from ccesa.service.participant import driver
from ccesa.service.participant.calls import Call, HubAnswer, Pause
from ccesa.service.participant.driver import Carrier, HelperThread
from ccesa.service.participant.helping import assist
from ccesa.service.participant.site import Helping, Site
from ccesa.simulate.enrolment import federate, new_client, new_server

MEMBERS, WORDS = 3, 5
ORIGIN = "https://hub.example"
MEMBERSHIP = federate(MEMBERS, helpers=2, bits=32)
CONFIG = MEMBERSHIP.charter.config(length=WORDS)


class OneHelper:
    """A hub for the first helper alone: the other one, and the members, are played."""

    def __init__(self, keys, memory=None) -> None:
        self.keys, self.memory, self.said = keys, memory or ProcessMemory(), []
        self.exchange, self.request, self.over = 0, b"", False
        self.status, self.replies, self.pauses = 204, [], []
        self.flow = assist(self.site(), self.standing(), keys)
        self.wish = next(self.flow)

    def standing(self) -> Helping:
        return Helping(agreement=MEMBERSHIP.charter, identity=MEMBERSHIP.helpers[0], origin=ORIGIN)

    def site(self) -> Site:
        options = {"contribute": lambda task, number: None, "memory": self.memory, "tell": self.said.append}
        return Site(standing=self.standing(), **options)

    def ask(self, request: bytes, exchange: int) -> bytes:
        """Show a request; return the reply."""
        self.request, self.exchange, before = request, exchange, len(self.replies)
        while len(self.replies) == before:
            self.step()
        return self.replies[-1]

    def end(self) -> None:
        self.over = True
        with suppress(StopIteration):
            while True:
                self.step()

    def step(self) -> None:
        if isinstance(self.wish, Pause):
            self.pauses.append(self.wish.seconds)
            self.wish = self.flow.send(None)
        else:
            self.wish = self.flow.send(self.answer(self.wish))

    def answer(self, call: Call) -> HubAnswer:
        if call.path.startswith("/v1/federation"):
            told = {
                "guard": "assisted",
                "charter": MEMBERSHIP.charter.digest.hex(),
                "state": "over" if self.over else "running",
                "series": 1,
                "config": base64.b64encode(CONFIG.encode()).decode(),
            }
            return HubAnswer(status=200, body=msgspec.json.encode(told))
        if call.path == "/v1/challenge":
            return HubAnswer(status=200, body=msgspec.json.encode({"challenge": base64.b64encode(bytes(32)).decode()}))
        if call.path == "/v1/sessions":
            assert msgspec.json.decode(call.body)["helper"] is True
            return HubAnswer(status=201, body=b'{"token": "one"}')
        if call.method == "PUT":
            assert call.path == f"/v1/series/1/exchanges/{self.exchange}/reply"
            self.replies.append(bytes(call.body))
            self.request = b""
            return HubAnswer(status=self.status, body=b'{"type": "urn:ccesa:problem:refused"}')
        if self.over:
            return HubAnswer(status=410, body=b'{"type": "urn:ccesa:problem:series-over"}')
        if not self.request:
            return HubAnswer(status=204)
        headers = {"ccesa-exchange": str(self.exchange)}
        return HubAnswer(status=200, headers=headers, body=self.request)

    def words(self, kind: str) -> list[str]:
        return [event.text for event in self.said if event.kind == kind]


def play(hub: OneHelper, rounds: int = 1) -> Series:
    """Let a series go through, with this helper in the first place."""
    series = Series(CONFIG, server=lambda config: new_server(config, MEMBERSHIP), rounds=rounds)
    keys, memory = ProcessKeys(), ProcessMemory()
    second = SeriesHelper(
        CONFIG, lambda config: Helper(config, MEMBERSHIP.helpers[1], MEMBERSHIP.charter, memory=memory, keys=keys)
    )
    exchange, ended = -1, []
    while not series.finished:
        task = bytes(31) + b"%d" % (series.masking or 0)
        requests, exchange = series.open(task), exchange + 1
        while requests:
            for one, request in requests.items():
                if one == MEMBERS:
                    series.receive(one, hub.ask(request, exchange))
                elif one == MEMBERS + 1:
                    series.receive(one, second.receive(request))
                else:
                    (message,) = envelope.unpack(request)
                    config = with_number(CONFIG, exchange // 2)
                    vector = np.full(WORDS, one + 1, np.uint32)
                    client = new_client(config, one, vector, MEMBERSHIP, task=task)
                    series.receive(one, envelope.pack([client.receive(message)]))
            requests = series.ask_helpers()
        ended += series.close()
    assert [one.result().vector.tolist() for one in ended] == [[6] * WORDS] * rounds
    return series


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.key")}


def test_a_helper_goes_through_a_series_and_has_no_key_in_the_end(tmp_path):
    hub = OneHelper(FolderKeys(tmp_path / "keys"))
    play(hub, rounds=3)
    assert hub.words("summed") == [f"gave its part of the sum of round {one}" for one in range(3)]
    assert hub.words("joined") == [f"showed a key to the members of round {one}" for one in range(3)]
    assert names(tmp_path / "keys"), "the last answer can be asked for again"
    hub.end()
    assert not names(tmp_path / "keys")
    assert hub.words("over") == ["the federation is over; this helper has no keys any more"]


def key_request(number: int = 0) -> bytes:
    config = with_number(CONFIG, number)
    request = m.HelperKeysRequest(context=config.context, client=MEMBERS, number=number.to_bytes(4, "little"))
    return envelope.pack([request.encode()])


def test_a_helper_that_is_started_again_shows_the_same_key(tmp_path):
    memory = ProcessMemory()
    first = OneHelper(FolderKeys(tmp_path / "keys"), memory)
    shown = first.ask(key_request(), 0)
    first.flow.close()
    second = OneHelper(FolderKeys(tmp_path / "keys"), memory)
    assert second.ask(key_request(), 0) == shown
    assert len(names(tmp_path / "keys")) == 1


def test_a_helper_that_is_started_again_destroys_keys_of_rounds_that_are_over(tmp_path):
    first = OneHelper(FolderKeys(tmp_path / "keys"))
    for number in range(2):
        first.ask(key_request(number), 2 * number)
    first.flow.close()
    OneHelper(FolderKeys(tmp_path / "keys")).ask(key_request(2), 4)
    contexts = {f"{with_number(CONFIG, number).context.hex()}.key" for number in (1, 2)}
    assert names(tmp_path / "keys") == contexts


def test_what_it_refuses_is_an_empty_reply_and_it_does_not_ask_again_at_once():
    hub = OneHelper(ProcessKeys())
    config = MEMBERSHIP.charter.config(length=WORDS)  # of another series
    request = m.HelperKeysRequest(context=config.context, client=MEMBERS, number=bytes(4))
    assert hub.ask(envelope.pack([request.encode()]), 0) == b""
    assert hub.words("refused") == ["a message of another series"]
    assert hub.ask(key_request(), 0)
    assert any(seconds >= 2 for seconds in hub.pauses)


@pytest.mark.parametrize("status", [409, 410, 422])
def test_an_answer_that_the_hub_does_not_want_does_not_end_a_helper(status):
    hub = OneHelper(ProcessKeys())
    hub.status = status
    hub.ask(key_request(), 0)
    hub.status = 204
    assert hub.ask(key_request(), 0)
    assert bool(hub.words("refused")) == (status != 410)


def test_a_hub_with_another_charter_gets_no_key():
    hub = OneHelper(ProcessKeys())
    other = federate(3, helpers=2).charter.digest.hex()
    told = {"guard": "assisted", "charter": other, "state": "running", "series": 1}
    with pytest.raises(FaultyServer, match="the hub has another charter"):
        hub.flow.send(HubAnswer(status=200, body=msgspec.json.encode(told)))


def test_a_damaged_key_is_said_and_does_not_stop_the_others(tmp_path):
    hub = OneHelper(FolderKeys(tmp_path / "keys"))
    path = tmp_path / "keys" / f"{CONFIG.context.hex()}.key"
    path.write_bytes(b"half of a key")
    path.chmod(0o600)
    assert hub.ask(key_request(), 0) == b""
    assert "is damaged" in hub.words("refused")[0]
    assert hub.ask(key_request(1), 2)
    Carrier(None, ProcessMemory(), FolderKeys(tmp_path / "keys"))._sweep(time.monotonic())
    assert names(tmp_path / "keys") == {f"{with_number(CONFIG, 1).context.hex()}.key"}


def test_keys_are_swept_every_minute(monkeypatch):
    swept = []
    keys = ProcessKeys()
    monkeypatch.setattr(keys, "sweep", swept.append)
    carrier = Carrier(None, ProcessMemory(), keys)
    for now in (0.0, 10.0, 61.0, 100.0, 130.0):
        carrier._sweep(now)
    assert len(swept) == 3


class Line:
    """An HTTP client that does nothing but be closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


def thread_of(monkeypatch, carry) -> HelperThread:
    monkeypatch.setattr(driver, "carry", lambda client, call: carry(client))
    monkeypatch.setattr(driver, "_LOOK", 0.01)
    hub = OneHelper(ProcessKeys())
    return HelperThread(hub.site(), hub.standing(), ProcessKeys(), Line())


def test_a_helper_that_fails_ends_the_member_beside_it(monkeypatch):
    def fail(client) -> HubAnswer:
        raise ConfigError("the disk is full")

    def member(helper: HelperThread) -> None:
        with helper:
            for _ in range(1000):
                helper.check()
                time.sleep(0.01)

    helper = thread_of(monkeypatch, fail)
    with pytest.raises(ConfigError, match="the disk is full"):
        member(helper)
    assert not helper._thread.is_alive()


def test_a_member_that_is_stopped_stops_the_helper_beside_it(monkeypatch):
    def wait(client) -> HubAnswer:
        time.sleep(0.01)
        return HubAnswer(status=200, body=b'{"guard": "assisted", "state": "gathering", "series": 0}')

    monkeypatch.setattr(Helping, "check_hub", lambda self, guard, digest: None)
    thread = thread_of(monkeypatch, wait)
    with pytest.raises(KeyboardInterrupt), thread:
        raise KeyboardInterrupt
    assert thread._client.closed
    assert not thread._thread.is_alive()
