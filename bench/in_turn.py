"""With numpy alone and with the compiled module, in turn."""

import os
import time
from collections.abc import Callable
from statistics import median

from ccesa import compiled


def processor_ms(work: Callable[[], object], repeats: int) -> dict[str, float]:
    """Return the processor time of a piece of work, medians, by kernel: those that this machine has."""
    names = ["pure", "native"] if compiled.installed() else ["pure"]
    times: dict[str, list[float]] = {name: [] for name in names}
    before = os.environ.get(compiled.VARIABLE)
    for _ in range(repeats + 1):
        for name, found in times.items():
            os.environ[compiled.VARIABLE] = name
            start = time.process_time()
            work()
            found.append((time.process_time() - start) * 1e3)
    if before is None:
        del os.environ[compiled.VARIABLE]
    else:
        os.environ[compiled.VARIABLE] = before
    return {name: median(found[1:]) for name, found in times.items()}  # the first one builds tables


def fastest(ms: dict[str, float]) -> float:
    """Return the compiled module's time, or that of numpy alone where it was not there."""
    return ms.get("native", ms["pure"])


def both(ms: dict[str, float], digits: int) -> str:
    """Write both of them: compiled, and with numpy alone."""
    first = f"{ms['native']:.{digits}f}" if "native" in ms else "–"
    return f"{first} ({ms['pure']:.{digits}f})"
