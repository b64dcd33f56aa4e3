"""The lowest versions that pyproject.toml allows, for pip: ``python tests/house/lowest.py demo plots``.

They are made from the bounds each time, so what `make test-lowest` tries is what is promised.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_BOUND = re.compile(r"([\w-]+(?:\[\w+\])?)(?:>=|~=)([\d.]+)(?:,<[\d.]+)?(?:; .*)?")


def requirements(extras: Iterable[str]) -> list[str]:
    """What the package needs, and what these extras add to that; without the package's own extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    added = (project["optional-dependencies"][extra] for extra in extras)
    return [line for lines in (project["dependencies"], *added) for line in lines if not line.startswith("ccesa[")]


def lowest(requirement: str) -> str:
    """Exactly the lowest version; a requirement without one promises too much."""
    found = _BOUND.fullmatch(requirement)
    if found is None:
        raise SystemExit(f"{requirement!r} has no lower bound")
    return "{}=={}".format(*found.groups())


if __name__ == "__main__":
    sys.stdout.writelines(f"{lowest(line)}\n" for line in requirements(sys.argv[1:]))
