"""How many neighbours are enough: the paper's formulas, exact certificates, and the planner.

``plan`` chooses, ``check`` judges what somebody else chose. docs/planning.md has the mathematics.
"""

from ccesa.chances.assumptions import Assumptions
from ccesa.plan.certificate import Certificate
from ccesa.plan.charters import charter
from ccesa.plan.planned import Plan
from ccesa.plan.planner import check, plan

__all__ = ["Assumptions", "Certificate", "Plan", "charter", "check", "plan"]
