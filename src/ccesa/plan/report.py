"""A plan as a JSON object, and its parts in words."""

import math
from dataclasses import asdict

import msgspec

from ccesa.plan.planned import Plan

#: log2 of what cannot happen at all: JSON has no infinity.
IMPOSSIBLE = -1e9


def as_json(plan: Plan) -> dict[str, object]:
    """Every figure of the plan; failures are log2 of probabilities."""
    fails, parameters = plan.least_honest_fails, msgspec.to_builtins(plan.graph)
    return {
        "clients": plan.clients,
        "dropout": plan.assumptions.dropout,
        "exact_dropout": plan.assumptions.exact,
        "collusion": plan.assumptions.collusion,
        "guard": plan.guard,
        "privacy_bits": plan.privacy_bits,
        "reliability_bits": plan.reliability_bits,
        "length": plan.length,
        "bits": plan.bits,
        "graph": plan.graph.name,
        "degree": plan.degree,
        "p": parameters.get("p"),
        "mask_degree": plan.mask_degree,
        "mask_p": parameters.get("mask_p"),
        "threshold": _threshold(plan),
        "failure": {name: max(log2, IMPOSSIBLE) for name, log2 in plan.certificate.as_dict().items()},
        "least_honest": plan.least_honest,
        "least_honest_fails": None if fails is None else max(fails, IMPOSSIBLE),
        "least_roster": plan.least_roster,
        "least_survivors": plan.least_survivors,
        "colluders": plan.colluders,
        "around": plan.around,
        "cost": asdict(plan.cost),
        "paper": {
            "p_star": plan.paper.p_star,
            "degree": plan.paper.degree,
            "t": plan.paper.t,
            "cost": plan.paper.cost and asdict(plan.paper.cost),
        },
        "conventional": {"degree": plan.clients - 1, "cost": asdict(plan.conventional)},
        "notes": list(plan.notes),
    }


def _threshold(plan: Plan) -> dict[str, object]:
    fields = msgspec.to_builtins(plan.threshold)
    return {"rule": fields.pop("type"), "at_mean_degree": plan.t, **fields}


def graph_in_words(plan: Plan) -> str:
    return plan.graph.in_words(plan.clients)


def masks_in_words(plan: Plan) -> str:
    if plan.mask_degree == plan.degree:
        return "on every edge"
    about = "" if plan.mask_degree == int(plan.mask_degree) else "on average "
    return f"with {about}{plan.mask_degree:.4g} of them"


def threshold_in_words(plan: Plan) -> str:
    holders = f"{plan.t} of {int(plan.degree) + 1} shares open a secret"
    return f"{plan.threshold.in_words}: {holders}{' at the mean' * plan.graph.varies}"


def promise_in_words(plan: Plan) -> str:
    """Who is in whatever can be opened, whoever drops out; empty where nobody chooses dropouts."""
    if plan.least_honest is None or plan.least_honest_fails is None:
        return ""
    fails = plan.least_honest_fails
    unless = "" if fails == -math.inf else f", except with {probability_in_words(fails)}"
    honest = f"at least {plan.least_honest:,} honest clients"
    if plan.guard == "curious":
        return f"any part of the sum that could be split off has {honest}, whoever drops out{unless}"
    return (
        f"any sum covers {honest}, whichever roster of at least {plan.least_roster:,} the server chooses and "
        f"whoever it drops, as long as at most {plan.colluders:,} of all {plan.clients:,} clients collude "
        f"with it{unless}"
    )


def probability_in_words(log2: float) -> str:
    """Both ways of saying it."""
    if log2 == -math.inf:
        return "impossible"
    if log2 > -10:
        return f"{2.0**log2:.2g}"
    return f"2^{log2:.1f} (10^{math.ceil(log2 * math.log10(2.0))})"
