"""The section on reliability on CIFAR-10, over several seeds."""

import re
from typing import Any

from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, spread, table, word

#: How the page calls the ways in which images are spread over clients.
SPLITS = {"iid": "i.i.d.", "shards": "two shards per client"}
#: The scheme that loses rounds, and those that are to lose none.
TOO_LITTLE, ENOUGH = "p0.2", ("sa", "p0.3106", "ours")
#: A curve of fewer rounds says nothing yet.
_LONG = 50


def _mine(found: Results) -> dict[str, Any]:
    return found["cifar_reliability"]


def _seeds(found: Results) -> list[dict[str, Any]]:
    return list(_mine(found)["seeds"].values())


def _rounds(found: Results) -> int:
    return found.settings("cifar_reliability", "rounds")[0]


def _lost(found: Results, key: str) -> list[int]:
    return [len(seed["lost"][key]) for seed in _seeds(found)]


def lost_share(found: Results) -> float:
    """Return the share of rounds that p = 0.2 loses, over all seeds."""
    return sum(_lost(found, TOO_LITTLE)) / (_rounds(found) * len(_seeds(found)))


def _known(seed: dict[str, Any], split: str, key: str = "sa") -> int:
    """Return for how many rounds a scheme was trained so far."""
    return sum(value is not None for value in seed["accuracy"][split][key])


def _common(found: Results) -> int:
    """Return the most rounds that at least two seeds have of every curve."""
    return min(
        sorted(_known(seed, split, key) for seed in _seeds(found))[-2]
        for split in SPLITS
        for key in _mine(found)["schemes"]
    )


def _after(found: Results, split: str, key: str, rounds: int) -> list[float]:
    """Return the accuracy of every seed that was trained so far."""
    curves = [seed["accuracy"][split][key] for seed in _seeds(found)]
    return [curve[rounds - 1] for curve in curves if curve[rounds - 1] is not None]


def _accuracies(found: Results) -> str:
    some, all_rounds = _common(found), _rounds(found)
    rows = [
        [
            name,
            spread(_lost(found, key), "g"),
            *(spread(_after(found, split, key, some), ".1%") for split in SPLITS),
            *(spread(_after(found, split, key, all_rounds), ".1%") for split in SPLITS),
        ]
        for key, name in _mine(found)["schemes"].items()
    ]
    heads = [f"after {rounds}: {name}" for rounds in (some, all_rounds) for name in SPLITS.values()]
    return table([f"rounds lost of {all_rounds}, test accuracy", "lost", *heads], rows)


def _trained(found: Results) -> str:
    rows = [[number, *(_lengths(seed, split) for split in SPLITS)] for number, seed in _mine(found)["seeds"].items()]
    return table(["rounds trained, seed", *SPLITS.values()], rows)


def _lengths(seed: dict[str, Any], split: str) -> str:
    mine, other = _known(seed, split), _known(seed, split, TOO_LITTLE)
    return f"{mine}" if mine == other else f"{mine} (p = 0.2: {other})"


def _training(found: Results) -> list[object]:
    mine = _mine(found)
    rate, momentum, epochs = found.settings("cifar_reliability", "learning_rate", "momentum", "epochs")
    return [mine["clients"], mine["images_each"], mine["parameters"], rate, momentum, epochs]


def _same(found: Results) -> list[str]:
    """Say whether each scheme that loses no round of a seed has SA's curve there, number by number."""
    curves = [(seed, seed["accuracy"][split]) for seed in _seeds(found) for split in SPLITS]
    whole = [mine[key] == mine["sa"] for seed, mine in curves for key in mine if not seed["lost"][key]]
    return ["same" if all(whole) else "different"]


def _none(found: Results, *keys: str) -> list[object]:
    """Return how many rounds these schemes lost in all, and of how many."""
    return [word(sum(sum(_lost(found, key)) for key in keys)), len(keys) * len(_seeds(found)) * _rounds(found)]


def _degree(found: Results) -> int:
    return int(re.findall(r"(\d+) neighbours", _mine(found)["schemes"]["ours"])[0])


def _share(found: Results) -> float:
    """Return how many of the neighbours that p* needs ours has."""
    (p,) = re.findall(r"p = ([\d.]+)", _mine(found)["schemes"]["p0.3106"])
    return _degree(found) / (float(p) * (_mine(found)["clients"] - 1))


def _behind(found: Results) -> list[float]:
    """Return by how much p = 0.2 differs from SA after as many rounds as it kept, in points: the largest."""
    apart = []
    for seed in _seeds(found):
        for split, mine in seed["accuracy"].items():
            rounds = _known(seed, split, TOO_LITTLE)
            kept = rounds - sum(place <= rounds for place in seed["lost"][TOO_LITTLE])
            if rounds >= _LONG:
                apart.append(abs(mine[TOO_LITTLE][rounds - 1] - mine["sa"][kept - 1]))
    return [100 * max(apart)]


def _each(found: Results, key: str) -> list[object]:
    """Return how many rounds a scheme lost in all, and of how many."""
    return [word(sum(_lost(found, key))), len(_seeds(found)) * _rounds(found)]


SECTION = Section(
    title="Reliability on CIFAR-10",
    tables=[_accuracies, _trained],
    said=[
        Said(
            "n = {:,} clients with {} images each, VGG-11 ({:,} parameters), SGD with rate {:g} and"
            " momentum {:g}, {} local epochs",
            _training,
        ),
        Said("q_total = {:g}, {} rounds.", lambda found: found.settings("cifar_reliability", "q_total", "rounds")),
        Said("({} for SA, {} for each p, {} for ours;", lambda found: found.settings("cifar_reliability", "reals")[0]),
        Said("Seeds {} to {}: medians", lambda found: ends(map(int, _mine(found)["seeds"]))),
        Said("the curves are not similar but the {}", _same),
        Said("SA, p* and ours lose {} of {:,} rounds", lambda found: _none(found, *ENOUGH)),
        Said("p = 0.25 loses {} of {:,}", lambda found: _each(found, "p0.25")),
        Said("ours has {} neighbours, {:.0%} of those of p*", lambda found: [_degree(found), _share(found)]),
        Said("{} to {} of {} rounds are lost", lambda found: [*ends(_lost(found, TOO_LITTLE)), _rounds(found)]),
        Said("differs by at most {:.1f} points from SA's after as many rounds as it kept", _behind),
        Said("Gradients are cut at norm {:g}", lambda found: found.settings("cifar_reliability", "gradients_cut_at")),
    ],
    fixed=[
        "Two tests train",
        "accuracies in 32 bits",
        '("25 %" in the text is right; the caption\'s "75 %" is not)',
        "**p = 0.2 is too little**",
        "**p = 0.25 is enough, nearly**",
    ],
)
