"""Results as JSON: what was found, and all that is needed to find it again."""

import json
import os
import platform
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("ccesa", "numpy", "scipy", "cryptography", "torch", "flwr")


@dataclass(frozen=True, kw_only=True)
class Key:
    """What results hang on: with another key they would be others, and nothing goes on from them."""

    seed: int
    quick: bool
    settings: dict[str, Any]

    def fits(self, about: dict[str, Any]) -> bool:
        # The settings as they come back from a file: lists for tuples, text for the keys of dictionaries.
        settings = json.loads(json.dumps(self.settings))
        found = (about.get("seed"), about.get("quick"), about.get("settings"))
        return found == (self.seed, self.quick, settings)


def save(
    path: Path, result: dict[str, Any], key: Key, *, started: float, complete: bool = True, spent: float = 0.0
) -> None:
    """Beside the result: its key, versions, machine and duration.

    The duration counts from ``started``, by the wall clock; ``spent`` are the seconds of earlier calls whose
    work is part of the result. What is not ``complete`` is gone on with when it is asked for again.
    """
    about = {
        "seed": key.seed,
        "quick": key.quick,
        "complete": complete,
        "seconds": round(spent + time.time() - started, 1),
        "machine": machine(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "settings": key.settings,
    }
    write(path, (json.dumps({"about": about, **result}, indent=1) + "\n").encode())


def write(path: Path, raw: bytes) -> None:
    """All of it or nothing: whoever is stopped in the middle leaves the old file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def earlier(path: Path, key: Key) -> dict[str, Any] | None:
    """What an earlier call with the same key has saved, finished or not; None if there is nothing."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    about = stored.get("about") if isinstance(stored, dict) else None
    return stored if isinstance(about, dict) and key.fits(about) else None


def finished(path: Path, key: Key) -> bool:
    """Whether all of the results are there, from the same key."""
    stored = earlier(path, key)
    return stored is not None and stored["about"].get("complete") is True


def seconds(stored: dict[str, Any] | None) -> float:
    """The duration of what was saved; 0 where nothing was."""
    return float(stored["about"].get("seconds", 0.0)) if stored else 0.0


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
