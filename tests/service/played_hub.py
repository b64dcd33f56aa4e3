"""A hub without a network: a real series, and participants that are generators in one loop."""

import base64
import inspect
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from ccesa import labels, words
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import primitives
from ccesa.errors import FaultyClient
from ccesa.guards import guard_named
from ccesa.memory import VECTOR, ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.series import Ended, Series
from ccesa.service.forms import Words
from ccesa.service.participant.calls import Call, Event, HubAnswer
from ccesa.service.participant.core import take_part
from ccesa.service.participant.site import Site, standing_of
from ccesa.service.tasks import task_digest
from ccesa.simulate.enrolment import new_server
from rounds import charter_of, federation_of, identity
from series_rounds import configure_series

ORIGIN = "https://hub.example"
#: A client's word for a session that the hub has forgotten.
FORGOTTEN = "forgotten"


def contribution(config: RoundConfig, client: int, payload: bytes) -> np.ndarray:
    """What a client contributes to a task, in whichever round."""
    source = np.random.default_rng([client, *payload])
    return np.frombuffer(source.bytes(config.vector_bytes), words.dtype(config.bits))


def problem(status: int, name: str, **members) -> HubAnswer:
    document = {"type": f"urn:ccesa:problem:{name}", "detail": f"it is {name}", **members}
    return HubAnswer(status=status, body=json.dumps(document).encode())


class PlayedHub:
    """Answers calls. Where nothing is there to be fetched yet, it answers None, and is asked again."""

    def __init__(self, guard: str = "curious", clients: int = 6, rounds: int = 3, series: int = 1, **options) -> None:
        self.config = configure_series(guard, clients, **options)
        self._begin, self._last = lambda: configure_series(guard, clients, **options), series
        self.charter = charter_of(self.config) if guard_named(guard).chartered else None
        self._rounds = rounds
        self.series = Series(self.config, server=self._server, rounds=rounds)
        self.form = Words(words=self.config.length, bits=self.config.bits)
        self.number, self.exchange, self.state = 1, -1, "running"
        self.requests: dict[int, bytes] = {}
        self.replies: dict[int, bytes] = {}
        self.uploads: dict[int, bytes] = defaultdict(bytes)
        self.payload: bytes | None = None
        self.ended: list[Ended] = []
        #: What each client has sent, with the exchange that it was for.
        self.sent: list[tuple[int, int, bytes]] = []
        self.sessions: dict[str, int] = {}
        self.faults: list[FaultyClient] = []

    def _server(self, config: RoundConfig):
        return new_server(config, federation_of(config))

    def payload_of(self, number: int) -> bytes:
        """What round ``number`` works on."""
        return b"question %d" % number

    # The log

    def open(self) -> None:
        working = self.series.masking
        self.payload = None if working is None else self.payload_of(working)
        task = m.NO_TASK if self.payload is None else task_digest(self.payload)
        self.requests = dict(self.series.open(task))
        self.exchange, self.replies = self.exchange + 1, {}
        self.uploads.clear()

    def close(self) -> None:
        self.ended += self.series.close()
        self.requests = {}
        if not self.series.finished:
            self.open()
        elif self.number < self._last:
            self.number, self.exchange, self.config = self.number + 1, -1, self._begin()
            self.series = Series(self.config, server=self._server, rounds=self._rounds)
            self.open()
        else:
            self.state = "over"

    @property
    def everyone_answered(self) -> bool:
        return self.requests.keys() <= self.replies.keys()

    # Calls

    def answer(self, call: Call) -> HubAnswer | None:
        path, _, query = call.path.partition("?")
        parts = path.strip("/").split("/")
        if parts[:2] == ["v1", "federation"]:
            return self.federation(int(query.removeprefix("after=")))
        if parts[:2] == ["v1", "challenge"]:
            return _json(200, {"challenge": _text(os.urandom(32)), "expires_in": 60})
        if parts[:2] == ["v1", "sessions"]:
            return self.new_session(json.loads(call.body))
        client = self.sessions.get(call.headers["authorization"].removeprefix("Bearer "))
        if client is None:
            return problem(401, "unauthorized")
        if parts[1] == "tasks":
            return self.task(bytes.fromhex(parts[2]), call.headers.get("range"))
        if parts[1] == "results":
            return self.result(int(parts[2]))
        if parts[-1] == "exchanges":
            return self.get(client, int(parts[2]), int(query.removeprefix("after=")))
        return self.put(client, int(parts[2]), int(parts[4]), call)

    def federation(self, after: int) -> HubAnswer | None:
        if self.number <= after and self.state != "over":
            return None
        told = {
            "guard": self.config.guard,
            "charter": self.charter and self.charter.digest.hex(),
            "state": self.state,
            "question": len(self.ended) - 1,
            "series": self.number,
            "config": _text(self.config.encode()),
            "form": self.form,
        }
        return _json(200, told)

    def new_session(self, said: dict) -> HubAnswer:
        key, challenge, signature = (base64.b64decode(said[name]) for name in ("key", "challenge", "signature"))
        text = labels.frame(labels.SESSION, self.charter.digest, said["origin"].encode(), challenge)
        primitives.verify(key, signature, text)
        assert said["origin"] == ORIGIN
        client = self.charter.admission.id_of(key)
        token = f"session-{client}-{len(self.sessions)}"
        self.sessions[token] = client
        return _json(201, {"token": token, "expires_in": 60, "client": client})

    def get(self, client: int, series: int, after: int) -> HubAnswer | None:
        if series != self.number or self.state == "over":
            return problem(410, "series-over")
        if self.exchange <= after or client not in self.requests:
            return None
        headers = {"ccesa-exchange": str(self.exchange), "ccesa-closes-in": "10"}
        if self.payload is not None:
            headers["ccesa-task"] = task_digest(self.payload).hex()
        return HubAnswer(status=200, headers=headers, body=self.requests[client])

    def task(self, digest: bytes, ranged: str | None) -> HubAnswer:
        if self.payload is None or digest != task_digest(self.payload):
            return problem(404, "not-found")
        if ranged is None:
            return HubAnswer(status=200, body=self.payload)
        first, last = map(int, ranged.removeprefix("bytes=").split("-"))
        part, total = self.payload[first : last + 1], len(self.payload)
        told = {"content-range": f"bytes {first}-{first + len(part) - 1}/{total}"}
        return HubAnswer(status=206, headers=told, body=part)

    def result(self, question: int) -> HubAnswer:
        ended = self.ended[question]
        if ended.aggregate is None:
            return problem(404, "no-result")
        told = {
            "question": question,
            "outcome": "sum",
            "series": self.number,
            "number": ended.number,
            "survivors": list(ended.aggregate.survivors),
            "value": self.form.for_json(ended.aggregate.vector),
            "metrics": {},
            "head": "",
        }
        return _json(200, told)

    def put(self, client: int, series: int, exchange: int, call: Call) -> HubAnswer:
        if (series, exchange) != (self.number, self.exchange) or self.state == "over":
            return problem(410, "late")
        reply = bytes(call.body)
        if call.method == "HEAD":
            return HubAnswer(status=204, headers={"upload-offset": str(len(self.uploads[client]))})
        if call.method == "PATCH":
            offset, length = int(call.headers["upload-offset"]), int(call.headers["upload-length"])
            if offset != len(self.uploads[client]):
                return problem(409, "upload-offset", upload_offset=len(self.uploads[client]))
            self.uploads[client] += reply
            if len(self.uploads[client]) < length:
                return HubAnswer(status=204)
            reply = self.uploads[client]
        self.sent.append((client, exchange, reply))
        if client in self.replies:
            return HubAnswer(status=204) if self.replies[client] == reply else problem(409, "conflict")
        if reply:
            try:
                self.series.receive(client, reply)
            except FaultyClient as error:
                self.faults.append(error)
                return problem(422, "faulty")
        self.replies[client] = reply
        return HubAnswer(status=204)


def site_of(**options) -> Site:
    """Make a site of all that it brings along, and of what it has agreed to."""
    names = inspect.signature(standing_of).parameters
    agreed = {name: value for name, value in options.items() if name in names}
    others = {name: value for name, value in options.items() if name not in names}
    return Site(standing=standing_of(**agreed), **others)


class Played:
    """One participant in the loop; a new life is a new process of the same site."""

    def __init__(self, hub: PlayedHub, client: int, **options) -> None:
        self.hub, self.client, self.options = hub, client, options
        self.memory = ProcessMemory()
        self.events: list[Event] = []
        self.calls: list[Call] = []
        self.lives = 0
        self.core: Iterator | None = None
        self.start()

    def changed(self, **options) -> None:
        """Begin anew with other options."""
        self.core.close()
        self.options |= options
        self.start()

    def start(self) -> None:
        """Begin a new life with the memory of those before."""
        self.lives += 1
        chartered = self.hub.charter is not None
        who = (
            {"charter": self.hub.charter, "identity": identity(self.client)}
            if chartered
            else {"token": f"token-{self.client}"}
        )
        if not chartered:
            self.hub.sessions[f"token-{self.client}"] = self.client
        options = {
            "contribute": self.contribute,
            "memory": self.memory,
            "origin": ORIGIN,
            "tell": self.events.append,
            **who,
            **self.options,
        }
        self.core = take_part(site_of(**options))
        self.wish = next(self.core)

    def contribute(self, task: bytes, number: int) -> np.ndarray:
        return contribution(self.hub.config, self.client, task)

    def die(self) -> None:
        """Lose everything but the memory."""
        self.core.close()
        self.start()

    def tasks(self, about: str = VECTOR) -> Counter[bytes]:
        """How often something was done for each task."""
        return Counter(entry.key[:32] for entry in self.memory.entries(about))

    @property
    def done(self) -> bool:
        return self.core is None

    def said(self, kind: str) -> list[str]:
        return [event.text for event in self.events if event.kind == kind]

    def step(self, answer: Callable[[Call], HubAnswer | None]) -> bool:
        """Let one call or pause pass; False if the hub has nothing yet."""
        found = None
        if isinstance(self.wish, Call):
            found = answer(self.wish)
            if found is None:
                return False
            self.calls.append(self.wish)
        try:
            self.wish = self.core.send(found)
        except StopIteration:
            self.core = None
        return True


def play(hub: PlayedHub, players: list[Played], before: Callable[[Played], None] = lambda player: None) -> None:
    """Run everyone until all is over: an exchange closes when all have answered, or nobody says more."""
    hub.open()
    while not all(player.done for player in players) and hub.exchange < 200:
        moved = False
        for player in players:
            while not player.done:
                before(player)
                if not player.step(hub.answer):
                    break
                moved = True
        if hub.state != "over" and (hub.everyone_answered or not moved):
            hub.close()
            moved = True
        if not moved:
            raise AssertionError("everyone waits for everyone")


def check_sums(hub: PlayedHub) -> None:
    """Every sum is the plain one, over those who are in it."""
    for one in hub.ended:
        if one.aggregate is not None:
            task = hub.payload_of(one.number)
            total = words.zeros(hub.config.length, hub.config.bits)
            for client in one.aggregate.survivors:
                total += contribution(hub.config, client, task)
            assert np.array_equal(one.aggregate.vector, total)


def _json(status: int, value: object) -> HubAnswer:
    return HubAnswer(status=status, body=msgspec.json.encode(value))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
