"""Which graph, how many clients, which epsilon or how few parameters help where noise drowns the mean."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ccesa.errors import ConfigError
from ccesa.graphs import Harary
from ccesa.graphs.assumptions import MAX_PLANNED
from ccesa.plan.figures import figures
from ccesa.plan.planner import plan
from ccesa.plan.result import Plan
from ccesa.privacy.accounting import gaussian_epsilon, gaussian_mu
from ccesa.privacy.mechanism import MOST_EPSILON

_TRIES = 8


def advice(made: Plan, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return single changes with which there is less noise than signal, each of them tried.

    Args:
        made: A plan with noise.
        arguments: Those of ``plan`` that it was made with, by name.

    Returns:
        Dicts of one argument each: a denser graph first, by its ``degree`` or as ``graph``, then ``clients``,
        ``epsilon`` and ``length``. None where the noise does not drown the mean, or no such change helps.
    """
    if made.mechanism is None or (drowning := _drowning(made)) <= 1:
        return ()
    return (
        *_denser(made, arguments),
        *_more_clients(made.clients, drowning, arguments),
        *_epsilon(drowning, arguments),
        *_length(made.mechanism.dimension, drowning, arguments),
    )


def changed(arguments: Mapping[str, Any], option: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``plan`` with an option in place of what was said.

    Args:
        arguments: Those of ``plan``, by name.
        option: One of ``advice``.
    """
    if "epsilon" not in option:
        return {**arguments, **option}
    return {**arguments, "privacy": msgspec.structs.replace(arguments["privacy"], **option)}


def _denser(made: Plan, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the sparsest of the denser graphs that is enough: it costs bytes, and no privacy."""
    for offer in made.offers:
        option = {"degree": offer.degree} if isinstance(offer.graph, Harary) else {"graph": offer.graph.name}
        if _tried(arguments, option) <= 1:
            yield option
            return


def _more_clients(clients: int, drowning: float, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a number of clients that is enough: by the slope between the last two that were tried."""
    power = 1.0
    for _ in range(_TRIES):
        more = int(_rounded_up(max(clients * drowning**power, clients + 1)))
        found = _tried(arguments, {"clients": more}) if more <= MAX_PLANNED else math.inf
        if found <= 1:
            yield {"clients": more}
        if found <= 1 or found >= drowning:
            return
        power = math.log(more / clients) / math.log(drowning / found)
        clients, drowning = more, found


def _epsilon(drowning: float, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an epsilon that is large enough."""
    asked = arguments["privacy"]
    mu = gaussian_mu(asked.epsilon, asked.delta)
    for margin in (1.001, 1.05):
        epsilon = _rounded_up(gaussian_epsilon(asked.delta, margin * drowning * mu))
        if epsilon <= MOST_EPSILON and _tried(arguments, {"epsilon": epsilon}) <= 1:
            yield {"epsilon": epsilon}
            return


def _length(length: int, drowning: float, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a number of parameters that is small enough: the noise grows with its root."""
    for margin in (1.001, 1.05):
        fewer = _rounded_down(length / (margin * drowning) ** 2)
        if fewer >= 1 and _tried(arguments, {"length": fewer}) <= 1:
            yield {"length": fewer}
            return


def _tried(arguments: Mapping[str, Any], option: Mapping[str, Any]) -> float:
    try:
        return _drowning(plan(**changed(arguments, option)))
    except ConfigError:
        return math.inf


def _drowning(made: Plan) -> float:
    return 0.0 if made.mechanism is None else figures(made, made.mechanism).drowning


def _rounded_up(number: float) -> float:
    """Return a number that has two digits and is not below this one."""
    if number == math.inf:
        return number
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / unit * (1 - 1e-12)) * unit, 9)


def _rounded_down(number: float) -> int:
    """Return a whole number that has two digits and is not above this one."""
    unit = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return math.floor(number / unit) * unit
