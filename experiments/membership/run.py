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
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccesa.errors import ConfigError
from experiments import arguments, cifar, record, sgd
from experiments.membership import masked, setup
from experiments.membership.picture import PAPER, draw
from experiments.membership.setup import FULL, QUICK, Effort
from experiments.seeds import consecutive

if TYPE_CHECKING:
    from experiments.membership.lab import Attacked

HERE = Path(__file__).parent


def settings(quick: bool) -> dict[str, Any]:
    return setup.settings(QUICK if quick else FULL)


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
    from experiments.membership import lab  # needs torch, which the picture does not

    seeds = consecutive(wanted.seed, effort.seeds)
    with tempfile.TemporaryDirectory() as folder:
        data = cifar.part(wanted.data, effort.training, effort.test)
        room = lab.equip(data, effort, Path(folder), wanted.together)
        waiting: list[Attacked] = []

        def settle() -> None:
            """While masked rounds run beside, the next size trains; then they are waited for."""
            new = [one.row() for one in waiting]
            waiting.clear()
            for row in new:
                _report(row)
            rows.extend(new)
            complete = set(effort.sizes) <= {row["n_train"] for row in rows}
            result = room.about | _about(effort) | {"rows": sorted(rows, key=_place)}
            record.save(file, result, key, started=started, complete=complete, spent=record.seconds(stored))

        for size in due:
            if time.time() - started > 60 * wanted.minutes:
                print(f"the time is up before n_train = {size}")
                break
            trained = lab.attacked(room, size, seeds)
            print(f"n_train = {size}: trained after {time.time() - started:.0f} s", flush=True)
            if waiting:
                settle()
            waiting.extend(trained)
        if waiting:
            settle()
        room.beside.shutdown()


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["clients"], row["n_train"], row["seed"]


def _about(effort: Effort) -> dict[str, Any]:
    crowds = (effort.usual.clients, effort.many.clients)
    return {"names": {clients: names(clients) for clients in crowds}, "paper": PAPER}


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
