"""How long a train round takes in a real federation, here and at another commit.

A SuperLink and SuperNodes are started on this machine, and one training is submitted: a process on each node
for every message, as in any deployment. Both sides take turns; medians decide. The work of the app is next to
nothing, so what is measured are the exchanges: ``python -m bench.flower.rounds REF``.
"""

import argparse
import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench.against import ROOT, git

#: Seconds after which a training counts as stuck.
PATIENCE = 1500.0


def training(root: Path, nodes: int, rounds: int, active: bool) -> list[float]:
    """Return the seconds of each train round."""
    sys.path.insert(0, str(ROOT / "tests" / "flower"))
    harness: Any = importlib.import_module("flower_federation")
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = str(root / "src")
    with tempfile.TemporaryDirectory() as folder:
        federation = harness.Federation(Path(folder), nodes, tls=False, active=active)
        try:
            federation.start()
            federation.submit(rounds)
            return list(federation.results(PATIENCE)["seconds"])
        finally:
            federation.stop()
            os.environ["PYTHONPATH"] = before


def compare(other: Path, given: argparse.Namespace) -> None:
    """Print the medians of both sides: of the first round, of those after it, and of all together."""
    sides: dict[str, list[list[float]]] = {"here": [], "there": []}
    for turn in range(given.times):
        for side, root in (("here", ROOT), ("there", other))[:: 1 if turn % 2 else -1]:
            print(f"\u00b7 turn {turn + 1} of {given.times}, {side}", file=sys.stderr, flush=True)
            sides[side].append(training(root, given.nodes, given.rounds, given.active))
    rows: dict[str, Callable[[list[float]], list[float]]] = {
        "the first round, s": lambda one: one[:1],
        "a round after it, s": lambda one: one[1:],
        f"all {given.rounds} rounds, s": lambda one: [sum(one)],
    }
    print(f"{'':24}{'here':>10}{'there':>10}{'ratio':>8}")
    for name, pick in rows.items():
        here, there = (median(s for one in sides[side] for s in pick(one)) for side in ("here", "there"))
        print(f"{name:24}{here:10.2f}{there:10.2f}{here / there:8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.flower.rounds", description=__doc__)
    parser.add_argument("commit", help="what to compare with: a tag, a branch, a commit")
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=6, help="of a training")
    parser.add_argument("--times", type=int, default=3, help="trainings of each side")
    parser.add_argument("--active", action="store_true", help="with a charter")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git("worktree", "add", "--quiet", "--detach", str(other), given.commit)
        try:
            compare(other, given)
        finally:
            git("worktree", "remove", "--force", str(other))


if __name__ == "__main__":
    main()
