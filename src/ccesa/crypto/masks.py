"""Masks are keystreams read as vectors of words, added or subtracted in place.

Streams are seekable, so any part of the vector can be masked by another thread, process or machine.
"""

import os
import threading
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ccesa.crypto.kernels import kernel
from ccesa.crypto.primitives import ALIGNMENT
from ccesa.words import Vector, zeros

Part = TypeVar("Part")
Done = TypeVar("Done")

#: Parts for each thread: a thread that is late, because others use its core, leaves its parts to the rest.
PARTS = 4


def helpful(most: int, worth: int) -> int:
    """Return the number of threads, at most ``most`` (0: all cores), if ``worth`` threads are worth their start."""
    return max(1, min(worth, most or cores())) if worth > 1 else 1


def side_by_side(work: Callable[[Part], Done], parts: Sequence[Part], threads: int) -> list[Done]:
    """Do all parts, each in the first free thread; return the results in the order of the parts.

    This thread is one of them, and waits only for parts that another has begun. None is kept, so a fork finds none.
    """
    if threads == 1 or len(parts) < 2:
        return [work(part) for part in parts]
    shared = _Shared(work, parts)
    with suppress(RuntimeError):  # the system starts no more threads: the others do all parts
        for _ in range(threads - 1):
            start_new_thread(shared.help, ())
    shared.help()
    return shared.results()


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Shared:
    def __init__(self, work: Callable[[Any], Any], parts: Sequence[Any]) -> None:
        self._work, self._left = work, list(enumerate(parts))[::-1]
        self._results: list[Any] = [None] * len(parts)
        self._failures: list[BaseException] = []
        self._missing, self._change = len(parts), threading.Condition()

    def help(self) -> None:
        """Take parts until none is left, and do them unless one has failed."""
        while True:
            try:
                place, part = self._left.pop()  # one thread at a time: the interpreter's lock is held
            except IndexError:
                return
            try:
                if not self._failures:
                    self._results[place] = self._work(part)
            except BaseException as failure:  # it is raised in the thread that asked for the work
                self._failures.append(failure)
            with self._change:
                self._missing -= 1
                if not self._missing:
                    self._change.notify_all()

    def results(self) -> list[Any]:
        """Wait for parts under way; return all results, or raise the first failure."""
        with self._change:
            while self._missing:
                self._change.wait()
        del self._work  # a thread that the system runs late holds on to this, but to no vector
        if self._failures:
            raise self._failures[0]
        return self._results


class Mask(NamedTuple):
    """A keystream to add (sign 1) or to subtract (sign -1)."""

    key: bytes
    sign: int

    def __repr__(self) -> str:
        return f"Mask(sign={self.sign})"


def mask_words(generator: str, key: bytes, start: int, count: int, bits: int) -> Vector:
    """Return the elements [start, start + count) of a mask."""
    word = bits // 8
    skipped = start * word % ALIGNMENT
    padded = zeros(skipped // word + count, bits)
    kernel().add(padded, padded, start * word - skipped, [Mask(key, 1)], generator)
    return padded[skipped // word :]


def add_masks(vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 0, *, offset: int = 0) -> None:
    """Add and subtract every mask, in place, to a part that starts at ``offset`` bytes, a multiple of ALIGNMENT."""
    if masks:
        _add_each(vector, vector, masks, generator, threads, offset)


def masked(
    vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 0, out: Vector | None = None
) -> Vector:
    """Mask a vector, with at least one mask, into ``out`` or a new array, and return that."""
    result = np.empty(vector.shape, vector.dtype) if out is None else out
    _add_each(np.ascontiguousarray(vector), result, masks, generator, threads)
    return result


def helpful_threads(most: int, size: int, masks: int) -> int:
    """Return the number of threads, at most ``most``, that mask a vector of ``size`` bytes fastest."""
    return helpful(most, kernel().threads_for(size, masks))


def ranges(size: int, step: int) -> list[slice]:
    """Cut ``size`` words into ranges of ``step``, the last of which may be shorter."""
    return [slice(first, min(first + step, size)) for first in range(0, size, step)]


def _add_each(
    vector: Vector, result: Vector, masks: Sequence[Mask], generator: str, threads: int, offset: int = 0
) -> None:
    running, word = kernel(), vector.itemsize

    def work(part: slice) -> None:
        running.add(vector[part], result[part], offset + part.start * word, masks, generator)

    threads = helpful_threads(threads, vector.nbytes, len(masks))
    parts = threads * PARTS if threads > 1 else 1
    step = -(-vector.nbytes // ALIGNMENT // parts) or 1
    side_by_side(work, ranges(vector.size, step * ALIGNMENT // word), threads)
