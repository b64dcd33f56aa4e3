"""The section on what could not be tested."""

import math

from experiments.page.held import Said, Section
from experiments.page.markdown import power

SECTION = Section(
    title="What could not be tested",
    said=[
        Said(
            "real rounds up to n = {:,}, exact probabilities up to n = {}",
            lambda found: [
                max(row["n"] for row in found["costs"]["rows"]),
                power(10, math.log10(max(row["n"] for row in found["claims"]["rates"]["unreliable"]))),
            ],
        )
    ],
)
