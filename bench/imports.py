"""How long ``import ccesa`` takes beside the libraries it rests on: ``python -m bench --only imports``.

Each import is a process of its own, and both take turns. The time of Python itself is left out.
"""

import subprocess
import sys
from statistics import median

TURNS = 15
#: The parts of the libraries that ``ccesa`` itself imports.
LIBRARIES = (
    "import numpy, msgspec; "
    "from cryptography.exceptions import InvalidSignature, InvalidTag; "
    "from cryptography.hazmat.primitives import hashes; "
    "from cryptography.hazmat.primitives.asymmetric import ed25519, x25519; "
    "from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes; "
    "from cryptography.hazmat.primitives.ciphers.aead import AESGCM; "
    "from cryptography.hazmat.primitives.kdf.hkdf import HKDF"
)


def compare() -> dict[str, float]:
    """Medians in milliseconds, and the median of the ratios of neighbouring turns."""
    pairs = [(import_ms(LIBRARIES), import_ms("import ccesa")) for _ in range(TURNS)]
    libraries, ours = zip(*pairs, strict=True)
    return {
        "libraries_ms": median(libraries),
        "ccesa_ms": median(ours),
        "ratio": median(own / theirs for theirs, own in pairs),
    }


def import_ms(statement: str) -> float:
    """Wall clock of one statement in a fresh interpreter."""
    code = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return 1e3 * float(done.stdout)


def text(found: dict[str, float]) -> str:
    """Return the section of the page."""
    return (
        f"`import ccesa` takes {found['ccesa_ms']:.0f} ms in a fresh interpreter; the parts of numpy, "
        f"cryptography and msgspec that it uses take {found['libraries_ms']:.0f} ms, measured in turn "
        "(`bench/imports.py`). Servers, series, the planner and the command line are loaded when used."
    )
