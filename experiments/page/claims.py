"""The section on claims of the text: a verdict on each, and the numbers behind it."""

from collections.abc import Callable
from typing import Any

from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, formatted, power, table, word

Row = dict[str, Any]
_SCHEMES = {"plain": "federated averaging", "sa": "SA", "ccesa": "CCESA"}


def _part(found: Results, name: str) -> dict[str, Any]:
    return found["claims"][name]


def _percent(value: float, digits: int = 0) -> str:
    return formatted(value, f".{digits}%")


def _range(values: list[float]) -> str:
    low, high = ends(values)
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def _sized(rows: list[Row], n: int) -> list[Row]:
    return [row for row in rows if row["n"] == n]


def _case(found: Results, q_total: float) -> Row:
    (case,) = (case for case in _part(found, "forty")["cases"] if case["q_total"] == q_total)
    return case


def _cost_at(found: Results, n: int, what: str = "bytes") -> list[float]:
    return [row[what] for row in _sized(_part(found, "resources")["rows"], n)]


def _forty(found: Results) -> str:
    mine, case = _part(found, "forty"), _case(found, 0.0)
    drawn = case["drawn"]["reliable"]
    return (
        f"{_percent(mine['cost']['bytes'], 1)} of the bytes; at n = {mine['n']}, p = {mine['p']}, t = "
        f"{mine['t']} {case['not_informative']:.1f} clients a round are not informative, {drawn['count']} of "
        f"{drawn['of']:,} drawn rounds are reliable"
    )


def _share(found: Results) -> str:
    sizes = (100, 1000, 10_000)
    return "; ".join(f"n = {n:,}: {_range(_cost_at(found, n))}" for n in sizes)


def _factor(found: Results) -> str:
    rows = _sized(_part(found, "resources")["rows"], 1000)
    low, high = ends(row["factor"] for row in rows)
    return f"n = 1,000: {low:.1f} to {high:.1f}, and not {rows[0]['factor_claimed']:.1f}"


def _falls(found: Results) -> str:
    rows = _part(found, "resources")["p_star"]
    return f"every n up to {rows[0]['to']:,} for which there is a p*, {word(len(rows))} q_total"


def _least(found: Results) -> Row:
    return next(row for row in _part(found, "resources")["smallest"] if row["q_total"] == 0.1)


def _minimum(found: Results) -> str:
    row = _least(found)
    return f"n = 1,000, q_total = 0.1: p = {row['smallest']:.3f} is enough where p* is {row['p_star']:.3f}"


def _worst(found: Results, n: int, q_total: float) -> Row:
    (row,) = (row for row in _sized(_part(found, "arbitrary")["rows"], n) if row["q_total"] == q_total)
    return row


def _arbitrary(found: Results) -> str:
    row = _worst(found, 300, 0.1)
    return f"n = 300, q_total = 0.1: at p = {row['p']:.4f} it is {row['bound']:.2f} times what it is at p*"


def _limit(found: Results, q_total: float, event: str = "unreliable") -> float:
    limits = _part(found, "rates")["limits"]
    return next(float(row[event]) for row in limits if row["q_total"] == q_total)


def _rates(found: Results) -> str:
    low, high = sorted((_limit(found, 0.0), _limit(found, 0.1)))
    return f"n exp(−c √(n log n)) with c = {high:.2f} for q_total = 0, {low:.2f} for 0.1, and not 1"


def _private(found: Results) -> str:
    rows = [row for row in _part(found, "rates")["not_private"] if row["q_total"] == 0.0]
    return "q_total = 0: C = " + ", ".join(f"{row['C']:.0f} at n = {row['n']:,}" for row in rows[::2])


def _connected(found: Results) -> list[Row]:
    rows = _part(found, "rates")["theorem_4"]
    return [rows[0], rows[-1]]


def _theorem_4(found: Results) -> str:
    few, many = _connected(found)
    return (
        f"at that p G3 is connected with {few['connected']:.2f} (n = {few['n']}), "
        f"{many['connected']:.2f} (n = {many['n']:,}), in the end 1/e"
    )


def _implied(found: Results, scheme: str, n_train: int) -> Row:
    rows = _part(found, "recall")["rows"]
    return next(row for row in rows if (row["scheme"], row["n_train"]) == (scheme, n_train))


def _recall(found: Results) -> str:
    sa, ccesa = _implied(found, "sa", 50_000), _implied(found, "ccesa", 15_000)
    return f"SA {_between(sa)} (n_train = 50,000), CCESA {_between(ccesa)} (15,000)"


def _between(row: Row) -> str:
    low, high = (f"{row[end]:.0f}" for end in ("lowest", "highest"))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _cases(found: Results) -> list[int]:
    rows = _part(found, "proof")["rows"]
    return [sum(row[name] for row in rows) for name in ("cases", "wrong")]


def _theorem_2(found: Results) -> str:
    cases, wrong = _cases(found)
    most = word(max(row["n"] for row in _part(found, "proof")["rows"]))
    return f"{cases:,} cases, all of up to {most} clients, {wrong} against it; its proof has two gaps"


def _half(found: Results) -> str:
    mine = _part(found, "figure_1")
    real = mine["real"][0]["beside_the_vector"]
    formula = _percent(mine["formula"]["ratio"])
    return f"{formula} by the formula, {_percent(real)} in real bytes beside the vector"


def _times(found: Results) -> str:
    server = [row["server"] / row["p"] for row in _part(found, "running")["rows"] if not row["q_total"]]
    low, high = ends(server)
    return f"step 0 takes the same; the server without dropouts {low:.1f} to {high:.1f} times p"


def _curve(found: Results) -> str:
    mine = _part(found, "curves")
    sizes = mine["key_bytes"]
    nist = sizes["P-256"]
    return (
        f"ours is X25519: {sizes['X25519']['whole']} bytes a key where P-256 takes {nist['compressed']} or "
        f"{nist['whole']}, and an agreement {1 / mine['ratio']:.2f} times the time"
    )


_NUMBERS: dict[str, Callable[[Results], str]] = {
    "forty": _forty,
    "share": _share,
    "factor": _factor,
    "falls": _falls,
    "minimum": _minimum,
    "arbitrary": _arbitrary,
    "rates": _rates,
    "private rates": _private,
    "theorem 4": _theorem_4,
    "recall": _recall,
    "theorem 2": _theorem_2,
    "half": _half,
    "times": _times,
    "curve": _curve,
}


def _claims(found: Results) -> str:
    rows = [
        [f"“{one['claim']}”", one["where"], f"**{one['verdict']}**", _NUMBERS[one["name"]](found)]
        for one in found["claims"]["claims"]
    ]
    return table(["claim", "where", "verdict", "numbers"], rows, left=4)


def _recalls(found: Results) -> str:
    sizes = sorted({row["n_train"] for row in _part(found, "recall")["rows"]})
    rows = [
        [name, *(_between(_implied(found, scheme, size)) for size in sizes)]
        for scheme, name in _SCHEMES.items()
    ]
    return table(["implied recall, n_train =", *(f"{size:,}" for size in sizes)], rows)


def _costs(found: Results) -> str:
    rows = []
    for n in (100, 300, 500, 1000, 2000, 10_000):
        ends_ = [row for row in _sized(_part(found, "resources")["rows"], n) if row["q_total"] in (0.0, 0.1)]
        vector = [[row["with_vector"][name] for row in ends_] for name in ("running time", "VGG-11")]
        cells = [[row[what] for row in ends_] for what in ("p", "bytes", "sharing")]
        texts = [" / ".join(f"{100 * value:.0f}" for value in pair) for pair in (*cells, vector[0])]
        rows.append([f"{n:,}", *texts, " / ".join(f"{100 * value:.1f}" for value in vector[1])])
    head = ["n", "agreements, masks", "bytes beside the vector", "products of secret sharing"]
    return table([*head, "bytes with 20 kB of vector", "with VGG-11"], rows, left=0)


def _most(found: Results) -> list[object]:
    mine = _part(found, "arbitrary")
    worst = mine["worst"]
    return [mine["scanned"], mine["rises"], worst["bound"], worst["n"], worst["q_total"]]


def _above(found: Results) -> list[float]:
    case = _part(found, "arbitrary")["t_above_the_mean"]
    return [case["n"], case["t"], case["p"], case["q_total"], case["printed"], case["exact_one_client"]]


def _unreliable(found: Results, n: int) -> list[str]:
    rows = _sized(_part(found, "rates")["unreliable"], n)
    row = next(row for row in rows if row["q_total"] == 0.0)
    return [power(10, round(row[key])) for key in ("log10_exact", "log10_claimed")]


def _lemmas(found: Results) -> list[object]:
    rows = _sized(_part(found, "rates")["lemmas"], 1000)
    calm, rough = rows
    return [calm["largest_b"], calm["at_m"], calm["falls_from"], rough["first_half_rate"]]


def _gaps(found: Results, name: str) -> list[int]:
    return [sum(row[name] for row in _part(found, "proof")["rows"])]


def _milliseconds(found: Results) -> list[float]:
    mine = _part(found, "curves")
    return [
        *(mine["microseconds"][name]["agreement"]["median"] for name in ("X25519", "P-256")),
        mine["nist_more_ms_a_neighbour"],
    ]


def _key_bytes(found: Results) -> list[float]:
    own, short, whole = _part(found, "curves")["bytes_per_client"].values()
    return [short / own - 1, whole / own - 1]


def _server(found: Results) -> list[float]:
    return [row[key] for row in _part(found, "running")["rows"] if row["q_total"] for key in ("server", "p")]


def _off(found: Results, *steps: str) -> float:
    """Return how far the ratio of a step is from p, at most."""
    return max(abs(row[step] / row["p"] - 1) for row in _part(found, "running")["rows"] for step in steps)


def _rounds(found: Results) -> list[object]:
    case = _case(found, 0.1)
    runs = case["rounds"]
    return [runs["majority"]["sums"]["count"], runs["majority"]["sums"]["of"], case["majority_lost"]]


SECTION = Section(
    title="Claims of the text",
    tables=[_claims, _recalls, _costs],
    said=[
        Said("has only {:.1f} neighbours in the mean", lambda found: [39 * _part(found, "forty")["p"]]),
        Said(
            "({:.1f} of 40 clients not informative; {:.1f} at q_total = 0.1)",
            lambda found: [_case(found, q)["not_informative"] for q in (0.0, 0.1)],
        ),
        Said(
            "with the t = {} of its other figure on the same faces {:.0f}",
            lambda found: [21, _case(found, 0.0)["not_informative_t_faces"]],
        ),
        Said(
            "none of {} rounds gave a sum, with or without dropouts (at most {:.1%} do, with a confidence of"
            " 95 %)",
            lambda found: [
                _case(found, 0.0)["rounds"]["paper"]["sums"]["of"],
                max(_case(found, q)["rounds"]["paper"]["sums"]["high"] for q in (0.0, 0.1)),
            ],
        ),
        Said("{} of {} rounds gave their sum at q_total = 0.1 (exactly, {:.4f} are lost at most)", _rounds),
        Said(
            "falls apart with {}",
            lambda found: [power(10, round(_case(found, 0.1)["log10_not_private"], 1))],
        ),
        Said(
            "from n = {} on without dropouts and from {:,} at q_total = 0.1",
            lambda found: [_part(found, "resources")["p_star"][place]["at_most_0.3"] for place in (0, -1)],
        ),
        Said(
            "0.01 at most: {:.4f} (q_total = 0.1)",
            lambda found: [_least(found)["smallest"]],
        ),
        Said("p = {:.3f} with t_i a majority", lambda found: [_least(found)["planned"]]),
        Said(
            "Of all {:,} pairs of n from 100 to 1,000 and the four q_total the bound rises above its value at"
            " p* in {:,}, by up to {:.2f} times (n = {}, q_total = {})",
            _most,
        ),
        Said("at most {:.2f} of the plotted bound", lambda found: [_part(found, "arbitrary")["most_exact"]]),
        Said("at most {:.2f} times the plotted", lambda found: [_part(found, "arbitrary")["most_corrected"]]),
        Said(
            "n = {}, t = {}, p = {}, q_total = {} it says {:.2f}, and each client fails with {:.4f}", _above
        ),
        Said("At n = 10,000 it is {}, and the claim has {}", lambda found: _unreliable(found, 10_000)),
        Said(
            "b_m is up to {:.1f} at n = 1,000 (m = {}), falls only from m = {} on",
            lambda found: _lemmas(found)[:3],
        ),
        Said("e^(−{:.2f} n) for q_total = 0.1", lambda found: _lemmas(found)[3:]),
        Said(
            "{:.2f} at q_total = 0 and {:.2f} at 0.1",
            lambda found: [_limit(found, q, "not_private") for q in (0.0, 0.1)],
        ),
        Said("{:,} of the cases are of this kind", lambda found: _gaps(found, "no edge leads out")),
        Said("it is false in {:,} cases", lambda found: _gaps(found, "members alone do not suffice")),
        Said(
            "steps 1 and 2 within {:.0%}, and of step 3 within {:.0%}",
            lambda found: [_off(found, "step 1", "step 2"), _off(found, "step 3")],
        ),
        Said("the server's ratio is {:.2f} (p = {:.2f}), {:.2f} ({:.2f}) and {:.2f} ({:.2f})", _server),
        Said("{:.0f} and {:.0f} µs of processor time, {:.2f} ms more for each neighbour", _milliseconds),
        Said("{:.1%} or {:.0%} more for SA", _key_bytes),
    ],
)
