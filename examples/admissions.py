"""What runs at the hub and at the sites of `service_demo.py`: how many patients came in each month.

A site has a file with a line per month, `2025-01,413`. It sends the twelve numbers; the hub sees their sums.
"""

import csv
import json
import os
import secrets
import time
from pathlib import Path

import numpy as np

from ccesa.service.coordinator import Questions, Result

MONTHS = 12


def invent(path: Path) -> None:
    """Write a site's file."""
    rows = ((f"2025-{month:02}", 100 + secrets.randbelow(900)) for month in range(1, MONTHS + 1))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def patients(path: Path) -> np.ndarray:
    """Return the numbers of a site's file."""
    with path.open(newline="", encoding="utf-8") as file:
        return np.array([int(count) for _, count in csv.reader(file)], np.uint32)


def contribute(task: bytes, number: int) -> np.ndarray:
    """Return this site's vector, for `ccesa join ... --run admissions:contribute`."""
    path = Path(os.environ["ADMISSIONS"])
    if task.decode() == os.environ.get("HOLD"):  # only in the demo: here this site will be killed
        path.with_suffix(".held").touch()
        time.sleep(3600)
    return patients(path)


class Admissions(Questions):
    """Writes a file for each sum, at the hub; `ccesa serve ... --run admissions:Admissions`."""

    def __init__(self) -> None:
        super().__init__("admissions")

    def result(self, result: Result) -> dict[str, float]:
        """Write the sum, and who is in it; the page shows the number of patients."""
        body = {"survivors": result.survivors, "sum": result.value.tolist()}
        made = Path(f"result-{result.question}.json.new")
        made.write_text(json.dumps(body), encoding="utf-8")
        made.replace(f"result-{result.question}.json")
        return {"patients": float(result.value.sum())}
