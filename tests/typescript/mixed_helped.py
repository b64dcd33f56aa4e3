"""Rounds with helpers: members in Python, in Node and in a browser, helpers and the server in Python."""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from vectors.cases.common import Stream

from ccesa.agreement.config import RoundConfig
from ccesa.protocol.client import Client
from ccesa.simulate import Enrolment, make_charter
from helped_rounds import NOW, HelpedPlay
from mixed import Remote, identity_seed
from rounds import identity, inputs
from runners import Runner

#: Every combination of what a round with helpers may be like, in an order in which neighbours differ in all of it.
HELPED_KINDS = sorted(
    itertools.product((8, 16, 32, 64), ("aes128-ctr", "chacha20"), ("x25519", "x25519-mlkem768"), (2, 3, 5)),
    key=lambda kind: Random(repr(kind)).random(),
)
#: Words of a vector; check words fold it in rows of 16384.
LENGTHS = (1, 7, 300, 16384, 16385, 40_000)


@dataclass(frozen=True)
class HelpedScene:
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
        return MixedHelpedRound(self).members[client]

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


class MixedHelpedRound(HelpedPlay):
    """Member i is in the i-th place, where None is here."""

    def __init__(self, scene: HelpedScene, places: Sequence[Runner | None] = (None,)) -> None:
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
