"""The figures of a plan as JSON for programs, and its parts in words for people."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import msgspec

from ccesa.graphs.per_step import ORDER
from ccesa.graphs.tails import LN2
from ccesa.graphs.thresholds import Fixed, Threshold
from ccesa.guards import guard_named
from ccesa.plan import paper
from ccesa.plan.helpers import AssistedPlan
from ccesa.plan.price import Cost, Rates, price
from ccesa.plan.result import Plan, noise_ratio
from ccesa.plan.search import Option, in_words
from ccesa.privacy import Mechanism


@dataclass(frozen=True, kw_only=True)
class Protection:
    """Epsilon against one kind of server, and the number of honest clients in every sum."""

    epsilon: float
    honest: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of a plan's noise. Standard deviations are those of a coordinate, in units of the vector."""

    #: The protection against a server that follows the protocol, and one that lies; None if nothing is promised.
    follows: Protection | None
    lies: Protection | None
    #: The standard deviation of one client's noise, of the expected sum, of its mean, and of a trusted curator's noise.
    per_client: float
    in_sum: float
    in_mean: float
    curator: float
    #: The noise of the expected sum, and of the sum if nobody drops out, divided by the curator's.
    ratio: float
    ratio_if_all_stay: float
    #: The L2 norm of the noise in the mean divided by the bound on a client's vector; 0 if the noise hides records.
    drowning: float
    #: Bits of a parameter in a sum, and bytes of it on the wire.
    field_bits: int
    bytes_each: float

    @property
    def drowns(self) -> bool:
        """Whether there is more noise than signal even if all clients say the same."""
        return self.drowning > 1


def compute_figures(plan: Plan | AssistedPlan, mechanism: Mechanism) -> Figures:
    """Return the figures of a plan with this noise, for the expected number of survivors."""
    expected = plan.assumptions.staying
    in_sum = mechanism.noise(expected)
    in_mean = in_sum / expected
    return Figures(
        follows=_protection(plan, mechanism, "follows"),
        lies=_protection(plan, mechanism, "lies"),
        per_client=mechanism.noise(1),
        in_sum=in_sum,
        in_mean=in_mean,
        curator=mechanism.curator,
        ratio=noise_ratio(mechanism, expected),
        ratio_if_all_stay=noise_ratio(mechanism, plan.clients),
        drowning=0.0 if mechanism.unit else math.sqrt(mechanism.dimension) * in_mean / mechanism.norm,
        field_bits=mechanism.field_bits,
        bytes_each=mechanism.fields.bytes_each,
    )


def _protection(plan: Plan | AssistedPlan, mechanism: Mechanism, against: str) -> Protection | None:
    """Return the protection against a server, even if the noise was made for another kind."""
    promise = plan.promise(against)
    if promise is None:
        return None
    epsilon = mechanism.certify(promise.honest, promise.fails)
    return None if epsilon == math.inf else Protection(epsilon=epsilon, honest=promise.honest)


#: log2 of an impossible event, since JSON has no infinity.
IMPOSSIBLE = -1e9
#: Figures that are properties of a plan with the same name.
_TERMS = ("clients", "guard", "agreement", "accept", "privacy_bits", "reliability_bits", "length", "bits")
_FIGURES = ("degree", "mask_degree", "least_honest", "least_roster", "min_survivors", "colluders", "around")
#: The meaning of each event of a certificate.
_MEANING = {
    "unreliable": "a client has too few live share holders: the round is lost",
    "disconnected": "the honest survivors' masks fall apart: a partial sum could be opened",
    "exposed": "colluding neighbours can open a client with the help of its own share",
    "unmaskable": "two disjoint sets of shares exist: a lying server could open a client",
    "parted": "accusations leave an honest client out: colluders could split the masks",
}


class Bill(NamedTuple):
    """The cost of a round by the plan, by the paper's rule if it has one, and in conventional aggregation."""

    plan: Cost
    paper: Cost | None
    conventional: Cost


def bill(plan: Plan, rates: Rates | None = None) -> Bill:
    """Price a plan and its alternatives, in seconds too if rates are given."""
    rule, n = paper.rule(plan.clients, plan.assumptions.dropout), plan.clients

    def instead(degree: float, t: int) -> Cost:
        return price(replace(plan.shape, degree=degree, mask_degree=degree, threshold=t), rates)

    by_rule = None if rule is None else instead(rule.degree, rule.t)
    return Bill(plan=price(plan, rates), paper=by_rule, conventional=instead(n - 1, n // 2 + 1))


def bound_events(plan: Plan) -> dict[str, float]:
    """Return log2 of each event of the certificate that the server cannot bring about at will.

    A server that lies chooses the dropouts and can split masks, so *disconnected* says nothing. The promise is then
    that each part has ``least_honest`` honest clients.
    """
    lies = guard_named(plan.guard).chooses_roster
    events = plan.certificate.as_dict().items()
    return {name: log2 for name, log2 in events if not (lies and name == "disconnected")}


def as_json(plan: Plan, rates: Rates | None = None) -> dict[str, object]:
    """Return every figure of the plan, with seconds if rates are given. Failures are log2 of probabilities."""
    rule, costs = paper.rule(plan.clients, plan.assumptions.dropout), bill(plan, rates)
    fails, parameters = plan.least_honest_fails, msgspec.to_builtins(plan.graph)
    steps, rule_fields = plan.assumptions.per_step, msgspec.to_builtins(plan.threshold)
    return {
        **{name: getattr(plan, name) for name in _TERMS + _FIGURES},
        "dropout": plan.assumptions.dropout,
        "exact_dropout": plan.assumptions.exact,
        "dropout_per_step": None if steps is None else dict(zip(ORDER, steps.each, strict=True)),
        "collusion": plan.assumptions.collusion,
        "graph": plan.graph.name,
        "p": parameters.get("p"),
        "mask_p": parameters.get("mask_p"),
        "threshold": {"rule": rule_fields.pop("type"), "at_mean_degree": plan.t, **rule_fields},
        "exchanges": exchanges(plan),
        "failure": {name: max(log2, IMPOSSIBLE) for name, log2 in bound_events(plan).items()},
        "spare_bits": {name: min(bits, -IMPOSSIBLE) for name, bits in plan.spare_bits.items()},
        "least_honest_fails": None if fails is None else max(fails, IMPOSSIBLE),
        "cost": _cost(costs.plan),
        "paper": {
            "p_star": rule and rule.p_star,
            "degree": rule and rule.degree,
            "t": rule and rule.t,
            "cost": costs.paper and _cost(costs.paper),
        },
        "conventional": {"degree": plan.clients - 1, "cost": _cost(costs.conventional)},
        "noise": None if plan.mechanism is None else _noise(plan, plan.mechanism),
        "notes": list(plan.notes),
    }


def _noise(plan: Plan | AssistedPlan, mechanism: Mechanism) -> dict[str, object]:
    fields = msgspec.to_builtins(mechanism) | {"fails": max(mechanism.fails, IMPOSSIBLE)}
    offers = [one._asdict() | {"graph": one.graph.name} for one in plan.offers]
    return {**asdict(compute_figures(plan, mechanism)), "mechanism": fields, "offers": offers}


def _cost(cost: Cost) -> dict[str, float]:
    return {name: value for name, value in asdict(cost).items() if value is not None}


def dropout_in_words(total: float, per_step: Iterable[float] | None) -> str:
    """Describe the dropouts that are assumed, in all or per step."""
    if per_step is None:
        return f"{total:.3g} drop out"
    each = [f"{q:.3g} in {name}" for name, q in zip(ORDER, per_step, strict=True) if q]
    return f"{total:.3g} drop out, step by step ({', '.join(each) or 'nobody in any'})"


def exchanges(plan: Plan) -> dict[str, int]:
    """Return how many requests a client gets in a single round, and in each round of a series."""
    return {"round": len(plan.shape.steps), "series": guard_named(plan.guard).stride}


def exchanges_in_words(plan: Plan) -> str:
    return "{round} in a single round, {series} in each round of a series".format(**exchanges(plan))


def masks_in_words(plan: Plan) -> str:
    if plan.mask_degree == plan.degree:
        return "on every edge"
    about = "" if plan.mask_degree == int(plan.mask_degree) else "on average "
    return f"with {about}{plan.mask_degree:.4g} of them"


def threshold_in_words(plan: Plan) -> str:
    at_the_mean = " at the mean" * plan.graph.varies
    return f"{plan.threshold.in_words}: {plan.t} of {int(plan.degree) + 1} shares open a secret{at_the_mean}"


def tightest_in_words(plan: Plan) -> str:
    """Name the demand that decides the cost of the graph, and the bits by which each demand is exceeded."""
    (first, least), (other, more) = plan.spare_bits.items()
    spare = "cannot fail" if more == math.inf else f"has {more:.1f} to spare"
    return "neither can fail" if least == math.inf else f"{first}, {least:.1f} bits to spare; {other} {spare}"


def promise_in_words(plan: Plan) -> str:
    """Describe the honest clients in every opened sum; return an empty text if nobody can choose dropouts."""
    if plan.least_honest is None or plan.least_honest_fails is None:
        return ""
    fails = plan.least_honest_fails
    unless = "" if fails == -math.inf else f", except with {probability_in_words(fails)}"
    honest = f"at least {plan.least_honest:,} honest clients"
    if not guard_named(plan.guard).chooses_roster:
        return (
            f"any part of the sum that could be split off has {honest}, whoever drops out{unless}; a round of fewer "
            f"than {plan.min_survivors:,} clients fails (min_survivors)"
        )
    return (
        f"{covers_in_words(honest, noisy=plan.mechanism is not None)}, whichever roster of at least "
        f"{plan.least_roster:,} the server chooses and whoever it drops, as long as at most "
        f"{plan.colluders:,} of all {plan.clients:,} clients collude with it{unless}"
        f"{one_sum_in_words(plan.threshold, plan.clients, plan.colluders) * (plan.mechanism is None)}"
    )


def assumed_in_words(helping: int, colluders: int) -> str:
    """Say what has to be true of helpers and members, in one assumption or in two."""
    most = f"at most {colluders:,} {'member works' if colluders == 1 else 'members work'} with the hub"
    if helping > colluders:
        return f"{most}; then one of the {helping} helpers that are members does not"
    return f"two things: {most}, and at least one helper does not"


def covers_in_words(honest: str, *, noisy: bool, releases: int = 1) -> str:
    """Say what covers the honest clients: all sums of a task together, or each sum by itself."""
    if noisy or releases > 1:
        return f"any sum covers {honest}"
    return f"whatever is opened for a task, in all attempts together, covers {honest}"


def one_sum_in_words(threshold: Threshold, clients: int, colluders: int) -> str:
    """Say that a task has one sum at most, if no two sets of holders that release once can be disjoint."""
    alone = isinstance(threshold, Fixed) and 2 * threshold.t > clients + colluders
    return "; there is at most one sum for a task" if alone else ""


def probability_in_words(log2: float) -> str:
    """Return a probability as a power of two and of ten."""
    if log2 == -math.inf:
        return "impossible"
    if log2 > -10:
        return f"{2.0**log2:.2g}"
    return f"2^{log2:.1f} (10^{math.ceil(log2 * math.log10(2.0))})"


def bytes_in_words(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} PB"


def certificate_in_words(plan: Plan) -> Iterator[tuple[str, float, str]]:
    """Yield each event that can go wrong: its name, log2 of its bound, and its meaning."""
    guard, bounds = guard_named(plan.guard), bound_events(plan)
    for name in guard.events:
        if name in bounds:
            meaning = _MEANING[name]
            if name == "unreliable" and plan.roster.log_short / LN2 > bounds[name] - 1:
                meaning = f"mostly set aside: fewer than {plan.least_roster:,} clients join, or {meaning}"
            yield name, bounds[name], meaning
    if "disconnected" not in bounds and plan.least_honest_fails is not None:
        fewer = f"a sum that can be opened covers fewer than {plan.least_honest:,} honest clients"
        yield "least honest", plan.least_honest_fails, fewer
    if plan.mechanism is not None and plan.parted > -math.inf and not guard.chooses_roster:
        yield "parted", plan.parted, _MEANING["parted"]


def demand_in_words(mechanism: Mechanism) -> str:
    """Describe the demand on the noise, and the server that it is made for."""
    server = "follows the protocol" if mechanism.against == "follows" else "lies"
    about = f" about any one {mechanism.unit}" if mechanism.unit else ""
    within = "" if mechanism.unit else f" and an L2 norm of at most {mechanism.norm:g}"
    return (
        f"epsilon = {mechanism.epsilon:g} at delta = {mechanism.delta:g}{about} if the server {server}, for "
        f"{mechanism.rounds:,} vectors of a client, each with {mechanism.dimension:,} {number_in_words(mechanism)}s"
        f"{within}"
    )


def number_in_words(mechanism: Mechanism) -> str:
    """Name a number of the vector: a parameter of a model, or a count of records."""
    return "count" if mechanism.unit else "parameter"


def noise_in_words(plan: Plan | AssistedPlan, mechanism: Mechanism) -> Iterator[tuple[str, str]]:
    """Yield lines about the promise, the amount and the cost of the noise."""
    found, expected, each = compute_figures(plan, mechanism), plan.assumptions.staying, number_in_words(mechanism)
    yield "noise", demand_in_words(mechanism)
    yield "server follows", _protection_in_words(found.follows)
    yield "server lies", _protection_in_words(found.lies)
    yield "survivors", f"no sum over fewer than {plan.min_survivors:,} is opened"
    yield (
        "a client adds",
        f"noise with a standard deviation of {found.per_client:.3g} to each {each}; a sum over "
        f"{expected:,} has {found.in_sum:.3g}",
    )
    yield (
        "distributing it",
        f"costs {found.ratio:.3f} times the noise of a trusted curator, {found.curator:.3g}; "
        f"{found.ratio_if_all_stay:.3f} times if nobody drops out",
    )
    if not mechanism.unit:
        yield "a mean", f"is off by {found.in_mean:.3g} in each parameter (standard deviation)"
    yield f"a {each}", f"takes {found.field_bits} bits, {found.bytes_each:.3g} bytes on the wire"


def _protection_in_words(kept: Protection | None) -> str:
    if kept is None:
        return "no promise"
    return f"epsilon = {kept.epsilon:.3g}, by the noise of {kept.honest:,} honest clients in every sum"


def drowning_in_words(found: Figures, options: tuple[Option, ...]) -> str:
    """Say that there is more noise than signal, and name changes that help."""
    changes = in_words(options) if options else "no single change helps"
    return (
        f"the noise in a mean has {found.drowning:.3g} times the L2 norm of a client's vector, so little but noise is "
        f"left; {changes}"
    )
