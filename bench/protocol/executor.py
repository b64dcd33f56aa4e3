"""Two workers against one: masks come off a large sum through an executor.

The vector has as many words as the largest model of the paper, and there are as many masks as a server takes
off at the planned degree for 1,000 clients, a tenth of whom drop out. Everything runs on this machine, so
that sending costs no network; wall-clock time, the numbers of workers in turn, medians.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from ccesa.compiled import VARIABLE
from ccesa.crypto.kernels import KERNELS
from ccesa.crypto.masks import Mask, add_masks
from ccesa.plan import plan
from ccesa.workers import add_masks_by

CLIENTS, DROPOUT, STEPS = 1000, 0.1, 4
#: By words of the vector, how often each is measured.
LENGTHS = {1_000_000: 5, 9_200_000: 3}


def compare() -> dict[str, Any]:
    """Measure every executor that is installed, with every kernel that this machine can run."""
    count = _masks()
    kernels = [name for name in ("native", "pure") if KERNELS[name]() is not None]
    return {"masks": count, "rows": [row for name in kernels for row in _rows(name, count)]}


def _masks() -> int:
    """Count those of survivors, and of who drops out with the vector."""
    leaving = 1 - (1 - DROPOUT) ** (1 / STEPS)
    survivors = CLIENTS * (1 - leaving) ** 3
    dropped = CLIENTS * (1 - leaving) ** 2 * leaving
    return round(survivors + dropped * plan(CLIENTS, DROPOUT).mask_degree * (1 - leaving))


def _rows(kernel: str, count: int) -> Iterator[dict[str, Any]]:
    every = [Mask(os.urandom(16), 1) for _ in range(count)]
    with _chosen(kernel), ExitStack() as stack:
        for executor, make in EXECUTORS.items():
            found = [make(stack, workers) for workers in (1, 2)]
            for length, times in LENGTHS.items():
                yield {"kernel": kernel, "executor": executor, "length": length} | _timed(
                    found, np.zeros(length, np.uint32), every, times
                )


def _timed(executors: list[Executor], vector: Any, every: list[Mask], times: int) -> dict[str, float]:
    ways: dict[str, Callable[[], None]] = {
        "alone_s": partial(add_masks, vector, every, "aes128-ctr", 1),
        **{
            f"{name}_s": partial(add_masks_by, executor, vector, every, "aes128-ctr", 1)
            for name, executor in zip(("one", "two"), executors, strict=True)
        },
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(times):
        for name, work in ways.items():
            start = time.perf_counter()
            work()
            found[name].append(time.perf_counter() - start)
    gain = median(one / two for one, two in zip(found["one_s"], found["two_s"], strict=True))
    return {name: median(taken) for name, taken in found.items()} | {"gain": gain}


@contextmanager
def _chosen(kernel: str) -> Iterator[None]:
    """Let this process and those that it starts use one kernel."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = kernel
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def _processes(stack: ExitStack, workers: int) -> Executor:
    spawn = multiprocessing.get_context("spawn")
    pool = stack.enter_context(ProcessPoolExecutor(workers, mp_context=spawn))
    for one in [pool.submit(time.sleep, 0.5) for _ in range(workers)]:
        one.result()
    return pool


def _dask(stack: ExitStack, workers: int) -> Executor:
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    cluster = stack.enter_context(LocalCluster(n_workers=workers, **options))
    client = stack.enter_context(Client(cluster, set_as_default=False))
    client.wait_for_workers(workers)
    return client.get_executor()


EXECUTORS: dict[str, Callable[[ExitStack, int], Executor]] = {"processes": _processes, "Dask": _dask}


def targets(found: dict[str, Any]) -> list[tuple[str, float, float, bool]]:
    """Return the rows of targets."""
    longest = max(row["length"] for row in found["rows"])
    what = f"masks off {longest:,} words, two workers: times faster than one"
    return [
        (f"{what} ({row['executor']}, kernel {row['kernel']})", row["gain"], 1.8, False)
        for row in found["rows"]
        if row["length"] == longest
    ]


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    rows = [
        f"| {row['executor']} | {row['kernel']} | {row['length']:,} | {row['alone_s']:.2f} "
        f"| {row['one_s']:.2f} | {row['two_s']:.2f} | {row['gain']:.2f} |"
        for row in found["rows"]
    ]
    return (
        f"`Server(executor=...)`: {found['masks']:,} masks come off a sum of 32-bit words, as many as with "
        "1,000 clients at the planned degree, a tenth of whom drop out. Seconds by the clock, everything on "
        "this machine, one thread each; *alone* is the server without an executor "
        "(`bench/protocol/executor.py`). The last column is one worker over two.\n\n"
        "| executor | kernel | words | alone, s | one worker, s | two, s | gain |\n"
        "|---|---|--:|--:|--:|--:|--:|\n" + "\n".join(rows)
    )
