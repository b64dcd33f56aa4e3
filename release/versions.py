"""The version, wherever it is written: ``python -m release.versions`` compares, or writes another."""

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
_VERSION = re.compile(r"(\d+\.\d+\.\d+)(?:\.?(dev|rc)(\d+))?")


def python(version: str) -> str:
    """A version as Python writes it: 0.2.0.dev0, 0.2.0rc1, 0.2.0."""
    return version


def npm(version: str) -> str:
    """A version as npm writes it: 0.2.0-dev.0, 0.2.0-rc.1, 0.2.0."""
    base, stage, number = _parts(version)
    return f"{base}-{stage}.{number}" if stage else base


class Place(NamedTuple):
    """A file with the version in it: the first match, in one form."""

    path: str
    pattern: str
    form: Callable[[str], str] = python

    def read(self, root: Path) -> str:
        """What the file says."""
        return self._find(root)[1]

    def write(self, root: Path, version: str) -> None:
        """Put another version into the file."""
        found, file = self._find(root), root / self.path
        text = found.string[: found.start(1)] + self.form(version) + found.string[found.end(1) :]
        file.write_text(text, encoding="utf-8")

    def _find(self, root: Path) -> re.Match[str]:
        text = (root / self.path).read_text(encoding="utf-8")
        found = re.search(self.pattern, text, re.MULTILINE)
        if found is None:
            raise SystemExit(f"{self.path} has no line like {self.pattern}: is it written differently now?")
        return found


PLACES = (
    Place("pyproject.toml", r'^version = "(.+?)"'),
    Place("native/pyproject.toml", r'^version = "(.+?)"'),
    Place("native/meson.build", r"^  version: '(.+?)'"),
    Place("CITATION.cff", r"^version: (.+)$"),
    Place("clients/typescript/package.json", r'^  "version": "(.+?)"', npm),
    Place("clients/typescript/package-lock.json", r'^  "version": "(.+?)"', npm),
    Place("clients/typescript/package-lock.json", r'^      "version": "(.+?)"', npm),
)


def current(root: Path = ROOT) -> str:
    """The version in pyproject.toml, with which all others have to agree."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def disagreements(root: Path = ROOT) -> list[str]:
    """A line for every place that disagrees with pyproject.toml."""
    version = current(root)
    found = [(place.path, place.read(root), place.form(version)) for place in PLACES]
    wrong = [f"{path}: expected {due}, got {said}" for path, said, due in found if said != due]
    return [*wrong, *_changelog(root, version)]


def _changelog(root: Path, version: str) -> list[str]:
    """The top section has the day of a release, and is unreleased before it."""
    base, stage, _ = _parts(version)
    due = f"## {base}, " + ("unreleased" if stage else "YYYY-MM-DD")
    pattern = re.escape(due).replace(r"YYYY\-MM\-DD", r"\d{4}-\d\d-\d\d")
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    top = next((line for line in text.splitlines() if line.startswith("## ")), "no section")
    return [] if re.fullmatch(pattern, top) else [f"CHANGELOG.md: expected {due}, got {top}"]


def _parts(version: str) -> tuple[str, str | None, str | None]:
    found = _VERSION.fullmatch(version)
    if found is None:
        raise SystemExit(f"{version!r} is no version of ours: 0.3.0.dev0, 0.3.0rc1 or 0.3.0 are")
    base, stage, number = found.groups()
    return base, stage, number


def main() -> None:
    """Write the version that is given, if one is; print it, or exit with the places that disagree."""
    for version in sys.argv[1:2]:
        _parts(version)
        for place in PLACES:
            place.write(ROOT, version)
    wrong = disagreements()
    if wrong:
        sys.exit("\n".join(wrong))
    print(current())


if __name__ == "__main__":
    main()
