"""Over all seeds: rounds lost, accuracy at the end, and the distance to SA on the same seed."""

from statistics import mean
from typing import Any

from experiments.seeds import Seeds, spread

#: Rounds at the end over which an accuracy is the mean: training is chaotic, and one round says little.
LAST = 10
VIEWS = ("ours", "paper_rule")

Curve = dict[str, Any]


def rows(found: Seeds) -> list[dict[str, Any]]:
    """Return a row per q_total, view and series; the first series of each view is SA."""
    every = [seed["dropouts"] for seed in found.values()]
    return [
        {"q_total": case["q_total"], "view": view, "name": series["name"]}
        | _row([seed[place][view][number] for seed in every], [seed[place][view][0] for seed in every])
        for place, case in enumerate(every[0])
        for view in VIEWS
        for number, series in enumerate(case[view])
    ]


def _row(curves: list[Curve], complete: list[Curve]) -> dict[str, Any]:
    ends = [at_the_end(curve) for curve in curves]
    gaps = [at_the_end(sa) - end for sa, end in zip(complete, ends, strict=True)]
    rounds = sum(len(curve["accuracy"]) for curve in curves)
    lost = [len(curve["lost"]) for curve in curves]
    told = {"rounds": rounds, "lost_in_all": sum(lost), "lost": spread(lost)}
    told |= {"accuracy": spread(ends), "behind_sa": spread(gaps)}
    if "survivors" in curves[0] and sum(lost) < rounds:
        told["survivors"] = sum(curve["survivors"] for curve in curves) / (rounds - sum(lost))
    return told


def at_the_end(curve: Curve) -> float:
    return mean(curve["accuracy"][-LAST:])
