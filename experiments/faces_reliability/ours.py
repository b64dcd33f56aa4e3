"""Training through real rounds of our server, all series side by side.

A series whose sums have always been those of another has the same model, and its clients send the same
vectors: these are trained once. The rounds themselves are run for each series, with all their masks.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ccesa.errors import RoundFailed
from ccesa.simulate.simulation import Dropouts
from ccesa.values.fields import WORD_BITS
from ccesa.values.quantize import Quantizer
from ccesa.words import Vector
from experiments import rounds, softmax
from experiments.faces_reliability.series import Series, all_series, history
from experiments.softmax import Federation, Model


@dataclass(frozen=True, eq=False)
class Stage:
    """A model before a round: what its clients send, and the stages that follow from it."""

    data: Federation
    quantizer: Quantizer[Model]
    #: Of the round: the last one is its number.
    seeds: tuple[int, ...]
    model: Model
    _sent: dict[int, Vector] = field(default_factory=dict)
    _next: dict[bytes | None, "Stage"] = field(default_factory=dict)

    @cached_property
    def accuracy(self) -> float:
        return softmax.accuracy(self.model, self.data)

    def vector(self, client: int) -> Vector:
        """Train and quantize when a client is first asked for its vector: in lost rounds that is never."""
        if client not in self._sent:
            update = softmax.update(self.model, self.data, client)
            rounding = np.random.default_rng([*self.seeds, 2, client])
            self._sent[client] = self.quantizer.encode(update, rng=rounding).vector
            self._sent[client].setflags(write=False)
        return self._sent[client]

    def after(self, total: Vector | None) -> "Stage":
        """Return the next stage, the same one for sums equal in every word; a lost round has no sum."""
        found = None if total is None else total.tobytes()
        if found not in self._next:
            mean = [] if total is None else self.quantizer.decode(total).arrays
            model = softmax.add(self.model, mean) if mean else self.model
            seeds = (*self.seeds[:-1], self.seeds[-1] + 1)
            self._next[found] = Stage(self.data, self.quantizer, seeds, model)
        return self._next[found]


@dataclass(eq=False)
class Run:
    """One series on its way."""

    series: Series
    stage: Stage
    accuracy: list[float] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    survivors: list[int] = field(default_factory=list)

    def round(self, dropouts: Dropouts) -> None:
        stage, seeds = self.stage, list(self.stage.seeds)
        clients, length = stage.data.clients, stage.quantizer.length
        graph, threshold = self.series.graph, self.series.threshold
        config = rounds.configured(seeds, clients, length, graph, threshold, WORD_BITS)
        found = rounds.ran(config, stage.vector, dropouts, seeds)
        if isinstance(found.result, RoundFailed):
            self.stage = stage.after(None)
        else:
            self.stage = stage.after(found.result.vector)
            self.survivors.append(len(found.result.survivors))
        self.accuracy.append(self.stage.accuracy)
        self.outcomes.append(found.outcome)

    def told(self) -> dict[str, Any]:
        """Return the series as it is kept."""
        more = {"ends": dict(Counter(self.outcomes)), "survivors": sum(self.survivors)}
        return history(self.series.name, self.accuracy, self.outcomes) | more


def quantizer(data: Federation) -> Quantizer[Model]:
    """Return what turns these clients' updates into words."""
    return Quantizer.for_model(softmax.new_model(data), clients=data.clients, clip=softmax.LARGEST_UPDATE)


def by_our_server(data: Federation, gone: list[Dropouts], seed: int) -> list[dict[str, Any]]:
    """Train every series through real rounds with these dropouts."""
    first = Stage(data, quantizer(data), (seed, 1, 0), softmax.new_model(data))
    runs = [Run(series, first) for series in all_series(data.clients)]
    for number, dropouts in enumerate(gone, 1):
        for one in runs:
            one.round(dropouts)
        if number % 10 == 0:
            now = ", ".join(f"{one.accuracy[-1]:.2f}" for one in runs)
            print(f"  seed {seed}, round {number} of {len(gone)}: accuracies {now}", flush=True)
    return [one.told() for one in runs]
