"""Memory and scale, each in a process of its own: what ``ccesa simulate`` reports."""

import json
import subprocess
import sys
import time
from pathlib import Path

CASES = {
    "1,000 clients, 1,000,000 parameters": (
        "--clients 1000 --length 1000000 --bits 32 --graph harary --degree 50 --dropout 0.1"
    ),
    "10,000 clients, 1,000 parameters": (
        "--clients 10000 --length 1000 --bits 32 --graph harary --degree 64 --dropout 0.05"
    ),
}


def simulate(options: str) -> dict[str, object]:
    """Progress goes to the terminal, the JSON comes back; ``seconds`` is the whole process."""
    command = [str(Path(sys.executable).with_name("ccesa")), "simulate", "--json", "--seed", "1"]
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--threads", "2", *options.split()], stdout=subprocess.PIPE, check=True
    )
    return {**json.loads(done.stdout), "seconds": time.perf_counter() - start, "options": options}
