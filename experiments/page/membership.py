"""The section on membership inference on CIFAR-10, over several seeds."""

import re
from collections.abc import Callable
from statistics import mean, median
from typing import Any

from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, spread, table

Row = dict[str, Any]
#: What is attacked, in the order of the tables, and how the page calls it.
ATTACKED = {
    "plain": "federated averaging",
    "sa": "SA",
    "ccesa": "CCESA",
    "ours": "planned",
    "published": "the mean that every scheme publishes",
}
MASKED = ("sa", "ccesa", "ours")
#: The order in which the paper's table has them.
PRINTED = ("accuracy", "precision")
#: What is said of the attack on many clients.
MEASURES = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "auc": "AUC",
    "hits_at_0.001": "found at 0.1 %",
    "hits_at_0.01": "found at 1 %",
}


def _mine(found: Results) -> dict[str, Any]:
    return found["membership"]


def _rows(found: Results, crowd: str = "usual", size: int | None = None) -> list[Row]:
    clients = found.settings("membership", crowd)[0]["clients"]
    rows = [row for row in _mine(found)["rows"] if row["clients"] == clients]
    return [row for row in rows if size in (None, row["n_train"])]


def _values(rows: list[Row], key: str, measure: str) -> list[float]:
    return [row["attacks"][key][measure] for row in rows]


def _spec(measure: str) -> str:
    return ".3f" if measure == "auc" else ".2%" if measure.startswith("hits") else ".1%"


def _by_size(measure: str, head: str) -> Callable[[Results], str]:
    """Return the table of one measure: a row for each scheme, the paper's above ours where it has one."""

    def made(found: Results) -> str:
        sizes = found.settings("membership", "sizes")[0]
        rows = []
        for key, name in ATTACKED.items():
            if measure in PRINTED and key in _mine(found)["paper"]:
                rows.append([f"{name}, the paper", *(f"{_printed(found, key, n, measure):.2f} %" for n in sizes)])
            cells = [spread(_values(_rows(found, size=n), key, measure), _spec(measure)) for n in sizes]
            rows.append([f"{name}, ours" if measure in PRINTED else name, *cells])
        return table([f"{head}, n_train =", *(f"{n:,}" for n in sizes)], rows)

    return made


def _printed(found: Results, key: str, size: int, measure: str) -> float:
    """Return what the paper prints, in per cent."""
    return _mine(found)["paper"][key][str(size)][PRINTED.index(measure)]


def _many(found: Results) -> str:
    rows = _rows(found, "many")
    shown = [
        [name, *(spread(_values(rows, key, measure), _spec(measure)) for measure in MEASURES)]
        for key, name in ATTACKED.items()
    ]
    clients = found.settings("membership", "many")[0]["clients"]
    return table([f"{clients} clients", *MEASURES.values()], shown)


def _middles(found: Results, key: str, measure: str) -> list[float]:
    """Return the medians of the sizes, in per cent, the least and the greatest."""
    sizes = found.settings("membership", "sizes")[0]
    return ends(100 * median(_values(_rows(found, size=n), key, measure)) for n in sizes)


def _masked(found: Results, measure: str) -> list[float]:
    """Return all values of masked models, the least and the greatest."""
    rows = [*_rows(found), *_rows(found, "many")]
    return ends(value for key in MASKED for value in _values(rows, key, measure))


def _from_a_coin(found: Results, measure: str) -> list[float]:
    return [100 * max(abs(end - 0.5) for end in _masked(found, measure))]


def _implied(found: Results) -> list[float]:
    """Return the recall that follows from the paper's accuracy and precision, by size."""
    rows = (row for row in found["claims"]["recall"]["rows"] if row["scheme"] == "plain")
    return [mean([row["lowest"], row["highest"]]) for row in rows]


def _known(found: Results) -> list[float]:
    return ends(100 * row["train_accuracy"] for row in _mine(found)["rows"])


def _named(found: Results, crowd: str, key: str, pattern: str) -> list[str]:
    """Return the numbers in the name of a scheme."""
    (mine,) = found.settings("membership", crowd)
    match = re.search(pattern, _mine(found)["names"][str(mine["clients"])][key])
    if match is None:
        raise ValueError(f"the name of {key} has no {pattern}")
    return list(match.groups())


def _exact(found: Results) -> list[str]:
    return ["exact" if all(all(row["exact_sums"].values()) for row in _mine(found)["rows"]) else "wrong"]


def _fewest(found: Results) -> list[int]:
    """Return the images of a shadow where no training image is left, to learn and in all."""
    row = _rows(found, size=max(found.settings("membership", "sizes")[0]))[0]
    return [2 * row["shadow_images"], row["shadow_images"], row["shadow_images"]]


SECTION = Section(
    title="Membership inference on CIFAR-10",
    tables=[
        _by_size("accuracy", "attack accuracy"),
        _by_size("precision", "attack precision"),
        _by_size("recall", "attack recall"),
        _by_size("auc", "AUC"),
        _by_size("hits_at_0.001", "members found, one false alarm in a thousand"),
        _by_size("hits_at_0.01", "members found, one false alarm in a hundred"),
        _many,
    ],
    said=[
        Said("n = {} clients, VGG-11", lambda found: [found.settings("membership", "usual")[0]["clients"]]),
        Said("knows its images ({:.1f} to {:.1f} %)", _known),
        Said(
            "asked about {:,} images of the training set and as many others",
            lambda found: found.settings("membership", "asked"),
        ),
        Said("here {} for each size and seed", lambda found: found.settings("membership", "shadows")),
        Said("divides the same {:,} of the test set again, into {:,} to learn and {:,} others", _fewest),
        Said("over all {:,} parameters", lambda found: [_mine(found)["parameters"]]),
        Said("whose sums came out {}", _exact),
        Said("Seeds {} to {}: medians", lambda found: ends(row["seed"] for row in _mine(found)["rows"])),
        Said("accuracy is within {:.1f} points of a coin's", lambda found: _from_a_coin(found, "accuracy")),
        Said("their AUC {:.3f} to {:.3f}", lambda found: _masked(found, "auc")),
        Said(
            "Holds for plain averaging, less strongly**: {:.0f} to {:.0f} %",
            lambda found: _middles(found, "plain", "accuracy"),
        ),
        Said(
            "the client's own images alone it is {:.0f} to {:.0f} %", lambda found: _middles(found, "own", "accuracy")
        ),
        Said("it finds {:.1f} to {:.1f} % of all members", lambda found: _middles(found, "plain", "hits_at_0.001")),
        Said("from the published mean {:.1f} to {:.1f} %", lambda found: _middles(found, "published", "hits_at_0.001")),
        Said(
            "the paper has {:.0f} to {:.0f} %",
            lambda found: ends(pair[0] for pair in _mine(found)["paper"]["plain"].values()),
        ),
        Said("For plain averaging it is {:.0f} to {:.0f} %", lambda found: _middles(found, "plain", "recall")),
        Said("and {:.0f} to {:.0f} % of the client's own images; from", lambda found: _middles(found, "own", "recall")),
        Said(
            "its model gives away a little more: {:.0f} to {:.0f} % of the answers are right, of the mean's"
            " {:.0f} to {:.0f} %",
            lambda found: [*_middles(found, "own", "accuracy"), *_middles(found, "published", "accuracy")],
        ),
        Said("so CCESA has p = {}.", lambda found: _named(found, "usual", "ccesa", r"p = ([\d.]+)")),
        Said(
            "is sparse: {} of {} neighbours, where CCESA has p* = {}.",
            lambda found: [
                *_named(found, "many", "ours", r"(\d+) of (\d+) neighbours"),
                *_named(found, "many", "ccesa", r"p = ([\d.]+)"),
            ],
        ),
        Said("its recall was {:.0f}, {:.0f}, {:.0f} and {:.0f} %", _implied),
        Said("(recall {:.0f} to {:.0f} %)", lambda found: [100 * end for end in _masked(found, "recall")]),
        Said(
            'with {} clients "planned" is the complete graph',
            lambda found: [found.settings("membership", "usual")[0]["clients"]],
        ),
        Said("shares n_train = {:,} images", lambda found: [_rows(found, "many")[0]["n_train"]]),
    ],
    fixed=[
        "An accuracy of 60 % says little",
        "members at one false alarm in a thousand, from",
        "a coin's 50 %",
        '"recall is close to 1 for all schemes"',
        "a tenth of all",
        "A recall near 1 at a precision of 50 %",
    ],
)
