"""How many neighbours are enough: exact certificates, the planner, and the price of a round.

``plan`` chooses, ``check`` judges what somebody else chose, ``price`` says what it costs. The way through the
files: ``certificate`` bounds the events, ``search`` finds the cheapest graph that is ``wanted``, ``planner``
makes the plan (``making``, ``result``) or an ``explanation`` of why there is none; with ``noise`` it is
``counting`` honest clients for its ``promises``, ``figures`` and ``advice``. Then ``price`` with its
``calibration``, ``paper`` for comparison, ``report`` and ``charters``.
docs/planning.md has the mathematics.
"""

from ccesa.graphs.assumptions import Assumptions
from ccesa.plan.calibration import calibrate
from ccesa.plan.certificate import Certificate
from ccesa.plan.charters import charter
from ccesa.plan.planner import check, plan
from ccesa.plan.price import Cost, Rates, price
from ccesa.plan.result import Plan

__all__ = [
    "Assumptions",
    "Certificate",
    "Cost",
    "Plan",
    "Rates",
    "calibrate",
    "charter",
    "check",
    "plan",
    "price",
]
