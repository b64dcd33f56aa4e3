"""Rounds and series with helpers: members in Python, in Node and in a browser, helpers and the server in Python."""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from vectors.cases.common import Stream

from assisted_rounds import NOW, AssistedPlay
from assisted_series import AssistedSeries
from ccesa.agreement.config import RoundConfig
from ccesa.protocol.client import Client
from ccesa.protocol.schedule import with_number
from ccesa.protocol.series import Ended
from ccesa.protocol.series_client import SeriesClient
from ccesa.simulate import Enrolment, make_charter
from ccesa.simulate.enrolment import new_client
from mixed import Remote, identity_seed
from rounds import identity, inputs
from runners import Runner
from series_rounds import task_of

#: Every combination of what a round with helpers may be like, in an order in which neighbours differ in all of it.
HELPED_KINDS = sorted(
    itertools.product((8, 16, 32, 64), ("aes128-ctr", "chacha20"), ("x25519", "x25519-mlkem768"), (2, 3, 5)),
    key=lambda kind: Random(repr(kind)).random(),
)
#: Words of a vector; check words fold it in rows of 16384.
LENGTHS = (1, 7, 300, 16384, 16385, 40_000)


@dataclass(frozen=True)
class AssistedScene:
    """A round by its number: what it is like, who is where, and who drops out."""

    number: int

    @cached_property
    def federation(self) -> Enrolment:
        bits, generator, agreement, helpers = HELPED_KINDS[self.number % len(HELPED_KINDS)]
        people = [identity(i) for i in range(5 + self.number % 3)]
        others = people[:helpers] if self.members_help else [identity(1000 + place) for place in range(helpers)]
        agreed = {"bits": bits, "generator": generator, "agreement": agreement}
        return Enrolment(identities=people, helpers=others, charter=make_charter(people, helpers=others, **agreed))

    @property
    def members_help(self) -> bool:
        return self.number % 4 == 0

    @cached_property
    def config(self) -> RoundConfig:
        length = LENGTHS[self.number % len(LENGTHS)]
        return self.federation.charter.config(length=length, series_id=self.seed("series"), number=self.number)

    @cached_property
    def gone(self) -> set[int]:
        """None, one or two of the members drop out."""
        return set(Random(self.number).sample(range(self.config.clients), self.number % 3))

    def seed(self, what: object) -> bytes:
        return Random(f"helped {self.number} {what}").randbytes(32)

    @property
    def task(self) -> bytes:
        return self.seed("task")

    def here(self, client: int) -> Client:
        """Return a member in Python."""
        return MixedAssistedRound(self).members[client]

    def part(self, client: int) -> dict[str, Any]:
        """What a member elsewhere is told."""
        return {
            "config": self.config.encode().hex(),
            "client": client,
            "vector": inputs(self.config)[client].tobytes().hex(),
            "task": self.task.hex(),
            "seed": self.seed(client).hex(),
            "charter": str(self.federation.charter),
            "identity": identity_seed(client).hex(),
            "now": NOW,
        }


class MixedAssistedRound(AssistedPlay):
    """Member i is in the i-th place, where None is here."""

    def __init__(self, scene: AssistedScene, places: Sequence[Runner | None] = (None,)) -> None:
        self.scene, self.places = scene, places
        #: What each party was asked.
        self.asked: dict[int, list[bytes]] = {}
        super().__init__(federated=scene.federation, config=scene.config, task=scene.task)

    def new_member(self, i: int, **options: Any) -> Any:
        runner = self.places[i % len(self.places)]
        if runner is None:
            return super().new_member(i, random=Stream(self.scene.seed(i)), **options)
        return Remote(runner, f"helped/{self.scene.number}/{i}", "join", self.scene.part(i))

    def ask(self, party: int, request: bytes) -> bytes:
        self.asked.setdefault(party, []).append(bytes(request))
        return super().ask(party, request)

    def play(self, gone: Collection[int]) -> None:
        """Play to the end; the sum is the plain one of those who sent a vector."""
        self.finish(gone)
        self.check_sum([i for i in self.members if i not in gone])


class MixedAssistedSeries(AssistedSeries):
    """A series with helpers and server in Python; member i is in the i-th place, where None is here."""

    def __init__(self, places: Sequence[Runner | None] = (None,), **agreed: Any) -> None:
        self.places = places
        #: What each member was asked, envelope by envelope.
        self.asked: dict[int, list[bytes]] = {}
        super().__init__(5, 3, **agreed)

    def new_member(self, i: int) -> Any:
        runner = self.places[i % len(self.places)]
        return self.here(i) if runner is None else Remote(runner, f"helped series/{i}", "series", self.part(i))

    def here(self, i: int) -> SeriesClient:
        """Return a member in Python."""
        return super().new_member(i)

    def client(self, i: int, config: RoundConfig) -> Client:
        """Return the member of one round, which remembers nothing."""
        options = {
            "task": lambda: task_of(config.number),
            "now": self.clock.now,
            "random": Stream(self.seed(i, config)),
        }
        return new_client(config, i, lambda: self.vector(i, config.number), self.federation, **options)

    def ask(self, party: int, request: bytes) -> bytes:
        self.asked.setdefault(party, []).append(bytes(request))
        return super().ask(party, request)

    def play(self) -> list[Ended]:
        """Play all of it; members 1, 2 and 3 miss a round each."""
        ended: list[Ended] = []
        exchange = 0
        while not self.series.finished:
            ended += self.exchange({(exchange + 1) // 2} if exchange % 2 else ())
            exchange += 1
        return ended

    def seed(self, i: int, config: RoundConfig) -> bytes:
        return bytes([i, config.number]) * 16

    def part(self, i: int) -> dict[str, Any]:
        """What a member elsewhere is told: a part for each round."""
        shared = {"charter": str(self.federation.charter), "identity": identity_seed(i).hex(), "now": self.clock.now}
        parts = [self.part_of(i, with_number(self.config, number)) | shared for number in range(self.rounds or 0)]
        return {"config": self.config.encode().hex(), "charter": shared["charter"], "rounds": parts}

    def part_of(self, i: int, config: RoundConfig) -> dict[str, Any]:
        return {
            "config": config.encode().hex(),
            "client": i,
            "vector": self.vector(i, config.number).tobytes().hex(),
            "task": task_of(config.number).hex(),
            "seed": self.seed(i, config).hex(),
        }
