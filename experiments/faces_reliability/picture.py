"""The figure: accuracies by round, the mean over the seeds and the range that they span."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments import chart

#: Rounds over which the picture's accuracies are averaged.
SMOOTHED = 5
TITLES = {"ours": "real rounds of our server", "paper_rule": "the paper's rule, counted"}
#: Bands, for grey printouts: SA's is filled, the next one's hatched; those of all others would hide them.
BANDS: tuple[dict[str, Any], ...] = (
    {"facecolor": "0.85", "edgecolor": "0.7", "lw": 0.5, "zorder": 1},
    {"facecolor": "none", "edgecolor": "0.75", "lw": 0.5, "hatch": "////", "zorder": 1.5},
)


def draw(result: dict[str, Any]) -> Figure:
    every = [seed["dropouts"] for seed in result["seeds"].values()]
    figure = Figure(figsize=(12, 9), layout="constrained")
    panels = figure.subplots(len(every[0]), len(TITLES), sharex=True, sharey=True, squeeze=False)
    for place, case in enumerate(every[0]):
        for panel, (view, title) in zip(panels[place], TITLES.items(), strict=True):
            told = [row for row in result["summary"] if row["q_total"] == case["q_total"] and row["view"] == view]
            curves = [[seed[place][view][number]["accuracy"] for seed in every] for number in range(len(told))]
            _accuracies(panel, told, curves, 1 / result["clients"])
            chart.finish(panel, f"q_total = {case['q_total']:g}: {title}", loc="upper left")
        panels[place][0].set_ylabel(f"test accuracy (%), mean of {SMOOTHED} rounds")
    for panel in panels[-1]:
        panel.set_xlabel("round")
    figure.suptitle(f"lines: mean over {len(every)} seeds; bands: lowest to highest", fontsize=11)
    return figure


def _accuracies(panel: Axes, told: list[dict[str, Any]], curves: list[list[list[float]]], chance: float) -> None:
    """Markers take turns, so that lines that lie upon each other can be told apart."""
    for number, (row, accuracy) in enumerate(zip(told, curves, strict=True)):
        heights = np.array([smoothed(one) for one in accuracy])
        rounds = np.arange(1, heights.shape[1] + 1)
        if number < len(BANDS):
            panel.fill_between(rounds, heights.min(axis=0), heights.max(axis=0), **BANDS[number])
        look = chart.style(number) | {"ms": 5, "lw": 1.2, "zorder": 3 - number / 10}  # the first on top
        label = f"{row['name']}: {row['lost_in_all']} of {row['rounds']} rounds lost"
        panel.plot(rounds, heights.mean(axis=0), label=label, markevery=(number, 7), **look)
    panel.axhline(100 * chance, color="black", lw=0.8, ls=(0, (1, 4)), label=f"chance, {chance:.1%}")
    panel.set(ylim=(0, 125), yticks=range(0, 101, 20))  # room for the legend


def smoothed(accuracy: list[float]) -> NDArray[np.float64]:
    """In percent, the mean of each round and the ones before it, five at most."""
    sums = np.concatenate([[0.0], np.cumsum(accuracy)])
    ends = np.arange(1, len(accuracy) + 1)
    starts = np.maximum(ends - SMOOTHED, 0)
    return np.asarray(100 * (sums[ends] - sums[starts]) / (ends - starts))
