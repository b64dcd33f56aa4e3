"""The section on CIFAR-10 with every mask of a thousand clients."""

import re
from statistics import fmean, median
from typing import Any

from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, formatted, table, word


def _found(found: Results) -> dict[str, Any]:
    return found["cifar_masked"]


def _rounds(found: Results) -> list[dict[str, Any]]:
    return _found(found)["rounds"]


def _count(found: Results) -> int:
    return len(_rounds(found))


def _arms(found: Results) -> str:
    middle, rounds, count = _found(found)["median_seconds"], _rounds(found), _count(found)
    added, taken_off = (median(one[key] for one in rounds) for key in ("masks", "taken_off"))
    keystream = _found(found)["keystream_bytes"] / 1e12
    accuracy = [formatted(rounds[-1]["accuracy"][arm], ".2%") for arm in ("masked", "plain")]
    wrong = sum(not one["exact"] for one in rounds)
    rows: list[list[object]] = [
        [f"seconds per round, median of {count}", f"{middle['masked']:.2f}", f"{middle['plain']:.2f}"],
        ["… of which training, rounding, masking, adding up", f"{middle['trained']:.2f}", f"{middle['plain']:.2f}"],
        [
            "masks that clients add, and that the server takes off, in a round",
            f"{int(added):,} and {int(taken_off):,}",
            0,
        ],
        ["keystream of a round", f"{keystream:.2f} TB", 0],
        ["sums that were not exactly those of the survivors' words", f"{wrong} of {count}", ""],
        [f"test accuracy after {count} rounds", *accuracy],
    ]
    return table(["", "every mask real", "no masks"], rows)


def _single(found: Results) -> list[float]:
    """Return how many times as long a round took, at least and at most."""
    return ends(one["seconds"]["masked"] / one["seconds"]["plain"] for one in _rounds(found))


def _in_all(found: Results) -> list[float]:
    masks = sum(one["masks"] + one["taken_off"] for one in _rounds(found))
    return [masks, sum(one["keystream_bytes"] for one in _rounds(found)) / 1e12]


def _leaving(found: Results) -> list[object]:
    """Return in how many steps clients leave, and how many do in each, in the mean."""
    steps = [gone for one in _rounds(found) for gone in one["gone"].values()]
    return [word(len(steps) // _count(found)), fmean(steps)]


def _same(found: Results) -> list[str]:
    """Say whether both arms had the same model after every round, bit by bit."""
    return ["same" if all(one["same_model"] for one in _rounds(found)) else "different"]


def _vector(found: Results) -> float:
    """Return the bytes of a masked vector."""
    return _found(found)["parameters"] * found.settings("cifar_masked", "bits")[0] / 8


def _vectors(found: Results) -> float:
    """Return the bytes of the masked vectors of a round, from all that were still there to send one."""
    return median(one["left"][2] for one in _rounds(found)) * _vector(found)


SECTION = Section(
    title="CIFAR-10 with every mask",
    tables=[_arms],
    said=[
        Said("(Harary, {} neighbours, masks with {}), for", lambda found: re.findall(r"\d+", _found(found)["graph"])),
        Said("for {} rounds in which", lambda found: [_count(found)]),
        Said("masks all its {:,} parameters", lambda found: [_found(found)["parameters"]]),
        Said(
            "cut to ±{:g} and rounded to {} bits, one {}-bit word each",
            lambda found: found.settings("cifar_masked", "clip", "value_bits", "bits"),
        ),
        Said("In each of the {} steps about {:.0f} clients leave", _leaving),
        Said("(q_total = {:g})", lambda found: found.settings("cifar_masked", "q_total")),
        Said("One NVIDIA H200, {} cores", lambda found: re.findall(r"(\d+) cores", _found(found)["about"]["machine"])),
        Said("**{:.2f} times as long as", lambda found: [_found(found)["ratio"]]),
        Said("({:.2f} to {:.2f} in single rounds)", _single),
        Said("{:,} masks and {:.0f} TB of keystream in all", _in_all),
        Said("After every round both arms had the very {} model", _same),
        Said("{:.0f} GB of masked vectors per round", lambda found: [_vectors(found) / 1e9]),
        Said("One client's vector of {:.0f} MB", lambda found: [_vector(found) / 1e6]),
    ],
    fixed=["a round of 60 clients, once"],
)
