"""Finding the wrong shares of a secret: two random combinations of its elements, or element by element."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from bench.crypto import columns
from ccesa.crypto import shamir
from ccesa.crypto.shamir import FIELD, Values

CASES = 60


def compare() -> dict[str, Any]:
    """Both ways on the same cases, in turn: medians in milliseconds, and the median of the ratios."""
    rng = np.random.default_rng(1)
    combined, by_columns = [], []
    for _ in range(CASES):
        given = _case(rng)
        combined.append(_ms(partial(shamir.wrong_places, *given, rng.bytes)))
        by_columns.append(_ms(partial(columns.wrong_places, *given)))
    ratios = [new / old for new, old in zip(combined, by_columns, strict=True)]
    return {
        "cases": CASES,
        "combined_ms": median(combined),
        "by_columns_ms": median(by_columns),
        "ratio": median(ratios),
    }


def _case(rng: np.random.Generator) -> tuple[Values, shamir.Elements, int]:
    """Half to three quarters of 20 to 200 shares are needed; up to half of the others are wrong."""
    holders = int(rng.integers(20, 201))
    threshold = int(holders * rng.uniform(0.5, 0.75)) + 1
    shares = shamir.split(shamir.random_elements(rng.bytes, 16), threshold, holders, rng.bytes)
    wrong = rng.choice(holders, rng.integers(1, (holders - threshold) // 2 + 1), replace=False)
    shares[wrong] = rng.integers(0, FIELD, (wrong.size, 16))
    return np.arange(1, holders + 1), shares, threshold


def _ms(work: Callable[[], Any]) -> float:
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1e3


def text(found: dict[str, Any]) -> str:
    """Return the section of the page."""
    return (
        f"To find the wrong shares of one secret, medians of {found['cases']} cases with 20 to 200 holders "
        f"(`bench/protocol/liars.py`): {found['combined_ms']:.2f} ms from two random combinations of its 16 "
        f"elements, {found['by_columns_ms']:.0f} ms element by element (`bench/crypto/columns.py`). The "
        f"median ratio is 1 : {1 / found['ratio']:.0f}."
    )


if __name__ == "__main__":
    for name, value in compare().items():
        print(f"{name}: {value:.3g}")
