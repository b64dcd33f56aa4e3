"""The command line that all experiments have in common."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Wanted:
    quick: bool
    seed: int
    #: The folder of the data sets.
    data: Path
    output: Path


def parse(about: str, here: Path, quick: str, arguments: Sequence[str] | None = None) -> Wanted:
    """``quick`` says in words what --quick leaves out; results go to ``here`` unless told otherwise."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn at random")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    parser.add_argument("--output", type=Path, default=here, help="folder of results.json and the picture")
    wanted = Wanted(**vars(parser.parse_args(arguments)))
    wanted.output.mkdir(parents=True, exist_ok=True)
    return wanted
