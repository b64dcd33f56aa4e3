"""How much of the experiment is run, and with which numbers."""

from dataclasses import asdict, dataclass
from typing import Any

from experiments import sgd

#: How the images are spread over the clients, in words.
TITLES = {"iid": "i.i.d. images", "shards": "two shards per client (non-i.i.d.)"}
DROPOUT = 0.1


@dataclass(frozen=True, kw_only=True)
class Effort:
    clients: int
    rounds: int
    #: Everything is drawn and trained so often, each time from another seed.
    seeds: int
    #: Real rounds of SA, of each CCESA, and of ours.
    reals: tuple[int, int, int]
    #: Of CIFAR-10; all of it where they are 0.
    training: int
    test: int
    quick: bool

    @property
    def channels(self) -> tuple[int, ...]:
        return sgd.TINY if self.quick else sgd.VGG11


FULL = Effort(clients=1000, rounds=200, seeds=3, reals=(1, 2, 10), training=0, test=0, quick=False)
QUICK = Effort(clients=60, rounds=6, seeds=1, reals=(1, 2, 2), training=1200, test=500, quick=True)


def settings(effort: Effort) -> dict[str, Any]:
    """All that the curves hang on beside the seed."""
    return asdict(effort) | {
        "channels": effort.channels,
        "q_total": DROPOUT,
        "epochs": sgd.EPOCHS,
        "learning_rate": sgd.LEARNING_RATE,
        "momentum": sgd.MOMENTUM,
        "gradients_cut_at": sgd.LONGEST_SLOPE,
    }
