"""Dropout models: who vanishes in which step. Each draws exact sets, so that a seed repeats a round."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ccesa.errors import ConfigError
from ccesa.plan.paper import step_dropout
from ccesa.protocol.steps import Step

#: For each step's name, the clients that vanish in it.
Vanishing = Mapping[str, frozenset[int]]


@runtime_checkable
class Dropout(Protocol):
    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Vanishing: ...


@dataclass(frozen=True)
class Independent:
    """Every client vanishes with the same probability in each step, ``total`` over the whole round."""

    total: float

    def __post_init__(self) -> None:
        _check_fraction("dropout", self.total)

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Vanishing:
        steps = list(steps)
        q = step_dropout(self.total, len(steps))
        return {step.name: _chosen(rng.random(clients) < q) for step in steps}


@dataclass(frozen=True)
class StepProbabilities:
    """A probability of its own for each step; steps that are not named lose nobody."""

    probabilities: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, probability in self.probabilities.items():
            _check_fraction(name, probability)

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Vanishing:
        _check_names(steps := list(steps), self.probabilities)
        return {
            step.name: _chosen(rng.random(clients) < self.probabilities.get(step.name, 0.0)) for step in steps
        }


@dataclass(frozen=True)
class Exactly:
    """These clients, in these steps."""

    sets: Mapping[str, Iterable[int]]

    def __post_init__(self) -> None:
        frozen = {name: frozenset(members) for name, members in self.sets.items()}
        object.__setattr__(self, "sets", frozen)  # an iterator would be empty the second time

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Vanishing:
        _check_names(list(steps), self.sets)
        vanishing = {name: frozenset(members) for name, members in self.sets.items()}
        for members in vanishing.values():
            strangers = [client for client in members if not 0 <= client < clients]
            if strangers:
                raise ConfigError(f"client {strangers[0]} is not in 0..{clients - 1}")
        return vanishing


@dataclass(frozen=True)
class Burst:
    """In one step a fraction of the clients, drawn at random, vanishes together."""

    step: str
    fraction: float

    def __post_init__(self) -> None:
        _check_fraction("fraction", self.fraction)

    def draw(self, steps: Iterable[Step], clients: int, rng: np.random.Generator) -> Vanishing:
        _check_names(list(steps), {self.step: None})
        lost = rng.choice(clients, round(self.fraction * clients), replace=False)
        return {self.step: frozenset(lost.tolist())}


def _chosen(flags: np.typing.NDArray[np.bool_]) -> frozenset[int]:
    return frozenset(np.flatnonzero(flags).tolist())


def _check_fraction(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"{name} must lie in [0, 1), not {value}")


def _check_names(steps: list[Step], named: Mapping[str, object]) -> None:
    known = [step.name for step in steps]
    for name in named:
        if name not in known:
            raise ConfigError(f"there is no step {name!r}; the steps are {', '.join(known)}")
