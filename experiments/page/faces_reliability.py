"""The section on reliability, with the AT&T faces."""

import re
from typing import Any

from experiments.faces_reliability.picture import SMOOTHED
from experiments.faces_reliability.series import all_series
from experiments.faces_reliability.summary import at_the_end
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import between, ends, formatted, scientific, table, word

Row = dict[str, Any]
SA, SPARSE = "SA, p = 1, t = 21", "CCESA, p = 0.7, t = 21"
#: Series that are to have the same survivors as SA.
EQUAL = ("p = 0.7, t_i a majority", "planned")
_LAST = ["accuracy at the end, %", "behind SA, points"]


def _found(found: Results) -> dict[str, Any]:
    mine: dict[str, Any] = found["faces_reliability"]
    return mine


def _rows(found: Results, view: str) -> list[Row]:
    return [row for row in _found(found)["summary"] if row["view"] == view]


def _row(found: Results, view: str, q_total: float, name: str) -> Row:
    (row,) = (one for one in _rows(found, view) if (one["q_total"], one["name"]) == (q_total, name))
    return row


def _drawn(found: Results, q_total: float, name: str = SPARSE) -> float:
    (rates,) = (one["lost"] for one in _found(found)["drawn"] if one["q_total"] == q_total)
    rate: float = rates[name]
    return rate


def _ours(found: Results) -> str:
    rows = _rows(found, "ours")
    counts = [f"lost, of {found.settings('faces_reliability', 'rounds')[0]}", f"lost, of {rows[0]['rounds']} in all"]
    cells = [[*_first(row), row["lost_in_all"], *_last(row)] for row in rows]
    return table(["q_total", "real rounds of our server", *counts, *_LAST], cells, left=2)


def _paper(found: Results) -> str:
    rounds, drawn = found.settings("faces_reliability", "rounds", "drawn")
    cells = [
        [*_first(row), formatted(_drawn(found, row["q_total"], row["name"]), ".1%"), *_last(row)]
        for row in _rows(found, "paper_rule")
    ]
    counts = [f"lost, of {rounds}", f"lost, of {drawn:,} drawn"]
    return table(["q_total", "the paper's rule", *counts, *_LAST], cells, left=2)


def _first(row: Row) -> list[str]:
    return [f"{row['q_total']:g}", row["name"], _range(row["lost"], "median", "g")]


def _last(row: Row) -> list[str]:
    points = {name: {key: 100 * of for key, of in row[name].items()} for name in ("accuracy", "behind_sa")}
    gap = "—" if row["name"] == SA else _range(points["behind_sa"])
    return [_range(points["accuracy"]), gap]


def _range(spread: dict[str, float], middle: str = "mean", spec: str = "z.1f") -> str:
    return between([spread[key] for key in (middle, "lowest", "highest")], spec)


def _behind(found: Results, view: str, q_total: float) -> list[float]:
    """Return in points how far p = 0.7 is behind SA: in the mean, at least, at most."""
    gap = _row(found, view, q_total, SPARSE)["behind_sa"]
    return [100 * gap[key] for key in ("mean", "lowest", "highest")]


def _lost(found: Results, view: str, q_total: float, name: str) -> list[object]:
    row = _row(found, view, q_total, name)
    return [word(row["lost_in_all"]) if row["lost_in_all"] == 0 else row["lost_in_all"], row["rounds"]]


def _left_out(found: Results) -> float:
    """Return how many clients the server leaves out while nobody drops out, in the mean over the rounds."""
    clients: int = _found(found)["clients"]
    return clients - _row(found, "ours", 0.0, SPARSE)["survivors"]


def _equal(found: Results) -> str:
    """Return whether the curves of these two are those of SA, with every seed and q_total."""
    cases = [case["ours"] for seed in _found(found)["seeds"].values() for case in seed["dropouts"]]
    curves = [{series["name"]: series["accuracy"] for series in case} for case in cases]
    return "Both" if all(case[name] == case[SA] for case in curves for name in EQUAL) else "Not both"


def _circle(found: Results) -> list[str]:
    """Return how many neighbours the planned graph has, and with how many of them masks."""
    return re.findall(r"degree=(\d+)", repr(all_series(_found(found)["clients"])[-1].graph))


def _neighbourhoods(found: Results) -> list[float]:
    """Return the mean number of a client's neighbours and itself, for the two sparsest graphs."""
    others = _found(found)["clients"] - 1
    return [value for p in found.settings("faces_reliability", "connections")[0][2:] for value in (p, 1 + p * others)]


def _chaos(found: Results) -> list[float]:
    """Return in points how far SA and the plain mean are apart at the end while nobody drops out, by seed."""
    cases = [seed["dropouts"][0] for seed in _found(found)["seeds"].values()]
    apart = [abs(at_the_end(case["ours"][0]) - at_the_end(case["paper_rule"][0])) for case in cases]
    return [100 * value for value in ends(apart)]


SECTION = Section(
    title="Reliability on the AT&T faces",
    tables=[_ours, _paper],
    said=[
        Said(
            "n = {} clients, one person each, softmax regression on {:,} pixels",
            lambda found: [_found(found)["clients"], _found(found)["pixels"]],
        ),
        Said(
            "{} local epochs of gradient descent with rate {:g}, {} rounds",
            lambda found: found.settings("faces_reliability", "epochs", "learning_rate", "rounds"),
        ),
        Said(
            "(here {} train and {} test, by seed)",
            lambda found: [_found(found)["photographs"][key] for key in ("train", "test")],
        ),
        Said("real rounds with {:,} parameters each", lambda found: [_found(found)["parameters"]]),
        Said("and over {:,} drawn rounds", lambda found: found.settings("faces_reliability", "drawn")),
        Said("{} seeds, each with its own split", lambda found: [word(len(_found(found)["seeds"])).capitalize()]),
        Said(
            "means over the last {} rounds of a seed, in the picture over {}",
            lambda found: [word(*found.settings("faces_reliability", "last_rounds")), word(SMOOTHED)],
        ),
        Said(
            "At q_total = 0.1 the paper's rule loses {:.0%} of all rounds, and the model ends {:.0f} points"
            " behind SA on the same seed ({:.0f} to {:.0f})",
            lambda found: [_drawn(found, 0.1), *_behind(found, "paper_rule", 0.1)],
        ),
        Said(
            "At q_total = 0 it loses {:.0%}, and the model ends {:.0f} points behind ({:.0f} to {:.0f})",
            lambda found: [_drawn(found, 0.0), *_behind(found, "paper_rule", 0.0)],
        ),
        Said("leaves out {:.2f} clients per round in the mean", lambda found: [_left_out(found)]),
        Said("At q_total = 0 {} of {} rounds", lambda found: _lost(found, "ours", 0.0, SPARSE)),
        Said(
            "At q_total = 0.1 later dropouts still lose {} of {}, and the model ends {:.0f} points behind SA"
            " ({:.0f} to {:.0f})",
            lambda found: [*_lost(found, "ours", 0.1, SPARSE), *_behind(found, "ours", 0.1)],
        ),
        Said(
            "The same p = 0.7 with t_i a majority of each neighbourhood loses {} of {} rounds at q_total = 0.1;",
            lambda found: _lost(found, "ours", 0.1, EQUAL[0]),
        ),
        Said(
            "the planned circle ({} neighbours, masks with {}) loses {} of {}.",
            lambda found: [*_circle(found), *_lost(found, "ours", 0.1, EQUAL[1])],
        ),
        Said("{} train the very model of SA", lambda found: [_equal(found)]),
        Said("p = {:g} (mean neighbourhood, the client included: {:.1f}) and {:g} ({:.1f})", _neighbourhoods),
        Said("{} per weight, and yet", lambda found: [scientific(_found(found)["error_bound"])]),
        Said("their accuracies at the end are {:.1f} to {:.1f} points apart", _chaos),
    ],
    fixed=[
        "t = 21. The paper",
        "(everyone in V2 needs t holders in V4)",
        "with t = 21: each",
        "4.1",
        "p = 0.7 is sufficient",
        "(q_total = 0, SA)",
    ],
)
