"""Finds the compiled module ``ccesa_native``. Everything works without it, with the same result."""

import os
from functools import cache
from typing import Any

#: Names the kernel, for tests and for comparisons. ``pure`` goes without anything compiled.
VARIABLE = "CCESA_KERNEL"
#: The version of the compiled functions. A package with another number is not used.
INTERFACE = 3


def module() -> Any | None:
    """Return the module, or None if it is not installed or the environment excludes it."""
    return None if os.environ.get(VARIABLE) == "pure" else _find()


def installed() -> Any | None:
    """Return the module, or None if it is not installed."""
    try:
        import ccesa_native
    except ImportError:
        return None
    return ccesa_native if getattr(ccesa_native, "INTERFACE", None) == INTERFACE else None


_find = cache(installed)  # looking for a missing module takes longer than packing a short vector
