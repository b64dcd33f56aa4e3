"""The compiled kernel, where the package ``ccesa-native`` is installed and knows this processor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ccesa.words import Vector

if TYPE_CHECKING:
    from ccesa.crypto.masks import Mask

#: Bytes of keystream that are worth a thread of their own: a millisecond or more.
THREAD_BYTES = 24 << 20


class Native:
    """Adds keystreams in one compiled pass."""

    def __init__(self, module: Any) -> None:
        self._module = module

    @property
    def name(self) -> str:
        """For people: what runs, and with which instructions."""
        return f"native ({self._module.instructions()})"

    def add(
        self, source: Vector, target: Vector, offset: int, masks: "Sequence[Mask]", generator: str
    ) -> None:
        """Write ``source`` plus all masks to ``target``."""
        self._module.add_masks(
            source,
            target,
            offset,
            source.itemsize,
            generator,
            b"".join(mask.key for mask in masks),
            bytes(mask.sign < 0 for mask in masks),
        )

    def threads_for(self, size: int, masks: int) -> int:
        """Return how many threads at most make this faster."""
        return size * masks // THREAD_BYTES


def find() -> Native | None:
    """Return the kernel, or None where it is not installed."""
    try:
        import ccesa_native
    except ImportError:
        return None
    return Native(ccesa_native)
