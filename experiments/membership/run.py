"""The paper's tables on membership inference: can an eavesdropper tell which images a model has seen?

Ten clients train VGG-11 by federated averaging on n_train images of CIFAR-10. The eavesdropper reads what the
first client sends in the last round: its model (plain federated averaging), or the model under its masks (SA,
CCESA, ours), from a real round of the protocol over all parameters. It attacks with shadow models that are
trained alike on images of their own. As in the paper the attack is asked about 5000 images of the training
set and 5000 of the test set. Beside it: the attack asked about the first client's own images only, and the
attack on the mean that the server publishes in any case, which no secure aggregation hides. Writes
results.json, after each size of the training set, and membership.png. The next call goes on with the sizes
that are missing.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError
from experiments import arguments, cifar, record, sgd
from experiments.membership import masked
from experiments.membership.picture import PAPER, draw
from experiments.sgd import EPOCHS

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
    from experiments.membership.attack import Answers
    from experiments.vgg import Clients, Images, Network

HERE = Path(__file__).parent
CLIENTS = 10
#: Steps that are replayed at a time; divides the number of steps of every client.
_STEPS = 5
#: Training ends when the model knows its images this well, or after the given number of rounds.
LEARNT = 0.99
_CHECK_EVERY = 5

Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Effort:
    sizes: tuple[int, ...]
    #: Shadow models for each size.
    shadows: dict[int, int]
    #: Members and others that the attack is asked about.
    asked: int
    #: Most rounds for training sets of up to so many images.
    rounds: dict[int, int]
    batch: int
    #: Of CIFAR-10; all of it where they are 0.
    training: int
    test: int
    quick: bool

    def most_rounds(self, images: int) -> int:
        return next(most for size, most in self.rounds.items() if images <= size)


FULL = Effort(
    sizes=(5000, 10000, 15000, 50000),
    # Of 50000 images none is left over, and every shadow divides the same 5000 of the test set once more.
    shadows={5000: 4, 10000: 4, 15000: 4, 50000: 2},
    asked=5000,
    rounds={5000: 60, 10000: 50, 15000: 40, 50000: 25},
    batch=50,
    training=0,
    test=0,
    quick=False,
)
QUICK = Effort(
    sizes=(250,), shadows={250: 2}, asked=250, rounds={250: 20}, batch=5, training=1000, test=500, quick=True
)


@dataclass(kw_only=True, eq=False)
class Lab:
    """The images on the device (training, then test), the network, and the clients that train it."""

    network: "Network"
    images: "Images"
    clients: "Clients"
    training: int
    effort: Effort
    seed: int
    device: str
    rounds_run: list[int] = field(default_factory=list)

    def federated(self, members: Places, seed: list[int]) -> tuple[Any, Any, Places]:
        """Federated averaging over these images: the last mean, what each client sent for it, its images."""
        from experiments.vgg import accuracy, torch

        rng = np.random.default_rng(seed)
        own = rng.permutation(members).reshape(CLIENTS, -1)
        row = self.network.new(int(rng.integers(2**31)), self.device)
        keep = torch.zeros((CLIENTS, self.network.size), device=self.device)
        seen = rng.choice(members, min(members.size, 5000), replace=False)
        for number in range(1, self.effort.most_rounds(members.size) + 1):
            plans = torch.from_numpy(np.stack([self._steps(places, rng) for places in own])).to(self.device)
            row = self.clients.average(row, list(plans), keep)
            if number % _CHECK_EVERY == 0 and accuracy(self.network, row, self.images, seen) >= LEARNT:
                break
        self.rounds_run.append(number)
        return row, keep, own

    def _steps(self, places: Places, rng: np.random.Generator) -> Places:
        """Three epochs in an order of their own, in batches."""
        order = np.concatenate([rng.permutation(places) for _ in range(EPOCHS)])
        return order.reshape(-1, self.effort.batch)

    def shadow(self, pool: Places, size: int, seed: list[int]) -> "Answers":
        """Half of what it draws from the pool is its training set, and the other half it never sees."""
        from experiments.membership.attack import ask

        half = min(size, pool.size // 2)
        drawn = np.random.default_rng([*seed, 0]).permutation(pool)
        members, others = drawn[:half], drawn[half : 2 * half]
        _, keep, _ = self.federated(members, [*seed, 1])
        asked = min(half, self.effort.asked)
        return ask(self.network, keep[0], self.images, members[:asked], others[:asked])


def one_size(lab: Lab, size: int, threads: int) -> dict[str, Any]:
    """All attacks on one federation of ``size`` training images."""
    from experiments.membership.attack import Attack, ask
    from experiments.vgg import accuracy, torch

    started, effort = time.time(), lab.effort
    rng = np.random.default_rng([lab.seed, 30, size])
    train, test = rng.permutation(lab.training), lab.training + rng.permutation(_tests(lab))
    members, others = train[:size], test[: effort.asked]
    # Shadows share no image with the target: what it left of the training set, and half of the test set.
    pool = np.concatenate([train[size:], test[effort.asked :]])
    mean, sent, own = lab.federated(members, [lab.seed, 31, size])
    count = effort.shadows[size]
    shadows = [lab.shadow(pool, size, [lab.seed, 32, size, number]) for number in range(count)]
    attack = Attack(shadows, lab.seed)
    asked = rng.choice(members, effort.asked, replace=False)

    def judged(row: Any, some: Places = asked) -> dict[str, float]:
        return attack.judge(ask(lab.network, row, lab.images, some, others[: some.size]))

    victim = sent[masked.VICTIM]
    found = {
        "plain": judged(victim),
        "own": judged(victim, own[masked.VICTIM][: effort.asked]),
        "published": judged(mean),
    }
    federation = masked.encoded(list(sent.cpu().numpy()), lab.seed)
    exact = {}
    for scheme in masked.all_schemes(CLIENTS):
        row, exact[scheme.key] = masked.overheard(scheme, federation, threads)
        found[scheme.key] = judged(torch.from_numpy(row).to(lab.device))
    return {
        "n_train": size,
        "shadows": count,
        "shadow_images": min(size, pool.size // 2),
        "rounds": lab.rounds_run[-1 - count :],
        "train_accuracy": accuracy(lab.network, mean, lab.images, asked),
        "test_accuracy": accuracy(lab.network, mean, lab.images, others),
        "exact_sums": exact,
        "attacks": found,
        "seconds": round(time.time() - started, 1),
    }


def _tests(lab: Lab) -> int:
    return int(lab.images.y.shape[0]) - lab.training


def make_lab(data: cifar.Cifar, effort: Effort, seed: int, slots: int) -> Lab:
    from experiments import vgg

    device, dtype = vgg.device_and_type()
    network = vgg.Network(sgd.TINY if effort.quick else sgd.VGG11)
    x, y = np.concatenate([data.train_x, data.test_x]), np.concatenate([data.train_y, data.test_y])
    images = vgg.prepared(x, y, data, device, dtype)
    clients = vgg.Clients(network, images, steps=_STEPS, batch=effort.batch, slots=slots)
    return Lab(
        network=network,
        images=images,
        clients=clients,
        training=data.train_y.size,
        effort=effort,
        seed=seed,
        device=device,
    )


def names() -> dict[str, str]:
    schemes = {scheme.key: scheme.name for scheme in masked.all_schemes(CLIENTS)}
    return {
        "plain": "federated averaging",
        "own": "the same, the client's own images",
        **schemes,
        "published": "the published mean",
    }


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__, HERE, "250 images, a tiny network: minutes")
    parser.add_argument("--stage", choices=("all", "attack", "picture"), default="all")
    parser.add_argument("--sizes", type=int, nargs="*", help="of the training sets; those of before are kept")
    parser.add_argument("--shadows", type=int, default=0, help="shadow models for each size")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no further size after this time")
    parser.add_argument("--slots", type=int, default=CLIENTS, help="clients that train at a time, on a GPU")
    return parser.parse_args(given)


def settings(quick: bool) -> dict[str, Any]:
    return _settings(QUICK if quick else FULL)


def _settings(effort: Effort) -> dict[str, Any]:
    """All that a row hangs on beside the seed and its size."""
    return asdict(effort) | {
        "clients": CLIENTS,
        "epochs": EPOCHS,
        "learning_rate": sgd.LEARNING_RATE,
        "momentum": sgd.MOMENTUM,
        "gradients_cut_at": sgd.LONGEST_SLOPE,
        "learnt": LEARNT,
        "connection": masked.CONNECTION,
    }


def attacks(wanted: argparse.Namespace, effort: Effort, started: float) -> None:
    """All sizes that are missing, one after the other, until the time is up."""
    file = wanted.output / "results.json"
    key = record.Key(seed=wanted.seed, quick=effort.quick, settings=_settings(effort))
    stored = None if wanted.again else record.earlier(file, key)
    rows = {row["n_train"]: row for row in (stored or {}).get("sizes", [])}
    due = [size for size in wanted.sizes or effort.sizes if size not in rows]
    if not due:
        print(f"finished before: {file}")
        return
    lab = make_lab(cifar.part(wanted.data, effort.training, effort.test), effort, wanted.seed, wanted.slots)
    for size in due:
        if time.time() - started > 60 * wanted.minutes:
            print(f"the time is up before n_train = {size}")
            break
        rows[size] = one_size(lab, size, threads=min(8, os.cpu_count() or 1))
        _report(rows[size])
        complete = set(effort.sizes) <= rows.keys()
        result = _about(lab) | {"sizes": [rows[known] for known in sorted(rows)]}
        record.save(file, result, key, started=started, complete=complete, spent=record.seconds(stored))


def _about(lab: Lab) -> dict[str, Any]:
    from experiments.vgg import name_of

    return {
        "device": name_of(lab.device),
        "products": str(lab.images.x.dtype).removeprefix("torch."),
        "parameters": lab.network.size,
        "names": names(),
        "paper": PAPER,
    }


def _report(row: dict[str, Any]) -> None:
    print(
        f"n_train = {row['n_train']}: train {row['train_accuracy']:.3f}, test {row['test_accuracy']:.3f}, "
        f"rounds {row['rounds']}, {row['seconds']} s"
    )
    for key, found in row["attacks"].items():
        print(
            f"  {key:10}" + ", ".join(f"{name} {100 * value:.2f} %" for name, value in found.items()),
            flush=True,
        )


def main(given: Sequence[str] | None = None) -> None:
    wanted = _parse(given)
    started = time.time()
    effort = QUICK if wanted.quick else FULL
    if not set(wanted.sizes or ()) <= set(effort.sizes):
        raise ConfigError(f"--sizes {wanted.sizes}: those of this run are {list(effort.sizes)}")
    if wanted.shadows:
        effort = replace(effort, shadows=dict.fromkeys(effort.sizes, wanted.shadows))
    wanted.output.mkdir(parents=True, exist_ok=True)
    if wanted.stage in ("all", "attack"):
        attacks(wanted, effort, started)
    if wanted.stage in ("all", "picture"):
        result = json.loads((wanted.output / "results.json").read_text(encoding="utf-8"))
        draw(result).savefig(wanted.output / "membership.png", dpi=150)


if __name__ == "__main__":
    arguments.run(main)
