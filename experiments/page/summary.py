"""The introduction, with a line on how each part ends."""

from experiments.page.cifar_reliability import lost_share
from experiments.page.error_bounds import above_the_claim, looseness
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import word
from experiments.page.running_time import client_speedup


def _bounds(found: Results) -> list[object]:
    rows = above_the_claim(found)
    (n,) = {row["n"] for row in rows}
    return [word(len(rows)), n]


def _masked(found: Results) -> list[object]:
    mine = found["cifar_masked"]
    exact = "all" if mine["all_exact"] else "some"
    return [mine["clients"], mine["parameters"] / 1e6, len(mine["rounds"]), exact, mine["ratio"]]


def _claims(found: Results) -> list[str]:
    verdicts = [one["verdict"] for one in found["claims"]["claims"]]
    return [word(verdicts.count("true")), word(len(verdicts))]


SECTION = Section(
    title="",
    said=[
        Said("ours is {:.0f} to {:.0f} times faster for a client", lambda found: client_speedup(found, 0, 1, 2, 3)),
        Said("holds but for {} bounds at n = {};", _bounds),
        Said("the other one {:.0f} to {:.0f} times too large", looseness),
        Said("{} of {} are true as they stand", _claims),
        Said(
            "p = 0.25 costs next to nothing, ours nothing; p = 0.2 loses {:.0%} of the rounds",
            lambda found: [lost_share(found)],
        ),
        Said(
            "every mask of {:,} clients with {:.0f} million parameters, for {} rounds: {} sums exact,"
            " {:.1f} times the time without",
            _masked,
        ),
    ],
    fixed=[
        "QUICK=1",
        "AGAIN=1 does",
        "AGAIN=1` renews them",
        "`s1/1.pgm`",
        "a client (steps 0 to 3)",
        "Table 1, appendix C",
        "p = 0.7 is not enough",
        "two membership inference tables",
        "million parameters",
    ],
)
