"""Rounds with helpers for tests: real members, helpers and a real server, with a hand on every message."""

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from attacks.stage import changed as changed
from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.helper_keys import FolderKeys, HelperKeys, ProcessKeys
from ccesa.memory import FolderMemory, Memory, ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import TABLES
from ccesa.simulate import Enrolment, make_charter
from ccesa.simulate.enrolment import new_client, new_helper, new_server
from rounds import identity, inputs
from strategies import randomness

STEPS = [step.name for step in TABLES["assisted"]]
TASK = bytes(range(32))
#: The time of every party, in seconds since 1970.
NOW = 1_800_000_000.0
DAY = 86400


def federation(members: int = 4, helpers: int = 2, **agreed) -> Enrolment:
    """Identities are always the same: that of member i is number i, that of helper a number 1000 + a."""
    people, others = ([identity(first + place) for place in range(count)] for first, count in _seats(members, helpers))
    agreed = {"bits": 16, "min_survivors": 2, **agreed}
    return Enrolment(identities=people, helpers=others, charter=make_charter(people, helpers=others, **agreed))


def _seats(members: int, helpers: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (0, members), (1000, helpers)


class Clock:
    """The time that helpers see; a test moves it."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Home:
    """What outlives a helper's process: its memory and its keys, in one folder, or in this process."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._kept = ProcessMemory(), ProcessKeys()

    @property
    def memory(self) -> Memory:
        return self._kept[0] if self._folder is None else FolderMemory(self._folder / "memory")

    @property
    def keys(self) -> HelperKeys:
        return self._kept[1] if self._folder is None else FolderKeys(self._folder / "keys")


class AssistedPlay:
    """A round that a test drives. ``requests`` has what the open step asks, by party."""

    def __init__(
        self,
        members: int = 4,
        helpers: int = 2,
        *,
        federated: Enrolment | None = None,
        config: RoundConfig | None = None,
        length: int = 5,
        number: int = 0,
        task: bytes = TASK,
        homes: dict[int, Home] | None = None,
        server: Callable[[RoundConfig], Server] | None = None,
        clock: Clock | None = None,
        **agreed,
    ) -> None:
        self.federation = federated or federation(members, helpers, **agreed)
        self.charter, self.task = self.federation.charter, task
        self.config = config or self.charter.config(length=length, series_id=bytes(32), number=number)
        self.clock = clock or Clock()
        self.vectors = dict(enumerate(inputs(self.config)))
        self.homes = homes or {helper: Home() for helper in self.config.helper_ids}
        self.members = {i: self.new_member(i) for i in range(self.config.clients)}
        self.helpers = {helper: self.new_helper(helper) for helper in self.config.helper_ids}
        self.server = self.new_server() if server is None else server(self.config)
        self.requests = dict(self.server.open())

    def new_member(self, i: int, **options) -> Client:
        options = {"task": self.task, "random": randomness(i), "now": self.clock.now, "threads": 1, **options}
        vector = self.vectors[i] if self.charter.mechanism is None else lambda: self.vectors[i]
        return new_client(self.config, i, vector, self.federation, **options)

    def new_helper(self, helper: int, home: Home | None = None, **options) -> Helper:
        """Make a helper as after a restart: only its home is the same."""
        home = home or self.homes[helper]
        options = {"random": randomness(helper), "clock": self.clock, "threads": 1, **options}
        place = helper - self.config.clients
        return new_helper(self.config, place, self.federation, memory=home.memory, keys=home.keys, **options)

    def new_server(self, **options) -> Server:
        return new_server(self.config, self.federation, task=self.task, now=self.clock.now, **options)

    def ask(self, party: int, request: bytes) -> bytes:
        return (self.helpers if party in self.helpers else self.members)[party].receive(request)

    def replies(self, gone: Collection[int] = ()) -> dict[int, bytes]:
        """Ask everyone who is not gone; the server hears nothing of the answers."""
        return {party: self.ask(party, request) for party, request in self.requests.items() if party not in gone}

    def step(self, gone: Collection[int] = ()) -> None:
        """Play one step, with those gone that the server does not hear."""
        for party, reply in self.replies(gone).items():
            self.server.receive(party, reply)
        self.confirm(gone)
        self.close()

    def confirm(self, gone: Collection[int] = ()) -> None:
        """Let the helpers confirm what has come."""
        for helper, request in self.server.ask_helpers().items():
            if helper not in gone:
                self.server.receive(helper, self.ask(helper, request))

    def close(self) -> None:
        self.requests = dict(self.server.close())

    def until(self, name: str, gone: Collection[int] = ()) -> "AssistedPlay":
        """Play honest steps until the one of this name is open; "confirm" stands for the moment before it in mask."""
        wanted = "mask" if name == "confirm" else name
        while self.requests and self.server.step.name != wanted:
            self.step(gone if self.server.step.name == "mask" else ())
        if name == "confirm":
            for party, reply in self.replies(gone).items():
                self.server.receive(party, reply)
            self.requests = dict(self.server.ask_helpers())
        return self

    def finish(self, gone: Collection[int] = ()) -> Aggregate:
        """Play honest steps to the end; raise the failure if there is no sum."""
        return self.until("", gone).server.result()

    def expected(self, group: Collection[int]) -> np.ndarray:
        total = words.zeros(self.config.length, self.config.bits)
        for member in group:
            total += self.vectors[member]
        return total

    def check_sum(self, group: Collection[int] | None = None) -> None:
        """The sum is the plain one of these members; by default of all."""
        group = tuple(self.members) if group is None else tuple(group)
        found = self.server.result()
        assert found.survivors == group
        assert np.array_equal(found.vector, self.expected(group))


def read(data: bytes) -> m.Message:
    return m.decode(data, len(data))


def flipped(data: bytes, place: int = 0) -> bytes:
    """These bytes with one bit changed."""
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def fields(message: bytes) -> list[str]:
    """The names of the fields of a message that are bytes, behind its context and its client."""
    return [name for name in read(message).__struct_fields__ if name not in ("context", "client")]


def transcript() -> dict[type[m.Message], bytes]:
    """Every message of a round, of member 0 and helper 4 where they have one."""
    play, found = AssistedPlay(), {}
    while play.requests:
        for party in sorted(play.requests):
            for data in (play.requests[party], reply := play.ask(party, play.requests[party])):
                found.setdefault(type(read(data)), data)
            play.server.receive(party, reply)
        for helper, request in play.server.ask_helpers().items():
            reply = play.ask(helper, request)
            for data in (request, reply):
                found.setdefault(type(read(data)), data)
            play.server.receive(helper, reply)
        play.close()
    return found
