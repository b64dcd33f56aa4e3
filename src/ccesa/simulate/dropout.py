"""Dropout models: who drops out in which step. Each draws exact sets, so that a seed repeats a round."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ccesa.errors import ConfigError
from ccesa.plan.paper import step_dropout
from ccesa.protocol.steps import Step

#: For each step's name, the clients that drop out in it.
Dropouts = Mapping[str, frozenset[int]]


@runtime_checkable
class Dropout(Protocol):
    """Anything that draws who drops out of a round."""

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts: ...


@dataclass(frozen=True)
class StepProbabilities:
    """A probability for each step, one for all or by name; steps that are not named lose nobody."""

    probabilities: float | Mapping[str, float]

    def __post_init__(self) -> None:
        each = self.probabilities
        for name, probability in each.items() if isinstance(each, Mapping) else [("dropout", each)]:
            _check_fraction(name, probability)

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts:
        steps, each = list(steps), self.probabilities
        named = each if isinstance(each, Mapping) else {step.name: each for step in steps}
        known = _known_steps(steps, named)
        lost = {name: rng.random(clients) < named.get(name, 0.0) for name in known}
        return {name: frozenset(np.flatnonzero(flags).tolist()) for name, flags in lost.items()}


@dataclass(frozen=True)
class Independent:
    """Every client drops out with the same probability in each step, ``total`` over the whole round."""

    total: float

    def __post_init__(self) -> None:
        _check_fraction("dropout", self.total)

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts:
        steps = list(steps)
        return StepProbabilities(step_dropout(self.total, len(steps))).draw(steps, clients, rng)


@dataclass(frozen=True)
class Exactly:
    """These clients drop out, in these steps."""

    sets: Mapping[str, Iterable[int]]

    def __post_init__(self) -> None:
        frozen = {name: frozenset(members) for name, members in self.sets.items()}
        object.__setattr__(self, "sets", frozen)  # an iterator would be empty the second time

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts:
        _known_steps(steps, self.sets)
        drawn = {name: frozenset(members) for name, members in self.sets.items()}
        for client in frozenset().union(*drawn.values()):
            if not 0 <= client < clients:
                raise ConfigError(f"client {client} is not in 0..{clients - 1}")
        return drawn


@dataclass(frozen=True)
class Burst:
    """In one step a fraction of the clients, drawn at random, drops out together."""

    step: str
    fraction: float

    def __post_init__(self) -> None:
        _check_fraction("fraction", self.fraction)

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Dropouts:
        _known_steps(steps, [self.step])
        lost = rng.choice(clients, round(self.fraction * clients), replace=False)
        return {self.step: frozenset(lost.tolist())}


def _check_fraction(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"{name} must lie in [0, 1), not {value}")


def _known_steps(steps: Iterable[Step], named: Iterable[str]) -> list[str]:
    known = [step.name for step in steps]
    for name in named:
        if name not in known:
            raise ConfigError(f"there is no step {name!r} in this round; the steps are {', '.join(known)}")
    return known
