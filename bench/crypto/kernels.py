"""The mask step by every kernel of this machine, beside the bare instructions for its keystream.

Everything is processor time of one thread, in turn within one run. What a second thread gains is in
``bench/protocol/threads.py``.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from ccesa.crypto.kernels import Kernel, native, pure
from ccesa.crypto.masks import Mask
from ccesa.crypto.primitives import GENERATORS

LENGTH, NEIGHBOURS, TIMES = 1_000_000, (18, 50), 15


def compare() -> list[dict[str, Any]]:
    """Measure each generator with each number of neighbours, and its own mask."""
    return [_case(generator, neighbours) for generator in GENERATORS for neighbours in NEIGHBOURS]


def _case(generator: str, neighbours: int) -> dict[str, Any]:
    masks = [Mask(os.urandom(GENERATORS[generator].key_bytes), 1 - i % 2 * 2) for i in range(neighbours + 1)]
    source = np.frombuffer(os.urandom(4 * LENGTH), np.uint32)
    target = np.empty_like(source)
    works: dict[str, Callable[[], object]] = {}
    limits: dict[str, Callable[[], object]] = {}
    for name, kernel in {"pure": pure.Pure(), **_compiled(generator)}.items():
        works[name] = partial(kernel.add, source, target, 0, masks, generator)
        if name != "pure":
            limits[name] = partial(_limit, generator, name, source.nbytes * len(masks))
    samples = [{key: _cpu_ms(work) for key, work in _both(works, limits)} for _ in range(TIMES)]
    rows = {name: {"ms": _median(samples, (name, "step"))} for name in works}
    for name in limits:
        rows[name]["limit_ms"] = _median(samples, (name, "limit"))
        rows[name]["over_limit"] = median(one[name, "step"] / one[name, "limit"] for one in samples)
        rows[name]["faster"] = median(one["pure", "step"] / one[name, "step"] for one in samples)
    return {"generator": generator, "neighbours": neighbours, "kernels": rows}


def _both(
    works: dict[str, Callable[[], object]], limits: dict[str, Callable[[], object]]
) -> list[tuple[tuple[str, str], Callable[[], object]]]:
    """Steps and limits in turn, so that a noisy moment meets both."""
    kinds = (("step", works), ("limit", limits))
    return [((name, kind), table[name]) for name in works for kind, table in kinds if name in table]


def _compiled(generator: str) -> dict[str, Kernel]:
    """By the names of instructions, the fastest first."""
    found = {name: native.find(name) for name in native.INSTRUCTIONS}
    return {name: one for name, one in found.items() if one is not None and f"{generator}: {name}" in one.name}


def bare(generator: str, size: int) -> Callable[[], object] | None:
    """Return what runs the fastest instructions of this machine for so many bytes of keystream, if any."""
    name = next(iter(_compiled(generator)), None)
    return partial(_limit, generator, name, size) if name else None


def _limit(generator: str, name: str, size: int) -> None:
    import ccesa_native

    ccesa_native._limit(generator, name, size)


def _median(samples: list[dict[tuple[str, str], float]], key: tuple[str, str]) -> float:
    return median(one[key] for one in samples)


def _cpu_ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


#: By instructions, how many times faster than the library with numpy they have to be.
LEAST = {"vaes512": 2.7, "aesni": 1.4}


def targets(found: list[dict[str, Any]]) -> list[tuple[str, float, float, bool]]:
    """Return the rows of targets, for those instructions that were there."""
    case = found[0]
    name = f"mask step, a million words, {case['neighbours']} neighbours"
    rows = [
        (f"{name}, `{one}`: times faster than the library with numpy", case["kernels"][one]["faster"], least, False)
        for one, least in LEAST.items()
        if one in case["kernels"]
    ]
    fastest = next((one for one in case["kernels"] if one != "pure"), None)
    if fastest:
        over = case["kernels"][fastest]["over_limit"]
        rows.insert(0, (f"{name}, `{fastest}`: times the bare instructions", over, 1.2, True))
    return rows


def text(found: list[dict[str, Any]]) -> str:
    """Return the section of the page."""
    lines = ["| generator | neighbours | kernel | ms | bare instructions, ms | ratio | times faster than `pure` |"]
    lines += ["|---|--:|---|--:|--:|--:|--:|"]
    for case in found:
        for name, one in case["kernels"].items():
            rest = (f"{one[key]:.2f}" if key in one else "" for key in ("limit_ms", "over_limit", "faster"))
            cells = (case["generator"], str(case["neighbours"]), f"`{name}`", f"{one['ms']:.1f}", *rest)
            lines.append(f"| {' | '.join(cells)} |")
    return (
        f"All masks of one client, and its own, added to {LENGTH:,} words of 32 bits "
        "(`bench/crypto/kernels.py`): processor time of one thread, medians, all in turn. `pure` is the "
        "library's keystream with numpy's additions; the others are instructions of `ccesa-native`, of which "
        "the first is the one that runs where it is there. *Bare instructions* is a loop on registers, "
        "without loads, additions or stores, for as many bytes of keystream.\n\n" + "\n".join(lines)
    )
