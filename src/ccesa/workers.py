"""Workers of an executor, in other processes or on other machines, sum masks that a server takes off.

A worker gets keys and a range of the vector, and returns the sum of those masks there; it sees no vector. The server
itself sums what does not come back: an executor can make a round faster, and cannot lose it.
"""

import logging
import secrets
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue

import numpy as np

from ccesa import words
from ccesa.crypto.masks import Mask, add_masks, helpful_threads, ranges, side_by_side
from ccesa.crypto.primitives import ALIGNMENT, GENERATORS
from ccesa.errors import VectorError
from ccesa.words import Vector

#: The minimum of a part in bytes of the vector, beside which its keys are small,
PART_BYTES = 512 << 10
#: and in bytes of keystream: tens of milliseconds of work, beside which sending the part is short.
PART_STREAM_BYTES = 256 << 20
#: Seconds without a part coming back, after which the server works itself.
PATIENCE = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MaskSum:
    """A sum of masks over a range of the vector, for a worker to compute."""

    generator: str
    bits: int
    part: slice
    keys: bytes = field(repr=False)
    negative: bytes = field(repr=False)


def sum_masks(task: MaskSum) -> Vector:
    """Sum the masks, in one thread; a worker runs this."""
    total, size = words.zeros(task.part.stop - task.part.start, task.bits), GENERATORS[task.generator].key_bytes
    keys = (task.keys[first : first + size] for first in range(0, len(task.keys), size))
    masks = [Mask(key, -1 if negative else 1) for key, negative in zip(keys, task.negative, strict=True)]
    add_masks(total, masks, task.generator, 1, offset=task.part.start * total.itemsize)
    return total


def add_masks_by(
    executor: Executor | None, vector: Vector, masks: Sequence[Mask], generator: str, threads: int
) -> None:
    """Add and subtract every mask, in place, by the workers of an executor if the work is large enough."""
    tasks = [] if executor is None else _tasks(vector, masks, generator)
    if executor is None or len(tasks) < 2:
        add_masks(vector, masks, generator, threads)
        return
    missing = _by_workers(executor, vector, tasks)
    if not missing:
        return

    def work(task: MaskSum) -> None:
        add_masks(vector[task.part], masks, generator, 1, offset=task.part.start * vector.itemsize)

    size = sum(vector[task.part].nbytes for task in missing)
    side_by_side(work, missing, helpful_threads(threads, size, len(masks)))


def _tasks(vector: Vector, masks: Sequence[Mask], generator: str) -> list[MaskSum]:
    """Cut the work into parts, enough for dozens of workers if it is large."""
    size = max(PART_BYTES, PART_STREAM_BYTES // max(1, len(masks)) // PART_BYTES * PART_BYTES)
    keys, negative = b"".join(mask.key for mask in masks), bytes(mask.sign < 0 for mask in masks)
    return [
        MaskSum(generator=generator, bits=8 * vector.itemsize, part=part, keys=keys, negative=negative)
        for part in ranges(vector.size, size // vector.itemsize)
    ]


def _by_workers(executor: Executor, vector: Vector, tasks: list[MaskSum]) -> list[MaskSum]:
    """Add what workers return; return the parts that did not come back."""
    arrived: SimpleQueue[tuple[int, Future[Vector]]] = SimpleQueue()
    running: dict[int, Future[Vector]] = {}
    left, faults = dict(enumerate(tasks)), set()

    def note(place: int, done: Future[Vector]) -> None:
        arrived.put((place, done))

    try:
        for place, task in left.items():
            try:
                running[place] = executor.submit(sum_masks, task)
                running[place].add_done_callback(partial(note, place))
            except Exception as error:  # whatever somebody else's executor raises
                running.pop(place, None)
                faults.add(type(error).__name__)
        while running:
            place, done = arrived.get(timeout=PATIENCE)
            if running.pop(place, None) is None:  # noted twice
                continue
            fault = _add_result(vector[left[place].part], left[place], done)
            if fault:
                faults.add(fault)
            else:
                del left[place]
    except Empty:
        faults.add(f"none in {PATIENCE:g} seconds")
    finally:
        for future in running.values():
            with suppress(Exception):  # a part that cannot be cancelled goes on, and nobody waits for it
                future.cancel()
    if left:
        text = "%d of %d sums of masks did not come from the executor (%s): the server makes them itself"
        _log.warning(text, len(left), len(tasks), ", ".join(sorted(faults)))
    return list(left.values())


def _add_result(target: Vector, task: MaskSum, future: Future[Vector]) -> str:
    """Add the result of a worker, or return the name of its fault, not its text, which is not ours."""
    try:
        error = future.exception(timeout=0)
        if error is not None:
            return type(error).__name__
        result = words.check(future.result(timeout=0), target.size, 8 * target.itemsize)
    except VectorError:
        return "a result of another kind"
    except Exception as error:  # it was cancelled; or whatever somebody else's future raises
        return type(error).__name__
    if not _holds_somewhere(result, task):
        return "other words"
    np.add(target, result, out=target)
    return ""


def _holds_somewhere(result: Vector, task: MaskSum) -> bool:
    """Compare one random block with the server's own: an accident changes more than a word."""
    blocks, step = -(-result.nbytes // ALIGNMENT), ALIGNMENT // result.itemsize
    first = task.part.start + step * secrets.randbelow(blocks)
    own = sum_masks(replace(task, part=slice(first, min(first + step, task.part.stop))))
    return np.array_equal(own, result[first - task.part.start :][: own.size])
