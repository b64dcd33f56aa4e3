"""The paper's running-time table against a sentence: "for every n, q_total ... p times less time"."""

from typing import Any

from bench.paper import PAPER

_COLUMNS = ("step 0", "step 1", "step 2", "step 3", "server")


def find() -> dict[str, Any]:
    """Each figure of CCESA over that of SA, as printed; p beside it, and p² of its formula for the server."""
    conventional = {(n, q): times for scheme, n, q, _, _, times in PAPER if scheme == "SA"}
    rows = []
    for scheme, n, q_total, _, p, times in PAPER:
        if scheme == "CCESA":
            ratios = [one / other for one, other in zip(times, conventional[n, q_total], strict=True)]
            rows.append(
                {"n": n, "q_total": q_total, "p": p, "p_squared": p**2} | dict(zip(_COLUMNS, ratios, strict=True))
            )
    return {"rows": rows}


def verdict(found: dict[str, Any]) -> str:
    """Within a tenth of p, or not, in each column."""
    good = {name: all(abs(row[name] / row["p"] - 1) < 0.1 for row in found["rows"]) for name in _COLUMNS}
    if all(good.values()):
        return "true"
    return "true where: steps 1 and 2" if good["step 1"] and good["step 2"] else "false as printed"
