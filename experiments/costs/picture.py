"""The picture of this part: growth with the clients, and with the vector beside Turbo-aggregate."""

import math
from typing import Any

from matplotlib.figure import Figure

from experiments import chart
from experiments.costs.counting import SCHEMES

PANELS = {
    "client_bytes": ("bytes beside the vector", "a client's communication"),
    "client_agreements": ("key agreements", "a client's key agreements"),
    "client_keystreams": ("keystreams of vector length", "a client's masks"),
    "server_keystreams": ("keystreams of vector length", "the server's masks, a tenth vanishes"),
    "client_sharing": ("field products", "a client's secret sharing"),
    "server_rebuilding": ("field products", "the server's secrets rebuilt, a tenth vanishes"),
}
_DASHES = ((0, (6, 2)), (0, (3, 1, 1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1.5)))


def picture(rows: list[dict[str, Any]], lengths: list[dict[str, Any]], n: int, groups: int) -> Figure:
    figure = Figure(figsize=(11, 15.5), layout="constrained")
    grid = figure.add_gridspec(4, 2)
    shown: dict[str, Any] = {}
    ticks = sorted({row["n"] for row in rows})
    for place, (name, (unit, title)) in enumerate(PANELS.items()):
        panel = figure.add_subplot(grid[divmod(place, 2)])
        _panel(panel, rows, name)
        panel.set(xscale="log", yscale="log", xlabel="clients n", ylabel=unit)
        panel.set_xticks(ticks, [f"{one:,}" for one in ticks])
        panel.minorticks_off()
        chart.finish(panel, title, legend=False)
        handles, labels = panel.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    _against_length(figure.add_subplot(grid[3, :]), lengths, n, groups)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _panel(panel: Any, rows: list[dict[str, Any]], name: str) -> None:
    """Filled: real rounds. Hollow: the cost model. Lines without points: the paper's formulas."""
    for number, scheme in enumerate(SCHEMES):
        mine = [row for row in rows if row["scheme"] == scheme]
        if not mine:
            continue
        look = chart.style(number)
        printed = [row["paper"].get(name, math.nan) for row in mine]
        line = {"color": look["color"], "ls": _DASHES[number], "lw": 1.8}
        panel.plot([row["n"] for row in mine], printed, **line, label=f"{scheme}: the paper's formula")
        for source, fill in (("rounds", look["color"]), ("model", "white")):
            points = [(row["n"], row[name]) for row in mine if row["source"] == source]
            if points:  # a label without a point would say nothing
                words = "real rounds" if source == "rounds" else "cost model"
                look |= {"ls": "none", "mfc": fill, "label": f"{scheme}: {words}"}
                panel.plot(*zip(*points, strict=True), **look)


def _against_length(panel: Any, lengths: list[dict[str, Any]], n: int, groups: int) -> None:
    for number, scheme in enumerate((*SCHEMES, "Turbo-aggregate")):
        points = [(row["length"], row[scheme]["sent"] + row[scheme]["received"]) for row in lengths if scheme in row]
        if points:
            panel.plot(*zip(*points, strict=True), **chart.style(number), label=scheme)
    panel.set(xscale="log", yscale="log", xlabel="elements of a vector m", ylabel="bytes sent and received")
    title = f"a client's communication with {n} clients, Turbo-aggregate in {groups} groups: real rounds"
    chart.finish(panel, title)
