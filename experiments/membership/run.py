"""The paper's tables on membership inference: can an eavesdropper tell which images a model has seen?

Ten clients train VGG-11 by federated averaging on n_train images of CIFAR-10. The eavesdropper reads what the
first client sends in the last round: its model (plain federated averaging), or the model under its masks (SA,
CCESA, ours), from a real round of the protocol over all parameters. It attacks with shadow models that are
trained alike on images of their own. As in the paper the attack is asked about 5000 images of the training
set and 5000 of the test set. Beside it: the attack asked about the first client's own images only, and the
attack on the mean that the server publishes in any case, which no secure aggregation hides. Writes
results.json and membership.png.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments import cifar
from experiments.membership import masked
from experiments.record import save

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
    from experiments.membership.attack import Answers
    from experiments.vgg import Clients, Images, Network

HERE = Path(__file__).parent
CLIENTS, EPOCHS = 10, 3
#: Steps that are replayed at a time; divides the number of steps of every client.
_STEPS = 5
#: Training ends when the model knows its images this well, or after the given number of rounds.
LEARNT = 0.99
_CHECK_EVERY = 5
#: The paper's accuracy and precision, in percent, by n_train.
PAPER = {
    "plain": {5000: (72.49, 70.41), 10000: (70.72, 65.82), 15000: (72.80, 65.89), 50000: (66.47, 60.62)},
    "sa": {5000: (49.67, 49.78), 10000: (49.96, 49.97), 15000: (49.85, 49.91), 50000: (49.33, 49.10)},
    "ccesa": {5000: (49.29, 49.48), 10000: (50.14, 50.07), 15000: (49.02, 49.16), 50000: (50.00, 50.00)},
}

Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Effort:
    sizes: tuple[int, ...]
    shadows: int
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
    shadows=4,
    asked=5000,
    rounds={5000: 60, 10000: 50, 15000: 40, 50000: 25},
    batch=50,
    training=0,
    test=0,
    quick=False,
)
QUICK = Effort(
    sizes=(250,), shadows=2, asked=250, rounds={250: 20}, batch=5, training=1000, test=500, quick=True
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
    shadows = [lab.shadow(pool, size, [lab.seed, 32, size, number]) for number in range(effort.shadows)]
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
        "shadow_images": min(size, pool.size // 2),
        "rounds": lab.rounds_run[-1 - effort.shadows :],
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
    network = vgg.Network(vgg.TINY if effort.quick else vgg.VGG11)
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


def picture(file: Path) -> None:
    from matplotlib.figure import Figure  # the machine that trains may not have it

    result = json.loads(file.read_text(encoding="utf-8"))
    rows, shown = result["sizes"], result["names"]
    figure = Figure(figsize=(13, 4.6), layout="constrained")
    width = 0.8 / len(shown)
    for panel, metric in zip(figure.subplots(1, 3), ("accuracy", "precision", "recall"), strict=True):
        for number, (key, name) in enumerate(shown.items()):
            places = [place + (number - len(shown) / 2 + 0.5) * width for place in range(len(rows))]
            heights = [100 * row["attacks"][key][metric] for row in rows]
            shade = str(0.15 + 0.75 * number / len(shown))
            hatch = ("", "\\\\", "//", "..", "xx", "")[number % 6]
            panel.bar(places, heights, width, color=shade, edgecolor="black", hatch=hatch, label=name)
            if metric != "recall":
                _paper(panel, places, [row["n_train"] for row in rows], key, metric)
        panel.axhline(50, color="black", lw=0.8, ls=":")
        panel.set_xticks(range(len(rows)), [f"{row['n_train']}" for row in rows])
        panel.set(xlabel="training images n_train", ylabel=f"{metric} of the attack (%)", ylim=(0, 100))
        panel.set_title(metric, fontsize=10)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    figure.suptitle("membership inference (dotted: a guess; diamonds: the paper)", fontsize=10)
    figure.savefig(file.with_name("membership.png"), dpi=150)


def _paper(panel: Any, places: list[float], sizes: list[int], key: str, metric: str) -> None:
    known = [
        (place, PAPER[key][size][metric == "precision"])
        for place, size in zip(places, sizes, strict=True)
        if size in PAPER.get(key, {})
    ]
    for place, height in known:
        panel.plot(place, height, "D", color="white", mec="black", ms=5)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", choices=("all", "attack", "picture"), default="all")
    parser.add_argument("--quick", action="store_true", help="250 images, a tiny network: minutes")
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn at random; never of keys")
    parser.add_argument("--data", type=Path, default=Path("data"), help="CIFAR-10, in any of its forms")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of results.json and the picture")
    parser.add_argument("--sizes", type=int, nargs="*", help="of the training sets; those of before are kept")
    parser.add_argument("--shadows", type=int, default=0, help="shadow models for each size")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no further size after this time")
    parser.add_argument("--slots", type=int, default=CLIENTS, help="clients that train at a time, on a GPU")
    return parser.parse_args(arguments)


def attacks(wanted: argparse.Namespace, effort: Effort, started: float) -> None:
    from experiments.vgg import LEARNING_RATE, LONGEST_SLOPE, MOMENTUM, name_of

    data = cifar.load(wanted.data)
    if effort.quick:
        data = data.first(effort.training, effort.test)
    else:
        cifar.check_complete(data)
    lab = make_lab(data, effort, wanted.seed, wanted.slots)
    file = wanted.output / "results.json"
    stored = json.loads(file.read_text(encoding="utf-8"))["sizes"] if file.exists() else []
    rows = {row["n_train"]: row for row in stored}
    for size in wanted.sizes or effort.sizes:
        if time.time() - started > 60 * wanted.minutes:
            print(f"the time is up before n_train = {size}")
            break
        rows[size] = one_size(lab, size, threads=min(8, os.cpu_count() or 1))
        _report(rows[size])
        result = {
            "device": name_of(lab.device),
            "parameters": lab.network.size,
            "clients": CLIENTS,
            "shadows": effort.shadows,
            "epochs": EPOCHS,
            "learning_rate": LEARNING_RATE,
            "momentum": MOMENTUM,
            "gradients_cut_at": LONGEST_SLOPE,
            "learnt": LEARNT,
            "names": names(),
            "paper": PAPER,
            "sizes": [rows[known] for known in sorted(rows)],
        }
        save(file, result, seed=wanted.seed, quick=effort.quick, started=started)


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


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = _parse(arguments)
    started = time.time()
    effort = QUICK if wanted.quick else FULL
    if wanted.shadows:
        effort = replace(effort, shadows=wanted.shadows)
    wanted.output.mkdir(parents=True, exist_ok=True)
    if wanted.stage in ("all", "attack"):
        attacks(wanted, effort, started)
    if wanted.stage in ("all", "picture"):
        picture(wanted.output / "results.json")


if __name__ == "__main__":
    main()
