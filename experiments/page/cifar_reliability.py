"""The section on reliability on CIFAR-10, over several seeds."""

import re
from typing import Any

from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, spread, table, word

#: How the page calls the ways in which images are spread over clients.
SPLITS = {"iid": "i.i.d.", "shards": "two shards a client"}
#: The scheme that loses rounds, and those that are to lose none.
TOO_LITTLE, ENOUGH = "p0.2", ("p0.3106", "p0.25", "ours")


def _mine(found: Results) -> dict[str, Any]:
    return found["cifar_reliability"]


def _seeds(found: Results) -> list[dict[str, Any]]:
    return list(_mine(found)["seeds"].values())


def _settings(found: Results, *keys: str) -> list[Any]:
    return [_mine(found)["about"]["settings"][key] for key in keys]


def _rounds(found: Results) -> int:
    return _settings(found, "rounds")[0]


def _lost(found: Results, key: str) -> list[int]:
    return [len(seed["lost"][key]) for seed in _seeds(found)]


def lost_share(found: Results) -> float:
    """Return the share of rounds that p = 0.2 loses, over all seeds."""
    return sum(_lost(found, TOO_LITTLE)) / (_rounds(found) * len(_seeds(found)))


def _accuracies(found: Results) -> str:
    rows = [
        [name, spread(_lost(found, key), "g"), *(_last(found, split, key) for split in SPLITS)]
        for key, name in _mine(found)["schemes"].items()
    ]
    return table([f"test accuracy after {_rounds(found)} rounds", "rounds lost", *SPLITS.values()], rows)


def _last(found: Results, split: str, key: str) -> str:
    return spread((seed["accuracy"][split][key][-1] for seed in _seeds(found)), ".1%")


def _training(found: Results) -> list[object]:
    mine = _mine(found)
    rate, momentum, epochs = _settings(found, "learning_rate", "momentum", "epochs")
    return [mine["clients"], mine["images_each"], mine["parameters"], rate, momentum, epochs]


def _same(found: Results) -> list[str]:
    """Say whether each scheme that loses no round of a seed has SA's curve there, number by number."""
    curves = [(seed, seed["accuracy"][split]) for seed in _seeds(found) for split in SPLITS]
    whole = [mine[key] == mine["sa"] for seed, mine in curves for key in mine if not seed["lost"][key]]
    return ["same" if all(whole) else "different"]


def _none(found: Results, *keys: str) -> list[object]:
    """Return how many rounds these schemes lost in all, and of how many."""
    return [
        word(sum(sum(_lost(found, key)) for key in keys)),
        len(keys) * len(_seeds(found)) * _rounds(found),
    ]


def _degree(found: Results) -> int:
    return int(re.findall(r"(\d+) neighbours", _mine(found)["schemes"]["ours"])[0])


def _share(found: Results) -> float:
    """Return how many of the neighbours that p* needs ours has."""
    (p,) = re.findall(r"p = ([\d.]+)", _mine(found)["schemes"]["p0.3106"])
    return _degree(found) / (float(p) * (_mine(found)["clients"] - 1))


def _behind(found: Results) -> list[float]:
    """Return by how much p = 0.2 differs from SA after as many rounds as it kept, in points: the largest."""
    apart = [
        abs(mine[TOO_LITTLE][-1] - mine["sa"][_rounds(found) - len(seed["lost"][TOO_LITTLE]) - 1])
        for seed in _seeds(found)
        for mine in seed["accuracy"].values()
    ]
    return [100 * max(apart)]


SECTION = Section(
    title="Reliability on CIFAR-10",
    tables=[_accuracies],
    said=[
        Said(
            "n = {:,} clients with {} images each, VGG-11 ({:,} parameters), SGD with rate {:g} and"
            " momentum {:g}, {} local epochs",
            _training,
        ),
        Said("q_total = {:g}, {} rounds.", lambda found: _settings(found, "q_total", "rounds")),
        Said("({} for SA, {} for each p, {} for ours;", lambda found: _settings(found, "reals")[0]),
        Said("Seeds {} to {}: medians", lambda found: ends(map(int, _mine(found)["seeds"]))),
        Said("the curves are not similar but the {}", _same),
        Said("p*, p = 0.25 and ours lose {} of {:,} rounds", lambda found: _none(found, *ENOUGH)),
        Said("ours has {} neighbours, {:.0%} of those of p*", lambda found: [_degree(found), _share(found)]),
        Said(
            "{} to {} of {} rounds are lost",
            lambda found: [*ends(_lost(found, TOO_LITTLE)), _rounds(found)],
        ),
        Said("differs by at most {:.1f} points from SA's after as many rounds as it kept", _behind),
        Said("Gradients are cut at norm {:g}", lambda found: _settings(found, "gradients_cut_at")),
    ],
    fixed=[
        "Two tests train",
        "accuracies in 32 bits",
        '("25 %" in the text is right; the caption\'s "75 %" is not)',
        "**p = 0.2 is too little**",
    ],
)
