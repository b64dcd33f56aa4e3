"""Checks that clients and servers share, and a guard against calls that overlap."""

import os
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from threading import Lock
from traceback import walk_tb

from ccesa.agreement.agreement import Agreement, Trust
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.kernels import kernel
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import CcesaError, ConfigError, OrderError, quoted
from ccesa.parts import check_type, whole_number
from ccesa.protocol.messages import TASK_BYTES


def check_round(config: RoundConfig, agreement: Agreement, now: float | None = None) -> None:
    """Refuse a round that was not agreed on, or an expired charter, or a kernel that is not installed."""
    if not isinstance(agreement, Trust):
        check_type("charter", agreement, Charter, "; Charter.load(path) reads one")
    agreement.check_current(now)
    agreement.check(config)
    AGREEMENTS[config.agreement].check_installed()
    kernel()  # later it would be too late: making masks uses the task up, and clients have done all their work


def check_task(task: object) -> bytes:
    """Return the task, a digest of the work of a round; raise ConfigError for anything else."""
    if not isinstance(task, bytes) or len(task) != TASK_BYTES:
        raise ConfigError(f"a task must be a digest of {TASK_BYTES} bytes, not {quoted(task)}")
    return task


def check_threads(threads: object) -> int:
    """Return the most threads that work at a time; 0 stands for as many as help."""
    most = whole_number("threads", threads)
    if most < 0:
        raise ConfigError(f"threads must be 0 or greater (0 takes as many as help), not {most}")
    return most


def check_executor(executor: object) -> None:
    """Refuse an object without workers, before a client has sent anything."""
    if executor is not None:
        check_type("executor", executor, Executor, "; Client.get_executor() of Dask makes one")


def check_unused(config: RoundConfig, used_rounds: Container[bytes] | None) -> None:
    if used_rounds is not None and config.round_id in used_rounds:
        raise ConfigError("this series has had a round of this number; every round needs a fresh one")


class OneCallAtATime:
    """As a context it refuses a second call while one is at work, and every call after an interruption.

    Ctrl-C and the like interrupt. So does any exception that is not the package's own, if ``fragile``: then a call may
    have changed half of its object. Frames of errors that leave hold no secrets: crash reporters ship their variables.
    """

    def __init__(self, whose: str, *, fragile: bool = False) -> None:
        self._lock, self._whose, self._fragile, self._broken = Lock(), whose, fragile, False

    def __enter__(self) -> None:
        self._take()
        if self._broken:
            self._lock.release()
            raise OrderError(f"a call of this {self._whose} was interrupted halfway; make a new one for the next round")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        _clear(error)
        if kind is not None and not issubclass(kind, CcesaError):
            self._broken = self._broken or self._fragile or not issubclass(kind, Exception)
        self._lock.release()

    @contextmanager
    def to_end(self) -> Iterator[None]:
        """Let a call through that ends the object and drops its secrets, also after an interruption."""
        self._take()
        try:
            yield
        finally:
            self._lock.release()

    def _take(self) -> None:
        if not self._lock.acquire(False):
            raise OrderError("another call is still at work; calls must not overlap")


class OwnProcess:
    """Remembers the process of an object: a fork has its keys as well, and must not use them."""

    def __init__(self) -> None:
        self._id = os.getpid()

    def check(self, drop: Callable[[], None] | None = None) -> None:
        """Refuse to go on in another process, after its secrets were dropped."""
        if os.getpid() == self._id:
            return
        if drop is not None:
            drop()
        raise OrderError(
            "this client was made in another process, and its keys are dropped in this fork: two processes with the "
            "same keys would send two vectors of one round"
        )


def _clear(error: BaseException | None) -> None:
    """Clear the variables of the protocol's frames; its lines stay, and so do the caller's own functions."""
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__", "").startswith(("ccesa.protocol.", "ccesa.crypto.")):
                with suppress(RuntimeError):  # it is still at work: the call itself
                    frame.clear()
        error = error.__context__
