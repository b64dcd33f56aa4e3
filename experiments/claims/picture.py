"""The figure: the bound over p, for each p above p*, and the cost of CCESA over SA against n."""

from typing import Any

from matplotlib.figure import Figure

from experiments import chart


def draw(found: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _bound(left, found["arbitrary"]["curves"])
    _cost(right, found["resources"]["rows"])
    return figure


def _bound(panel: Any, curves: list[dict[str, Any]]) -> None:
    """Above 1 is where the value that the paper plots is not a bound of its theorem any more."""
    highest = max(curves, key=lambda curve: max(point["bound"] for point in curve["points"]))
    for number, curve in enumerate(curves):
        look = chart.style(number) | {"marker": ""}
        p = [100 * (point["p"] / curve["points"][0]["p"] - 1) for point in curve["points"]]
        panel.plot(p, [point["bound"] for point in curve["points"]], label=f"bound, n = {curve['n']:,}", **look)
        if curve is highest:
            exact = [point["exact"] for point in curve["points"]]
            panel.plot(p, exact, color="0.6", lw=3, label=f"exact, n = {curve['n']:,}")
    panel.axhline(1, color="black", lw=0.8)
    panel.set(
        xlabel=f"p above p* (%), q_total = {curves[0]['q_total']:g}, t by the rule",
        ylabel="probability over the bound at p*",
        ylim=(0, None),
        xlim=(0, None),
    )
    chart.finish(panel, "“for arbitrary p > p* … lower than the upper bounds marked”")


def _cost(panel: Any, rows: list[dict[str, Any]]) -> None:
    panel.axhspan(20, 30, color="0.88", label="“20 ∼ 30 %”")
    ends = min(row["q_total"] for row in rows), max(row["q_total"] for row in rows)
    looks = {"bytes": ("bytes beside the vector", 0), "sharing": ("secret sharing", 2)}
    for name, (label, first) in looks.items():
        for number, q_total in enumerate(ends):
            mine = [row for row in rows if row["q_total"] == q_total]
            look = chart.style(first + number) | {"ms": 4}
            sizes, heights = [row["n"] for row in mine], [100 * row[name] for row in mine]
            panel.plot(sizes, heights, label=f"{label}, q_total = {q_total:g}", **look)
    panel.set(xscale="log", xlabel="clients n", ylabel="CCESA at p* over SA (%)", ylim=(0, 100))
    ticks = [100, 200, 500, 1000, 2000, 5000, 10_000]
    panel.set_xticks(ticks, [f"{n:,}" for n in ticks])
    panel.minorticks_off()
    chart.finish(panel, "what CCESA costs a client, beside SA")
