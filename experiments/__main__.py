"""Every table and figure, the paper's and those on noise: ``python -m experiments --data DIR``.

A part whose results are all there, from the same seed and settings, is not run again; one that was broken off
goes on where it can. Results go to build/reproduce/NAME, or with --quick to build/reproduce-quick/NAME; those
in experiments/NAME stay as they are.
"""

import argparse
import importlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ccesa.errors import ConfigError
from experiments import cifar, faces, record

ROOT = Path(__file__).parent.parent
#: In the order in which they are run, with what they show.
PARTS = {
    "running_time": "the running-time table",
    "error_bounds": "bounds on both error probabilities (figure, and the table of p*)",
    "costs": "Table 1 and appendix C: communication and computation",
    "claims": "claims of the text that have no table or figure",
    "faces_reliability": "reliability on the AT&T faces (figure)",
    "faces_inversion": "model inversion on the AT&T faces (figures)",
    "cifar_reliability": "reliability on CIFAR-10 (figure)",
    "membership": "membership inference on CIFAR-10 (two tables)",
    "cifar_masked": "CIFAR-10 with every mask of 1,000 clients (needs a GPU)",
    "privacy/accuracy": "accuracy against epsilon on scikit-learn's digits",
    "privacy/audit": "an audit of noisy sums, with canaries",
    "privacy/bits": "bits per parameter under noise",
    "privacy/inversion": "faces in the published sum, with noise and without",
    "privacy/membership": "clients of a federation told from others, with noise and without",
}
#: Parts that need data, and how it is read.
DATA: dict[str, Callable[[Path], object]] = {
    "faces_reliability": faces.load,
    "faces_inversion": faces.load,
    "cifar_reliability": cifar.load,
    "membership": cifar.load,
    "cifar_masked": cifar.load,
    "privacy/inversion": faces.load,
}


def finished(name: str, folder: Path, *, quick: bool, seed: int) -> bool:
    """Whether the picture and all results are there, from this seed and today's settings."""
    key = record.Key(seed=seed, quick=quick, settings=_settings(name, quick))
    return record.finished(folder / "results.json", key) and (folder / f"{Path(name).name}.png").is_file()


def _module(name: str) -> str:
    return f"experiments.{name.replace('/', '.')}.run"


def _settings(name: str, quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = importlib.import_module(_module(name)).settings(quick)
    return found


def command(name: str, folder: Path, wanted: argparse.Namespace) -> list[str]:
    start = [sys.executable, "-m", _module(name)]
    options = ["--data", str(wanted.data), "--output", str(folder.resolve()), "--seed", str(wanted.seed)]
    flags = [f"--{name}" for name in ("quick", "again") if getattr(wanted, name)]
    return start + options + flags


def missing_data(names: Sequence[str], wanted: argparse.Namespace) -> list[str]:
    """Before anything is run: what the parts that are due will not find, in words."""
    due = [name for name in names if name in DATA and _is_due(name, wanted)]
    problems = []
    for load in dict.fromkeys(DATA[name] for name in due):
        try:
            load(wanted.data)
        except ConfigError as error:
            parts = ", ".join(name for name in due if DATA[name] is load)
            problems.append(f"{parts}: {error}")
    return problems


def _is_due(name: str, wanted: argparse.Namespace) -> bool:
    folder = wanted.output / name
    return _is_there(name) and (wanted.again or not finished(name, folder, quick=wanted.quick, seed=wanted.seed))


def run_part(name: str, wanted: argparse.Namespace) -> str:
    """Runs one part where it is due; says in a word or two how it went."""
    folder = wanted.output / name
    if not _is_there(name):
        print(f"  experiments/{name}/run.py is not there: nothing to run")
        return "not there"
    if not _is_due(name, wanted):
        print(f"  finished before: {folder / 'results.json'} (--again runs it anew)")
        return "finished before"
    folder.mkdir(parents=True, exist_ok=True)
    code = subprocess.run(command(name, folder, wanted), cwd=ROOT, check=False).returncode  # noqa: S603
    if code:
        print(f"  failed with exit code {code}; the reason is above")
        return "failed"
    return "done"


def _is_there(name: str) -> bool:
    return (ROOT / "experiments" / name / "run.py").is_file()


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("--only", choices=list(PARTS), action="append", help="this part; may be repeated")
    parser.add_argument("--quick", action="store_true", help="every part at its smallest")
    parser.add_argument("--again", action="store_true", help="also what is finished")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    parser.add_argument("--output", type=Path, help="folder of all results; experiments renews those kept here")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args(given)
    wanted.data = wanted.data.resolve()
    wanted.output = wanted.output or ROOT / "build" / ("reproduce-quick" if wanted.quick else "reproduce")
    return wanted


def main(given: Sequence[str] | None = None) -> int:
    wanted = arguments(given)
    names = [name for name in PARTS if name in (wanted.only or PARTS)]
    problems = missing_data(names, wanted)
    if problems:
        for problem in problems:
            print(f"error: {problem}", file=sys.stderr)
        others = [name for name in names if name not in DATA]
        if others:
            print(f"without data: {' '.join(f'--only {name}' for name in others)}", file=sys.stderr)
        return 2
    ends = {}
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}: {PARTS[name]}", flush=True)
        started = time.time()
        ends[name] = run_part(name, wanted)
        print(f"  {ends[name]}, {time.time() - started:.0f} s", flush=True)
    print(f"results in {wanted.output}:")
    for name, end in ends.items():
        print(f"  {name:18} {end}")
    return 1 if "failed" in ends.values() else 0


if __name__ == "__main__":
    sys.exit(main())
