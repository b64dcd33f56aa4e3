"""How many neighbours are enough: exact certificates, the planner, and the price of a round.

``certificate`` bounds the events, ``search`` finds the cheapest graph or explains why no graph works, ``result`` is the
plan, ``noise`` adds noise to it, and ``planner`` puts them together. ``helpers`` plans without a graph. Then there are
``price`` with its ``calibration``, ``paper`` for comparison, ``report`` and ``charters``. docs/planning.md has the
mathematics.
"""

from ccesa.graphs.assumptions import Assumptions
from ccesa.plan.calibration import calibrate
from ccesa.plan.certificate import Certificate
from ccesa.plan.charters import charter
from ccesa.plan.helpers import AssistedPlan, plan_helpers
from ccesa.plan.planner import check, plan
from ccesa.plan.price import AssistedCost, Cost, Rates, Work, price, price_helpers
from ccesa.plan.result import Plan

__all__ = [
    "AssistedCost",
    "AssistedPlan",
    "Assumptions",
    "Certificate",
    "Cost",
    "Plan",
    "Rates",
    "Work",
    "calibrate",
    "charter",
    "check",
    "plan",
    "plan_helpers",
    "price",
    "price_helpers",
]
