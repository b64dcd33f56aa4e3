"""Stage ``train``: federated averaging over the survivors of each round, for every scheme.

A model hangs on the sets of survivors that were averaged so far, and on nothing else, so schemes whose rounds
had the same survivors have the same model. Each model is computed once: the schemes' histories form a tree,
and only where they part is a copy kept. A lost round leaves the model as it is.
"""

import hashlib
import io
import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.cifar import Cifar
from experiments.cifar_reliability.outcomes import Rounds
from experiments.clients import Clients, whole_batches
from experiments.record import Key, write
from experiments.splits import SPLITS, split
from experiments.vgg import Images, Network, accuracy, device_and_type, name_of, prepared

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
else:
    import torch

#: A model's file is cut, so that no piece is larger than 16 MB.
_PIECES = 3
#: Seconds that are left for writing everything down.
_MARGIN = 10.0
_START = "start"

#: For each scheme the accuracy after each round; None where it is not known yet.
Curves = dict[str, list[float | None]]
#: For each scheme the model's name after each round, and the steps that lead there.
Histories = dict[str, tuple[list[str], list["Step"]]]


@dataclass(frozen=True)
class Step:
    """From one model to the next by these survivors."""

    before: str
    after: str
    survivors: tuple[int, ...]


def history(survivors: list[tuple[int, ...] | None]) -> tuple[list[str], list[Step]]:
    """The model's name after each round, and the steps that lead there."""
    name, names, steps = _START, [], []
    for members in survivors:
        if members is not None:
            link = name.encode() + np.array(members, "<u4").tobytes()
            after = hashlib.sha256(link).hexdigest()[:16]
            steps.append(Step(name, after, members))
            name = after
        names.append(name)
    return names, steps


class Store:
    """Accuracies of all models so far, and the models where histories part or the time was up."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder, self._kind = folder, kind
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"accuracy-{kind}.json"
        self.accuracy: dict[str, float] = _numbers(self._file)

    def learn(self, names: list[str], curve: list[float | None]) -> None:
        """Accuracies that an earlier call has found, whose models are gone."""
        for name, value in zip(names, curve, strict=False):
            if value is not None:
                self.accuracy.setdefault(name, value)

    def write(self) -> None:
        write(self._file, (json.dumps(self.accuracy, indent=0) + "\n").encode())

    def has(self, name: str) -> bool:
        return all(path.exists() for path in self._pieces(name))

    def put(self, name: str, row: Any) -> None:
        # The accuracies first: of a model that is there all of them have to be known up to it.
        self.write()
        for path, piece in zip(self._pieces(name), np.array_split(row.cpu().numpy(), _PIECES), strict=True):
            raw = io.BytesIO()
            np.save(raw, piece)
            write(path, raw.getvalue())

    def get(self, name: str, device: str) -> Any:
        return torch.from_numpy(np.concatenate([np.load(path) for path in self._pieces(name)])).to(device)

    def _pieces(self, name: str) -> list[Path]:
        return [self._folder / f"{self._kind}-{name}-{piece}.npy" for piece in range(_PIECES)]


def _numbers(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(kw_only=True, eq=False)
class Trainer:
    network: Network
    clients: Clients
    test: Images
    members: Any
    seed: int
    device: str
    deadline: float
    rounds_done: int = 0
    seconds: float = 0.0

    def follow(self, steps: list[Step], store: Store, partings: set[str]) -> bool:
        """Train along one history from the last model that is there; False if the time was up before."""
        known = [place for place in range(len(steps)) if _waits(store, steps[: place + 1])]
        # All accuracies may be known although the last model is not kept: then there is nothing to do.
        if all(step.after in store.accuracy for step in steps):
            return True
        first = known[-1] + 1 if known else 0
        row = store.get(steps[first - 1].after, self.device) if known else self.network.new(self.seed, self.device)
        for step in steps[first:]:
            if time.time() + 1.5 * self._per_round() > self.deadline - _MARGIN:
                if step.before != _START and not store.has(step.before):
                    store.put(step.before, row)
                return False
            row = self._round(row, step.survivors)
            store.accuracy[step.after] = accuracy(self.network, row, self.test)
            if step.after in partings:
                store.put(step.after, row)
            if self.rounds_done % 10 == 0:
                print(
                    f"{self.rounds_done} rounds, {self._per_round():.2f} s each, "
                    f"accuracy {store.accuracy[step.after]:.4f}",
                    flush=True,
                )
                store.write()
        return True

    def _round(self, row: Any, survivors: tuple[int, ...]) -> Any:
        started = time.time()
        result = self.clients.average(row, self.members[list(survivors)])
        self.rounds_done += 1
        self.seconds += time.time() - started
        return result

    def _per_round(self) -> float:
        return self.seconds / self.rounds_done if self.rounds_done else 0.0


def _waits(store: Store, steps: list[Step]) -> bool:
    """Whether training can go on behind these steps: the model is there, and every accuracy before it."""
    return store.has(steps[-1].after) and all(step.after in store.accuracy for step in steps)


@dataclass(frozen=True, kw_only=True, eq=False)
class Equipment:
    """What all curves share: the network, and the images on the device."""

    network: Network
    clients: Clients
    test: Images
    labels: NDArray[np.uint8]
    count: int
    device: str
    products: str

    def members(self, kind: str, seed: int) -> NDArray[np.int64]:
        return split(self.labels, self.count, kind, seed)

    def trainer(self, kind: str, seed: int, deadline: float) -> Trainer:
        return Trainer(
            network=self.network,
            clients=self.clients,
            test=self.test,
            members=whole_batches(self.members(kind, seed), self.device),
            seed=seed,
            device=self.device,
            deadline=deadline,
        )


def equip(data: Cifar, count: int, channels: tuple[int, ...], together: int) -> Equipment:
    device, dtype = device_and_type()
    network = Network(channels)
    train = prepared(data.train_x, data.train_y, data, device, dtype)
    return Equipment(
        network=network,
        clients=Clients(network, train, together=together),
        test=prepared(data.test_x, data.test_y, data, device, dtype),
        labels=data.train_y,
        count=count,
        device=device,
        products=str(dtype).removeprefix("torch."),
    )


def state_folder(state: Path, key: Key, seed: int, equipment: Equipment) -> Path:
    """Of its own for everything that a model hangs on: other settings never find it."""
    hangs_on = json.dumps([seed, key.quick, key.settings, equipment.products], sort_keys=True)
    return state / hashlib.sha256(hangs_on.encode()).hexdigest()[:16]


def curves(trainer: Trainer, kind: str, histories: Histories, store: Store, known: Curves) -> Curves:
    """Train one split until everything is known or the time is up; ``known`` are curves of earlier calls."""
    for key, (names, _) in histories.items():
        store.learn(names, known.get(key, []))
    if _START not in store.accuracy:
        first = trainer.network.new(trainer.seed, trainer.device)
        store.accuracy[_START] = accuracy(trainer.network, first, trainer.test)
    for key in _in_order(histories):
        done = trainer.follow(histories[key][1], store, _partings(histories))
        store.write()
        print(f"seed {trainer.seed}, {kind}, {key}: {'done' if done else 'stopped, the time is up'}", flush=True)
    return {key: [store.accuracy.get(name) for name in names] for key, (names, _) in histories.items()}


def all_histories(rounds: Rounds, count: int) -> Histories:
    return {key: history(found[:count]) for key, found in rounds.survivors.items()}


def told(rounds: Rounds, count: int) -> dict[str, Any]:
    """What the rounds of one seed say by themselves, scheme by scheme."""
    return {
        "lost": {
            key: [number + 1 for number, members in enumerate(found[:count]) if members is None]
            for key, found in rounds.survivors.items()
        },
        "outcomes": {key: dict(Counter(found[:count])) for key, found in rounds.outcomes.items()},
        "real_rounds": rounds.real,
        "survivors_mean": {
            key: float(np.mean([len(members) for members in found[:count] if members is not None] or [0]))
            for key, found in rounds.survivors.items()
        },
    }


def about(equipment: Equipment) -> dict[str, Any]:
    return {
        "device": name_of(equipment.device),
        "products": equipment.products,
        "parameters": equipment.network.size,
        "images_each": equipment.members(SPLITS[0], 0).shape[1],
    }


def _in_order(histories: Histories) -> list[str]:
    """SA first; then the cheapest, those with the fewest models of their own."""
    keys = list(histories)
    main = {step.after for step in histories[keys[0]][1]}
    alone = {key: sum(step.after not in main for step in histories[key][1]) for key in keys}
    return sorted(keys, key=lambda key: alone[key])


def _partings(histories: Histories) -> set[str]:
    """Models from which more than one history goes on."""
    onward: dict[str, set[str]] = {}
    for _, steps in histories.values():
        for step in steps:
            onward.setdefault(step.before, set()).add(step.after)
    return {name for name, after in onward.items() if len(after) > 1}
