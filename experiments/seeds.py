"""Parts over several seeds, one after the other: each is kept once it is finished, and none is run twice.

The parts on CIFAR-10 take their seeds from here and keep them in their own ways: a seed of cifar_reliability
may be stopped at any round and goes on there, and membership trains all seeds of one size side by side.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from experiments import arguments, record
from experiments.record import Key

#: By seed, in text as JSON has it: what it came to.
Seeds = dict[str, dict[str, Any]]


def parse(about: str, here: Path, quick: str, given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the common options and ``seeds``, None where it was not given."""
    parser = arguments.parser(about, here, quick)
    parser.add_argument("--seeds", type=int, help="finish so many of them; by default all that are needed")
    wanted = parser.parse_args(given)
    if wanted.seeds is not None and wanted.seeds < 1:
        parser.error(f"argument --seeds: at least 1, not {wanted.seeds}")
    wanted.output.mkdir(parents=True, exist_ok=True)
    print(f"results go to {wanted.output}", flush=True)
    return wanted


def consecutive(first: int, count: int) -> range:
    """Return the seeds of a part: so many, from the one that it was asked for."""
    return range(first, first + count)


def run(
    wanted: argparse.Namespace,
    key: Key,
    needed: int,
    one: Callable[[int], dict[str, Any]],
    summary: Callable[[Seeds], dict[str, Any]],
) -> dict[str, Any]:
    """Run ``one`` for every seed that is missing, save it with the summary of all, and return what is saved.

    The first seed is the key's. Results are complete when ``needed`` of them are there.
    """
    started, file = time.time(), wanted.output / "results.json"
    stored = None if wanted.again else record.earlier(file, key)
    found: Seeds = dict((stored or {}).get("seeds", {}))

    def save() -> dict[str, Any]:
        result = {**summary(found), "seeds": found}
        complete, spent = len(found) >= needed, record.seconds(stored)
        record.save(file, result, key, started=started, complete=complete, spent=spent)
        return result

    for seed in consecutive(key.seed, wanted.seeds or needed):
        if str(seed) not in found:
            begun, found[str(seed)] = time.time(), one(seed)
            save()
            print(f"seed {seed}, {len(found)} of {needed}: {time.time() - begun:.0f} s", flush=True)
    return save()


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return what is told of a number that every seed has."""
    return {"median": median(values), "mean": mean(values), "lowest": min(values), "highest": max(values)}
