"""The compiled kernel, where the package ``ccesa-native`` is installed and knows this processor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ccesa import compiled
from ccesa.crypto.kernels import pure
from ccesa.crypto.primitives import GENERATORS
from ccesa.words import Vector

if TYPE_CHECKING:
    from ccesa.crypto.masks import Mask

#: The names of all instructions with a kernel, on any processor.
INSTRUCTIONS = ("vaes512", "vaes256", "aesni", "armv8", "avx512", "avx2", "vector128")
#: Slower than the library where both were measured: these run only where they are named.
SLOW = ("vector128",)
#: The minimum of keystream for a thread in bytes: a third of a millisecond or more,
THREAD_BYTES = 8 << 20
#: and of the vector: every thread expands all keys, even for a short part.
PART_BYTES = 16 << 10


class Native:
    """Adds keystreams in one compiled pass; those that this processor has no instructions for, with numpy."""

    def __init__(self, module: Any, instructions: dict[str, str]) -> None:
        self._module = module
        self._instructions = instructions
        self._otherwise = pure.Pure()

    @property
    def name(self) -> str:
        used = (f"{generator}: {self._instructions.get(generator, 'pure')}" for generator in GENERATORS)
        return f"native ({', '.join(used)})"

    def add(self, source: Vector, target: Vector, offset: int, masks: "Sequence[Mask]", generator: str) -> None:
        if generator not in self._instructions:
            self._otherwise.add(source, target, offset, masks, generator)
            return
        self._module.add_masks(
            source,
            target,
            offset,
            source.itemsize,
            generator,
            b"".join([mask.key for mask in masks]),
            bytes([mask.sign < 0 for mask in masks]),
            self._instructions[generator],
        )

    def threads_for(self, size: int, masks: int) -> int:
        if len(self._instructions) < len(GENERATORS):
            return self._otherwise.threads_for(size, masks)
        return min(size // PART_BYTES, size * masks // THREAD_BYTES)


def find(wanted: str = "") -> Native | None:
    """Return the kernel, or None if it is not installed or this machine lacks the wanted instructions."""
    module = compiled.installed()
    if module is None:
        return None
    has = {generator: module.instructions(generator) for generator in GENERATORS}
    if wanted and not any(wanted in names for names in has.values()):
        return None
    fastest: dict[str, str] = {}
    for generator, names in has.items():
        usable = [name for name in names if name == wanted] or [name for name in names if name not in SLOW]
        if usable:
            fastest[generator] = usable[0]
    return Native(module, fastest)
