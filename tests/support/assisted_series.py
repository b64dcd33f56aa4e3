"""Series with helpers for tests: members and helpers come and go, and each vector is another one."""

from collections.abc import Collection, Iterable

import numpy as np

from assisted_rounds import Clock, Home, federation
from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.memory import ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.series_client import SeriesClient, SeriesHelper
from ccesa.protocol.server import Server
from ccesa.simulate import Enrolment
from ccesa.simulate.enrolment import new_client, new_helper, new_server
from ccesa.words import Vector
from series_rounds import task_of


class AssistedSeries:
    """A series that a test drives. ``homes`` has what outlives a helper's process."""

    def __init__(
        self,
        members: int = 4,
        helpers: int = 2,
        *,
        federated: Enrolment | None = None,
        rounds: int | None = 3,
        homes: Iterable[Home] | None = None,
        clock: Clock | None = None,
        **agreed,
    ) -> None:
        self.federation, self.rounds = federated or federation(members, helpers, **agreed), rounds
        self.config = self.federation.charter.config(length=5, series_id=bytes(32))
        self.clock = clock or Clock()
        members, ids = self.config.clients, self.config.helper_ids
        self.homes = dict(zip(ids, homes or [Home() for _ in ids], strict=True))
        self.memories = {i: ProcessMemory() for i in range(members)}
        self.members = {i: self.new_member(i) for i in range(members)}
        self.helpers = {helper: self.new_helper(helper) for helper in ids}
        self.series = self.new_series(rounds)

    def new_series(self, rounds: int | None) -> Series:
        return Series(self.config, server=self.new_server, rounds=rounds)

    def new_server(self, config: RoundConfig) -> Server:
        return new_server(config, self.federation, now=self.clock.now)

    def new_member(self, i: int) -> SeriesClient:
        return SeriesClient(self.config, lambda config: self.client(i, config))

    def client(self, i: int, config: RoundConfig) -> Client:
        options = {"task": lambda: task_of(config.number), "tasks": self.memories[i], "now": self.clock.now}
        return new_client(config, i, lambda: self.vector(i, config.number), self.federation, **options)

    def new_helper(self, helper: int) -> SeriesHelper:
        """Make a helper as after a restart: only its home is the same."""
        return SeriesHelper(self.config, lambda config: self.helper(helper, config))

    def helper(self, helper: int, config: RoundConfig) -> Helper:
        home, place = self.homes[helper], helper - config.clients
        kept = {"memory": home.memory, "keys": home.keys, "clock": self.clock}
        return new_helper(config, place, self.federation, **kept)

    def vector(self, i: int, number: int) -> Vector:
        source = np.random.default_rng([i, number])
        return np.frombuffer(source.bytes(self.config.vector_bytes), words.dtype(self.config.bits))

    def check(self, ended: Ended) -> None:
        """A round that has a sum has the plain one."""
        if ended.aggregate is not None:
            total = words.zeros(self.config.length, self.config.bits)
            for i in ended.aggregate.survivors:
                total += self.vector(i, ended.number)
            assert np.array_equal(ended.aggregate.vector, total), ended.number

    def ask(self, party: int, request: bytes) -> bytes:
        return (self.helpers if party in self.helpers else self.members)[party].receive(request)

    def open(self) -> dict[int, bytes]:
        working = self.series.masking
        return dict(self.series.open(m.NO_TASK if working is None else task_of(working)))

    def exchange(self, missing: Collection[int] = ()) -> list[Ended]:
        """Play one exchange; these do not hear of it."""
        requests = self.open()
        while requests:
            for party, request in requests.items():
                if party not in missing:
                    self.series.receive(party, self.ask(party, request))
            requests = dict(self.series.ask_helpers())
        ended = self.series.close()
        for one in ended:
            self.check(one)
        return ended

    def keys(self, helper: int) -> dict[int, bool]:
        """The rounds of which a helper has a key or an answer: by number, whether it is the key."""
        found = {}
        for number in range(20):
            config = self.federation.charter.config(length=5, series_id=bytes(32), number=number)
            kept = self.homes[helper].keys.get(config.context)
            if kept is not None:
                found[number] = bool(kept.secret)
        return found
