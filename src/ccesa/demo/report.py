"""The demo's result as rows of words, and as one HTML file that needs nothing beside it."""

import html
from collections.abc import Callable, Sequence
from statistics import mean

from ccesa.demo import pictures
from ccesa.demo.training import History
from ccesa.errors import RoundFailed
from ccesa.simulate import Report

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif }
table { border-collapse: collapse; width: 100% } td { text-align: left; padding: .3rem .6rem .3rem 0 }
tr { border-bottom: 1px solid #ddd } td { font-variant-numeric: tabular-nums; vertical-align: top }
figure { margin: 1.5rem 0 } figcaption { color: #555 }
"""
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>ccesa demo</title><style>{style}</style>
{body}
</html>
"""


def summary(history: History) -> list[tuple[str, str]]:
    """Say what happened, line by line."""
    sums, lost = history.sums, history.lost
    reasons = "; ".join(f"round {number}: {_reason(failure)}" for number, failure in lost.items())
    kept = f"{len(lost)} of {len(history.reports)}, the old model was kept ({reasons})"
    exact = "yes" if all(report.exact for report in sums) else "NO"
    survivors = mean([report.survivors for report in sums] or [0])
    return [
        ("accuracy, secure aggregation", f"{history.secure[-1]:.1%}"),
        ("accuracy, plain averaging", f"{history.plain[-1]:.1%}"),
        ("rounds lost", kept if lost else "none"),
        ("every sum exact", exact if sums else "there was no sum"),
        ("clients in a sum", f"{survivors:.1f} of {history.reports[0].clients} (mean)"),
        ("dropouts", ", ".join(f"{count} in {step}" for step, count in history.dropped.items())),
        ("values clipped", f"{history.clipped}"),
        ("on the wire", history.values),
    ]


#: What a client pays for a round: a name, where it is in a report, and how it is written.
_COSTS: list[tuple[str, Callable[[Report], float], str]] = [
    ("neighbours of a client", lambda report: report.degree_mean, "{:.0f}"),
    ("client, ms", lambda report: sum(report.client_ms.values()), "{:.2f}"),
    ("client, bytes sent", lambda report: report.client_bytes["sent"], "{:,.0f}"),
    ("client, bytes received", lambda report: report.client_bytes["received"], "{:,.0f}"),
]


def bill(history: History, conventional: Report) -> list[tuple[str, str, str, str]]:
    """Return what a client pays for a round, beside conventional secure aggregation."""
    rows = []
    for name, cost, form in _COSTS:
        ours, theirs = mean(map(cost, history.sums or history.reports)), cost(conventional)
        rows.append((name, form.format(ours), form.format(theirs), f"{ours / theirs:.0%}"))
    return rows


def to_html(history: History, conventional: Report) -> str:
    """Return the whole report as one file."""
    curves = pictures.curves_svg(
        [
            ("plain averaging", "stroke:#999;stroke-width:5", history.plain),
            ("secure aggregation", "stroke:#c22;stroke-width:2", history.secure),
        ],
        list(history.lost),
    )
    body = [
        "<h1>Federated averaging through secure aggregation</h1>",
        _table(summary(history)),
        _figure(curves, "Accuracy on digits that nobody trained on."),
    ]
    if (tap := history.wiretap) is not None:
        body += [
            "<h2>One client's update, and what the server received for it</h2>",
            _figure(
                pictures.tiles_svg(tap.update),
                f"The update of client {tap.client}: how each of the 64 pixels should count for the digits "
                "0 to 9 (red up, blue down).",
            ),
            _figure(pictures.tiles_svg(tap.received), "The same numbers as they left the client, masked."),
        ]
    costs = [("", "ccesa", "conventional", ""), *bill(history, conventional)]
    body += ["<h2>What a round costs</h2>", _table(costs)]
    return _PAGE.replace("{style}", _STYLE).replace("{body}", "\n".join(body))


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _reason(failure: RoundFailed) -> str:
    return f"{type(failure).__name__}, {str(failure).split(';')[0]}"
