"""Finds the compiled module ``ccesa_native``. What it does is done without it, too, with the same result."""

import os
from functools import cache
from typing import Any

#: Names the kernel, for tests and for comparisons. ``pure`` goes without anything compiled.
VARIABLE = "CCESA_KERNEL"
#: What the compiled functions take and mean. A package that was built for another number is left alone.
INTERFACE = 3


def module() -> Any | None:
    """Return the module, or None where it is not installed or the environment says to go without it."""
    return None if os.environ.get(VARIABLE) == "pure" else _found()


def installed() -> Any | None:
    """Return the module, or None where it is not installed."""
    try:
        import ccesa_native
    except ImportError:
        return None
    return ccesa_native if getattr(ccesa_native, "INTERFACE", None) == INTERFACE else None


@cache
def _found() -> Any | None:
    return installed()  # looking for what is not there takes longer than packing a short vector
