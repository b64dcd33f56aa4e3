"""The tables of the section on claims of the text: a verdict on each, what it implies and what it costs."""

from collections.abc import Callable
from typing import Any

from experiments.page.held import Results
from experiments.page.markdown import ends, formatted, table, word

Row = dict[str, Any]
_SCHEMES = {"plain": "federated averaging", "sa": "SA", "ccesa": "CCESA"}


def part(found: Results, name: str) -> dict[str, Any]:
    return found["claims"][name]


def _percent(value: float, digits: int = 0) -> str:
    return formatted(value, f".{digits}%")


def _range(values: list[float]) -> str:
    low, high = ends(values)
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def sized(rows: list[Row], n: int) -> list[Row]:
    return [row for row in rows if row["n"] == n]


def forty_at(found: Results, q_total: float) -> Row:
    (case,) = (case for case in part(found, "forty")["cases"] if case["q_total"] == q_total)
    return case


def _cost_at(found: Results, n: int, what: str = "bytes") -> list[float]:
    return [row[what] for row in sized(part(found, "resources")["rows"], n)]


def _forty(found: Results) -> str:
    mine, case = part(found, "forty"), forty_at(found, 0.0)
    drawn = case["drawn"]["reliable"]
    return (
        f"{_percent(mine['cost']['bytes'], 1)} of the bytes; with n = {mine['n']}, p = {mine['p']}, t = "
        f"{mine['t']}: {case['not_informative']:.1f} clients per round are not informative, "
        f"{drawn['count']} of {drawn['of']:,} drawn rounds are reliable"
    )


def _share(found: Results) -> str:
    sizes = (100, 1000, 10_000)
    return "; ".join(f"n = {n:,}: {_range(_cost_at(found, n))}" for n in sizes)


def _factor(found: Results) -> str:
    rows = sized(part(found, "resources")["rows"], 1000)
    low, high = ends(row["factor"] for row in rows)
    return f"n = 1,000: {low:.1f} to {high:.1f}, and not {rows[0]['factor_claimed']:.1f}"


def _falls(found: Results) -> str:
    rows = part(found, "resources")["p_star"]
    return f"every n up to {rows[0]['to']:,} for which there is a p*, {word(len(rows))} q_total"


def least(found: Results) -> Row:
    return next(row for row in part(found, "resources")["smallest"] if row["q_total"] == 0.1)


def _minimum(found: Results) -> str:
    row = least(found)
    return f"n = 1,000, q_total = 0.1: p = {row['smallest']:.3f} is enough where p* is {row['p_star']:.3f}"


def _worst(found: Results, n: int, q_total: float) -> Row:
    (row,) = (row for row in sized(part(found, "arbitrary")["rows"], n) if row["q_total"] == q_total)
    return row


def _arbitrary(found: Results) -> str:
    row = _worst(found, 300, 0.1)
    return f"n = 300, q_total = 0.1: at p = {row['p']:.4f} it is {row['bound']:.2f} times what it is at p*"


def limit(found: Results, q_total: float, event: str = "unreliable") -> float:
    limits = part(found, "rates")["limits"]
    return next(float(row[event]) for row in limits if row["q_total"] == q_total)


def _rates(found: Results) -> str:
    calm, rough = limit(found, 0.0), limit(found, 0.1)
    return f"n exp(−c √(n log n)) with c = {calm:.2f} for q_total = 0, {rough:.2f} for 0.1, and not 1"


def _private(found: Results) -> str:
    rows = [row for row in part(found, "rates")["not_private"] if row["q_total"] == 0.0]
    return "q_total = 0: C = " + ", ".join(f"{row['C']:.0f} at n = {row['n']:,}" for row in rows[::2])


def _connected(found: Results) -> list[Row]:
    rows = part(found, "rates")["theorem_4"]
    return [rows[0], rows[-1]]


def _theorem_4(found: Results) -> str:
    few, many = _connected(found)
    return (
        f"at that p G3 is connected with {few['connected']:.2f} (n = {few['n']}), "
        f"{many['connected']:.2f} (n = {many['n']:,}), in the end 1/e"
    )


def _implied(found: Results, scheme: str, n_train: int) -> Row:
    rows = part(found, "recall")["rows"]
    return next(row for row in rows if (row["scheme"], row["n_train"]) == (scheme, n_train))


def _recall(found: Results) -> str:
    sa, ccesa = _implied(found, "sa", 50_000), _implied(found, "ccesa", 15_000)
    return f"SA {_between(sa)} (n_train = 50,000), CCESA {_between(ccesa)} (15,000)"


def _between(row: Row) -> str:
    low, high = (f"{row[end]:.0f}" for end in ("lowest", "highest"))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _cases(found: Results) -> list[int]:
    rows = part(found, "proof")["rows"]
    return [sum(row[name] for row in rows) for name in ("cases", "wrong")]


def _theorem_2(found: Results) -> str:
    cases, wrong = _cases(found)
    most = word(max(row["n"] for row in part(found, "proof")["rows"]))
    return f"{cases:,} cases, all of up to {most} clients, {wrong} against it; its proof has two gaps"


def _half(found: Results) -> str:
    mine = part(found, "figure_1")
    real = mine["real"][0]["beside_the_vector"]
    formula = _percent(mine["formula"]["ratio"])
    return f"{formula} by the formula, {_percent(real)} in real bytes beside the vector"


def _times(found: Results) -> str:
    server = [row["server"] / row["p"] for row in part(found, "running")["rows"] if not row["q_total"]]
    low, high = ends(server)
    return f"step 0 takes the same; the server without dropouts {low:.1f} to {high:.1f} times p"


def _curve(found: Results) -> str:
    mine = part(found, "curves")
    sizes = mine["key_bytes"]
    nist = sizes["P-256"]
    return (
        f"ours is X25519: {sizes['X25519']['whole']} bytes per key where P-256 takes {nist['compressed']} or "
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


def claims(found: Results) -> str:
    rows = [
        [one["claim"], one["where"], f"**{one['verdict']}**", _NUMBERS[one["name"]](found)]
        for one in found["claims"]["claims"]
    ]
    return table(["claim", "where", "verdict", "numbers"], rows, left=4)


def recalls(found: Results) -> str:
    sizes = sorted({row["n_train"] for row in part(found, "recall")["rows"]})
    rows = [[name, *(_between(_implied(found, scheme, size)) for size in sizes)] for scheme, name in _SCHEMES.items()]
    return table(["implied recall, n_train =", *(f"{size:,}" for size in sizes)], rows)


def costs(found: Results) -> str:
    rows = []
    for n in (100, 300, 500, 1000, 2000, 10_000):
        ends_ = [row for row in sized(part(found, "resources")["rows"], n) if row["q_total"] in (0.0, 0.1)]
        vector = [[row["with_vector"][name] for row in ends_] for name in ("running time", "VGG-11")]
        cells = [[row[what] for row in ends_] for what in ("p", "bytes", "sharing")]
        texts = [" / ".join(f"{100 * value:.0f}" for value in pair) for pair in (*cells, vector[0])]
        rows.append([f"{n:,}", *texts, " / ".join(f"{100 * value:.1f}" for value in vector[1])])
    head = ["n", "agreements, masks", "bytes beside the vector", "products of secret sharing"]
    return table([*head, "bytes with 20 kB of vector", "with VGG-11"], rows, left=0)
