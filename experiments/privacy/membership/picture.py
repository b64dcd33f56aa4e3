"""The figure: how well members are told from others, beside the most that epsilon allows."""

from typing import Any

from matplotlib.figure import Figure

from experiments import chart

NAMES = {
    "projection, all sums": "projection on the client's vector",
    "weighed, all sums": "the same, weighed by other people's",
    "loss": "loss of the last model",
}


def draw(result: dict[str, Any]) -> Figure:
    sizes = list(dict.fromkeys(row["clients"] for row in result["rows"]))
    figure = Figure(figsize=(11, 4.6 * len(sizes)), layout="constrained")
    panels = figure.subplots(len(sizes), 2, squeeze=False)
    for pair, clients in zip(panels, sizes, strict=True):
        rows = [row for row in result["rows"] if row["clients"] == clients]
        for panel, kind in zip(pair, ("area", "caught"), strict=True):
            _lines(panel, rows, kind)
            if clients == sizes[0]:
                heights = [result["informed"][row["epsilon"]][kind] for row in rows]
                panel.plot(range(len(rows)), heights, label="all other clients known", **chart.style(3))
        chart.finish(pair[0], f"n = {clients}: members above others (AUC); 0.5 is a coin", loc="upper left")
        chart.finish(pair[1], f"n = {clients}: members caught at 1 % false alarms", loc="upper left")
    return figure


def _lines(panel: Any, rows: list[dict[str, Any]], kind: str) -> None:
    places = range(len(rows))
    for number, (name, label) in enumerate(NAMES.items()):
        heights, errors = zip(*(row["attacks"][name][kind] for row in rows), strict=True)
        panel.errorbar(places, heights, errors, label=label, capsize=3, **chart.style(number))
    most = [row["limit"][kind] for row in rows]
    panel.plot(places, most, color="black", lw=6, alpha=0.2, label="the most that ε allows")
    panel.set_xticks(places, [_caption(row) for row in rows])
    panel.set_ylim(0.4 if kind == "area" else -0.02, 1.03)


def _caption(row: dict[str, Any]) -> str:
    noise = "no noise" if row["epsilon"] == "inf" else f"ε = {row['epsilon']}"
    return f"{noise}\naccuracy {row['accuracy'][0]:.0%}"
