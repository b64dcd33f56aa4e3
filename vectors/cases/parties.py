"""Clients of refused.json: what they are made of, what they answer, and what is tried with each of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cases.common import Case, Stream
from ccesa import words
from ccesa.charter import Charter
from ccesa.config import RoundConfig
from ccesa.errors import CcesaError
from ccesa.floor import Floor
from ccesa.identity import Identity
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.wire import Data

#: A client's own limits by the names of docs/protocol.md, 3.3, in the order in which the package has them.
LIMITS = ("clients", "degree", "mask_degree", "threshold", "threshold_ratio", "survivors")
#: A request, or one with the number of vectors that have left for the task by then; several go in order.
Step = bytes | tuple[bytes, int]
Steps = Step | list[Step]


@dataclass
class Party:
    """A client, what it says when all goes well, and what is tried with it."""

    name: str
    entry: Case
    history: list[tuple[bytes, bytes]]
    tried: list[Case] = field(default_factory=list)

    def case(self) -> Case:
        history = [{"request": request, "reply": reply} for request, reply in self.history]
        return {"name": self.name, **self.entry, "exchanges": history}

    @property
    def context(self) -> bytes:
        return self.request(0).context

    def request(self, place: int) -> Any:
        data = self.history[place][0]
        return m.decode(data, len(data))

    def reply(self, place: int) -> Any:
        data = self.history[place][1]
        return m.decode(data, len(data))

    def tries(self, after: int, cases: Mapping[str, Steps]) -> None:
        """Give the party so many of its exchanges, then each of these requests or rows of requests."""
        for reason, steps in cases.items():
            rows = [step if isinstance(step, tuple) else (step, None) for step in _row(steps)]
            tasks: dict[bytes, int] = {}
            client = join(self.entry, tasks)
            for request, reply in self.history[:after]:
                if client.receive(request) != reply:
                    raise LookupError(f"{self.name}: not what it said before")
            found = [self._step(client, tasks, *row) for row in rows]
            self.tried.append({"party": self.name, "reason": reason, "after": after, "steps": found})

    def _step(self, client: Client, tasks: dict[bytes, int], request: bytes, spent: int | None) -> Case:
        if spent is not None:
            tasks[_task(self.entry)] = spent
        found = outcome(lambda: client.receive(request))
        if "reply" in found:
            found["reply"] = self._known(found["reply"], 1)
        return {"request": self._known(request, 0), **({} if spent is None else {"spent": spent}), **found}

    def _known(self, data: bytes, side: int) -> bytes | int:
        """Return the number of the exchange that has these bytes on this side, or the bytes."""
        return next((place for place, each in enumerate(self.history) if each[side] == data), data)


def _row(steps: Steps) -> list[Step]:
    return steps if isinstance(steps, list) else [steps]


def _task(entry: Case) -> bytes:
    """Return what the client works on, by its own account."""
    return entry.get("task", m.NO_TASK)


def outcome(action: Callable[[], bytes]) -> Case:
    try:
        return {"reply": action()}
    except CcesaError as error:
        return {"error": type(error).__name__}


def join(entry: Case, tasks: dict[bytes, int] | None = None) -> Client:
    """Make the client that an entry of the file describes."""
    tasks = None if "spent" not in entry else {} if tasks is None else tasks
    if tasks is not None:
        tasks[_task(entry)] = entry["spent"]
    others: dict[str, Any] = {
        "random": Stream(entry["seed"]),
        "task": _task(entry),
        "tasks": tasks,
        "used_rounds": set(entry.get("used_rounds", ())),
    }
    if "charter" in entry:
        charter = Charter.parse(entry["charter"])
        config = charter.decode(entry["config"])
        identity, vector = Identity(entry["identity"]), words.from_bytes(entry["vector"], config.bits)
        return ActiveClient(config, identity, charter, vector, now=entry.get("now", 0), **others)
    config = RoundConfig.decode(entry["config"])
    vector, floor = words.from_bytes(entry["vector"], config.bits), entry.get("floor", {})
    limits = dict(zip(Floor.__struct_fields__, (floor.get(name) for name in LIMITS), strict=True))
    return Client(config, entry["client"], vector, floor=Floor(**limits), **others)


# What is tried with clients of both guards


def changed(message: m.Message, **changes: Any) -> bytes:
    return msgspec.structs.replace(message, **changes).encode()


def flipped(data: Data, place: int = 0) -> bytes:
    return bytes([*data[:place], data[place] ^ 1, *data[place + 1 :]])


def packed(*ids: int) -> bytes:
    return b"".join(id.to_bytes(4, "little") for id in ids)


def everywhere(party: Party) -> None:
    """Try what must be refused in every step, and what is answered once more."""
    requests = [request for request, _ in party.history]
    for place, request in enumerate(requests):
        good = party.request(place)
        before, after = requests[:place][-1:], requests[place + 1 :][:1]
        cases: dict[str, Steps] = {
            "of another round": changed(good, context=flipped(good.context)),
            "a context of 31 bytes": changed(good, context=good.context[:-1]),
            "for another client": changed(good, client=good.client + 1),
            "a trailing byte": request + b"\x00",
            "truncated": request[:-1],
            "a reply": party.history[place][1],
            "an array in place of the name": bytes([request[0], 0x90]) + request[2 + (request[1] & 0x1F) :],
            "refused, then the right one, and the one before": [b"", request, *before],
            "answered again from memory, then goes on": [request, request, *after],
            "answered, then another one": [request, b"", request],
        }
        for other, one in enumerate(requests):
            if other != place:
                cases[f"the request of step {other} instead"] = one
        party.tries(place, {f"step {place}: {reason}": steps for reason, steps in cases.items()})
