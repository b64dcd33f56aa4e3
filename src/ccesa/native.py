"""The compiled module ``ccesa_native``: everything that it does is also done without it, with the same result."""

import os
from functools import cache
from typing import Any

#: Names the kernel for tests and for comparisons; ``pure`` goes without anything compiled.
VARIABLE = "CCESA_KERNEL"


def module() -> Any | None:
    """Return the module, or None where it is not installed or the environment says to go without it."""
    return None if os.environ.get(VARIABLE) == "pure" else _installed()


@cache
def _installed() -> Any | None:
    try:
        import ccesa_native
    except ImportError:
        return None
    return ccesa_native
