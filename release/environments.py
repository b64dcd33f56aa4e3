"""Empty environments into which the wheels are installed, the work done there, and the bill of materials."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from release.contents import ROOT

BUILD = ROOT / "build" / "release"


class Environment(NamedTuple):
    """Who installs what: a Python, extras, with or without the compiled kernel, at which versions."""

    name: str
    python: str = sys.executable
    extras: tuple[str, ...] = ()
    compiled: bool = True
    lowest: bool = False

    @property
    def bin(self) -> Path:
        """Where its commands are."""
        return BUILD / self.name / "bin"

    def make(self) -> None:
        """Make it anew, without even pip: what is in it is what the wheels ask for."""
        run(self.python, "-m", "venv", "--clear", "--without-pip", BUILD / self.name)

    def install(self, wheel: Path, native: Path) -> None:
        """Install the wheels, and whatever they need, by the pip of the tools."""
        wanted = [f"{wheel}[{','.join(self.extras)}]" if self.extras else str(wheel)]
        wanted += [str(native)] if self.compiled else []
        pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", self.bin / "python")
        run(*pip, "install", *wanted, *(self._lowest() if self.lowest else []))
        for file in (BUILD / self.name).glob("lib/*/site-packages/ccesa*/direct_url.json"):
            file.unlink()  # as if from an index: the bill of materials would name a folder of this machine

    def _lowest(self) -> list[str]:
        """Exactly the lower bounds of pyproject.toml."""
        return run(sys.executable, ROOT / "tests" / "house" / "lowest.py", *self.extras).split()

    def smoke(self) -> str:
        """Do some work in it, and return what was done."""
        kernel = "native" if self.compiled else "pure"
        asked = ("--kernel", kernel, "--extras", *self.extras)
        return run(self.bin / "python", "-I", ROOT / "release" / "smoke.py", *asked).strip()

    def bill(self, file: Path) -> None:
        """Write what is installed as CycloneDX, the same bytes each time."""
        tool, project = Path(sys.executable).with_name("cyclonedx-py"), str(ROOT / "pyproject.toml")
        options = ("--output-reproducible", "--mc-type", "library", "--pyproject", project)
        run(tool, "environment", *options, "--output-file", file, self.bin / "python")


def environments(others: list[str]) -> list[Environment]:
    """Those of a check: lowest and newest versions, Flower, which has bounds of its own, other Pythons."""
    service = ("demo", "dp", "service")
    return [
        Environment("lowest", extras=service, compiled=False, lowest=True),
        Environment("newest", extras=(*service, "sodium")),
        Environment("flower", extras=("flower",)),
        *(Environment(Path(python).name, python, extras=("join",)) for python in others),
    ]


def run(*command: str | Path, folder: Path = ROOT) -> str:
    """Run a command and return what it prints; one that fails ends the check with the end of what it said."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        said = (done.stdout + done.stderr)[-4000:]
        raise SystemExit(f"{said}\nfailed with status {done.returncode}: {' '.join(words)}")
    return done.stdout
