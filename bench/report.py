"""docs/performance.md, written from the results."""

from typing import Any

from bench import targets
from bench.parts import PARTS

_INTRODUCTION = """# Performance

Made by `make bench` (`python -m bench`), which writes this page and `bench/results.json`; do not edit.
Times are milliseconds and move with the machine; ratios are measured in one run and move less. The *floor*
is what the cryptographic library alone needs for the same number of X25519 agreements (from the peer's 32
bytes) and the same bytes of AES-128-CTR keystream, sampled all through the run
(`bench/protocol/floor.py`)."""


def page(results: dict[str, Any]) -> str:
    """Return the page, as far as there are results: each part can be measured by itself."""
    sections = [_INTRODUCTION, _machine(results["machine"]), "## Targets", targets.table(results)]
    for name, part in PARTS.items():
        try:
            text = part.text(results[name])
        except KeyError:  # nobody measured it, or a bench did that measured less
            text = f"Not measured yet, or not all of it: `python -m bench --only {name}`."
        sections += [f"## {part.title}", text]
    return "\n\n".join(sections) + "\n"


def _machine(machine: dict[str, str]) -> str:
    parts = [f"{name} {value}" for name, value in machine.items() if name != "processor" and value]
    return f"Machine: {machine['processor']}. Versions: {', '.join(parts)}."
