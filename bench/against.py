"""Is this tree as fast as another commit? Both run the same work in turn, in fresh processes; medians decide.

Only public names are used, so that the work is the same on both sides: ``python -m bench.against REF``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("commit", help="what to compare with: a tag, a branch, a commit")
    parser.add_argument("--times", type=int, default=5, help="how often each side runs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git("worktree", "add", "--quiet", "--detach", str(other), given.commit)
        try:
            _compare(other, given.times)
        finally:
            git("worktree", "remove", "--force", str(other))


def _compare(other: Path, times: int) -> None:
    """Print the medians of both sides, in milliseconds of processor time, and their ratio."""
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for turn in range(times):
        print(f"· turn {turn + 1} of {times}", file=sys.stderr, flush=True)
        for root, found in ((ROOT, ours), (other, theirs)) if turn % 2 else ((other, theirs), (ROOT, ours)):
            for name, value in _work(root).items():
                found.setdefault(name, []).append(value)
    print(f"{'':44}{'here':>10}{'there':>10}{'ratio':>8}")
    for name in ours:
        here, there = median(ours[name]), median(theirs[name])
        print(f"{name:44}{here:10.1f}{there:10.1f}{here / there:8.3f}")


def _work(root: Path) -> dict[str, float]:
    script = Path(__file__).with_name("against_work.py")
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(script)], env=environment, check=True, capture_output=True, text=True, cwd=root
    )
    return json.loads(done.stdout)


def git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True)  # noqa: S603, S607


if __name__ == "__main__":
    main()
