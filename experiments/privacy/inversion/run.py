"""Faces in the published sum: what noise hides, and what training still learns, on three tasks.

The attack of ``experiments.faces_inversion`` is tried on the published sum of a real round, with noise for
several epsilons and without; success is measured as there. In ``persons`` (the paper's task: one client per
person, one class per person) and ``photographs`` the attack inverts the model. In ``upright`` there is no
class to invert: the attacker has the sums of two rounds on the same task, one of them without the victim, and
takes their difference, less the mean of the others. Both rounds are within epsilon there; in the other tasks
it is one round. See ``tasks``.

Writes results.json, after each epsilon of each task, and inversion.png. The next call goes on with what is
missing.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from ccesa.privacy.accounting import gaussian_mu
from experiments import faces, record
from experiments.arguments import parse, run
from experiments.faces import Faces, Images
from experiments.faces_inversion.run import scored, summary
from experiments.privacy.inversion import tasks
from experiments.privacy.inversion.picture import draw
from experiments.privacy.published import DELTA, Floats, Setting

HERE = Path(__file__).parent
#: From strong to none.
EPSILONS = ("1", "3", "8", "30", "40", "inf")


@dataclass(frozen=True, kw_only=True)
class Effort:
    epsilons: tuple[str, ...]
    #: By task: how often it is tried, each time with new noise.
    repeats: dict[str, int]
    #: By task: so many pixels become one, in both directions.
    shrink: dict[str, int]


FULL = Effort(
    epsilons=EPSILONS,
    repeats={"persons": 3, "photographs": 3, "upright": 30},
    shrink={"persons": 1, "photographs": 4, "upright": 4},
)
QUICK = Effort(
    epsilons=("1", "30", "inf"),
    repeats={"persons": 1, "photographs": 1, "upright": 3},
    shrink={"persons": 4, "photographs": 4, "upright": 4},
)


def settings(quick: bool) -> dict[str, Any]:
    return asdict(QUICK if quick else FULL) | {"norm": tasks.NORM, "delta": DELTA}


@dataclass(frozen=True, kw_only=True, eq=False)
class Try:
    """One published sum, or two: by person the attacker's image, whom it is held against, and the sum."""

    images: dict[int, Images]
    known: Faces
    accuracy: float
    setting: Setting
    #: So many clients are one person.
    together: int = 1
    #: The sum as it would be without noise, and as it was published.
    plain: Floats
    total: Floats


@dataclass(frozen=True, eq=False)
class Lab:
    """The faces, in the size of each task, and one method for each."""

    whole: Faces
    effort: Effort
    seed: int

    @property
    def tries(self) -> dict[str, Callable[[str, int], Try]]:
        return {"persons": self.persons, "photographs": self.photographs, "upright": self.upright}

    def persons(self, epsilon: str, number: int) -> Try:
        return self._inverted(self._persons, epsilon, [self.seed, 40, number])

    def photographs(self, epsilon: str, number: int) -> Try:
        return self._inverted(self._photographs, epsilon, [self.seed, 41, number])

    def upright(self, epsilon: str, number: int) -> Try:
        """Draw another federation each time; the first client is the victim."""
        seed = [self.seed, 42, number]
        task = tasks.upright(self._size("upright"), seed)
        setting = _setting(task.sent, epsilon, rounds=2, least=len(task.sent) - 1)
        both = setting.total(task.sent, [*seed, 0])
        without = setting.total(task.sent, [*seed, 1], gone=[0])
        victim = both - without - without / setting.least  # less what the others have in common
        return Try(
            images={int(task.clients[0]): victim},
            known=task.known,
            accuracy=task.accuracy(both),
            setting=setting,
            plain=task.sent.sum(axis=0),
            total=both,
        )

    def _inverted(self, task: tasks.Persons | tasks.Photographs, epsilon: str, seed: list[int]) -> Try:
        setting = _setting(task.sent, epsilon, rounds=1, least=len(task.sent))
        total = setting.total(task.sent, seed)
        return Try(
            images=task.images(total),
            known=task.known,
            accuracy=task.accuracy(total),
            setting=setting,
            together=len(task.sent) // task.known.persons,
            plain=task.sent.sum(axis=0),
            total=total,
        )

    @cached_property
    def _persons(self) -> tasks.Persons:
        return tasks.persons(self._size("persons"), self.seed)

    @cached_property
    def _photographs(self) -> tasks.Photographs:
        return tasks.photographs(self._size("photographs"), self.seed)

    def _size(self, task: str) -> Faces:
        return self.whole.smaller(self.effort.shrink[task])


def _setting(sent: Floats, epsilon: str, *, rounds: int, least: int) -> Setting:
    clients, dimension = sent.shape
    return Setting(
        clients=clients, dimension=dimension, norm=tasks.NORM, epsilon=float(epsilon), rounds=rounds, least=least
    )


def one_row(lab: Lab, task: str, epsilon: str) -> dict[str, Any]:
    """Return what all tries of a task with this epsilon come to."""
    found = [lab.tries[task](epsilon, number) for number in range(lab.effort.repeats[task])]
    first, accuracies = found[0], [one.accuracy for one in found]
    scores = summary([scored(one.images, one.known) for one in found], first.known.persons)
    return {
        "task": task,
        "epsilon": epsilon,
        "clients": first.setting.clients,
        "parameters": first.setting.dimension,
        "norm": first.setting.norm,
        "noise": first.setting.noise,
        "noise_length": first.setting.noise * math.sqrt(first.setting.dimension),
        "sum_length": float(np.linalg.norm(first.plain)),
        "accuracy": float(np.mean(accuracies)),
        "accuracy_deviation": float(np.std(accuracies)),
        **scores,
        "most": most(scores["chance"], float(epsilon), first.together),
    }


def most(chance: float, epsilon: float, together: int = 1) -> float:
    """Return the most that epsilon lets a rate be that is ``chance`` without these clients' vectors."""
    if math.isinf(epsilon):
        return 1.0
    normal = NormalDist()
    return normal.cdf(normal.inv_cdf(chance) + together * gaussian_mu(epsilon, DELTA))


def _say(row: dict[str, Any]) -> None:
    print(
        f"{row['task']}, epsilon {row['epsilon']}: {row['identified']} of {row['attacks']} identified "
        f"(chance {row['chance']:.3f}), similarity {row['similarity_mean']:.3f}, accuracy "
        f"{row['accuracy']:.3f}; length of the noise {row['noise_length']:.3g}, sum {row['sum_length']:.3g}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "small images, three epsilons", arguments)
    started, effort = time.time(), QUICK if wanted.quick else FULL
    key = record.Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    lab = Lab(faces.whole(wanted.data, wanted.quick), effort, wanted.seed)
    due = [(task, epsilon) for task in lab.tries for epsilon in effort.epsilons]
    rows = _rows(wanted.output / "results.json", key, lab, due, started=started, again=wanted.again)
    # Noise comes from the seed: the first try of each can be made again, which takes seconds.
    tries = {(task, epsilon): [lab.tries[task](epsilon, number) for number in _shown(task)] for task, epsilon in due}
    draw(rows, tries).savefig(wanted.output / "inversion.png", dpi=100)


def _rows(
    file: Path, key: record.Key, lab: Lab, due: list[tuple[str, str]], *, started: float, again: bool
) -> list[dict[str, Any]]:
    """Return all rows: those of an earlier call, and what is missing there."""
    stored = None if again else record.earlier(file, key)
    found = {(row["task"], row["epsilon"]): row for row in (stored or {}).get("rows", [])}
    for one in due:
        if one not in found:
            found[one] = one_row(lab, *one)
            _say(found[one])
            result = {"rows": [found[done] for done in due if done in found]}
            complete, spent = len(found) == len(due), record.seconds(stored)
            record.save(file, result, key, started=started, complete=complete, spent=spent)
    return [found[one] for one in due]


def _shown(task: str) -> range:
    """Number the tries that a picture needs: one has all persons, or one victim alone."""
    return range(2 if task == "upright" else 1)


if __name__ == "__main__":
    run(main)
