"""A few seconds of real work with the ccesa that is installed; run by the Python of its environment.

It imports nothing else of this folder: ``python -I release/smoke.py --extras service --kernel native``.
"""

import argparse
import importlib
import json
import pkgutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import ccesa

BIN, EXAMPLES = Path(sys.executable).parent, Path(__file__).parents[1] / "examples"
ROUND = ["--clients", "40", "--length", "1000", "--dropout", "0.1", "--seed", "1", "--json"]
#: Rooms that need an extra, and commands that use one; ``{}`` is a folder to write into.
ROOMS = {"flower": "ccesa.flower", "service": "ccesa.service"}
COMMANDS = {
    "join": [sys.executable, "-I", "-c", "from ccesa.service import Participant"],
    "demo": [str(BIN / "ccesa"), "demo", "--rounds", "2", "--output", "{}/report.html"],
    "service": [sys.executable, str(EXAMPLES / "service_demo.py")],
}


def main() -> None:
    """Exit with a line that says what failed, if something did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", nargs="*", default=[])
    parser.add_argument("--kernel", default="pure", help="which kernel has to run")
    given = parser.parse_args()
    modules = imported([room for extra, room in ROOMS.items() if extra not in given.extras])
    said = run(str(BIN / "ccesa"), "--version").split()
    require(said[:2] == ["ccesa", version("ccesa")], f"ccesa --version says {said}")
    require(said[3] == given.kernel, f"expected the kernel {given.kernel}, got {said[3]}")
    round = json.loads(run(str(BIN / "ccesa"), "simulate", *ROUND))
    require(round["outcome"] == "aggregate" and round["exact"], f"no sum, or a wrong one: {round}")
    ran = [extra for extra in given.extras if extra in COMMANDS]
    with tempfile.TemporaryDirectory() as folder:
        for extra in ran:
            run(*(word.format(folder) for word in COMMANDS[extra]))
    print(f"{modules} modules, a round of {round['survivors']} of 40 clients, {', '.join(ran) or 'no extras'}")


def imported(without: list[str]) -> int:
    """Import every module but those of some rooms, and every public name; return how many modules."""
    found = [module.name for module in pkgutil.walk_packages(ccesa.__path__, "ccesa.", onerror=_ignored)]
    wanted = [
        name
        for name in found
        if not any(f"{name}.".startswith(f"{room}.") for room in without) and not name.endswith("__main__")
    ]
    for name in ("ccesa", *wanted):
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            getattr(module, public)
    typed = Path(ccesa.__file__).with_name("py.typed")
    require(typed.exists(), f"{typed} is missing: type checkers would not look inside")
    return len(wanted)


def _ignored(name: str) -> None:
    """A package that needs an extra is imported, and found wanting, by name."""


def run(*command: str) -> str:
    """Run a command of the environment, and return what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    require(done.returncode == 0, f"{' '.join(command)} exits with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def require(true: bool, otherwise: str) -> None:
    """Exit with a line unless something is true."""
    if not true:
        sys.exit(otherwise)


if __name__ == "__main__":
    main()
