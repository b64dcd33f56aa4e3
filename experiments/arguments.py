"""The command line that all experiments have in common."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccesa.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Wanted:
    quick: bool
    seed: int
    #: The folder of the data sets.
    data: Path
    output: Path
    #: Nothing is taken from earlier calls; most parts never do.
    again: bool


def parser(about: str, here: Path, quick: str) -> argparse.ArgumentParser:
    """``quick`` says in words what --quick leaves out; results go to ``here`` unless told otherwise."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--quick", action="store_true", help=quick)
    made.add_argument("--seed", type=int, default=1, help="of all that is drawn at random")
    made.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    made.add_argument("--output", type=Path, default=here, help="folder of results.json and the picture")
    made.add_argument("--again", action="store_true", help="also what an earlier call has finished")
    return made


def parse(about: str, here: Path, quick: str, arguments: Sequence[str] | None = None) -> Wanted:
    wanted = Wanted(**vars(parser(about, here, quick).parse_args(arguments)))
    wanted.output.mkdir(parents=True, exist_ok=True)
    return wanted


def run(main: Callable[[], None]) -> None:
    """As a program: what the user can put right is one line, not a traceback."""
    try:
        main()
    except ConfigError as error:
        sys.exit(f"error: {error}")
