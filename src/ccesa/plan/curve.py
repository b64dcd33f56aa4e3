"""A picture of cost against the number of clients: conventional, the paper's rule, ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.extras import missing
from ccesa.plan.cost import Cost
from ccesa.plan.planned import Plan
from ccesa.plan.planner import plan

CLIENTS = tuple(round(10 ** (power / 8)) for power in range(13, 41))  # 42 to 100,000
FORMATS = (".png", ".svg", ".pdf")


def draw(path: Path, demands: dict[str, Any], progress: Callable[[int], None] = lambda clients: None) -> None:
    """Two panels: bytes a client moves beside its vector, and its working time on this machine."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"a picture ends in {', '.join(FORMATS)}, not {path.suffix or 'nothing'!r}")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing("drawing", "matplotlib", "plots") from error
    plans = _plans(demands, progress)
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    vector = plans[0].length * plans[0].bits / 8
    _lines(panels[0], plans, lambda cost: cost.sent_bytes + cost.received_bytes - vector)
    _lines(panels[1], plans, lambda cost: cost.client_seconds)
    panels[0].set_ylabel("bytes a client moves beside its vector")
    panels[1].set_ylabel("seconds a client works (estimated)")
    figure.suptitle(_title(plans[0]), fontsize=10)
    figure.savefig(path, dpi=150)


def _plans(demands: dict[str, Any], progress: Callable[[int], None]) -> list[Plan]:
    plans = []
    for clients in CLIENTS:
        progress(clients)
        try:
            plans.append(plan(clients, **demands))
        except ImpossiblePlan as error:
            last = error
    if not plans:
        raise last
    return plans


def _lines(panel: Any, plans: list[Plan], measure: Callable[[Cost], float | None]) -> None:
    kinds: dict[str, Callable[[Plan], Cost | None]] = {
        "conventional (SA)": lambda one: one.conventional,
        "the paper's rule": lambda one: one.paper.cost,
        "ccesa": lambda one: one.cost,
    }
    for name, of in kinds.items():
        priced = [(one.clients, of(one)) for one in plans]
        points = [(clients, measure(cost)) for clients, cost in priced if cost is not None]
        panel.plot(*zip(*points, strict=True), label=name) if points else None
    panel.set(xscale="log", yscale="log", xlabel="clients")
    panel.grid(alpha=0.3)
    panel.legend()


def _title(one: Plan) -> str:
    who = one.assumptions
    return (
        f"{who.dropout:.3g} vanish, {who.collusion:.3g} collude, guard {one.guard}, {one.length:,} elements "
        f"of {one.bits} bits; reliable except 2^-{one.reliability_bits:g}, "
        f"private except 2^-{one.privacy_bits:g}"
    )
