"""Clients of refused.json: what they are made of, what they answer, and what is tried with each of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cases.common import Case, Stream
from ccesa import words
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import CcesaError
from ccesa.memory import MASK, RELEASE, TASK, VECTOR, Entry, ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.wire import Data

#: A client's own limits by the names of docs/protocol.md, 3.3, in the order in which the package has them.
LIMITS = ("clients", "degree", "mask_degree", "threshold", "threshold_ratio", "survivors")
#: What a memory of tasks has in it.
Noted = list[Case]
#: A request, or one with all that the memory of tasks has in it by then; several go in order.
Step = bytes | tuple[bytes, Noted]
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
            tasks = Told()
            client = join(self.entry, tasks)
            for request, reply in self.history[:after]:
                if client.receive(request) != reply:
                    raise LookupError(f"{self.name}: not what it said before")
            found = [self._step(client, tasks, *row) for row in rows]
            self.tried.append({"party": self.name, "reason": reason, "after": after, "steps": found})

    def _step(self, client: Client, tasks: "Told", request: bytes, noted: Noted | None) -> Case:
        if noted is not None:
            tasks.tell(noted)
        found = outcome(lambda: client.receive(request))
        if "reply" in found:
            found["reply"] = self._known(found["reply"], 1)
        return {"request": self._known(request, 0), **({} if noted is None else {"memory": noted}), **found}

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


class Told(ProcessMemory):
    """A memory of tasks that has in it what a file says."""

    def tell(self, noted: Noted) -> None:
        """Have this in it, and nothing else."""
        self._kept.clear()
        for one in noted:
            self.add(_entry(**one))


def _entry(about: str, context: bytes = b"", task: bytes = b"", series_id: bytes = b"", number: int = 1) -> Entry:
    kinds = {"sent": MASK, "vector": VECTOR, "release": RELEASE, "counted": TASK}
    return Entry(kinds[about], context + task + series_id, number)


def join(entry: Case, tasks: Told | None = None) -> Client:
    """Make the client that an entry of the file describes."""
    tasks = None if "memory" not in entry else tasks or Told()
    if tasks is not None:
        tasks.tell(entry["memory"])
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


def remembering(party: Party, place: int, config: RoundConfig, attempts: int = 2, releases: int = 1) -> None:
    """Try what a memory of tasks rules out. Step 2 is at this place; the number is above ``attempts``."""
    task, other, number = _task(party.entry), bytes([7] * 32), config.number
    request = party.history[place][0]
    sent = {"about": "sent", "context": config.context}

    def of(about: str, number: int, series: bytes = config.series_id, task: bytes = task) -> Case:
        return {"about": about, "task": task, "series_id": series, "number": number}

    spent = [of("vector", number - 1 - one) for one in range(attempts)]
    closed = [of("release", number - 1 - one) for one in range(releases)]
    elsewhere = [of(about, number + 1, task=other) for about in ("vector", "release")]
    party.tries(place - 1, {"a step before: spent, which does not matter yet": (party.history[place - 1][0], spent)})
    cases: dict[str, Steps] = {
        "spent, and given back": [(request, spent), request, (request, [])],
        "shares were released as often as they may be": (request, closed),
        "a vector in another series": (request, [of("vector", 0, other)]),
        "a vector in a higher round": (request, [of("vector", number + 1)]),
        "a vector in a round of the same number": (request, [of("vector", number)]),
        "a vector in a lower round, and another task": [(request, [of("vector", number - 1), *elsewhere])],
        "a vector that was counted in no series": (request, [{"about": "counted", "task": task}]),
        "a vector has left in this context": [(request, [sent]), (request, [])],
        "another task comes before one that is spent": (changed(party.request(place), task=bytes(32)), spent),
    }
    party.tries(place, {f"step 2: {reason}": steps for reason, steps in cases.items()})
    own = [sent, of("vector", number)]
    for after in range(place + 1, len(party.history)):
        request = party.history[after][0]
        cases = {
            "a vector in a higher round since": (request, [*own, of("vector", number + 1)]),
            "a vector in another series since": (request, [*own, of("vector", 0, other)]),
            "a memory without the vector": (request, [sent]),
            "shares were released in other rounds": (request, [*own, *closed]),
            "a lower round, and another task": [(request, [*own, of("vector", number - 1), *elsewhere]), request],
        }
        if releases > 1:
            cases["one release is left"] = (request, [*own, *closed[1:]])
        party.tries(after, {f"step {after}: {reason}": steps for reason, steps in cases.items()})
    if releases > 1:
        party.tries(
            len(party.history) - 1,
            {"step 3: shares were released in this round by another process": (request, [*own, of("release", number)])},
        )


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
