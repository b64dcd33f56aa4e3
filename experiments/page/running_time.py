"""The section on running times: the paper's twelve rows beside ours, and the planned graph."""

from collections.abc import Iterable
from typing import Any

from ccesa.plan import plan
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, power, scientific, table, word

Row = dict[str, Any]


def _rows(found: Results, *, paper: bool = True, dropouts: bool | None = None) -> list[Row]:
    rows = [row for row in found["running_time"]["rows"] if (row["paper_ms"] is not None) == paper]
    return [row for row in rows if dropouts is None or (row["q_total"] > 0) == dropouts]


def _times(found: Results) -> str:
    steps = [f"step {number}" for number in range(4)]
    head = ["", "n", "q_total", "t", "p", *steps, "server"]
    return table(head, [_cells(row) for row in found["running_time"]["rows"]])


def _cells(row: Row) -> list[object]:
    ours = [f"{ms:.{1 if ms >= 1 else 2}f}" for ms in (*row["client_ms"], row["server_ms"])]
    paper = [f" ({ms:,})" for ms in row["paper_ms"] or ()] or [""] * len(ours)
    p = "—" if row["p"] is None else f"{row['p']:g}"
    times = [f"{mine}{theirs}" for mine, theirs in zip(ours, paper, strict=True)]
    return [row["scheme"], row["n"], f"{row['q_total']:g}", row["t"], p, *times]


def _ratios(found: Results) -> str:
    kinds: dict[str, dict[tuple[int, float], Row]] = {"CCESA": {}, "planned": {}}
    for row in found["running_time"]["to_sa"]:
        kinds[row["scheme"]][row["n"], row["q_total"]] = row
    rows = [
        [f"{n}, {q_total:g}", *(f"{mine[key]:.2f}" for key in ("p", "paper", "ours")), f"{planned:.2f}"]
        for (n, q_total), mine in kinds["CCESA"].items()
        for planned in [kinds["planned"][n, q_total]["ours"]]
    ]
    return table(["n, q_total", "p", "the paper", "ours, CCESA", "ours, planned"], rows)


def client_speedup(found: Results, *steps: int) -> list[float]:
    """Return how many times faster than the paper's a client is in these steps, at least and at most."""
    return ends(_sum(row["paper_ms"], steps) / _sum(row["client_ms"], steps) for row in _rows(found))


def _sum(times: list[float], steps: Iterable[int]) -> float:
    return sum(times[step] for step in steps)


def _per_neighbour(found: Results, times: str) -> list[float]:
    return ends(_sum(row[times], (1, 2)) / row["degree"] for row in _rows(found))


def _server(found: Results, *, dropouts: bool) -> list[float]:
    rows = _rows(found, dropouts=dropouts)
    ratios = ends(row["server_ms"] / row["paper_ms"][4] for row in rows)
    return [1 / ratio for ratio in reversed(ratios)] if dropouts else ratios


def _repeats(found: Results) -> list[str]:
    (rounds,) = {row["rounds"] for row in found["running_time"]["rows"]}
    return [word(rounds)]


def _first(found: Results, q_total: float) -> Row:
    """Return the row of SA with a hundred clients."""
    return next(row for row in _rows(found) if (row["scheme"], row["n"], row["q_total"]) == ("SA", 100, q_total))


def _degrees(found: Results) -> list[float]:
    rows = _rows(found, paper=False, dropouts=True)
    return [*ends(row["degree"] for row in rows), *ends(row["mask_degree"] for row in rows)]


def _circle(found: Results) -> list[float]:
    (degree,) = {row["degree"] for row in _rows(found, paper=False, dropouts=False)}
    return [degree]


def _lost(found: Results) -> list[str]:
    (row,) = (row for row in found["error_bounds"]["at_p_star"] if (row["n"], row["q_total"]) == (100, 0.1))
    bits = {plan(row["n"], row["q_total"]).reliability_bits for row in _rows(found, paper=False, dropouts=True)}
    return [power(2, -min(bits)), scientific(10 ** row["unreliable_exact"])]


SECTION = Section(
    title="Running time",
    tables=[_times, _ratios],
    said=[
        Said("{:,} elements of {} bits", lambda found: found.settings("running_time", "length", "bits")),
        Said("median of {} rounds each", _repeats),
        Said("in the {} rows", lambda found: [word(len(_rows(found)) // 2)]),
        Said("Over all {} rows a client", lambda found: [word(len(_rows(found)))]),
        Said("is {:.0f} to {:.0f} times faster than the paper's", lambda found: client_speedup(found, 0, 1, 2, 3)),
        Said("({:.0f} to {:.0f} times in", lambda found: client_speedup(found, 1, 2)),
        Said("client needs {:.0f} to {:.0f} ms", lambda found: _per_neighbour(found, "paper_ms")),
        Said("ours {:.2f} to {:.2f}:", lambda found: _per_neighbour(found, "client_ms")),
        Said("is {:.1f} to {:.1f} times slower here", lambda found: _server(found, dropouts=False)),
        Said(
            "The paper's {} ms for {} self masks, each rebuilt from {} shares",
            lambda found: [_first(found, 0)["paper_ms"][4], *(_first(found, 0)[key] for key in ("n", "t"))],
        ),
        Said("it takes {:,} ms", lambda found: [_first(found, 0.1)["paper_ms"][4]]),
        Said("With dropouts ours is {:.0f} to {:.0f} times faster", lambda found: _server(found, dropouts=True)),
        Said(
            "that of CCESA is {:.2f} to {:.2f} of SA's",
            lambda found: ends(
                row["ours_server"] for row in found["running_time"]["to_sa"] if row["scheme"] == "CCESA"
            ),
        ),
        Said("it is a circle of degree {:.0f}", _circle),
        Said("degree {:.0f} to {:.0f}, masks with {:.0f} to {:.0f} neighbours", _degrees),
        Said("at most {} (with the paper's p* and t: {} for n = 100)", _lost),
    ],
    fixed=[
        "one client's steps 0 to 3",
        "A client's steps 1 and 2 take",
        "steps 0 to 3 together",
        "times in steps 1 and 2)",
        "In steps 1 and 2 together",
        "At q_total = 0 it is",
        "any two dropouts in step 2 lose",
        "The rows with 0.1 are",
    ],
)
