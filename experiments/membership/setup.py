"""How much of the experiment is run, and with which numbers."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import sgd
from experiments.membership import masked

#: Training ends when the model knows its images this well, or after the given number of rounds.
LEARNT = 0.99
#: Images that this is asked of.
LEARNT_OF = 1000
#: False alarms, as a share of the others, at which members that are found are counted.
FALSE_ALARMS = (0.001, 0.01)
#: False alarms at which the curve is kept.
ROC_AT = np.logspace(-4, 0, 41)

#: Where images lie among all of them.
Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """So many clients share the training set; a client's images come in batches of this size."""

    clients: int
    batch: int


@dataclass(frozen=True, kw_only=True)
class Effort:
    #: Of the training set.
    sizes: tuple[int, ...]
    #: The paper's clients, who also train the shadows.
    usual: Crowd
    #: Enough clients for a sparse graph to be planned, who share a training set of the first size.
    many: Crowd
    #: Everything is drawn and trained so often, each time from another seed.
    seeds: int
    #: Shadow models for each size and seed.
    shadows: int
    #: Members and others that the attack is asked about.
    asked: int
    #: The most rounds.
    rounds: int
    #: Of CIFAR-10; all of it where they are 0.
    training: int
    test: int
    quick: bool

    def crowds(self, size: int) -> tuple[Crowd, ...]:
        return (self.usual, self.many) if size == self.sizes[0] else (self.usual,)


FULL = Effort(
    sizes=(5000, 10000, 15000, 50000),
    usual=Crowd(clients=10, batch=50),
    many=Crowd(clients=100, batch=25),
    seeds=3,
    shadows=8,
    asked=5000,
    rounds=250,
    training=0,
    test=0,
    quick=False,
)
QUICK = Effort(
    sizes=(240,),
    usual=Crowd(clients=10, batch=6),
    many=Crowd(clients=60, batch=4),
    seeds=1,
    shadows=2,
    asked=240,
    rounds=20,
    training=1000,
    test=500,
    quick=True,
)


def settings(effort: Effort) -> dict[str, Any]:
    """All that the attacks hang on beside the seed."""
    return asdict(effort) | {
        "epochs": sgd.EPOCHS,
        "learning_rate": sgd.LEARNING_RATE,
        "momentum": sgd.MOMENTUM,
        "gradients_cut_at": sgd.LONGEST_SLOPE,
        "learnt": LEARNT,
        "connection": masked.CONNECTION,
    }
