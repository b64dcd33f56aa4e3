"""The figure: accuracy, precision and recall of the attack, beside the paper's."""

from typing import Any

#: The paper's accuracy and precision, in percent, by n_train.
PAPER = {
    "plain": {5000: (72.49, 70.41), 10000: (70.72, 65.82), 15000: (72.80, 65.89), 50000: (66.47, 60.62)},
    "sa": {5000: (49.67, 49.78), 10000: (49.96, 49.97), 15000: (49.85, 49.91), 50000: (49.33, 49.10)},
    "ccesa": {5000: (49.29, 49.48), 10000: (50.14, 50.07), 15000: (49.02, 49.16), 50000: (50.00, 50.00)},
}
METRICS = ("accuracy", "precision", "recall")
#: Far apart, so that neighbouring bars differ on a grey printout; the masked schemes are hatched.
_LOOKS = (
    {"color": "0.2"},
    {"color": "0.55"},
    {"color": "1.0", "hatch": "////"},
    {"color": "1.0", "hatch": "...."},
    {"color": "1.0", "hatch": "xxxx"},
    {"color": "0.85"},
)


def draw(result: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure  # the machine that trains may not have it

    figure = Figure(figsize=(14, 4.8), layout="constrained")
    panels = figure.subplots(1, 3)
    for panel, metric in zip(panels, METRICS, strict=True):
        _bars(panel, result, metric)
        panel.set_xticks(range(len(result["sizes"])), [f"{row['n_train']:,}" for row in result["sizes"]])
        panel.set(xlabel="training images n_train", ylabel=f"{metric} of the attack (%)")
        panel.set_title(metric, fontsize=10)
        panel.grid(axis="y", color="0.9")
        panel.set_axisbelow(True)
        if metric == "recall":
            panel.set_ylim(0, 100)
        else:
            panel.set_ylim(40, 90)
            panel.axhline(50, color="black", lw=1, ls="--", label="a guess")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    figure.suptitle("membership inference; the axes of accuracy and precision begin at 40 %", fontsize=10)
    return figure


def _bars(panel: Any, result: dict[str, Any], metric: str) -> None:
    rows, shown = result["sizes"], result["names"]
    width = 0.8 / len(shown)
    for number, (key, name) in enumerate(shown.items()):
        places = [place + (number - len(shown) / 2 + 0.5) * width for place in range(len(rows))]
        heights = [100 * row["attacks"][key][metric] for row in rows]
        panel.bar(places, heights, width, edgecolor="black", label=name, **_LOOKS[number % len(_LOOKS)])
        if metric != "recall":
            _paper(panel, places, [row["n_train"] for row in rows], key, metric)


def _paper(panel: Any, places: list[float], sizes: list[int], key: str, metric: str) -> None:
    """Diamonds; one of them stands for all in the legend."""
    known = [
        (place, PAPER[key][size][metric == "precision"])
        for place, size in zip(places, sizes, strict=True)
        if size in PAPER.get(key, {})
    ]
    if known:
        label = "the paper" if key == "plain" else None
        panel.plot(*zip(*known, strict=True), "D", color="white", mec="black", ms=6, label=label)
