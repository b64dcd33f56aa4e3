"""How much of the experiment is run, and with which numbers."""

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.plan import Plan, plan
from ccesa.simulate.simulation import Dropouts
from experiments import rounds, sgd

DROPOUT = 0.1
GENERATOR = "chacha20"
BITS = 32
#: An update is cut to ±CLIP and rounded to VALUE_BITS; a sum of 1,024 of them fits into a word.
CLIP, VALUE_BITS = 1.0, 22
SCALE = (2 ** (VALUE_BITS - 1) - 1) / CLIP


@dataclass(frozen=True, kw_only=True)
class Effort:
    clients: int
    rounds: int
    #: Of CIFAR-10; all of it where they are 0.
    training: int
    test: int
    quick: bool

    @property
    def channels(self) -> tuple[int, ...]:
        return sgd.TINY if self.quick else sgd.VGG11


FULL = Effort(clients=1000, rounds=50, training=0, test=0, quick=False)
QUICK = Effort(clients=60, rounds=4, training=1200, test=500, quick=True)


def settings(effort: Effort) -> dict[str, Any]:
    """All that the curves hang on beside the seed."""
    return asdict(effort) | {
        "channels": effort.channels,
        "q_total": DROPOUT,
        "generator": GENERATOR,
        "bits": BITS,
        "clip": CLIP,
        "value_bits": VALUE_BITS,
        "epochs": sgd.EPOCHS,
        "learning_rate": sgd.LEARNING_RATE,
        "momentum": sgd.MOMENTUM,
        "gradients_cut_at": sgd.LONGEST_SLOPE,
    }


@cache
def planned(clients: int) -> Plan:
    return plan(clients, DROPOUT)


@dataclass(frozen=True, kw_only=True)
class Series:
    """The configuration of every round: the planned graph, and vectors of this length."""

    clients: int
    length: int
    seed: int

    def config(self, number: int) -> RoundConfig:
        made = planned(self.clients)
        seed = [self.seed, 1, number]
        config = rounds.configured(seed, self.clients, self.length, made.graph, made.threshold, BITS)
        return msgspec.structs.replace(config, generator=GENERATOR)

    def task(self, number: int) -> "Task":
        gone = rounds.dropouts(DROPOUT, self.clients, [self.seed, 0, number])
        return Task(config=self.config(number), gone=gone, seed=[self.seed, 2, number])


@dataclass(frozen=True, kw_only=True)
class Task:
    """One round: its configuration, who drops out in which step, and the seed of all keys."""

    config: RoundConfig
    gone: Dropouts
    seed: list[int]
