"""How many neighbours are enough: exact certificates, the planner, and the price of a round.

``plan`` chooses, ``check`` judges what somebody else chose, ``price`` says what it costs.
docs/planning.md has the mathematics.
"""

from ccesa.plan.calibration import calibrate
from ccesa.plan.certify import Certificate
from ccesa.plan.charters import charter
from ccesa.plan.made import Plan
from ccesa.plan.planner import check, plan
from ccesa.plan.population import Population
from ccesa.plan.price import Cost, Rates, price

__all__ = [
    "Certificate",
    "Cost",
    "Plan",
    "Population",
    "Rates",
    "calibrate",
    "charter",
    "check",
    "plan",
    "price",
]
