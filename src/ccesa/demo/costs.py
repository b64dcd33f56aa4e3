"""What a client pays: in the demo's rounds beside conventional ones, and by plan up to 100,000 clients."""

from collections.abc import Callable
from statistics import mean

from ccesa.demo import pictures
from ccesa.demo.markup import Slots, table
from ccesa.demo.pictures import Curve
from ccesa.demo.training import History
from ccesa.errors import ImpossiblePlan
from ccesa.plan import Cost, Plan
from ccesa.plan.planner import PlanRequest
from ccesa.plan.report import Bill
from ccesa.plan.report import bill as priced
from ccesa.simulate import Report

#: From 10 clients to 100,000, four for each power of ten.
CLIENTS = tuple(round(10 ** (power / 4)) for power in range(4, 21))
#: What a client pays for a round: a name, where it is in a report, and how it is written.
_COSTS: list[tuple[str, Callable[[Report], float], str]] = [
    ("neighbours of a client", lambda report: report.degree_mean, "{:.0f}"),
    ("client, milliseconds of work", lambda report: sum(report.client_ms.values()), "{:.2f}"),
    ("client, bytes sent", lambda report: report.client_bytes["sent"], "{:,.0f}"),
    ("client, bytes received", lambda report: report.client_bytes["received"], "{:,.0f}"),
]
#: The lines of the curve: the style, and where the price is.
_LINES: dict[str, tuple[str, Callable[[Bill], Cost | None]]] = {
    "conventional (everyone with everyone)": ("dot", lambda one: one.conventional),
    "the paper's rule": ("dash", lambda one: one.paper),
    "ccesa, as planned": ("solid", lambda one: one.plan),
}


def bill(history: History, conventional: Report) -> list[tuple[str, str, str, str]]:
    """Return what a client pays for a round, beside conventional secure aggregation."""
    rows = []
    for name, cost, form in _COSTS:
        ours, theirs = mean(map(cost, history.sums or history.reports)), cost(conventional)
        rows.append((name, form.format(ours), form.format(theirs), f"{ours / theirs:.0%}"))
    return rows


def size(count: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} GB"


def curve(made: Plan) -> dict[int, Bill]:
    """Price the demo's round for other numbers of clients, as few as there is a reliable plan for."""
    said = {name: getattr(made, name) for name in ("length", "bits", "agreement", "accept")}
    found: dict[int, Bill] = {}
    for clients in reversed(CLIENTS):
        try:
            asked = PlanRequest(clients, made.assumptions.dropout, **said)
            found[clients] = priced(asked.plan(explained=False))
        except ImpossiblePlan:
            break  # what many cannot do fewer cannot either
    return dict(sorted(found.items()))


def slots(history: History, conventional: Report) -> Slots:
    """Show the bill of the demo, and how it grows with the number of clients."""
    bills, heads = curve(history.plan), ("per client and round", "ccesa", "conventional", "ratio")
    sent = mean(report.client_bytes["sent"] for report in history.sums or history.reports)
    return {
        "sent": size(sent),
        "words": f"{history.plan.length:,}",
        "dropout": f"{history.plan.assumptions.dropout:.0%}",
        "bill": table("Measured in this demo (mean over rounds)", heads, bill(history, conventional)),
        **(_curve(bills) if bills else {"cost": "No plan is reliable if so many drop out.", "planned": ""}),
    }


def _curve(bills: dict[int, Bill]) -> Slots:
    lines = {
        name: {clients: _traffic(cost) for clients, one in bills.items() if (cost := of(one)) is not None}
        for name, (_, of) in _LINES.items()
    }
    curves = [Curve(name, _LINES[name][0], list(points.items())) for name, points in lines.items() if points]
    everything = [value for points in lines.values() for value in points.values()]
    x = pictures.powers(list(bills), "clients", "{:,.0f}".format)
    y = pictures.powers(everything, "sent and received by a client in a round", size)
    rows = [
        [f"{clients:,}", *(size(one[clients]) if clients in one else "no rule" for one in lines.values())]
        for clients in bills
        if clients in (100, 1000, 10_000, 100_000)
    ]
    told = "; ".join(f"{name} {price}" for name, price in zip(lines, rows[-1][1:], strict=True))
    return {
        "cost": pictures.chart(curves, x, y, f"Bytes per client; with {rows[-1][0]} clients: {told}."),
        "planned": table("By plan, bytes per client and round", ("clients", *lines), rows),
    }


def _traffic(cost: Cost) -> float:
    return cost.sent_bytes + cost.received_bytes
