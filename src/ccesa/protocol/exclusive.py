"""States change in the middle of a call, and an overlapping one would see half of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from traceback import walk_tb

from ccesa.errors import CcesaError, OrderError

_OVERLAPPING = "another call is still at work; calls must not overlap"


class OneCallAtATime:
    """As a context it refuses a second call while one is at work, and every call after an interruption.

    Ctrl-C and the like interrupt. So does any exception that is not the package's own, if ``fragile``: then a
    call may have changed half of its object.

    Whatever is raised, its frames hold no share and no key any more: crash reporters ship their variables.
    """

    def __init__(self, whose: str, *, fragile: bool = False) -> None:
        self._lock, self._whose, self._fragile, self._broken = Lock(), whose, fragile, False

    def __enter__(self) -> None:
        if not self._lock.acquire(False):
            raise OrderError(_OVERLAPPING)
        if self._broken:
            self._lock.release()
            raise OrderError(
                f"a call of this {self._whose} was interrupted halfway; make a new one for the next round"
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        _clear(error)
        if kind is not None and not issubclass(kind, CcesaError):
            self._broken = self._broken or self._fragile or not issubclass(kind, Exception)
        self._lock.release()

    @contextmanager
    def to_end(self) -> Iterator[None]:
        """Let a call through that ends the object and drops what it holds, also after an interruption."""
        if not self._lock.acquire(False):
            raise OrderError(_OVERLAPPING)
        try:
            yield
        finally:
            self._lock.release()


class OwnProcess:
    """Knows the process that an object was made in: a fork has its keys as well, and must not use them."""

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_fork(self) -> bool:
        """Whether this is another process."""
        return os.getpid() != self._id

    def check(self) -> None:
        """Refuse to go on in another process."""
        if self.is_fork:
            raise OrderError(
                "this client was made in another process, of which this one is a fork: two processes with "
                "the same keys would send two vectors of one round; its keys are dropped here"
            )


def _clear(error: BaseException | None) -> None:
    """Clear the variables of the protocol's frames; its lines stay, and so do the caller's own functions."""
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__", "").startswith(("ccesa.protocol.", "ccesa.crypto.")):
                with suppress(RuntimeError):  # it is still at work: the call itself
                    frame.clear()
        error = error.__context__
