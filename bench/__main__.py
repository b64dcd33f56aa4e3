"""Runs all and says how far it is; writes results.json, docs/performance.md and the README's claims."""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import claims, report
from bench.flower import secagg as flower
from bench.parts import PARTS
from bench.progress import say
from bench.protocol import scale

HERE = Path(__file__).parent
KEPT = HERE / "results.json"
PAGE = HERE.parent / "docs" / "performance.md"
#: Ten minutes and 15 GB: never measured along with the others.
MILLION_CLIENTS = "million-clients"
#: With these the picture of how servers grow is drawn anew.
GROWTH = (None, "scale", MILLION_CLIENTS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        choices=[*PARTS, MILLION_CLIENTS],
        help="measure one part anew; the others stay as they are in bench/results.json",
    )
    only = parser.parse_args().only
    before = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if only == MILLION_CLIENTS and "scale" not in before:
        parser.error("a million clients are one row of scale: first measure --only scale")
    results = _measured(only, before)
    KEPT.write_text(json.dumps(results, indent=1) + "\n")
    if only in GROWTH:
        scale.picture(results["scale"]["servers"]).savefig(HERE / "scale.png", dpi=150)
    PAGE.write_text(report.page(results))
    claims.write()
    print(PAGE.read_text())
    say(f"written: {PAGE.relative_to(HERE.parent)}")


def _measured(only: str | None, before: dict[str, Any]) -> dict[str, Any]:
    """Return all results, of which one part is new, or all of them; a million clients stay as they were."""
    results = dict(before) if only else {}
    for name, part in PARTS.items():
        if only in (None, name):
            say(part.says)
            results[name] = part.measure()
    if only in GROWTH:
        servers = before.get("scale", {}).get("servers", {}) | results["scale"]["servers"]
        if only == MILLION_CLIENTS:
            servers[str(scale.MILLION)] = scale.measure(scale.MILLION)
        results["scale"]["servers"] = servers
    return results | {"machine": _machine()}


def _machine() -> dict[str, str]:
    return {
        "processor": _processor(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("ccesa", "numpy", "cryptography", "msgspec")},
        "flwr": flower.VERSION,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} cores of {names[0]}" if names else platform.machine()


if __name__ == "__main__":
    main()
