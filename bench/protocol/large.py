"""Memory and scale, each in a process of its own: what ``ccesa simulate`` reports."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.progress import say

CASES = {
    "1,000 clients, 1,000,000 parameters": (
        "--clients 1000 --length 1000000 --bits 32 --graph harary --degree 50 --dropout 0.1"
    ),
    "10,000 clients, 1,000 parameters": (
        "--clients 10000 --length 1000 --bits 32 --graph harary --degree 64 --dropout 0.05"
    ),
}


def compare() -> dict[str, dict[str, object]]:
    """Measure every case."""
    return {name: _simulated(name, options) for name, options in CASES.items()}


def _simulated(name: str, options: str) -> dict[str, object]:
    """Progress goes to the terminal, the JSON comes back; ``seconds`` is the whole process."""
    say(name)
    command = [str(Path(sys.executable).with_name("ccesa")), "simulate", "--json", "--seed", "1"]
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--threads", "2", *options.split()], stdout=subprocess.PIPE, check=True
    )
    return {**json.loads(done.stdout), "seconds": time.perf_counter() - start, "options": options}


def text(found: dict[str, dict[str, Any]]) -> str:
    """Return the section of the page."""
    lines = [
        "`ccesa simulate`, all clients and the server in one process, two threads.\n",
        "| | outcome | exact | seconds | peak memory, MB | server, ms | options |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for name, one in found.items():
        lines.append(
            f"| {name} | {one['outcome']} | {'yes' if one['exact'] else 'no'} | {one['seconds']:.0f} "
            f"| {one['peak_rss_mb']:.0f} | {one['server_ms']:,.0f} | `{one['options']}` |"
        )
    return "\n".join(lines)
