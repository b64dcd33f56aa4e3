"""Results as JSON: what was found, and all that is needed to find it again."""

import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("ccesa", "numpy", "scipy", "cryptography", "torch", "flwr")


def save(path: Path, result: dict[str, Any], *, seed: int, quick: bool, started: float) -> None:
    """Beside the result: seed, settings, versions, machine and duration (``started`` by the wall clock)."""
    about = {
        "seed": seed,
        "quick": quick,
        "seconds": round(time.time() - started, 1),
        "machine": machine(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
    }
    path.write_text(json.dumps({"about": about, **result}, indent=1) + "\n", encoding="utf-8")


def machine() -> str:
    """In words: processor and number of cores."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
