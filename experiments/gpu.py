"""What needs a GPU, in one call that can be stopped: ``python -m experiments.gpu --data DIR --minutes 25``.

Membership inference and the reliability curves on CIFAR-10, then CIFAR-10 with every mask. Who survives each
round is found by processes of their own, while the first part trains. What is finished is not run again, and
what was stopped goes on. Pictures are drawn by each part's ``--stage picture``, which needs no GPU.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments import arguments, cifar
from experiments.arguments import ROOT
from experiments.cifar_reliability import run
from experiments.cifar_reliability.outcomes import is_complete
from experiments.cifar_reliability.setup import FULL, QUICK, Effort
from experiments.seeds import consecutive

#: In this order, each with the stage that trains.
PARTS = {"membership": "attack", "cifar_reliability": "train", "cifar_masked": "train"}

#: Minutes, where nobody says how many.
FOR_EVER = 1e6


def begun_rounds(effort: Effort, wanted: argparse.Namespace) -> list[subprocess.Popen[bytes]]:
    """A process for every seed whose rounds are not there yet."""
    folder, seeds = wanted.output / "cifar_reliability", consecutive(wanted.seed, effort.seeds)
    due = [seed for seed in seeds if not is_complete(run.rounds_file(folder, effort, seed), effort, seed)]
    commands = [_module("cifar_reliability", wanted, "rounds", "--only-seed", str(seed)) for seed in due]
    return [subprocess.Popen(command, cwd=ROOT) for command in commands]  # noqa: S603


def _module(part: str, wanted: argparse.Namespace, stage: str, *more: str) -> list[str]:
    output = str((wanted.output / part).resolve())
    options = ["--data", str(wanted.data.resolve()), "--output", output, "--seed", str(wanted.seed)]
    flags = ["--quick"] if wanted.quick else []
    return [sys.executable, "-m", f"experiments.{part}.run", "--stage", stage, *options, *flags, *more]


def main(given: Sequence[str] | None = None) -> int:
    """Run the parts in order; 1 if any of them failed, or was killed."""
    parser = argparse.ArgumentParser(prog="python -m experiments.gpu", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    parser.add_argument("--output", type=Path, default=ROOT / "experiments", help="folder of all results")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="this part; may be repeated")
    parser.add_argument("--minutes", type=float, default=FOR_EVER, help="for all parts together")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--quick", action="store_true", help="every part at its smallest, also without a GPU")
    wanted = parser.parse_args(given)
    cifar.load(wanted.data)  # what is missing is said before minutes are spent on rounds
    ends = time.time() + 60 * wanted.minutes
    parts = [part for part in PARTS if part in (wanted.only or PARTS)]
    beside = begun_rounds(QUICK if wanted.quick else FULL, wanted) if "cifar_reliability" in parts else []
    codes = []
    for part in parts:
        if part == "cifar_reliability":
            codes += [process.wait() for process in beside]
        left = f"{max(0.0, ends - time.time()) / 60:.2f}"
        print(part if wanted.minutes == FOR_EVER else f"{part}: {left} minutes are left", flush=True)
        command = _module(part, wanted, PARTS[part], "--minutes", left)
        codes.append(subprocess.run(command, cwd=ROOT, check=False).returncode)  # noqa: S603
    return int(any(codes))


if __name__ == "__main__":
    arguments.run(lambda: sys.exit(main()))
