"""How many neighbours are enough: the paper's formulas, exact certificates, and the planner.

``plan`` chooses, ``check`` judges what somebody else chose. docs/planning.md has the mathematics.
"""

from ccesa.plan.certify import Certificate
from ccesa.plan.charters import charter
from ccesa.plan.made import Plan
from ccesa.plan.planner import check, plan
from ccesa.plan.population import Population

__all__ = ["Certificate", "Plan", "Population", "charter", "check", "plan"]
