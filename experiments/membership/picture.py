"""The figure: the accuracy of the attack beside the paper's, and its curve of hits against false alarms."""

from typing import Any

import numpy as np

from experiments.membership.setup import ROC_AT

#: The paper's accuracy and precision, in percent, by n_train.
PAPER = {
    "plain": {5000: (72.49, 70.41), 10000: (70.72, 65.82), 15000: (72.80, 65.89), 50000: (66.47, 60.62)},
    "sa": {5000: (49.67, 49.78), 10000: (49.96, 49.97), 15000: (49.85, 49.91), 50000: (49.33, 49.10)},
    "ccesa": {5000: (49.29, 49.48), 10000: (50.14, 50.07), 15000: (49.02, 49.16), 50000: (50.00, 50.00)},
}
#: What is drawn, in this order, and how it is called.
SHOWN = {
    "published": "the published mean",
    "own": "a client's model, its own images",
    "plain": "a client's model, images of all",
    "sa": "a masked model, SA",
    "ccesa": "a masked model, CCESA",
    "ours": "a masked model, planned",
}

Row = dict[str, Any]


def draw(result: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure  # the machine that trains may not have it

    figure = Figure(figsize=(14, 5), layout="constrained")
    sizes, *curves = figure.subplots(1, 3, width_ratios=[1.3, 1, 1])
    usual, many = (_of(result["rows"], clients) for clients in map(int, result["names"]))
    _by_size(sizes, usual)
    smallest = min(row["n_train"] for row in usual)
    for panel, rows in zip(curves, (usual, many), strict=True):
        mine = [row for row in rows if row["n_train"] == smallest]
        if mine:
            _curves(panel, mine)
    handles, labels = sizes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def _of(rows: list[Row], clients: int) -> list[Row]:
    return [row for row in rows if row["clients"] == clients]


def _by_size(panel: Any, rows: list[Row]) -> None:
    """Medians over the seeds, with bars from the lowest to the highest."""
    from experiments import chart

    sizes = sorted({row["n_train"] for row in rows})
    for number, (key, name) in enumerate(SHOWN.items()):
        values = [[100 * row["attacks"][key]["accuracy"] for row in rows if row["n_train"] == size] for size in sizes]
        middle = np.array([np.median(mine) for mine in values])
        reach = [middle - [min(mine) for mine in values], [max(mine) for mine in values] - middle]
        places = np.arange(len(sizes)) + (number - len(SHOWN) / 2 + 0.5) * 0.11
        panel.errorbar(places, middle, reach, capsize=3, label=name, **_look(number, lines=False))
        _paper(panel, places, sizes, key)
    panel.axhline(50, color="black", lw=1, ls="--", label="a guess")
    panel.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    panel.set(xlabel="training images n_train", ylabel="accuracy of the attack (%)")
    chart.finish(panel, f"{rows[0]['clients']} clients", legend=False)


def _paper(panel: Any, places: Any, sizes: list[int], key: str) -> None:
    """Diamonds; one of them stands for all in the legend."""
    known = [(x, PAPER[key][n][0]) for x, n in zip(places, sizes, strict=True) if n in PAPER.get(key, {})]
    if known:
        label = "the paper" if key == "plain" else None
        panel.plot(*zip(*known, strict=True), "D", color="white", mec="black", ms=6, label=label)


def _curves(panel: Any, rows: list[Row]) -> None:
    """Hits against false alarms, the mean over the seeds; from one in ten thousand on."""
    from experiments import chart

    for number, key in enumerate(SHOWN):
        hits = np.array([row["attacks"][key]["roc"] for row in rows])
        seen = np.where(hits.mean(0) > 0, hits.mean(0), np.nan)
        panel.plot(ROC_AT, seen, lw=1.3, markevery=(number, 6), **_look(number, lines=True))
    panel.plot(ROC_AT, ROC_AT, color="black", lw=1, ls="--")
    panel.set(xscale="log", yscale="log", xlim=(1e-4, 1), ylim=(1e-4, 1))
    panel.set(xlabel="false alarms", ylabel="members found")
    clients, size = rows[0]["clients"], rows[0]["n_train"]
    chart.finish(panel, f"{clients} clients, n_train = {size:,}", legend=False)


def _look(number: int, *, lines: bool) -> dict[str, Any]:
    from experiments import chart

    return chart.style(number) | {"ms": 5} | ({} if lines else {"ls": "none"})
