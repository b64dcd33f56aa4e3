"""Say where docs/reproduction.md and the results differ; ``--write`` renews its tables and numbers."""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence

from experiments.page.held import Finding, renewed
from experiments.page.page import PAGE, wanted, wrong
from experiments.record import write


def told(text: str, found: dict[str, list[Finding]]) -> Iterator[str]:
    """Give a line for each difference: where it is, what the page says, what the results say."""
    for title, findings in found.items():
        for one in findings:
            line = text.count("\n", 0, one.start) + 1
            yield f"{PAGE.name}:{line}: {title or 'introduction'}: {_words(one)}"


def _words(one: Finding) -> str:
    if one.right is None:
        return one.says
    lines = itertools.zip_longest(one.says.splitlines(), one.right.splitlines(), fillvalue="")
    pairs = [(says.strip(), right.strip()) for says, right in lines]
    return "\n  ".join(f"the page says {says!r}, the results {right!r}" for says, right in pairs if says != right)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew tables and numbers in place")
    wanted_here = parser.parse_args(given)
    text, known = PAGE.read_text(encoding="utf-8"), wanted()
    found = wrong(text, known)
    if wanted_here.write:
        text = renewed(text, [one for mine in found.values() for one in mine])
        write(PAGE, text.encode())
        found = wrong(text, known)
    for line in told(text, found):
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
