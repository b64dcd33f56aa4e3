"""What exact noise costs: a million draws, and the tables they come from.

Centres are those of a rotated vector, spread over a few coarse steps. One thread; what counts is the
processor's time.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.in_turn import both, fastest, processor_ms
from ccesa.privacy import table
from ccesa.privacy.quantizer import Noise
from ccesa.privacy.table import VARIANCE_UNITS

LENGTH, MEASURED = 1_000_000, 9
#: Standard deviation of one client's noise, and bits of the fine grid.
CASES = [(2.2, 8), (4.0, 8), (16.0, 8), (2.2, 12), (4.0, 12), (16.0, 12)]


def compare() -> list[dict[str, Any]]:
    """Measure each case: tables built anew, then draws."""
    return [_measured(deviation, grid_bits) for deviation, grid_bits in CASES]


def _measured(deviation: float, grid_bits: int) -> dict[str, Any]:
    variance = round(deviation**2 * VARIANCE_UNITS)
    table._tables.cache_clear()
    tables_ms = _ms(lambda: table.tables(variance, grid_bits))
    guide_ms = _ms(lambda: Noise(variance, grid_bits))
    noise = Noise(variance, grid_bits)
    fine = np.rint(np.random.default_rng(1).normal(0, 2 * 2**grid_bits, LENGTH)).astype(np.int64)
    return {
        "deviation": deviation,
        "grid_bits": grid_bits,
        "thresholds": noise.tables.high.size,
        "tables_ms": tables_ms + guide_ms,
        "draws_ms": processor_ms(lambda: noise.sample(fine), MEASURED),
    }


def _ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def draws_ms(case: dict[str, Any]) -> float:
    """Return the time of a million draws."""
    return fastest(case["draws_ms"])


def text(found: list[dict[str, Any]]) -> str:
    """Return the section of the page."""
    rows = ["| s | p | thresholds | tables, ms | a million draws, ms (with numpy alone) |", "|--:|--:|--:|--:|--:|"]
    rows += [
        f"| {one['deviation']:g} | {one['grid_bits']} | {one['thresholds']:,} | {one['tables_ms']:,.0f} "
        f"| {both(one['draws_ms'], 0)} |"
        for one in found
    ]
    return (
        "A million draws of the discrete Gaussian with standard deviation s around numbers of a grid of step "
        "2^-p, and the tables that they come from, which are built once; processor time, one thread "
        "(`bench/crypto/noise.py`).\n\n" + "\n".join(rows)
    )
