"""From a graph and a threshold rule to a plan with its certificate."""

from dataclasses import replace

import numpy as np

from ccesa.graphs.demand import Demand
from ccesa.graphs.reliability import log_fewer
from ccesa.graphs.tails import LN2, log2_upwards
from ccesa.plan.certificate import certify
from ccesa.plan.result import Plan
from ccesa.plan.search import Found


def certified(demand: Demand, length: int, bits: int, found: Found) -> Plan:
    """Return a graph and a rule with their certificate."""
    made = Plan(
        roster=demand.roster,
        guard=demand.guard.name,
        length=length,
        bits=bits,
        privacy_bits=demand.privacy_bits,
        reliability_bits=demand.reliability_bits,
        graph=found.graph,
        threshold=found.threshold,
        certificate=certify(found.graph, found.threshold, demand.assumptions, demand.roster),
        notes=found.notes,
    )
    return _promising_more(demand, made) if demand.roster.chosen and made.is_private else made


def surviving(made: Plan, least: int) -> Plan:
    """Return the plan of a round that opens no sum over fewer than ``least``, which may be above its own.

    With fewer than t survivors a round is lost in any case, for want of share holders.
    """
    if least <= made.least_survivors:
        return made
    made, bounds = replace(made, survivors=least), made.certificate
    if least <= made.threshold.of(min(made.degrees)):
        return made
    lost = np.logaddexp(bounds.unreliable * LN2, log_fewer(made.assumptions, least))
    return replace(made, certificate=replace(bounds, unreliable=log2_upwards(lost)))


def _promising_more(demand: Demand, made: Plan) -> Plan:
    """Return the plan, about more colluders than a fraction γ of the smallest roster, where it bears them."""
    surely = min(_bearable(demand, made), demand.assumptions.colluders)
    if surely <= made.colluders:
        return made
    roster = replace(demand.roster, anywhere=surely)
    certificate = certify(made.graph, made.threshold, demand.assumptions, roster)
    return replace(made, roster=roster, certificate=certificate)


def _bearable(demand: Demand, made: Plan) -> int:
    """Return with how many colluders no event can happen, wherever they are; none where degrees vary."""
    if made.graph.varies:
        return 0
    degrees = np.array(made.degrees)
    t = made.threshold.of(degrees)
    return min(int(event(t, degrees).min()) for event in demand.events) - 1
