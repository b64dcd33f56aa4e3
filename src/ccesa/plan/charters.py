"""The charter of a plan, and a check of the figures that a charter states."""

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import msgspec

from ccesa.agreement import toml
from ccesa.agreement.charter import Charter, Seat, Stated
from ccesa.agreement.identity import Admission
from ccesa.errors import ConfigError
from ccesa.graphs.per_step import ORDER
from ccesa.guards import guard_named
from ccesa.plan.helpers import AssistedPlan
from ccesa.plan.planner import AnyPlan, check
from ccesa.plan.result import Plan
from ccesa.privacy import Mechanism
from ccesa.values.fields import WORD_BITS

#: The difference in log2 between figures of different machines.
_ROUNDING = 1e-6
#: Figures that promise more if they are higher. Other figures promise more if they are lower.
_MORE_IS_BETTER = ("least_honest", "colluders")
#: The figures of a charter that are one number each.
_FIGURES = tuple(name for name in Stated.__struct_fields__ if name != "dropout_per_step")


def state(plan: Plan) -> Stated:
    """Return the certificate of a plan, as a charter states it."""
    if not guard_named(plan.guard).chartered:
        raise ConfigError(f"a charter needs a plan with guard = active, not {plan.guard}")
    assumed = plan.assumptions
    return Stated(
        dropout=assumed.dropout,
        exact_dropout=assumed.exact,
        collusion=assumed.collusion,
        colluders=plan.colluders,
        around=plan.around,
        least_honest=plan.least_honest or 0,
        privacy_bits=plan.privacy_bits,
        reliability_bits=plan.reliability_bits,
        dropout_per_step=msgspec.UNSET if assumed.per_step is None else assumed.per_step.each,
        **plan.certificate.as_dict(),
    )


def charter(
    plan: AnyPlan,
    members: Admission,
    helpers: Admission | None = None,
    *,
    expires: date | datetime | int,
    serial: int = 1,
    **others: Any,
) -> Charter:
    """Return the charter of some members on the terms of a plan.

    Args:
        plan: A plan for as many clients, under the guard ``active``, or one of ``plan_helpers``.
        members: The members. The id of a client is its place in the list.
        helpers: With a plan of ``plan_helpers``: as many helpers, of whom as many are members.
        expires: The end, after which nobody joins a round: a date, a time with its offset, or seconds since 1970.
        serial: The number of this charter, 1 or greater. Sites accept the newest.
        **others: More fields of Charter, such as ``attempts`` and ``learning``.

    Raises:
        ConfigError: Another number of clients or helpers, another guard, or a field out of range.
    """
    if len(members) != plan.clients:
        raise ConfigError(f"the plan is for {plan.clients} clients, but the list has {len(members)} members")
    guarded = _of_helpers(plan, members, helpers) if isinstance(plan, AssistedPlan) else _of_graph(plan, helpers)
    return Charter(
        serial=serial,
        expires=toml.seconds(expires),  # type: ignore[arg-type]  # checked by the charter itself
        members=_seats(members),
        agreement=plan.agreement,
        bits=WORD_BITS if others.get("learning") or others.get("statistics") else plan.bits,  # type: ignore[arg-type]  # checked by itself
        min_survivors=plan.min_survivors,
        privacy=plan.mechanism or msgspec.UNSET,
        **guarded,
        **others,
    )


def _seats(admitted: Admission) -> tuple[Seat, ...]:
    return tuple(Seat(one.name, one.public) for one in admitted.members)


def _of_graph(plan: Plan, helpers: Admission | None) -> dict[str, Any]:
    if helpers is not None:
        raise ConfigError("this plan has a graph and no helpers: plan with plan_helpers, or leave helpers out")
    rule = {"threshold": plan.threshold, "least_roster": plan.least_roster, "certificate": state(plan)}
    return {"graph": plan.graph, **rule}


def _of_helpers(plan: AssistedPlan, members: Admission, helpers: Admission | None) -> dict[str, Any]:
    if helpers is None or len(helpers) != plan.helpers:
        given = "none" if helpers is None else len(helpers)
        raise ConfigError(f"the plan is for {plan.helpers} helpers, but the list has {given}")
    if count_helping(members, helpers) != plan.helping_members:
        raise ConfigError(
            f"the plan is for {plan.helping_members} helpers that are members, but {count_helping(members, helpers)} "
            "are: plan again with helping_members"
        )
    return {"helpers": _seats(helpers), "colluders": plan.colluders}


def count_helping(members: Admission, helpers: Admission) -> int:
    """Return how many of the helpers are members, with the same key."""
    return len({one.public for one in members.members} & {one.public for one in helpers.members})


def shortfalls(agreed: Charter) -> tuple[str, ...]:
    """Return the promises of a charter that its graph and rule do not keep. A planned charter has none."""
    if not agreed.guard.has_graph:
        return ()  # the promise has no probability, and the charter refuses what it cannot keep
    states = agreed.certificate
    each = states.dropout_per_step
    steps = None if each is msgspec.UNSET else dict(zip(ORDER, each, strict=True))
    found = check(
        agreed.config(length=agreed.length or 1),
        dropout=states.dropout if steps is None else None,
        dropout_per_step=steps,
        **{name: getattr(states, name) for name in ("collusion", "privacy_bits", "reliability_bits", "exact_dropout")},
    )
    return tuple(_shortfalls(agreed, found))


def _shortfalls(agreed: Charter, found: Plan) -> Iterator[str]:
    yield from (f"it keeps less than it demands: {line}" for line in found.shortfalls)
    # The certificate does not cover smaller rosters or fewer survivors.
    for name, least in (("least_roster", found.least_roster), ("min_survivors", found.min_survivors)):
        if getattr(agreed, name) < least:
            yield f"{name} = {getattr(agreed, name)} is below the certified minimum {least}"
    if agreed.least_roster > found.least_roster:
        yield f"least_roster = {agreed.least_roster} is above {found.least_roster}: fewer may join"
    states, computed = agreed.certificate, state(found)
    for name in _FIGURES:
        stated, is_so = getattr(states, name), getattr(computed, name)
        if stated > is_so if name in _MORE_IS_BETTER else stated < is_so - _ROUNDING:
            yield f"it states {name} = {stated:g}, but the computed value is {is_so:g}"
    if agreed.mechanism is not None:
        yield from _flattering(agreed.mechanism, found)


def _flattering(mechanism: Mechanism, found: Plan) -> Iterator[str]:
    """Yield the figures that the noise counts on and the graph does not keep."""
    honest, fails = found.promise(mechanism.against) or (0, 0.0)
    if mechanism.honest > honest:
        yield (
            f"its noise counts on {mechanism.honest} honest clients in every sum, but the computed number is {honest}"
        )
    if mechanism.fails < fails - _ROUNDING:
        yield f"its noise counts on fails = {mechanism.fails:g}, but the computed value is {fails:g}"
