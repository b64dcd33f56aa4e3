"""CIFAR-10 with 1,000 clients and every mask of every client real: VGG-11, on a GPU.

Each round is trained twice, from the two arms' models: with all masks, and without any. The masked arm runs
the project's clients and server; only words, masks and sums of masked vectors are on the device. Sums are
held against those of the survivors' words. The next call goes on where one stopped that had its --minutes.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import arguments, cifar, record
from experiments.cifar_masked import setup
from experiments.cifar_masked.setup import FULL, QUICK, Effort
from experiments.sgd import TOGETHER

HERE = Path(__file__).parent


def settings(quick: bool) -> dict[str, Any]:
    return setup.settings(QUICK if quick else FULL)


def key_of(effort: Effort, seed: int) -> record.Key:
    return record.Key(seed=seed, quick=effort.quick, settings=setup.settings(effort))


def train(effort: Effort, wanted: argparse.Namespace, started: float) -> None:
    from experiments.cifar_masked import arms  # needs torch, which the picture does not

    file, key = wanted.output / "results.json", key_of(effort, wanted.seed)
    before = None if wanted.again else record.earlier(file, key)
    data = cifar.part(wanted.data, effort.training, effort.test)
    deadline, count = started + 60 * wanted.minutes, wanted.rounds or effort.rounds
    with arms.Both(data, effort, wanted) as both:
        result = both.resumed(before)
        while len(result["rounds"]) < count and time.time() < deadline:
            result["rounds"].append(both.round(len(result["rounds"])))
            complete = len(result["rounds"]) >= effort.rounds
            both.keep(len(result["rounds"]))
            told = result | summary(result["rounds"])
            spent = record.seconds(before)
            record.save(file, told, key, started=started, complete=complete, spent=spent)
            say(result["rounds"][-1])
    print(json.dumps(summary(result["rounds"]), indent=1), flush=True)


def summary(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over all rounds."""
    if not rounds:
        return {}
    middle = {name: float(np.median([round["seconds"][name] for round in rounds])) for name in rounds[0]["seconds"]}
    return {
        "median_seconds": middle,
        "ratio": float(np.median([r["seconds"]["masked"] / r["seconds"]["plain"] for r in rounds])),
        "all_exact": all(round["exact"] for round in rounds),
        "same_models": all(round["same_model"] for round in rounds),
        "masks": int(np.median([round["masks"] for round in rounds])),
        "keystream_bytes": int(np.median([round["keystream_bytes"] for round in rounds])),
    }


def say(round: dict[str, Any]) -> None:
    seconds = ", ".join(f"{name} {value:.2f}" for name, value in round["seconds"].items())
    print(
        f"round {round['number'] + 1}: left {round['left']}, {round['masks']} masks, exact {round['exact']}, "
        f"accuracy {round['accuracy']['masked']:.4f} and {round['accuracy']['plain']:.4f}, s: {seconds}",
        flush=True,
    )


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__, HERE, "60 clients, 4 rounds, a tiny network, no GPU: a minute")
    parser.add_argument("--stage", choices=("all", "train", "picture"), default="all")
    parser.add_argument("--state", type=Path, help="where a stopped training waits; in the output folder")
    parser.add_argument("--rounds", type=int, default=0, help="fewer rounds than planned, or more")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no round after this time")
    parser.add_argument("--together", type=int, default=TOGETHER, help="clients that train at a time")
    parser.add_argument(
        "--processes", type=int, default=max(1, (os.cpu_count() or 1) - 2), help="that hold the clients"
    )
    wanted = parser.parse_args(given)
    wanted.state = wanted.state or wanted.output / "state"
    return wanted


def main(given: Sequence[str] | None = None) -> None:
    wanted = _parse(given)
    effort = QUICK if wanted.quick else FULL
    wanted.output.mkdir(parents=True, exist_ok=True)
    if wanted.stage in ("all", "train"):
        train(effort, wanted, time.time())
    if wanted.stage in ("all", "picture"):
        from experiments.cifar_masked.picture import draw

        result = json.loads((wanted.output / "results.json").read_text(encoding="utf-8"))
        draw(result).savefig(wanted.output / "cifar_masked.png", dpi=150)


if __name__ == "__main__":
    arguments.run(main)
