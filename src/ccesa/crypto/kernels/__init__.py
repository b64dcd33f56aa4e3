"""A kernel adds keystreams to words. All kernels give the same bytes; they differ in speed.

``CCESA_KERNEL`` names one for tests and comparisons, and may name instructions: ``pure``, ``native``, ``native:aesni``,
``cuda``. Without it the fastest one runs that this machine's processor has.
"""

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from ccesa.compiled import VARIABLE
from ccesa.crypto.kernels import cuda, native, pure
from ccesa.errors import ConfigError, quoted
from ccesa.words import Vector

if TYPE_CHECKING:
    from ccesa.crypto.masks import Mask


class Kernel(Protocol):
    """Adds and subtracts many keystreams in one pass over a contiguous part of a vector."""

    @property
    def name(self) -> str:
        """The kernel and its instructions, for people."""

    def add(self, source: Vector, target: Vector, offset: int, masks: "Sequence[Mask]", generator: str) -> None:
        """Write ``source`` plus all masks, at least one, to ``target``, which may be the same array.

        The part starts ``offset`` bytes, a multiple of ALIGNMENT, into the vector. Words are added without the lock.
        """

    def threads_for(self, size: int, masks: int) -> int:
        """Return the most threads that make this faster, for a vector of ``size`` bytes; 0 counts as 1."""


#: By name, the fastest first: its kernel, or None if this machine cannot run it. After ``pure``: only on request.
KERNELS: dict[str, Callable[[], Kernel | None]] = {
    "native": native.find,
    **{f"native:{name}": partial(native.find, name) for name in native.INSTRUCTIONS},
    "pure": pure.Pure,
    "cuda": cuda.find,
}
#: The needs of kernels that were requested. The hints are for a checkout.
NEEDS = {
    "native": "ccesa-native (pip install ./native) and a processor with its instructions",
    "cuda": "CuPy (pip install '.[gpu]') and a GPU",
}


def kernel() -> Kernel:
    """Return the kernel; raise ConfigError if the environment names one that this machine cannot run."""
    return _find(os.environ.get(VARIABLE, ""))


@cache
def _find(name: str) -> Kernel:
    if name and name not in KERNELS:
        raise ConfigError(f"{VARIABLE} must be one of {', '.join(KERNELS)}, not {quoted(name)}")
    for find in [KERNELS[name]] if name else KERNELS.values():
        found = find()
        if found is not None:
            return found
    needs = NEEDS[name.partition(":")[0]]
    raise ConfigError(f"{VARIABLE} is {name}, and this machine cannot run that kernel: it needs {needs}")
