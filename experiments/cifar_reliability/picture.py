"""The figure: accuracy by round, a panel for each split. Schemes whose curves coincide share a line."""

from typing import Any

from experiments.cifar_reliability.setup import TITLES

#: Above all curves, in percent.
_STROKES = 66.0


def draw(result: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure  # the machine that trains may not have it

    from experiments import chart

    figure = Figure(figsize=(6.5 * len(result["accuracy"]), 4.6), layout="constrained")
    panels = figure.subplots(1, len(result["accuracy"]), squeeze=False, sharey=True)[0]
    for panel, (kind, curves) in zip(panels, result["accuracy"].items(), strict=True):
        for number, (keys, curve) in enumerate(together(curves)):
            _line(panel, number, [result["schemes"][key] for key in keys], curve, result["lost"][keys[0]])
        panel.set(xlabel="round", ylabel="test accuracy (%)", ylim=(0, _STROKES + 3))
        clients, q_total = result["clients"], result["q_total"]
        chart.finish(panel, f"{TITLES[kind]}, n = {clients}, q_total = {q_total:g}", loc="lower right")
    return figure


def together(curves: dict[str, list[float | None]]) -> list[tuple[list[str], list[float | None]]]:
    """Schemes with the same curve, in the order of the first of them."""
    found: list[tuple[list[str], list[float | None]]] = []
    for key, curve in curves.items():
        same = next((keys for keys, other in found if other == curve), None)
        if same is None:
            found.append(([key], curve))
        else:
            same.append(key)
    return found


def _line(panel: Any, number: int, names: list[str], curve: list[float | None], lost: list[int]) -> None:
    """A curve, short strokes at the top where rounds were lost, and a cross where it was broken off."""
    from experiments import chart

    known = [100 * value for value in curve if value is not None]
    gone = [place for place in lost if place <= len(known)]
    ends = f"{len(gone)} of {len(known)} rounds lost"
    label = "\n".join(names) + (f"\n   the same curve, {ends}" if len(names) > 1 else f": {ends}")
    look = chart.style(number)
    panel.plot(range(1, len(known) + 1), known, label=label, markevery=(10, 20), ms=5, lw=1.2, **look)
    if gone:
        panel.plot(gone, [_STROKES] * len(gone), "|", color=look["color"], ms=8, label="   its lost rounds")
    if 0 < len(known) < len(curve):
        panel.plot(len(known), known[-1], "X", color="black", ms=9, label="   broken off here")
