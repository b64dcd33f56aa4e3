"""One call at a time: states change in the middle of a call, and an overlapping one would see half of it."""

from threading import Lock

from ccesa.errors import CcesaError, OrderError


class Turns:
    """``with turns:`` refuses a second call while one is at work, and, if ``fragile``, any after a crash."""

    def __init__(self, *, fragile: bool = False) -> None:
        self._lock, self._fragile, self._broken = Lock(), fragile, False

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise OrderError("another call is still at work; calls must not overlap")
        if self._broken:
            self._lock.release()
            raise OrderError("a call was interrupted half way, its sum would be wrong; start a new round")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, CcesaError):
            self._broken = self._fragile
        self._lock.release()
