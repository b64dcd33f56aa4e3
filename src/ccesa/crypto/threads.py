"""Work that frees the interpreter's lock is done side by side, in as many threads as help."""

import os
import threading
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

Part = TypeVar("Part")
Done = TypeVar("Done")

#: Parts for each thread: whoever comes late, because others use its core, leaves its parts to the rest.
PARTS = 4


def helpful(most: int, worth: int) -> int:
    """Return how many threads to use where so many are worth their start.

    There are at most as many as the caller allows, where 0 stands for the cores that this process may use.
    """
    return max(1, min(worth, most or cores())) if worth > 1 else 1


def side_by_side(work: Callable[[Part], Done], parts: Sequence[Part], threads: int) -> list[Done]:
    """Do all parts, each in the thread that comes to it first; return what came of them, in their order.

    This thread is one of them, and waits for nothing but parts that another one has begun: threads that the
    system never ran find no part left, and end. None is kept for later, so a fork finds none.
    """
    if threads == 1 or len(parts) < 2:
        return [work(part) for part in parts]
    shared = _Shared(work, parts)
    with suppress(RuntimeError):  # the system starts no more of them: those that there are do all parts
        for _ in range(threads - 1):
            start_new_thread(shared.help, ())
    shared.help()
    return shared.results()


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Shared:
    """Holds parts that several threads take from, and what came of each."""

    def __init__(self, work: Callable[[Any], Any], parts: Sequence[Any]) -> None:
        self._work, self._left = work, list(enumerate(parts))[::-1]
        self._found: list[Any] = [None] * len(parts)
        self._failures: list[BaseException] = []
        self._missing, self._change = len(parts), threading.Condition()

    def help(self) -> None:
        """Do parts until none is left, or one has failed."""
        while True:
            try:
                place, part = self._left.pop()  # one thread at a time: the interpreter's lock is held
            except IndexError:
                return
            try:
                self._found[place] = self._work(part)
            except BaseException as failure:  # it is raised in the thread that asked for the work
                self._failures.append(failure)
                self._finish(1 + self._forget())
                return
            self._finish(1)

    def results(self) -> list[Any]:
        """Wait for parts under way; return all results, or raise the first failure."""
        with self._change:
            while self._missing:
                self._change.wait()
        del self._work  # a thread that the system runs late holds on to this, but to no vector
        if self._failures:
            raise self._failures[0]
        return self._found

    def _forget(self) -> int:
        """Leave the parts that nobody has begun; return how many they were."""
        count = 0
        while self._left:
            try:
                self._left.pop()
            except IndexError:
                break
            count += 1
        return count

    def _finish(self, count: int) -> None:
        with self._change:
            self._missing -= count
            if not self._missing:
                self._change.notify_all()
