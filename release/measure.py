"""How large the house is: ``python -m release.measure [COMMIT]`` prints this tree, a commit beside it.

Lines and files by package, files and functions that one sum and one question enter, variants, the longest
functions, words of the README. ``--picture`` draws the map of CONTRIBUTING.md from the imports. ``--tests``
also runs the default tests and says how long they took.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "house.svg"
TRACED = Path(__file__).with_name("traced.py")
LONGEST = 8
#: Sizes of the picture, in its own units.
BOX, GAP, ROW = (150, 46), 40, 78


class File(NamedTuple):
    """A file of the package, parsed once."""

    name: str
    lines: int
    tree: ast.Module

    @property
    def room(self) -> str:
        """Return the package, or the file of the ground floor, that it belongs to."""
        return self.name.split("/")[0].removesuffix(".py")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m release.measure", description=__doc__)
    parser.add_argument("commit", nargs="?", help="print this commit beside the tree: a tag, a branch, a commit")
    parser.add_argument("--picture", action="store_true", help=f"only write {PICTURE.relative_to(ROOT)}")
    parser.add_argument("--tests", action="store_true", help="also run the default tests")
    given = parser.parse_args()
    if given.picture:
        PICTURE.write_text(picture(files_of(ROOT)), encoding="utf-8")
        return
    tables = [measure(ROOT)]
    if given.commit:
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / "other"
            _git("worktree", "add", "--quiet", "--detach", str(other), given.commit)
            try:
                tables.insert(0, measure(other))
            finally:
                _git("worktree", "remove", "--force", str(other))
    if given.tests:
        tables[-1]["default tests"] = _tests()
    print(table(tables, [given.commit, "here"][-len(tables) :]))


def table(tables: list[dict[str, object]], heads: list[str]) -> str:
    """Return a table in Markdown, with a column for each tree."""
    names = list(dict.fromkeys(name for one in tables for name in one))
    rows = [["", *heads], ["---", *["--:"] * len(heads)]]
    rows += [[name, *(str(one.get(name, "")) for one in tables)] for name in names]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def measure(root: Path) -> dict[str, object]:
    """Return every figure of one tree by its name."""
    files = files_of(root)
    sizes = sorted(file.lines for file in files)
    found: dict[str, object] = {
        "src: files / lines": f"{len(files)} / {sum(sizes):,}",
        "lines of a file, median / longest": f"{sizes[len(sizes) // 2]} / {sizes[-1]}",
    }
    rooms = defaultdict(list)
    for file in files:
        rooms[file.room if "/" in file.name else "(ground floor)"].append(file.lines)
    for room in sorted(rooms):
        found[f"src/{room}: files / lines"] = f"{len(rooms[room])} / {sum(rooms[room]):,}"
    for work, says in (("aggregate", "12 clients' aggregate"), ("question", "one question of a hub")):
        counted = entered(root, work)
        found[f"{says} enters: files / functions"] = f"{counted['files']} / {counted['functions']}"
    lengths = functions(files)
    plain = sorted(length for length, _ in lengths)
    found["lines of a function, median / p90"] = f"{plain[len(plain) // 2]} / {plain[len(plain) * 9 // 10]}"
    found["longest functions"] = ", ".join(f"{name} {n}" for n, name in sorted(lengths)[: -LONGEST - 1 : -1])
    found["tests for no charter: places / files"] = _tests_for_none(files)
    found["class names that exist twice"] = ", ".join(twice(files)) or "none"
    found["README: words"] = len((root / "README.md").read_text(encoding="utf-8").split())
    return found


def files_of(root: Path) -> list[File]:
    """Read and parse the package of a tree."""
    package, found = root / "src" / "ccesa", []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(File(path.relative_to(package).as_posix(), len(text.splitlines()), ast.parse(text)))
    return found


def entered(root: Path, work: str) -> dict[str, int]:
    """Return how many files and functions of a tree a piece of work enters."""
    done = subprocess.run(
        [sys.executable, str(TRACED), work],
        env=os.environ | {"PYTHONPATH": str(root / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def functions(files: list[File]) -> list[tuple[int, str]]:
    """Return the length of every function, decorators and docstring left out, with its place."""
    return [
        (_length(node), f"{file.name}:{node.name}")
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return lines


def tests_for_none(files: list[File]) -> Iterator[str]:
    """Yield the file of each comparison of a charter with None."""
    for file in files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Compare) and any(
                isinstance(one, ast.Constant) and one.value is None for one in node.comparators
            ):
                name = ast.unparse(node.left).rpartition(".")[2]
                if name in ("charter", "_charter"):
                    yield file.name


def _tests_for_none(files: list[File]) -> str:
    places = list(tests_for_none(files))
    return f"{len(places)} / {len(set(places))}"


def twice(files: list[File]) -> list[str]:
    """Return the names of classes that the package has more than once."""
    names = Counter(node.name for file in files for node in ast.walk(file.tree) if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1)


def _tests() -> str:
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    took = time.monotonic() - started
    return f"{done.stdout.strip().splitlines()[-1]}; all in {took // 60:.0f}:{took % 60:02.0f}"


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True)  # noqa: S607


def imports(files: list[File]) -> dict[str, set[str]]:
    """Return which rooms each room imports."""
    rooms = {file.room for file in files}
    found: dict[str, set[str]] = {room: set() for room in rooms - {"__init__"}}
    for file in files:
        if file.room == "__init__":
            continue
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ccesa":
                names = [f"{node.module}.{alias.name}".split(".")[1] for alias in node.names]
                found[file.room] |= rooms.intersection(names) - {file.room, "__init__"}
    return found


def floors(links: dict[str, set[str]]) -> list[list[str]]:
    """Return the rooms from the top down: each stands one floor below the lowest that imports it."""
    depths: dict[str, int] = {}

    def depth(room: str) -> int:
        if room not in depths:
            depths[room] = 1 + max((depth(other) for other in links if room in links[other]), default=-1)
        return depths[room]

    rows: dict[int, list[str]] = defaultdict(list)
    for room in sorted(links):
        rows[depth(room)].append(room)
    return [rows[level] for level in sorted(rows)]


def needed(links: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports that no longer way through other rooms shows, too: the picture draws these."""

    def reached(room: str) -> set[str]:
        return links[room].union(*(reached(other) for other in links[room]))

    return {
        room: {other for other in others if not any(other in reached(one) for one in others - {other})}
        for room, others in links.items()
    }


def picture(files: list[File]) -> str:
    """Draw the packages of the house as boxes on floors, and their imports as lines that point down."""
    packages = {file.room for file in files if "/" in file.name}
    links = imports([file for file in files if file.room in packages])
    links = {room: others & packages for room, others in links.items()}
    rows, lines = floors(links), Counter[str]()
    for file in files:
        lines[file.room] += file.lines
    width = 640
    height = len(rows) * ROW + BOX[1] + 2 * GAP
    places: dict[str, tuple[float, float]] = {}
    for level, row in enumerate(rows):
        left = (width - len(row) * (BOX[0] + GAP) + GAP) / 2
        for place, room in enumerate(row):
            places[room] = (left + place * (BOX[0] + GAP), GAP + level * ROW)
    loose = sorted({file.room for file in files} - packages - {"__init__", "__main__"})
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
            "<title>The packages of ccesa: each imports only those below it</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *_lines(needed(links), places),
            *(_box(x, y, room, f"{round(lines[room], -2):,} lines") for room, (x, y) in places.items()),
            _ground(width, len(rows) * ROW + GAP, loose, sum(lines[room] for room in loose)),
            "</svg>\n",
        ]
    )


def _lines(links: dict[str, set[str]], places: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    for room in sorted(links):
        for other in sorted(links[room]):
            (x, y), (to_x, to_y) = places[room], places[other]
            start, end = (x + BOX[0] / 2, y + BOX[1]), (to_x + BOX[0] / 2, to_y)
            bend = (end[1] - start[1]) / 2
            yield (
                f'<path d="M{start[0]:g} {start[1]:g} C{start[0]:g} {start[1] + bend:g} {end[0]:g} '
                f'{end[1] - bend:g} {end[0]:g} {end[1]:g}" fill="none" stroke="#8c959f" stroke-width="1.5"/>'
            )


def _box(x: float, y: float, name: str, under: str, width: float = BOX[0]) -> str:
    middle, height = x + width / 2, BOX[1]
    text = '<text x="{:g}" y="{:g}" text-anchor="middle" font-size="{}" fill="{}">{}</text>'
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="6" fill="#ddf4ff" '
        'stroke="#0969da"/>'
        + text.format(middle, y + 20, 15, "#1f2328", name)
        + text.format(middle, y + 37, 11, "#59636e", under)
    )


def _ground(width: float, y: float, loose: list[str], lines: int) -> str:
    return _box(GAP / 2, y, f"the ground floor: {round(lines, -2):,} lines", " ".join(loose), width - GAP)


if __name__ == "__main__":
    main()
