"""The paper's reliability figure on CIFAR-10: accuracy by round for 1000 clients, a tenth of which drop out.

Three stages, for several seeds. ``rounds`` (processor): who survives each round, scheme by scheme; writes
rounds-SEED.json. ``train`` (GPU): VGG-11 through those rounds; writes results.json, and stops in time if
--minutes are given. The next call goes on where the last one stopped: curves that are whole in results.json
are not trained again, and the models of the others wait in the folder state. ``picture``: draws
results.json.
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
from experiments.cifar_reliability.setup import FULL, QUICK, Effort
from experiments.seeds import consecutive
from experiments.sgd import TOGETHER
from experiments.splits import SPLITS

HERE = Path(__file__).parent
NOTE = (
    "masks cancel, so models are averaged without them; survivors and lost rounds are those of "
    "rounds-SEED.json: the first real_rounds of a scheme by the whole protocol, the others by its rules"
)

#: For each split, each scheme's curve.
Accuracy = dict[str, dict[str, list[float | None]]]
#: What is known of a seed: its rounds, and its curves.
Found = dict[str, Any]


def settings(quick: bool) -> dict[str, Any]:
    return setup.settings(QUICK if quick else FULL)


def key_of(effort: Effort, seed: int) -> record.Key:
    return record.Key(seed=seed, quick=effort.quick, settings=setup.settings(effort))


def train(effort: Effort, wanted: argparse.Namespace, files: dict[int, Path], started: float) -> None:
    from experiments.cifar_reliability import train as stage  # needs torch, which the other stages do not

    file, key = wanted.output / "results.json", key_of(effort, wanted.seed)
    data = cifar.part(wanted.data, effort.training, effort.test)
    equipment = stage.equip(data, effort.clients, effort.channels, wanted.together)
    about = stage.about(equipment)
    before = None if wanted.again else record.earlier(file, key)
    found = known_seeds(before, about)
    for seed, rounds_file in files.items():
        rounds, count = outcomes.read(rounds_file), wanted.rounds or effort.rounds
        state = stage.state_folder(wanted.state, key, seed, equipment)
        if wanted.again:
            shutil.rmtree(state, ignore_errors=True)
        mine = found.setdefault(str(seed), {"accuracy": {}}) | stage.told(rounds, count)
        for kind in SPLITS if wanted.split == "both" else (wanted.split,):
            trainer = equipment.trainer(kind, seed, started + 60 * wanted.minutes)
            known = mine["accuracy"].get(kind, {})
            curves = stage.curves(trainer, kind, stage.all_histories(rounds, count), stage.Store(state, kind), known)
            mine["accuracy"][kind] = curves
            found[str(seed)] = mine
            complete = all(is_complete(found.get(str(one), {}), effort.rounds) for one in files)
            result = {"note": NOTE, "clients": rounds.clients, "q_total": setup.DROPOUT, **about}
            result |= {"schemes": rounds.names, "seeds": found}
            record.save(file, result, key, started=started, complete=complete, spent=record.seconds(before))
    if complete:
        shutil.rmtree(wanted.state, ignore_errors=True)  # large, and of no more use
    _say(found, rounds.names)


def known_seeds(before: dict[str, Any] | None, about: dict[str, Any]) -> dict[str, Found]:
    """Curves of an earlier call; those of a machine with other products differ too much to go on from."""
    if before is None or before.get("products") != about["products"]:
        return {}
    return dict(before.get("seeds", {}))


def is_complete(found: Found, rounds: int) -> bool:
    """Whether both splits have every scheme's accuracy after every round."""
    accuracy: Accuracy = found.get("accuracy", {})
    curves = [curve for kind in SPLITS for curve in accuracy.get(kind, {"": []}).values()]
    return all(len(curve) == rounds and None not in curve for curve in curves)


def _say(found: dict[str, Found], names: dict[str, str]) -> None:
    for seed, mine in found.items():
        for kind, curves in mine["accuracy"].items():
            for key, curve in curves.items():
                known = [value for value in curve if value is not None]
                last = known[-1] if known else 0.0
                print(f"seed {seed}, {kind:7} {names[key]:45} {len(known)} rounds, {last:.4f}")


def _parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__, HERE, "60 clients, 6 rounds, a tiny network: minutes")
    parser.add_argument("--stage", choices=("all", "rounds", "train", "picture"), default="all")
    parser.add_argument("--state", type=Path, help="where a stopped training waits; in the output folder")
    parser.add_argument("--only-seed", type=int, help="of the rounds, those of this seed alone")
    parser.add_argument("--split", choices=("both", *SPLITS), default="both")
    parser.add_argument("--rounds", type=int, default=0, help="train fewer rounds than were made")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop training after this time")
    parser.add_argument("--together", type=int, default=TOGETHER, help="clients that train at a time")
    wanted = parser.parse_args(given)
    wanted.state = wanted.state or wanted.output / "state"
    return wanted


def rounds_file(folder: Path, effort: Effort, seed: int, *, again: bool = False) -> Path:
    """The one in the output folder; if it is not finished, the one kept here may be: it took long."""
    mine, kept = (one / f"rounds-{seed}.json" for one in (folder, HERE))
    if again or outcomes.is_complete(mine, effort, seed):
        return mine
    return kept if outcomes.is_complete(kept, effort, seed) else mine


def main(given: Sequence[str] | None = None) -> None:
    wanted = _parse(given)
    started = time.time()
    effort = QUICK if wanted.quick else FULL
    wanted.output.mkdir(parents=True, exist_ok=True)
    files = {
        seed: rounds_file(wanted.output, effort, seed, again=wanted.again)
        for seed in consecutive(wanted.seed, effort.seeds)
    }
    if wanted.stage in ("all", "rounds"):
        for seed, file in files.items():
            if wanted.only_seed in (None, seed):
                outcomes.run(file, effort, seed, again=wanted.again)
    if wanted.stage in ("all", "train"):
        train(effort, wanted, files, started)
    if wanted.stage in ("all", "picture"):
        result = json.loads((wanted.output / "results.json").read_text(encoding="utf-8"))
        draw(result).savefig(wanted.output / "cifar_reliability.png", dpi=150)


if __name__ == "__main__":
    arguments.run(main)
