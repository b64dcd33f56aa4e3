"""From a plan to the charter of a federation; and a check of the figures that a charter states."""

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
from ccesa.plan.planner import check
from ccesa.plan.result import Plan
from ccesa.privacy import Mechanism
from ccesa.values.fields import WORD_BITS

#: log2 by which figures may differ that were computed on another machine.
_ROUNDING = 1e-6
#: Figures that promise more where they are higher; all others do where they are lower.
_MORE_IS_BETTER = ("least_honest", "colluders")
#: The figures of a charter that are one number each.
_FIGURES = tuple(name for name in Stated.__struct_fields__ if name != "dropout_per_step")


def state(plan: Plan) -> Stated:
    """Return the certificate of a plan, as a charter states it."""
    if not guard_named(plan.guard).chartered:
        raise ConfigError(f"a charter needs a plan with guard = active, not {plan.guard}")
    steps = plan.assumptions.per_step
    return Stated(
        dropout=plan.assumptions.dropout,
        exact_dropout=plan.assumptions.exact,
        collusion=plan.assumptions.collusion,
        colluders=plan.colluders,
        around=plan.around,
        least_honest=plan.least_honest or 0,
        privacy_bits=plan.privacy_bits,
        reliability_bits=plan.reliability_bits,
        dropout_per_step=msgspec.UNSET if steps is None else steps.each,
        **plan.certificate.as_dict(),
    )


def charter(
    plan: Plan, members: Admission, *, expires: date | datetime | int, serial: int = 1, **others: Any
) -> Charter:
    """Return the charter of some members on the terms of a plan.

    Args:
        plan: A plan for as many clients under the guard ``active``.
        members: The members; a client's id is its place in the list.
        expires: When no round is joined any more: a date, a time with its offset, or seconds since 1970.
        serial: The number of this charter, from 1 on; sites accept the newest.
        **others: Fields of Charter that the plan does not say, such as ``attempts`` and ``learning``.

    Raises:
        ConfigError: Another number of clients, another guard, or fields that cannot be.
    """
    if len(members) != plan.clients:
        raise ConfigError(f"the plan is for {plan.clients} clients, but the list has {len(members)} members")
    return Charter(
        serial=serial,
        expires=toml.seconds(expires),  # type: ignore[arg-type]  # checked by the charter itself
        members=tuple(Seat(one.name, one.public) for one in members.members),
        graph=plan.graph,
        threshold=plan.threshold,
        agreement=plan.agreement,
        bits=WORD_BITS if others.get("learning") or others.get("statistics") else plan.bits,  # type: ignore[arg-type]  # checked by itself
        least_roster=plan.least_roster,
        min_survivors=plan.least_survivors,
        certificate=state(plan),
        privacy=plan.mechanism or msgspec.UNSET,
        **others,
    )


def recompute(agreed: Charter) -> Plan:
    """Certify a charter's graph and rule on the charter's own assumptions."""
    states = agreed.certificate
    each = states.dropout_per_step
    steps = None if each is msgspec.UNSET else dict(zip(ORDER, each, strict=True))
    return check(
        agreed.config(length=agreed.length or 1),
        states.dropout if steps is None else None,
        states.collusion,
        privacy_bits=states.privacy_bits,
        reliability_bits=states.reliability_bits,
        exact_dropout=states.exact_dropout,
        dropout_per_step=steps,
    )


def shortfalls(agreed: Charter) -> tuple[str, ...]:
    """Return the promises of a charter that its graph and rule do not keep; none if it was planned."""
    found = recompute(agreed)
    lines = [f"it keeps less than it demands: {line}" for line in found.shortfalls]
    # The certificate does not cover smaller rosters, nor fewer survivors.
    for name, least in (("least_roster", found.least_roster), ("min_survivors", found.least_survivors)):
        if getattr(agreed, name) < least:
            lines.append(f"{name} = {getattr(agreed, name)} is below the certified minimum {least}")
    if agreed.least_roster > found.least_roster:
        lines.append(f"least_roster = {agreed.least_roster} is above {found.least_roster}: fewer may join")
    anew = state(found)
    for name in _FIGURES:
        said, is_so = getattr(agreed.certificate, name), getattr(anew, name)
        flatters = said > is_so if name in _MORE_IS_BETTER else said < is_so - _ROUNDING
        if flatters:
            lines.append(f"it states {name} = {said:g}, but the computed value is {is_so:g}")
    if agreed.mechanism is not None:
        lines.extend(_flattering(agreed.mechanism, found))
    return tuple(lines)


def _flattering(mechanism: Mechanism, found: Plan) -> Iterator[str]:
    """Yield the figures that the noise counts on and that the graph does not keep."""
    promise = found.promised(mechanism.against)
    honest, fails = (0, 0.0) if promise is None else promise
    if mechanism.honest > honest:
        counted = f"{mechanism.honest} honest clients in every sum"
        yield f"its noise counts on {counted}, but the computed number is {honest}"
    if mechanism.fails < fails - _ROUNDING:
        yield f"its noise counts on fails = {mechanism.fails:g}, but the computed value is {fails:g}"
