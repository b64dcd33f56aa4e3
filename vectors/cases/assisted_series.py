"""assisted_series.json: a series with helpers, envelope by envelope, and envelopes that parties refuse."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from cases.assisted_rounds import NOW, RANDOMNESS, AssistedPlan, plan_of
from cases.common import Case, Stream, sample
from cases.parties import changed, flipped
from cases.series import ended
from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.errors import CcesaError
from ccesa.helper_keys import ProcessKeys
from ccesa.memory import ProcessMemory
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.series import Series
from ccesa.protocol.series_client import SeriesClient, SeriesHelper
from ccesa.protocol.server import Server

DESCRIPTION = (
    "A series under the guard assisted, in the form of series.json; helpers are beside clients, and now is "
    "the time by all clocks. ahead: the server asks helpers about what has come. A helper has one memory and "
    "one place for its keys in all rounds; its seeds are by the place of the round."
)
ROUNDS = 3
Parties = SeriesClient | SeriesHelper
Steps = bytes | list[bytes]


def make() -> Case:
    plan = plan_of("helpers: three rounds, a member misses one", 4, 2, length=2, bits=8, number=7, also=1)
    scene = Scene(plan, {3: {2}})
    return {"description": DESCRIPTION, "randomness": RANDOMNESS, "series": [scene.case], "refused": _refused(scene)}


@dataclass(frozen=True)
class Scene:
    """A series that went well, and its parties."""

    plan: AssistedPlan
    #: Who misses which exchange.
    silent: dict[int, set[int]] = field(default_factory=dict)

    @property
    def everyone(self) -> list[int]:
        return [*range(self.plan.config.clients), *self.plan.config.helper_ids]

    def seed(self, client: int, place: int) -> bytes:
        return sample(f"{self.plan.name}: client {client}, round {place}")

    def vector(self, client: int, place: int) -> bytes:
        return sample(f"{self.plan.name}: vector {client}, round {place}", self.plan.config.vector_bytes)

    def task(self, place: int) -> bytes:
        return sample(f"{self.plan.name}: task {place}")

    def place(self, config: RoundConfig) -> int:
        return config.number - self.plan.config.number

    def party(self, client: int) -> Parties:
        if client < self.plan.config.clients:
            return SeriesClient(self.plan.config, lambda config: self._member(config, client))
        memory, keys = ProcessMemory(), ProcessKeys()

        def make(config: RoundConfig) -> Helper:
            random = Stream(self.seed(client, self.place(config)))
            given: dict[str, Any] = {"memory": memory, "keys": keys, "random": random, "clock": lambda: NOW}
            return Helper(config, self.plan.identity(client), self.plan.agreed, **given)

        return SeriesHelper(self.plan.config, make)

    def _member(self, config: RoundConfig, client: int) -> ActiveClient:
        place = self.place(config)
        vector = words.from_bytes(self.vector(client, place), config.bits)
        given: dict[str, Any] = {"task": self.task(place), "random": Stream(self.seed(client, place)), "now": NOW}
        return ActiveClient(config, self.plan.identity(client), self.plan.agreed, vector, tasks=None, **given)

    @cached_property
    def case(self) -> Case:
        return {
            "name": self.plan.name,
            "config": self.plan.config.encode(),
            "charter": str(self.plan.agreed),
            "now": NOW,
            "tasks": [self.task(place) for place in range(ROUNDS)],
            "clients": [
                {**self._entry(client), "vectors": [self.vector(client, place) for place in range(ROUNDS)]}
                for client in range(self.plan.config.clients)
            ],
            "helpers": [self._entry(client) for client in self.plan.config.helper_ids],
            "exchanges": self._exchanges(),
        }

    def _entry(self, client: int) -> Case:
        seeds = [self.seed(client, place) for place in range(ROUNDS)]
        return {"client": client, "identity": self.plan.identity(client).seed, "seeds": seeds}

    def _exchanges(self) -> list[Case]:
        series = Series(
            self.plan.config, server=lambda config: Server(config, self.plan.agreed, now=NOW), rounds=ROUNDS
        )
        parties = {client: self.party(client) for client in self.everyone}
        found: list[Case] = []

        def carry(requests: Mapping[int, bytes], **how: Any) -> list[Case]:
            rows = []
            for client, request in requests.items():
                missed = client in self.silent.get(len(found), ())
                reply = None if missed else parties[client].receive(request)
                rows.append({"client": client, **how, "request": request, "reply": reply})
                if reply is not None:
                    series.receive(client, reply)
            return rows

        while not series.finished:
            masking = series.masking
            task = m.NO_TASK if masking is None else self.task(masking - self.plan.config.number)
            envelopes = carry(series.open(task)) + carry(series.ask_helpers(), ahead=True)
            found.append({"envelopes": envelopes, "ended": [ended(one) for one in series.close()]})
        return found

    def history(self, client: int) -> list[tuple[bytes, bytes]]:
        every = [one for each in self.case["exchanges"] for one in each["envelopes"] if one["client"] == client]
        return [(one["request"], one["reply"]) for one in every]


def _refused(scene: Scene) -> list[Case]:
    helper = scene.plan.config.clients + 1
    return [
        *(_tried(scene, 1, 1, reason, steps) for reason, steps in _of_member(scene).items()),
        *(_tried(scene, helper, 3, reason, steps) for reason, steps in _of_helper(scene, helper).items()),
    ]


def _read(message: Any) -> Any:
    return m.decode(message, len(message))


def _of_member(scene: Scene) -> dict[str, Steps]:
    """Give what a member is asked that has answered one round."""
    (before, _), (right, _), (after, _) = scene.history(1)[:3]
    (message,) = envelope.unpack(right)
    read, pack = _read(message), envelope.pack
    stranger = msgspec.structs.replace(scene.plan.config, series_id=sample("another series"))
    below = msgspec.structs.replace(scene.plan.config, number=scene.plan.config.number - 1)
    helper = scene.history(scene.plan.config.clients)
    keys, (question, _) = helper[0][0], envelope.unpack(helper[2][0])
    return {
        "answered, and the same again": [right, right, after],
        "of another series": pack([changed(read, context=stranger.context)]),
        "another number than its context": pack([changed(read, number=bytes(4))]),
        "a number of 5 bytes": pack([changed(read, number=read.number + b"\x00")]),
        "a trailing byte": pack([bytes(message) + b"\x00"]),
        "the round before": [before, right],
        "a number below the first": pack(
            [changed(read, number=below.number.to_bytes(4, "little"), context=below.context)]
        ),
        "two messages of one round": pack([message, message]),
        "keys are asked for": keys,
        "a question to helpers ends this round": [pack([question]), right, after],
        "refused, then the right one": [right + b"\x01", right],
        "keys a byte short end this round alone": [pack([changed(read, keys=read.keys[:-1])]), right, after],
        "wrong keys end this round alone": [pack([changed(read, signatures=flipped(read.signatures))]), right, after],
        "a round that is passed over": [after, right],
        "the end, and nothing after it": [b"", right],
    }


def _of_helper(scene: Scene, helper: int) -> dict[str, Steps]:
    """Give what a helper is asked that has confirmed the boxes of the second round."""
    history = scene.history(helper)
    right, pack = history[3][0], envelope.pack
    first, second = (bytes(one) for one in envelope.unpack(history[2][0]))
    stranger = msgspec.structs.replace(scene.plan.config, series_id=sample("another series"))
    foreign = changed(_read(second), context=stranger.context)
    head: dict[str, Any] = {"context": scene.plan.config.context, "client": helper}
    advertise = m.AdvertiseRequest(**head, number=scene.plan.config.number.to_bytes(4, "little")).encode()
    complaint = m.Complaint(**head, accused=scene.plan.config.number.to_bytes(4, "little")).encode()
    (to_members,) = envelope.unpack(scene.history(1)[0][0])
    return {
        "answered, and the same again": [right, right],
        "boxes of the second round": history[3][0],
        "of another series": pack([foreign]),
        "of another series beside the right ones": [pack([*envelope.unpack(history[4][0]), foreign]), history[4][0]],
        "another number than its context": pack([changed(_read(second), number=bytes(4))]),
        "a trailing byte": pack([second + b"\x00"]),
        "a task of 31 bytes beside new keys": pack([changed(_read(first), task=bytes(31)), second]),
        "half a length": right + b"\x01\x00",
        "keys of the second round again, and the question of the first": history[2][0],
        "in another order": pack([second, first]),
        "a wrong question beside new keys": [pack([changed(_read(first), keyring=sample("another keyring")), second])],
        "a request to clients beside new keys": pack([advertise, second]),
        "a message without a number, where four bytes look like one": pack([complaint]),
        "a request to members": pack([to_members]),
        "no message at all, but bytes": pack([b"\xc0"]),
    }


def _tried(scene: Scene, client: int, after: int, reason: str, steps: Steps) -> Case:
    party, history = scene.party(client), scene.history(client)
    for request, reply in history[:after]:
        if party.receive(request) != reply:
            raise LookupError(f"{scene.plan.name}: not what it said before")
    found = [_step(party, history, request) for request in (steps if isinstance(steps, list) else [steps])]
    return {"series": scene.plan.name, "client": client, "reason": reason, "after": after, "steps": found}


def _step(party: Parties, history: list[tuple[bytes, bytes]], request: bytes) -> Case:
    def known(data: bytes, side: int) -> bytes | int:
        return next((place for place, each in enumerate(history) if each[side] == data), data)

    try:
        found: Case = {"reply": known(party.receive(request), 1)}
    except CcesaError as error:
        found = {"error": type(error).__name__}
    return {"request": known(request, 0), **found}
