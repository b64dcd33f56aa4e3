"""The attack of one size and all seeds: what is trained, what is asked of it, and what comes of it."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import sgd
from experiments.cifar import Cifar
from experiments.clients import Clients
from experiments.membership import masked
from experiments.membership.attack import Answers, Attack, ask
from experiments.membership.federations import Federation, train
from experiments.membership.setup import Crowd, Effort, Places
from experiments.vgg import Images, Network, accuracy, device_and_type, name_of, prepared

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
else:
    import torch


@dataclass(frozen=True, kw_only=True, eq=False)
class Lab:
    """The images on the device (training, then test), the network, the clients, and who listens to rounds."""

    network: Network
    images: Images
    clients: Clients
    training: int
    effort: Effort
    device: str
    beside: ProcessPoolExecutor
    folder: Path
    threads: int

    @property
    def about(self) -> dict[str, Any]:
        """What the results tell of it."""
        return {
            "device": name_of(self.device),
            "products": str(self.images.x.dtype).removeprefix("torch."),
            "parameters": self.network.size,
        }

    def federation(self, members: Places, crowd: Crowd, seed: list[int]) -> Federation:
        return Federation(self.network, members, crowd, seed, self.device)

    def ask(self, row: Any, members: Places, others: Places) -> Answers:
        return ask(self.network, row, self.images, members, others)


class Target:
    """What one seed's attack is about: a training set, images to ask about, and shadows that know neither."""

    def __init__(self, lab: Lab, size: int, seed: int) -> None:
        effort, self.lab, self.size, self.seed = lab.effort, lab, size, seed
        rng = np.random.default_rng([seed, 30, size])
        train, test = rng.permutation(lab.training), lab.training + rng.permutation(_tests(lab))
        self.members, self.others = train[:size], test[: effort.asked]
        self.asked = rng.choice(self.members, effort.asked, replace=False)
        # Shadows share no image with the target: what it left of the training set, and half of the test set.
        # Of 50,000 images none is left over, and every shadow divides the same 5,000 once more.
        pool = np.concatenate([train[size:], test[effort.asked :]])
        self.half = min(size, pool.size // 2)
        self.drawn = [np.random.default_rng([seed, 32, size, k]).permutation(pool) for k in range(effort.shadows)]
        self.victims = [
            lab.federation(self.members, crowd, [seed, 31, size, crowd.clients]) for crowd in effort.crowds(size)
        ]
        for victim in self.victims:
            victim.keep_all()
        self.shadows = [
            lab.federation(drawn[: self.half], effort.usual, [seed, 33, size, k]) for k, drawn in enumerate(self.drawn)
        ]

    def attack(self) -> Attack:
        """Half of what a shadow drew is its training set, and the other half it has never seen."""
        most = min(self.half, self.lab.effort.asked)
        answers = [
            self.lab.ask(shadow.sent[masked.VICTIM], drawn[:most], drawn[self.half : self.half + most])
            for shadow, drawn in zip(self.shadows, self.drawn, strict=True)
        ]
        return Attack(answers, self.seed)


class Attacked:
    """One federation under attack, whose masked rounds are still running in the process beside."""

    def __init__(self, target: Target, victim: Federation, attack: Attack) -> None:
        self._target, self._victim, self._attack = target, victim, attack
        lab = target.lab
        file = lab.folder / f"{target.size}-{target.seed}-{victim.crowd.clients}.npy"
        np.save(file, np.stack([row.cpu().numpy() for _, row in sorted(victim.sent.items())]))
        self._rounds: Future[dict[str, Any]] = lab.beside.submit(masked.overheard_in, file, target.seed, lab.threads)
        mine = victim.own[masked.VICTIM][: lab.effort.asked]
        self._found = {
            "plain": self._judged(victim.sent[masked.VICTIM]),
            "own": self._judged(victim.sent[masked.VICTIM], mine),
            "published": self._judged(victim.mean),
        }

    def _judged(self, row: Any, some: Places | None = None) -> dict[str, Any]:
        members = self._target.asked if some is None else some
        others = self._target.others[: members.size]
        return self._attack.judge(self._target.lab.ask(row, members, others))

    def row(self) -> dict[str, Any]:
        """All that was found, when the masked rounds are over."""
        target, lab = self._target, self._target.lab
        heard = self._rounds.result()
        for key, (words, _) in heard.items():
            self._found[key] = self._judged(torch.from_numpy(words).to(lab.device))
        return {
            "seed": target.seed,
            "n_train": target.size,
            "clients": self._victim.crowd.clients,
            "shadow_images": target.half,
            "rounds": self._victim.rounds,
            "shadow_rounds": [shadow.rounds for shadow in target.shadows],
            "train_accuracy": accuracy(lab.network, self._victim.mean, lab.images, target.asked),
            "test_accuracy": accuracy(lab.network, self._victim.mean, lab.images, target.others),
            "exact_sums": {key: exact for key, (_, exact) in heard.items()},
            "attacks": self._found,
        }


def attacked(lab: Lab, size: int, seeds: Sequence[int]) -> list[Attacked]:
    """The federations of all seeds, which are trained together, and the attacks on them."""
    targets = [Target(lab, size, seed) for seed in seeds]
    everyone = [one for target in targets for one in (*target.victims, *target.shadows)]
    train(everyone, lab.clients, lab.images, lab.effort.rounds)
    found = []
    for target in targets:
        attack = target.attack()
        found += [Attacked(target, victim, attack) for victim in target.victims]
    return found


def _tests(lab: Lab) -> int:
    return int(lab.images.y.shape[0]) - lab.training


def equip(data: Cifar, effort: Effort, folder: Path, together: int) -> Lab:
    device, dtype = device_and_type()
    network = Network(sgd.TINY if effort.quick else sgd.VGG11)
    x, y = np.concatenate([data.train_x, data.test_x]), np.concatenate([data.train_y, data.test_y])
    images = prepared(x, y, data, device, dtype)
    return Lab(
        network=network,
        images=images,
        clients=Clients(network, images, together=together),
        training=data.train_y.size,
        effort=effort,
        device=device,
        beside=ProcessPoolExecutor(1, mp_context=get_context("spawn")),
        folder=folder,
        threads=max(1, (os.cpu_count() or 1) - 3),
    )
