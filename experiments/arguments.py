"""The command line that all experiments have in common."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccesa.errors import ConfigError

ROOT = Path(__file__).parent.parent
#: What only some parts need.
_OPTIONAL = ("torch", "triton", "matplotlib")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    quick: bool
    seed: int
    #: The folder of the data sets.
    data: Path
    output: Path
    #: Nothing is taken from earlier calls; most parts never do.
    again: bool


class _Parser(argparse.ArgumentParser):
    """Puts results where the script is, and those of a quick call elsewhere: kept ones stay."""

    here = ROOT

    def parse_args(self, *given: Any, **more: Any) -> Any:
        found = super().parse_args(*given, **more)
        if found.output is None:
            part = self.here.relative_to(ROOT / "experiments")
            found.output = ROOT / "build" / "reproduce-quick" / part if found.quick else self.here
        return found


def parser(about: str, here: Path, quick: str) -> argparse.ArgumentParser:
    """``quick`` says in words what --quick leaves out; ``here`` is the folder of the script."""
    made = _Parser(description=about)
    made.here = here
    made.add_argument("--quick", action="store_true", help=quick)
    made.add_argument("--seed", type=int, default=1, help="of all that is drawn at random")
    made.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    made.add_argument(
        "--output",
        type=Path,
        help="folder of results.json and the picture; by default the script's, with --quick below build/",
    )
    made.add_argument("--again", action="store_true", help="also what an earlier call has finished")
    return made


def parse(about: str, here: Path, quick: str, arguments: Sequence[str] | None = None) -> Wanted:
    wanted = Wanted(**vars(parser(about, here, quick).parse_args(arguments)))
    wanted.output.mkdir(parents=True, exist_ok=True)
    print(f"results go to {wanted.output}", flush=True)
    return wanted


def run(main: Callable[[], None]) -> None:
    """As a program: what the user can put right is one line, not a traceback."""
    try:
        main()
    except (ConfigError, OSError) as error:
        sys.exit(f"error: {error}")
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        sys.exit(f"error: this part needs {error.name}, which make reproduce installs")
    except KeyboardInterrupt:
        print("stopped; what was finished is kept", file=sys.stderr)
        sys.exit(130)
