"""``python -m fuzz``: every harness in turn, guided by coverage where atheris is installed.

Without it, or with --plain, inputs are mutated blindly. What is found on the way is kept in .fuzz/, which git
ignores; an input that breaks a property lies there as well, and ``--replay FILE NAME`` runs it again.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from fuzz.harnesses import CORPUS, NAMES, corpus, harness
from fuzz.mutate import mutations

FOUND = Path(__file__).resolve().parent.parent / ".fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; by default all")
    parser.add_argument("--seconds", type=float, default=600, help="for all of them together")
    parser.add_argument("--plain", action="store_true", help="mutate blindly, also where atheris is installed")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one input through the named harnesses")
    chosen = parser.parse_args()
    names = chosen.names or list(NAMES)
    if unknown := set(names) - set(NAMES):
        parser.error(f"no harness is called {', '.join(sorted(unknown))}")
    if chosen.replay:
        for name in names:
            harness(name)(chosen.replay.read_bytes())
        return 0
    plain = chosen.plain or find_spec("atheris") is None
    failed = [name for name in names if not (blind if plain else guided)(name, chosen.seconds / len(names))]
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed" + "".join(f" {name}" for name in failed))
    return bool(failed)


def guided(name: str, seconds: float) -> bool:
    """In a process of its own, since libFuzzer ends the one it runs in."""
    own = FOUND / name
    own.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={max(1, round(seconds))}",
        "-max_len=4096",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        f"-artifact_prefix={FOUND}/{name}-",
    ]
    print(f"== {name}: {seconds:.0f} s, guided by coverage", flush=True)
    command = [sys.executable, "-m", "fuzz.guided", name, *options, str(own), str(CORPUS / name)]
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603 - this very program


def blind(name: str, seconds: float) -> bool:
    one, seed = harness(name), int.from_bytes(os.urandom(4), "little")
    print(f"== {name}: {seconds:.0f} s, blind, seed {seed}", flush=True)
    until, count = time.monotonic() + seconds, 0
    for data in mutations(corpus(name), random.Random(seed)):  # noqa: S311 - inputs to try
        try:
            one(data)
        except Exception as error:
            FOUND.mkdir(exist_ok=True)
            broken = FOUND / f"{name}-crash-{seed}-{count}"
            broken.write_bytes(data)
            print(f"   {error!r}\n   {broken}")
            return False
        count += 1
        if time.monotonic() > until:
            break
    print(f"   {count} inputs")
    return True


if __name__ == "__main__":
    sys.exit(main())
