"""The paper's tables on membership inference: can an eavesdropper tell which images a model has seen?

Ten clients train VGG-11 by federated averaging on n_train images of CIFAR-10. The eavesdropper reads what
the first client sends in the last round: its model (plain federated averaging), or the model under its
masks (SA, CCESA, the planned graph), from a real round of the protocol over all parameters. It attacks with
shadow models that are trained alike on images of their own. As in the paper the attack is asked about 5000
images of the training set and 5000 of the test set. Beside it: the attack asked about the first client's
own images only, the attack on the mean that the server publishes in any case, which no secure aggregation
hides, and all of it once more for a hundred clients, whose planned graph is sparse. Writes results.json,
after each size of the training set, and membership.png. The next call goes on with the sizes that are
missing.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError
from experiments import arguments, cifar, record, sgd
from experiments.membership import masked, setup
from experiments.membership.picture import PAPER, draw
from experiments.membership.setup import FULL, QUICK, Crowd, Effort

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
    from experiments.clients import Clients
    from experiments.membership.attack import Answers, Attack
    from experiments.membership.federations import Federation
    from experiments.vgg import Images, Network

HERE = Path(__file__).parent

Places = NDArray[np.int64]


def settings(quick: bool) -> dict[str, Any]:
    return setup.settings(QUICK if quick else FULL)


@dataclass(frozen=True, kw_only=True, eq=False)
class Lab:
    """The images on the device (training, then test), the network, the clients, and who listens to rounds."""

    network: "Network"
    images: "Images"
    clients: "Clients"
    training: int
    effort: Effort
    device: str
    beside: ProcessPoolExecutor
    folder: Path
    threads: int

    def federation(self, members: Places, crowd: Crowd, seed: list[int]) -> "Federation":
        from experiments.membership.federations import Federation

        return Federation(self.network, members, crowd, seed, self.device)

    def ask(self, row: Any, members: Places, others: Places) -> "Answers":
        from experiments.membership.attack import ask

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
        self.drawn = [
            np.random.default_rng([seed, 32, size, k]).permutation(pool) for k in range(effort.shadows)
        ]
        self.victims = [
            lab.federation(self.members, crowd, [seed, 31, size, crowd.clients])
            for crowd in effort.crowds(size)
        ]
        for victim in self.victims:
            victim.keep_all()
        self.shadows = [
            lab.federation(drawn[: self.half], effort.usual, [seed, 33, size, k])
            for k, drawn in enumerate(self.drawn)
        ]

    def attack(self) -> "Attack":
        """Half of what a shadow drew is its training set, and the other half it has never seen."""
        from experiments.membership.attack import Attack

        most = min(self.half, self.lab.effort.asked)
        answers = [
            self.lab.ask(shadow.sent[masked.VICTIM], drawn[:most], drawn[self.half : self.half + most])
            for shadow, drawn in zip(self.shadows, self.drawn, strict=True)
        ]
        return Attack(answers, self.seed)


class Attacked:
    """One federation under attack, whose masked rounds are still running in the process beside."""

    def __init__(self, target: Target, victim: "Federation", attack: "Attack") -> None:
        self._target, self._victim, self._attack = target, victim, attack
        lab = target.lab
        file = lab.folder / f"{target.size}-{target.seed}-{victim.crowd.clients}.npy"
        np.save(file, np.stack([row.cpu().numpy() for _, row in sorted(victim.sent.items())]))
        self._rounds: Future[dict[str, Any]] = lab.beside.submit(
            masked.overheard_in, file, target.seed, lab.threads
        )
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
        from experiments.vgg import accuracy, torch

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


def one_size(lab: Lab, size: int, seeds: Sequence[int]) -> list[Attacked]:
    """The federations of all seeds, which are trained together, and the attacks on them."""
    from experiments.membership.federations import train

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


def make_lab(data: cifar.Cifar, effort: Effort, wanted: argparse.Namespace, folder: Path) -> Lab:
    from experiments import vgg
    from experiments.clients import Clients

    device, dtype = vgg.device_and_type()
    network = vgg.Network(sgd.TINY if effort.quick else sgd.VGG11)
    x, y = np.concatenate([data.train_x, data.test_x]), np.concatenate([data.train_y, data.test_y])
    images = vgg.prepared(x, y, data, device, dtype)
    return Lab(
        network=network,
        images=images,
        clients=Clients(network, images, together=wanted.together),
        training=data.train_y.size,
        effort=effort,
        device=device,
        beside=ProcessPoolExecutor(1, mp_context=get_context("spawn")),
        folder=folder,
        threads=max(1, (os.cpu_count() or 1) - 3),
    )


def names(clients: int) -> dict[str, str]:
    schemes = {scheme.key: scheme.name for scheme in masked.all_schemes(clients)}
    return {
        "plain": "federated averaging",
        "own": "the same, the client's own images",
        **schemes,
        "published": "the published mean",
    }


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__, HERE, "240 images, a tiny network: a minute")
    parser.add_argument("--stage", choices=("all", "attack", "picture"), default="all")
    parser.add_argument("--sizes", type=int, nargs="*", help="of the training sets; those of before are kept")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no further size after this time")
    parser.add_argument("--together", type=int, default=sgd.TOGETHER, help="clients that train at a time")
    return parser.parse_args(given)


def attacks(wanted: argparse.Namespace, effort: Effort, started: float) -> None:
    """All sizes that are due; each is written down as soon as it is known."""
    file = wanted.output / "results.json"
    key = record.Key(seed=wanted.seed, quick=effort.quick, settings=setup.settings(effort))
    stored = None if wanted.again else record.earlier(file, key)
    rows: list[dict[str, Any]] = list((stored or {}).get("rows", []))
    due = [size for size in wanted.sizes or effort.sizes if all(row["n_train"] != size for row in rows)]
    if not due:
        print(f"finished before: {file}")
        return
    seeds = range(wanted.seed, wanted.seed + effort.seeds)
    with tempfile.TemporaryDirectory() as folder:
        data = cifar.part(wanted.data, effort.training, effort.test)
        lab = make_lab(data, effort, wanted, Path(folder))
        waiting: list[Attacked] = []

        def settle() -> None:
            """While masked rounds run beside, the next size trains; then they are waited for."""
            new = [one.row() for one in waiting]
            waiting.clear()
            for row in new:
                _report(row)
            rows.extend(new)
            complete = set(effort.sizes) <= {row["n_train"] for row in rows}
            result = _about(lab) | {"rows": sorted(rows, key=_place)}
            record.save(file, result, key, started=started, complete=complete, spent=record.seconds(stored))

        for size in due:
            if time.time() - started > 60 * wanted.minutes:
                print(f"the time is up before n_train = {size}")
                break
            trained = one_size(lab, size, seeds)
            print(f"n_train = {size}: trained after {time.time() - started:.0f} s", flush=True)
            if waiting:
                settle()
            waiting.extend(trained)
        if waiting:
            settle()
        lab.beside.shutdown()


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["clients"], row["n_train"], row["seed"]


def _about(lab: Lab) -> dict[str, Any]:
    from experiments.vgg import name_of

    crowds = (lab.effort.usual.clients, lab.effort.many.clients)
    return {
        "device": name_of(lab.device),
        "products": str(lab.images.x.dtype).removeprefix("torch."),
        "parameters": lab.network.size,
        "names": {clients: names(clients) for clients in crowds},
        "paper": PAPER,
    }


def _report(row: dict[str, Any]) -> None:
    print(
        f"n_train = {row['n_train']}, {row['clients']} clients, seed {row['seed']}: train "
        f"{row['train_accuracy']:.3f}, test {row['test_accuracy']:.3f}, rounds {row['rounds']}, "
        f"shadows {row['shadow_rounds']}"
    )
    for key, found in row["attacks"].items():
        shown = ", ".join(f"{name} {100 * value:.2f} %" for name, value in found.items() if name != "roc")
        print(f"  {key:10}{shown}", flush=True)


def main(given: Sequence[str] | None = None) -> None:
    wanted = _parse(given)
    started = time.time()
    effort = QUICK if wanted.quick else FULL
    if not set(wanted.sizes or ()) <= set(effort.sizes):
        raise ConfigError(f"--sizes {wanted.sizes}: those of this run are {list(effort.sizes)}")
    wanted.output.mkdir(parents=True, exist_ok=True)
    if wanted.stage in ("all", "attack"):
        attacks(wanted, effort, started)
    if wanted.stage in ("all", "picture"):
        result = json.loads((wanted.output / "results.json").read_text(encoding="utf-8"))
        draw(result).savefig(wanted.output / "membership.png", dpi=150)


if __name__ == "__main__":
    arguments.run(main)
