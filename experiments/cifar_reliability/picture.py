"""The figure: accuracy by round, a panel for each split, a band over the seeds.

Schemes whose curves coincide in every seed share a line. Where fewer seeds were trained so far, the band is
theirs, and a mark shows where it becomes one.
"""

from typing import Any

import numpy as np

from experiments.cifar_reliability.setup import TITLES
from experiments.splits import SPLITS

#: Above all curves, in percent.
_STROKES = 66.0

#: A curve for each seed, None where it is not known.
Curves = list[list[float | None]]


def draw(result: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure  # the machine that trains may not have it

    from experiments import chart

    figure = Figure(figsize=(6.5 * len(SPLITS), 4.8), layout="constrained")
    for panel, kind in zip(figure.subplots(1, len(SPLITS), sharey=True), SPLITS, strict=True):
        for number, (keys, curves) in enumerate(together(by_scheme(result, kind))):
            _line(panel, number, [result["schemes"][key] for key in keys], curves)
            _strokes(panel, number, result, keys[0])
        panel.set(xlabel="round", ylabel="test accuracy (%)", ylim=(0, _STROKES + 3))
        clients, q_total = result["clients"], result["q_total"]
        chart.finish(panel, f"{TITLES[kind]}, n = {clients}, q_total = {q_total:g}", loc="lower right")
    return figure


def by_scheme(result: dict[str, Any], kind: str) -> dict[str, Curves]:
    found = [seed["accuracy"].get(kind, {}) for seed in result["seeds"].values()]
    return {key: [mine.get(key, []) for mine in found] for key in result["schemes"]}


def together(curves: dict[str, Curves]) -> list[tuple[list[str], Curves]]:
    """Schemes with the same curves, in the order of the first of them."""
    found: list[tuple[list[str], Curves]] = []
    for key, mine in curves.items():
        same = next((keys for keys, other in found if other == mine), None)
        if same is None:
            found.append(([key], mine))
        else:
            same.append(key)
    return found


def _line(panel: Any, number: int, names: list[str], curves: Curves) -> None:
    """The mean over the seeds that are there, between the lowest and the highest."""
    from experiments import chart

    known = [[100 * value for value in curve if value is not None] for curve in curves]
    longest = max(map(len, known), default=0)
    columns = [[curve[k] for curve in known if k < len(curve)] for k in range(longest)]
    label = "\n".join(names) + ("\n   the same curves" if len(names) > 1 else "")
    look, rounds = chart.style(number), np.arange(1, longest + 1)
    means = [float(np.mean(column)) for column in columns]
    panel.plot(rounds, means, label=label, markevery=(10, 20), ms=5, lw=1.2, **look)
    lows, highs = ([end(column) for column in columns] for end in (min, max))
    panel.fill_between(rounds, lows, highs, color=look["color"], alpha=0.25, lw=0)
    ends = sorted({len(curve) for curve in known if 0 < len(curve) < longest})
    for place, end in enumerate(ends):
        more = {} if place or number else {"label": "a seed ends here"}
        panel.plot(end, means[end - 1], "X", color="black", ms=7, zorder=4, **more)


def _strokes(panel: Any, number: int, result: dict[str, Any], key: str) -> None:
    """The lost rounds of every seed, at the top."""
    from experiments import chart

    gone = [place for seed in result["seeds"].values() for place in seed["lost"][key]]
    if gone:
        color, label = chart.style(number)["color"], "   its lost rounds, all seeds"
        panel.plot(gone, [_STROKES] * len(gone), "|", color=color, ms=8, label=label)
