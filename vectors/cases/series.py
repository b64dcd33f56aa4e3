"""series.json: whole series, envelope by envelope, and envelopes that a client refuses or answers in part."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from cases.active_rounds import ActivePlan, plan_of
from cases.common import STREAM, Case, Stream, sample
from cases.parties import changed, flipped
from cases.rounds import Plan
from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.errors import CcesaError
from ccesa.guards import guard_named
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.server import Server

DESCRIPTION = (
    "Whole series. Feed each client the envelopes of the exchanges in order and compare its answers, feed "
    "the server the answers in order and compare its envelopes and what has ended with the exchange. A "
    "reply of null is a client that misses this exchange. config is that of the first round; tasks, and "
    "for each client seeds and vectors, are by the place of the round. refused: feed the named client of "
    "the named series so many exchanges (after), then the envelopes of steps in order; each has a reply, "
    "or the name of a refusal. A number in place of bytes is that of the exchange whose envelope for this "
    "client, or answer, it is."
)
ROUNDS, WHO = 3, 1
Steps = bytes | list[bytes]


def make() -> Case:
    every = [Scene(plan, silent) for plan, silent in _plans()]
    return {
        "description": DESCRIPTION,
        "randomness": STREAM,
        "series": [scene.case for scene in every],
        "refused": [case for scene in every for case in _refused(scene)],
    }


def _plans() -> list[tuple[Plan, dict[int, set[int]]]]:
    config = RoundConfig(series_id=sample("series"), number=7, clients=5, length=2, bits=8, accept=True)
    curious = Plan("curious: three rounds from number 7, two clients miss an exchange each", config)
    active = plan_of(
        "active: three rounds, two clients miss an exchange each", "series", 5, length=2, bits=8, accept=True
    )
    return [(curious, {3: {4}, 6: {2}}), (active, {3: {4}, 8: {2}})]


@dataclass(frozen=True)
class Scene:
    """A series that went well, and its parties."""

    plan: Plan
    #: Who misses which exchange.
    silent: dict[int, set[int]] = field(default_factory=dict)

    def seed(self, client: int, place: int) -> bytes:
        return sample(f"{self.plan.name}: client {client}, round {place}")

    def vector(self, client: int, place: int) -> bytes:
        return sample(f"{self.plan.name}: vector {client}, round {place}", self.plan.config.vector_bytes)

    def task(self, place: int) -> bytes:
        return sample(f"{self.plan.name}: task {place}")

    def client(self, client: int) -> SeriesClient:
        return SeriesClient(self.plan.config, lambda config: self._client(config, client))

    def _client(self, config: RoundConfig, client: int) -> Client:
        place = config.number - self.plan.config.number
        vector = words.from_bytes(self.vector(client, place), config.bits)
        given: dict[str, Any] = {"task": self.task(place), "random": Stream(self.seed(client, place))}
        if isinstance(self.plan, ActivePlan):
            identity = self.plan.identity(client)
            return ActiveClient(config, identity, self.plan.agreed, vector, tasks=None, **given)
        return Client(config, client, vector, **given)

    def server(self, config: RoundConfig) -> Server:
        if isinstance(self.plan, ActivePlan):
            return Server(config, self.plan.agreed)
        return Server(config)

    @cached_property
    def case(self) -> Case:
        config, everyone = self.plan.config, range(self.plan.config.clients)
        chartered = {"charter": str(self.plan.agreed)} if isinstance(self.plan, ActivePlan) else {}
        return {
            "name": self.plan.name,
            "config": config.encode(),
            **chartered,
            "tasks": [self.task(place) for place in range(ROUNDS)],
            "clients": [self._party(client) for client in everyone],
            "exchanges": self._exchanges(),
        }

    def _party(self, client: int) -> Case:
        plan = self.plan
        identity = {"identity": plan.identity(client).seed} if isinstance(plan, ActivePlan) else {}
        return {
            "client": client,
            **identity,
            "seeds": [self.seed(client, place) for place in range(ROUNDS)],
            "vectors": [self.vector(client, place) for place in range(ROUNDS)],
        }

    def _exchanges(self) -> list[Case]:
        series = Series(self.plan.config, server=self.server, rounds=ROUNDS)
        clients = {client: self.client(client) for client in range(self.plan.config.clients)}
        found: list[Case] = []
        while not series.finished:
            masking, envelopes = series.masking, []
            task = m.NO_TASK if masking is None else self.task(masking - self.plan.config.number)
            for client, request in series.open(task).items():
                missed = client in self.silent.get(len(found), ())
                reply = None if missed else clients[client].receive(request)
                envelopes.append({"client": client, "request": request, "reply": reply})
                if reply is not None:
                    series.receive(client, reply)
            found.append({"envelopes": envelopes, "ended": [ended(one) for one in series.close()]})
        return found

    @cached_property
    def history(self) -> list[tuple[bytes, bytes]]:
        """Envelopes and answers of one client that misses nothing."""
        every = [one for each in self.case["exchanges"] for one in each["envelopes"] if one["client"] == WHO]
        return [(one["request"], one["reply"]) for one in every]

    def messages(self, exchange: int) -> list[bytes]:
        return [bytes(one) for one in envelope.unpack(self.history[exchange][0])]


def ended(ended: Ended) -> Case:
    aggregate = ended.result()
    return {"number": ended.number, "sum": aggregate.vector.tobytes(), "survivors": list(aggregate.survivors)}


# What a client does not answer, or not in full


def _refused(scene: Scene) -> list[Case]:
    stride = guard_named(scene.plan.config.guard).stride
    masking = next(place for place, one in enumerate(scene.history) if _has_vector(one[1]))
    cases = (0, _at_first(scene)), (stride, _wrong(scene, stride)), (masking, _masking(scene, masking))
    return [_tried(scene, after, reason, steps) for after, found in cases for reason, steps in found.items()]


def _at_first(scene: Scene) -> dict[str, Steps]:
    """Give what a client that has answered nothing yet is asked."""
    first = scene.plan.config
    if not first.number:
        return {}
    below = msgspec.structs.replace(first, number=first.number - 1)
    number = below.number.to_bytes(4, "little")
    asked = m.AdvertiseRequest(context=below.context, client=WHO, number=number)
    return {"a number below the first": [envelope.pack([asked.encode()]), scene.history[0][0]]}


def _wrong(scene: Scene, first: int) -> dict[str, Steps]:
    """Give what is wrong in the first exchange with two rounds in it, and what follows."""
    right, after = scene.history[first][0], scene.history[first + 1][0]
    mine = scene.messages(first)
    older, (advertise, *_) = scene.messages(first - 1)[0], reversed(mine)
    read = _read(advertise)
    far = msgspec.structs.replace(scene.plan.config, number=scene.plan.config.number + 2)
    number = far.number.to_bytes(4, "little")
    jumped = m.AdvertiseRequest(context=far.context, client=WHO, number=number)
    stranger = msgspec.structs.replace(scene.plan.config, series_id=sample("another series"))
    foreign = changed(read, context=stranger.context)
    pack = envelope.pack
    return {
        "answered again, then goes on": [right, right, after],
        "half a length": right + b"\x01\x00\x00",
        "a message of no bytes": right + bytes(4),
        "a length beyond the end": right[:-1],
        "a length beyond the end, of what would be passed over": right + b"\x02\x00\x00\x00\xc0",
        "the largest length": b"\xff" * 4 + right,
        "four messages, two of which would be passed over": pack([b"\xc0", b"\xc0", *mine]),
        "two messages of one round": pack([mine[0], mine[0]]),
        "in another order": pack(reversed(mine)),
        "messages of two exchanges": pack([older, advertise]),
        "the latest exchange once more": scene.history[first - 1][0],
        "an older exchange": scene.history[first - 2][0],
        "refused, then the right one": [right + b"\x01", right],
        "nothing but a message of another series": pack([foreign]),
        "a round of another series beside the right one": pack([foreign, advertise]),
        "an advertise with another number than its context": pack([mine[0], changed(read, number=bytes(4))]),
        "an advertise with a number of 5 bytes": pack([mine[0], changed(read, number=bytes(5))]),
        "an advertise with a trailing byte": pack([mine[0], advertise + b"\x00"]),
        "a reply in place of a request": pack([bytes(envelope.unpack(scene.history[first - 1][1])[0])]),
        "no message at all, but bytes": pack([b"\xc0"]),
        "bytes that are no message beside the right ones": pack([b"\xc0", *mine]),
        "a name that no message has, beside the right one": [
            pack([mine[0][:2] + b"x" + mine[0][3:], advertise]),
            after,
        ],
        "an array in another form, beside the right one": [pack([b"\xdc" + mine[0][1:], advertise]), after],
        "a message that is cut off beside the right one": [pack([mine[0][:-1], advertise]), after],
        "the older round passed over, and asked again": [pack([advertise]), after],
        "the newer round passed over, and asked again": [pack([mine[0]]), after],
        "the older round wrong, the newer goes on": [pack([_for_another(mine[0]), advertise]), right, after],
        "a later round, then the right one": [pack([jumped.encode()]), right, pack([jumped.encode()])],
        "the end, and nothing after it": [b"", right, b""],
    }


def _for_another(message: bytes) -> bytes:
    return changed(_read(message), client=_read(message).client + 1)


def _masking(scene: Scene, exchange: int) -> dict[str, Steps]:
    """Give what becomes of an exchange that asks for a vector."""
    right, after = (scene.history[exchange + place][0] for place in (0, 1))
    wrong = [
        changed(_read(one), task=flipped(_read(one).task)) if _asks(one) else one for one in scene.messages(exchange)
    ]
    return {
        "the masked vector is not sent twice": [right, right, after],
        "another task ends its round alone": [envelope.pack(wrong), after],
    }


def _has_vector(reply: bytes) -> bool:
    return any(m.kind_of(one) in (m.MaskReply, m.SignedMaskReply) for one in envelope.unpack(reply))


def _asks(message: bytes) -> bool:
    return m.kind_of(message) in (m.MaskRequest, m.MaskAmongRequest)


def _read(message: bytes) -> Any:
    return m.decode(message, len(message))


def _tried(scene: Scene, after: int, reason: str, steps: Steps) -> Case:
    client = scene.client(WHO)
    for request, reply in scene.history[:after]:
        if client.receive(request) != reply:
            raise LookupError(f"{scene.plan.name}: not what it said before")
    rows = steps if isinstance(steps, list) else [steps]
    found = [_step(scene, client, request) for request in rows]
    return {"series": scene.plan.name, "client": WHO, "reason": reason, "after": after, "steps": found}


def _step(scene: Scene, client: SeriesClient, request: bytes) -> Case:
    try:
        found: Case = {"reply": _known(scene, client.receive(request), 1)}
    except CcesaError as error:
        found = {"error": type(error).__name__}
    return {"request": _known(scene, request, 0), **found}


def _known(scene: Scene, data: bytes, side: int) -> bytes | int:
    """Return the number of the exchange that has these bytes on this side, or the bytes."""
    return next((place for place, each in enumerate(scene.history) if each[side] == data), data)
