"""Writes what docs/protocol.md says of the vectors: the table of all checks, and who has to pass which file.

``python vectors/checks.py`` writes both tables anew. With ``--check`` it writes nothing, and exits with 1 if
one of them differs.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance import NEEDED, ROLES
from probes import Files, load

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "protocol.md"
#: The pages that name checks, in the order of the table.
PAGES = (PAGE, DOCS / "formats.md")
_CHECK = re.compile(r"^- \*\*([A-Z]\w*\.\d+)\*\* \*(.+?)\*\. (.*?)(?=^\S|^$|\Z)", re.MULTILINE | re.DOTALL)
_UNSHOWN = re.compile(r"Not shown by a vector: .*The error is (`\w+`)\.")


@dataclass(frozen=True)
class Check:
    """A check as a page has it: its name, its title, and the error that it names if no vector shows it."""

    name: str
    title: str
    unshown: str | None


def checks() -> list[Check]:
    """Return all checks of the pages, in order."""
    found = []
    for page in PAGES:
        for name, title, text in _CHECK.findall(page.read_text(encoding="utf-8")):
            unshown = _UNSHOWN.search(" ".join(text.split()))
            found.append(Check(name, title, unshown.group(1) if unshown else None))
    return found


def shown(files: Files) -> dict[str, Counter[tuple[str, str]]]:
    """Return by check how often each error is given in each file."""
    found: dict[str, Counter[tuple[str, str]]] = {}
    for file, content in files.items():
        for case in refusals(content):
            error = case.get("error") or case.get("failure") or "WrongProof"
            found.setdefault(case["check"], Counter())[file, error] += 1
    return found


def refusals(value: Any) -> Iterator[dict[str, Any]]:
    """Give everything in a file that is refused, or fails."""
    if isinstance(value, dict):
        if value.keys() & {"check", "error", "failure"}:
            yield value
        for each in value.values():
            yield from refusals(each)
    elif isinstance(value, list):
        for each in value:
            yield from refusals(each)


def table_of_checks() -> str:
    """Return the rows of all checks, with their errors and their vectors."""
    vectors = shown(load())
    rows = ["| check | | error | vectors |", "|---|---|---|---|"]
    for check in checks():
        counted = vectors.get(check.name, Counter())
        errors = sorted({f"`{error}`" for _, error in counted}) or [check.unshown or "?"]
        files = Counter({file: 0 for file, _ in counted})
        for (file, _), number in counted.items():
            files[file] += number
        where = [f"{file} {number}" for file, number in files.items()] or ["none; its text says why"]
        rows += _rows(check, ", ".join(errors), where)
    return "\n".join(rows)


def _rows(check: Check, errors: str, where: list[str]) -> Iterator[str]:
    """One row, or more where it would be too long."""
    head = f"| {check.name} | {check.title} | {errors} |"
    while where:
        count = len(where)
        while count > 1 and len(f"{head} {', '.join(where[:count])} |") > 120:
            count -= 1
        yield f"{head} {', '.join(where[:count])} |"
        head, where = "| | | |", where[count:]


def table_of_roles() -> str:
    """Return the rows of all files, with who has to pass them."""
    rows = [f"| file | {' | '.join(ROLES)} |", "|---|" + "---|" * len(ROLES)]
    for file, roles in NEEDED.items():
        cells = ["yes" if roles.get(role) == "all" else roles.get(role, "") for role in ROLES]
        rows.append(f"| `{file}.json` | {' | '.join(cells)} |")
    return "\n".join(rows)


def written(page: str) -> str:
    """Return the page with both tables as they are now."""
    for mark, table in (("checks", table_of_checks()), ("roles", table_of_roles())):
        pattern = re.compile(rf"<!-- {mark} -->\n(?:\n\|.*?\n(?=\n|\Z))?", re.DOTALL)
        page, found = pattern.subn(f"<!-- {mark} -->\n\n{table}\n", page)
        if found != 1:
            raise LookupError(f"the page has {found} places for {mark}")
    return page


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the tables of docs/protocol.md about vectors.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a table differs")
    given = parser.parse_args(arguments)
    before = PAGE.read_text(encoding="utf-8")
    after = written(before)
    if not given.check:
        PAGE.write_text(after, encoding="utf-8")
    elif before != after:
        print("docs/protocol.md: a table differs from the vectors; run `python vectors/checks.py`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
