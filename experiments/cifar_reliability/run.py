"""The paper's reliability figure on CIFAR-10: accuracy by round for 1000 clients, a tenth of which drop out.

Three stages. ``rounds`` (processor): who survives each round, scheme by scheme; writes rounds.json. ``train``
(GPU): VGG-11 through those rounds; writes results.json, and stops in time if --minutes are given. The next
call goes on where the last one stopped: curves that are whole in results.json are not trained again, and the
models of the others wait in the folder state. ``picture``: draws results.json.
"""

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import arguments, cifar, record
from experiments.cifar_reliability import outcomes, setup
from experiments.cifar_reliability.picture import draw
from experiments.cifar_reliability.setup import FULL, QUICK, SPLITS, Effort

HERE = Path(__file__).parent
NOTE = (
    "masks cancel, so models are averaged without them; survivors and lost rounds are those of rounds.json: "
    "the first real_rounds of a scheme by the whole protocol, the others by its rules"
)

#: For each split, each scheme's curve.
Accuracy = dict[str, dict[str, list[float | None]]]


def settings(quick: bool) -> dict[str, Any]:
    return setup.settings(QUICK if quick else FULL)


def key_of(effort: Effort, seed: int) -> record.Key:
    return record.Key(seed=seed, quick=effort.quick, settings=setup.settings(effort))


def train(effort: Effort, wanted: argparse.Namespace, rounds_file: Path, started: float) -> None:
    from experiments.cifar_reliability import train as stage  # needs torch, which the other stages do not

    file, key = wanted.output / "results.json", key_of(effort, wanted.seed)
    rounds, count = outcomes.read(rounds_file), wanted.rounds or effort.rounds
    histories = stage.all_histories(rounds, count)
    equipment = stage.equip(
        cifar.part(wanted.data, effort.training, effort.test),
        rounds.clients,
        effort.channels,
        wanted.seed,
        wanted.slots,
    )
    about, state = stage.about(equipment), stage.state_folder(wanted.state, key, equipment)
    if wanted.again:
        shutil.rmtree(state, ignore_errors=True)
    before = None if wanted.again else record.earlier(file, key)
    accuracy = known_curves(before, about)
    for kind in SPLITS if wanted.split == "both" else (wanted.split,):
        store, deadline = stage.Store(state, kind), started + 60 * wanted.minutes
        accuracy[kind] = stage.curves(equipment, kind, histories, store, accuracy.get(kind, {}), deadline)
    complete = is_complete(accuracy, effort.rounds)
    result = {
        "note": NOTE,
        "clients": rounds.clients,
        "q_total": setup.DROPOUT,
        **about,
        **stage.told(rounds, count),
        "accuracy": accuracy,
    }
    record.save(file, result, key, started=started, complete=complete, spent=record.seconds(before))
    if complete:
        shutil.rmtree(wanted.state, ignore_errors=True)  # large, and of no more use
    _say(accuracy, rounds.names)


def known_curves(before: dict[str, Any] | None, about: dict[str, Any]) -> Accuracy:
    """Curves of an earlier call; those of a machine with other products differ too much to go on from."""
    if before is None or before.get("products") != about["products"]:
        return {}
    return dict(before.get("accuracy", {}))


def is_complete(accuracy: Accuracy, rounds: int) -> bool:
    """Whether both splits have every scheme's accuracy after every round."""
    curves = [curve for kind in SPLITS for curve in accuracy.get(kind, {"": []}).values()]
    return all(len(curve) == rounds and None not in curve for curve in curves)


def _say(accuracy: Accuracy, names: dict[str, str]) -> None:
    for kind, curves in accuracy.items():
        for key, curve in curves.items():
            known = [value for value in curve if value is not None]
            print(f"{kind:7} {names[key]:45} {len(known)} rounds, {known[-1] if known else 0:.4f}")


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__, HERE, "60 clients, 6 rounds, a tiny network: minutes")
    parser.add_argument("--stage", choices=("all", "rounds", "train", "picture"), default="all")
    parser.add_argument("--rounds-file", type=Path, help="rounds.json of the first stage")
    parser.add_argument("--state", type=Path, help="where a stopped training waits; in the output folder")
    parser.add_argument("--split", choices=("both", *SPLITS), default="both")
    parser.add_argument("--rounds", type=int, default=0, help="train fewer rounds than were made")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop training after this time")
    parser.add_argument("--slots", type=int, default=8, help="clients that train at a time, on a GPU")
    wanted = parser.parse_args(given)
    wanted.state = wanted.state or wanted.output / "state"
    return wanted


def _rounds_file(effort: Effort, wanted: argparse.Namespace) -> Path:
    """The one in the output folder; if it is not finished, the one kept here may be: it took half an hour."""
    mine, kept = wanted.output / "rounds.json", HERE / "rounds.json"
    if wanted.again or outcomes.is_complete(mine, effort, wanted.seed):
        return mine
    return kept if outcomes.is_complete(kept, effort, wanted.seed) else mine


def main(given: Sequence[str] | None = None) -> None:
    wanted = _parse(given)
    started = time.time()
    effort = QUICK if wanted.quick else FULL
    wanted.output.mkdir(parents=True, exist_ok=True)
    rounds_file = wanted.rounds_file or _rounds_file(effort, wanted)
    if wanted.stage in ("all", "rounds"):
        outcomes.run(rounds_file, effort, wanted.seed, again=wanted.again)
    if wanted.stage in ("all", "train"):
        train(effort, wanted, rounds_file, started)
    if wanted.stage in ("all", "picture"):
        result = json.loads((wanted.output / "results.json").read_text(encoding="utf-8"))
        draw(result).savefig(wanted.output / "cifar_reliability.png", dpi=150)


if __name__ == "__main__":
    arguments.run(main)
