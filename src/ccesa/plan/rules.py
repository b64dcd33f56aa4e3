"""Threshold rules on whole arrays of degrees."""

import numpy as np

from ccesa.config import Fixed, Linear, Threshold
from ccesa.plan.tails import Counts


def thresholds(rule: Threshold, degrees: Counts) -> Counts:
    """What the rule gives each degree: ``rule.of`` for all at once."""
    if isinstance(rule, Fixed):
        return np.full_like(degrees, rule.t)
    return linear(rule.slope, rule.base, degrees) if isinstance(rule, Linear) else linear(0, 0, degrees)


def linear(slope: int, base: int, degrees: Counts) -> Counts:
    """``Linear(slope, base)``; with zeros, the majority."""
    return np.maximum((degrees + 1) // 2 + 1, slope * degrees // 1024 + base)
