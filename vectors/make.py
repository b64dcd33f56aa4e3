"""Test vectors, good and bad, for whoever implements the protocol anew, and for our own tests.

``python vectors/make.py`` writes the JSON files beside this one; with ``--check`` it writes nothing and
exits with 1 if a file differs from what the package gives now. Bytes are lower-case hex. The package says
what is refused, and with which error. The second implementation, in ``tests/second``, says by which check.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cases import (
    accept_rounds,
    active_messages,
    active_refused,
    active_rounds,
    assisted_messages,
    assisted_rounds,
    assisted_series,
    charters,
    derivations,
    graphs,
    hybrid,
    identities,
    lists,
    masks,
    messages,
    noise,
    quantizer,
    refused,
    refused_assisted,
    refused_helpers,
    refused_replies,
    roster,
    rounds,
    sealing,
    series,
    service,
    sharing,
    signatures,
    statistics,
)
from cases.checks import name_by_hand
from cases.common import Case
from probes import Files, probes

HERE = Path(__file__).resolve().parent
FILES: dict[str, Callable[[], Case]] = {
    "derivations.json": derivations.make,
    "masks.json": masks.make,
    "sharing.json": sharing.make,
    "sealing.json": sealing.make,
    "graphs.json": graphs.make,
    "messages.json": messages.make,
    "round.json": rounds.make,
    "identities.json": identities.make,
    "charters.json": charters.make,
    "roster.json": roster.make,
    "active_messages.json": active_messages.make,
    "active_round.json": active_rounds.make,
    "accept_round.json": accept_rounds.make,
    "active_accept_round.json": accept_rounds.make_active,
    "series.json": series.make,
    "hybrid.json": hybrid.make,
    "hybrid_round.json": hybrid.make_round,
    "hybrid_active_round.json": hybrid.make_active,
    "active_refused.json": active_refused.make,
    "refused.json": refused.make,
    "refused_active.json": refused.make_active,
    "refused_accept.json": refused.make_accept,
    "refused_replies.json": refused_replies.make,
    "signatures.json": signatures.make,
    "lists.json": lists.make,
    "quantizer.json": quantizer.make,
    "noise.json": noise.make,
    "statistics.json": statistics.make,
    "service.json": service.make,
    "assisted_messages.json": assisted_messages.make,
    "assisted_round.json": assisted_rounds.make,
    "assisted_hybrid.json": refused_assisted.make_hybrid,
    "assisted_series.json": assisted_series.make,
    "refused_assisted.json": refused_assisted.make,
    "refused_helpers.json": refused_helpers.make,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the test vectors, or check them.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    if parser.parse_args(arguments).check:
        return check()
    write()
    return 0


def write() -> None:
    for name, data in rendered().items():
        (HERE / name).write_bytes(data)
        print(f"{name}: written")


def check() -> int:
    problems = list(differences())
    for problem in problems:
        print(problem)
    print(f"{len(problems)} of {len(FILES)} vector files differ" if problems else "all vector files match")
    return 1 if problems else 0


def differences() -> Iterator[str]:
    """One line for each file that is not what the package gives now."""
    for name, data in rendered().items():
        if not (HERE / name).exists():
            yield f"{name}: missing; run `python vectors/make.py`"
        elif (HERE / name).read_bytes() != data:
            yield f"{name}: differs from what the package gives now"
    for path in sorted(HERE.glob("*.json")):
        if path.name not in FILES:
            yield f"{path.name}: made by nobody; remove it, or add it to FILES"


def rendered() -> dict[str, bytes]:
    """Make all files, in which each refusal has the name of its check."""
    files: dict[str, Case] = {Path(name).stem: json.loads(render(make())) for name, make in FILES.items()}
    for file, case in files.items():
        name_by_hand(file, case)
    name_by_second(files)
    return {f"{file}.json": render(case) for file, case in files.items()}


def name_by_second(files: Files) -> None:
    """Give each refusal that has no name yet the one that the second implementation gives it."""
    sys.path.append(str(HERE.parent / "tests" / "second"))
    answer: Callable[[Case], Any] = importlib.import_module("second_answers").answer
    for probe in probes(files):
        if "check" not in probe.case:
            probe.case["check"] = answer(probe.question)["check"]


def render(case: Case) -> bytes:
    return (json.dumps(case, indent=1, default=_hex, allow_nan=False) + "\n").encode()


def _hex(value: object) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"no place in the JSON for {type(value).__name__}")
    return value.hex()


if __name__ == "__main__":
    sys.exit(main())
