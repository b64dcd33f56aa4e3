"""The paper's reliability figure on CIFAR-10: accuracy by round for 1000 clients, a tenth of which vanish.

Three stages. ``rounds`` (processor): who survives each round, scheme by scheme; writes rounds.json. ``train``
(GPU): VGG-11 through those rounds; writes results.json, and stops in time if --minutes are given. A second
call with the same --state goes on where the first one stopped. ``picture``: draws results.json.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import cifar
from experiments.cifar_reliability import outcomes
from experiments.record import save

HERE = Path(__file__).parent
STATE = HERE.parent / "_data" / "cifar_reliability"
SPLITS = ("iid", "shards")
TITLES = {"iid": "i.i.d. images", "shards": "two shards a client (non-i.i.d.)"}


@dataclass(frozen=True, kw_only=True)
class Effort:
    clients: int
    rounds: int
    #: Real rounds of SA, of each CCESA, and of ours.
    reals: tuple[int, int, int]
    #: Of CIFAR-10; all of it where they are 0.
    training: int
    test: int
    quick: bool


FULL = Effort(clients=1000, rounds=200, reals=(1, 2, 10), training=0, test=0, quick=False)
QUICK = Effort(clients=60, rounds=6, reals=(1, 2, 2), training=1200, test=500, quick=True)


def make_rounds(effort: Effort, path: Path, seed: int) -> None:
    outcomes.run(
        path,
        clients=effort.clients,
        count=effort.rounds,
        reals=effort.reals,
        seed=seed,
        quick=effort.quick,
    )


def train(effort: Effort, wanted: argparse.Namespace, path: Path, started: float) -> None:
    from experiments import vgg  # needs torch, which the other stages do not
    from experiments.cifar_reliability import train as stage

    data = cifar.load(wanted.data)
    if effort.quick:
        data = data.first(effort.training, effort.test)
    else:
        cifar.check_complete(data)
    result = stage.run(
        data,
        outcomes.read(path),
        kinds=SPLITS if wanted.split == "both" else (wanted.split,),
        count=wanted.rounds or effort.rounds,
        channels=vgg.TINY if effort.quick else vgg.VGG11,
        state=wanted.state / "quick" if effort.quick else wanted.state,
        seed=wanted.seed,
        slots=wanted.slots,
        deadline=started + 60 * wanted.minutes,
    )
    about = {
        "clients": effort.clients,
        "q_total": outcomes.DROPOUT,
        "epochs": stage.EPOCHS,
        "learning_rate": vgg.LEARNING_RATE,
        "momentum": vgg.MOMENTUM,
        "gradients_cut_at": vgg.LONGEST_SLOPE,
        "note": "masks cancel, so models are averaged without them; survivors and lost rounds are those of "
        "rounds.json: the first real_rounds of a scheme by the whole protocol, the others by its rules",
    }
    file = wanted.output / "results.json"
    accuracy = _earlier(file) | result.pop("accuracy")
    merged = {**about, **result, "accuracy": accuracy}
    save(file, merged, seed=wanted.seed, quick=effort.quick, started=started)
    for kind, curves in accuracy.items():
        for key, curve in curves.items():
            known = [value for value in curve if value is not None]
            print(
                f"{kind:7} {result['schemes'][key]:45} {len(known)} rounds, {known[-1] if known else 0:.4f}"
            )


def _earlier(file: Path) -> dict[str, Any]:
    """Curves of the other split, if an earlier call has trained it."""
    return json.loads(file.read_text(encoding="utf-8"))["accuracy"] if file.exists() else {}


def picture(file: Path) -> None:
    from matplotlib.figure import Figure  # the machine that trains may not have it

    from experiments.chart import finish, style

    result = json.loads(file.read_text(encoding="utf-8"))
    figure = Figure(figsize=(6 * len(result["accuracy"]), 4), layout="constrained")
    panels = figure.subplots(1, len(result["accuracy"]), squeeze=False)[0]
    for panel, (kind, curves) in zip(panels, result["accuracy"].items(), strict=True):
        for number, (key, curve) in enumerate(curves.items()):
            known = [100 * value for value in curve if value is not None]
            lost = sum(place <= len(known) for place in result["lost"][key])
            panel.plot(
                range(1, len(known) + 1),
                known,
                **style(number),
                markevery=(7 * number, 35),  # curves that coincide show their markers one after the other
                ms=4,
                label=f"{result['schemes'][key]}: {lost} of {len(known)} rounds lost",
            )
        panel.set(xlabel="round", ylabel="test accuracy (%)")
        finish(panel, f"{TITLES[kind]}, n = {result['clients']}, q_total = {result['q_total']}")
    figure.savefig(file.with_name("cifar_reliability.png"), dpi=150)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", choices=("all", "rounds", "train", "picture"), default="all")
    parser.add_argument("--quick", action="store_true", help="60 clients, 6 rounds, a tiny network: minutes")
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn at random")
    parser.add_argument("--data", type=Path, default=Path("data"), help="CIFAR-10, in any of its forms")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of results.json and the picture")
    parser.add_argument("--rounds-file", type=Path, help="rounds.json of the first stage")
    parser.add_argument("--state", type=Path, default=STATE, help="where a stopped training waits")
    parser.add_argument("--split", choices=("both", *SPLITS), default="both")
    parser.add_argument("--rounds", type=int, default=0, help="train fewer rounds than were made")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop training after this time")
    parser.add_argument("--slots", type=int, default=8, help="clients that train at a time, on a GPU")
    return parser.parse_args(arguments)


def _rounds_file(wanted: argparse.Namespace) -> Path:
    """The one that is kept here if it has this seed, for rounds take half an hour; else a new one."""
    kept = HERE / "rounds.json"
    fits = kept.exists() and json.loads(kept.read_text(encoding="utf-8"))["about"]["seed"] == wanted.seed
    return kept if fits and not wanted.quick else wanted.output / "rounds.json"


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = _parse(arguments)
    started = time.time()
    effort = QUICK if wanted.quick else FULL
    wanted.output.mkdir(parents=True, exist_ok=True)
    path = wanted.rounds_file or _rounds_file(wanted)
    if wanted.stage == "rounds" or (wanted.stage == "all" and not path.exists()):
        make_rounds(effort, path, wanted.seed)
    if wanted.stage in ("all", "train"):
        train(effort, wanted, path, started)
    if wanted.stage in ("all", "picture"):
        picture(wanted.output / "results.json")


if __name__ == "__main__":
    main()
