"""Parts of the machine that only some tests need: how each is found, and the command that brings it in.

A test asks for a part by ``need`` or by the marker ``needs``. Without the part the test is skipped, and
the run ends with a table of what was skipped. With ``CCESA_REQUIRE_PARTS`` set the test fails instead.

Run as a program (``.ci/packages``), this file installs the missing parts if it is root and finds Debian's
apt-get. Elsewhere it names them. It never fails. ``--has PART`` only says by its exit status if it is there.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

REQUIRE = "CCESA_REQUIRE_PARTS"
PACKAGES = "sudo .ci/packages"
#: What the reason of a skip starts with; a key of ``PARTS`` follows.
MISSING = "missing part: "
NODE = 20  # the oldest major version that runs the client


@dataclass(frozen=True)
class Part:
    """How a part is found, its packages in Debian, and the command that brings it in."""

    name: str
    find: Callable[[], str | None]
    packages: tuple[str, ...] = ()
    command: str = PACKAGES


def find_postgres() -> str | None:
    """Return the folder of the newest server's programs: on the PATH, or beside it, as Debian has it."""
    if initdb := shutil.which("initdb"):
        return str(Path(initdb).resolve().parent)
    places = (Path(place).parent / "lib" / "postgresql" for place in os.get_exec_path())
    found = sorted(
        (path.parent for place in places for path in place.glob("*/bin/initdb")), key=lambda path: int(path.parts[-2])
    )
    return str(found[-1]) if found else None


@cache
def find_node() -> str | None:
    """Return Node, if it is new enough and npm is there, which builds the client."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.", said)
    return node if version and int(version[1]) >= NODE else None


def find_kem() -> str | None:
    """Return the cryptographic library, if it has ML-KEM."""
    primitives = importlib.import_module("ccesa.crypto.primitives")
    return "cryptography" if primitives.has_kem() else None


def find_kernel() -> str | None:
    """Return the compiled kernel's module, if it belongs to this version of the package."""
    module = importlib.import_module("ccesa.compiled").installed()
    return None if module is None else module.__file__


PARTS = {
    "chromium": Part("Chromium", lambda: shutil.which("chromium"), ("chromium", "fonts-dejavu-core")),
    "postgresql": Part("PostgreSQL", find_postgres, ("postgresql",)),
    "node": Part(f"Node {NODE} or newer, with npm", find_node, ("nodejs", "npm")),
    "compiler": Part(
        "C and C++ compiler",
        lambda: shutil.which("cc") and (shutil.which("g++") or shutil.which("c++")),
        ("gcc", "g++", "python3-dev"),
    ),
    "kernel": Part("compiled kernel", find_kernel, command=f"{PACKAGES} && make install"),
    "ml-kem": Part("ML-KEM", find_kem, command="pip install 'cryptography>=48'"),
}


def need(key: str) -> str:
    """Return where a part is. Without it the test that asks is skipped, or fails if parts are required."""
    import pytest

    found = PARTS[key].find()
    if found is not None:
        return found
    if os.environ.get(REQUIRE):
        pytest.fail(f"{MISSING}{key}, and {REQUIRE} is set: {PARTS[key].command}", pytrace=False)
    raise pytest.skip.Exception(f"{MISSING}{key}")


def table(reasons: Iterable[str]) -> list[str]:
    """Return a line for each part that is missing: how many tests it cost, and what brings it in."""
    count = Counter(reason.rpartition(MISSING)[2] for reason in reasons if MISSING in reason)
    rows = [(PARTS[key].name, str(count[key]), PARTS[key].command) for key in PARTS if count[key]]
    rows = [("missing part", "tests skipped", "to run them"), *rows] if rows else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def summary(reporter: Any) -> None:
    """Write the table at the end of a run; the reports of all workers are in."""
    skipped = reporter.stats.get("skipped", [])
    if lines := table(str(report.longrepr[-1]) for report in skipped if isinstance(report.longrepr, (tuple, list))):
        reporter.section("parts of this machine that are missing")
        for line in lines:
            reporter.line(line)


def install() -> None:
    """Install what is missing from Debian, or say why not."""
    parts = [part for part in PARTS.values() if part.packages and part.find() is None]
    if not parts:
        return
    if shutil.which("apt-get") is None:
        reason = "there is no apt-get here"
    elif os.geteuid() != 0:
        reason = "installing needs root"
    else:
        packages = [package for part in parts for package in part.packages]
        reason = "" if _apt(packages) else "apt-get could not install them"
    if reason:
        names = ", ".join(part.name for part in parts)
        _say(f"missing: {names} ({reason}). Tests that need them are skipped. Debian: {PACKAGES}")


def _apt(packages: list[str]) -> bool:
    if not _run("apt-get", "update", "--quiet"):
        _say("the package lists could not be renewed; trying those that are here")
    # Debian's package would make a database and start it. The tests make their own, in a temporary folder.
    if "postgresql" in packages and _get("postgresql-common"):
        _run(
            "sed",
            "-i",
            r"s/^#\?create_main_cluster.*/create_main_cluster = false/",
            "/etc/postgresql-common/createcluster.conf",
        )
    return _get(*packages)


def _get(*packages: str) -> bool:
    return _run("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages)


def _run(program: str, *arguments: str) -> bool:
    retry = ["-o", "Acquire::Retries=3"] if program == "apt-get" else []
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run([program, *arguments, *retry], env=environment, check=False).returncode == 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--has"]:
        sys.exit(any(PARTS[key].find() is None for key in sys.argv[2:]))
    install()
