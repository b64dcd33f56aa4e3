"""The demo's result as rows of words, and as one HTML file that needs nothing beside it."""

import math
import platform
from collections.abc import Callable
from importlib import resources
from importlib.metadata import version
from statistics import mean
from string import Template
from typing import NamedTuple

import numpy as np

import ccesa
from ccesa.agreement.config import VERSION
from ccesa.crypto.kernels import kernel
from ccesa.demo import pictures
from ccesa.demo.learning import History, Wiretap
from ccesa.demo.pictures import Axis, ChartLine, Markup, Slots, join, table, tag
from ccesa.errors import ImpossiblePlan, RoundFailed
from ccesa.plan import Plan
from ccesa.plan.planner import PlanRequest
from ccesa.plan.report import Bill, bytes_in_words, certificate_in_words
from ccesa.plan.report import bill as priced
from ccesa.simulate import SimulatedRound

_SHOWN = 4  # words of a vector in the report
#: The names of a round's vectors in a table, and their descriptions below a picture.
_VECTORS = {
    "own": ("own vector", "The update that client {} learnt from its own images. It stays with the client."),
    "received": ("received", "The vector that the server received in its place: the same numbers, masked."),
    "masked": ("all received, added", "The sum of all {} vectors as they were received. Still noise."),
    "opened": ("masks off", "The same sum without masks. Shares of the clients that stayed remove them."),
    "plain": ("plain sum", "The plain sum of all {} vectors, which are never sent like this."),
}


class Story(NamedTuple):
    """The demo, a conventional round, and the command that repeats them."""

    history: History
    conventional: SimulatedRound
    command: str


def summary(history: History) -> list[tuple[str, str]]:
    """Return the results, line by line."""
    sums, lost = history.sums, history.lost
    reasons = "; ".join(f"round {number}: {_reason(failure)}" for number, failure in lost.items())
    kept = f"{len(lost)} of {len(history.reports)}, the old model was kept ({reasons})"
    return [
        ("accuracy, secure aggregation", f"{history.secure[-1]:.1%}"),
        ("accuracy, plain averaging", f"{history.plain[-1]:.1%}"),
        ("accuracy, if nobody dropped out", f"{history.everyone[-1]:.1%}"),
        ("rounds lost", kept if lost else "none"),
        ("every sum exact", ("yes" if _exact(history) else "NO") if sums else "there was no sum"),
        ("clients in a sum", f"{_survivors(history)} of {history.plan.clients} (mean)"),
        ("dropouts", _by_step(history)),
        ("values clipped", f"{history.clipped}"),
        ("on the wire", history.values),
    ]


def to_html(story: Story) -> str:
    """Return the whole report as one file."""
    history = story.history
    slots = {
        "command": story.command,
        **_headline(history),
        **_seen(history.wiretap),
        **_dropouts(history),
        **_accuracy(history),
        **_costs(history, story.conventional),
        **_promise(history, story.command),
    }
    page = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return Template(page).substitute({name: join([value]) for name, value in slots.items()})


def _headline(history: History) -> Slots:
    exact = "each of them exactly the plain sum of the clients that stayed"
    if not (history.sums and _exact(history)):
        wrong = "NOT always the plain sum of the clients that stayed" if history.sums else "so nothing was learnt"
        exact = tag("strong", wrong, class_="bad")
    rounds = len(history.reports)
    return {
        "clients": f"{history.plan.clients}",
        "counted": f"{rounds} round" + "s" * (rounds > 1),
        "rounds": f"{rounds}",
        "dropped": f"{sum(history.dropped.values())}",
        "sums": f"{len(history.sums)}",
        "exact": exact,
        "secure": f"{history.secure[-1]:.1%}",
        "plain": f"{history.plain[-1]:.1%}",
        "everyone": f"{history.everyone[-1]:.1%}",
        "survivors": _survivors(history),
    }


def _seen(tap: Wiretap | None) -> Slots:
    """Show an update, the vector that the server received in its place, and the sums."""
    if tap is None:
        return {"one": tag("p", "All clients left before they sent a vector."), "all": "", "checked": ""}
    drawn = []
    for name, vector in tap.vectors.items():
        text = _VECTORS[name][1].format(tap.client if name == "own" else tap.senders)
        picture = pictures.tiles_svg(tap.numbers(vector), f"Ten images of 8 by 8 pixels. {text}")
        drawn.append(tag("figure", picture, tag("figcaption", text)))
    return {"one": join(drawn[:2]), "all": join(drawn[2:]), "checked": _checked(tap)}


def _checked(tap: Wiretap) -> Markup:
    if "opened" not in tap.vectors:
        return tag("p", "This round was lost: the masks stayed on, and the server learnt nothing.")
    inked = np.flatnonzero(tap.vectors["own"])  # the corners of all images are empty
    places = inked[:: max(1, inked.size // _SHOWN)][:_SHOWN].tolist()
    rows = [[f"{place}", *(f"{int(one[place]):016x}" for one in tap.vectors.values())] for place in places]
    heads = ("word", *(_VECTORS[name][0] for name in tap.vectors))
    how = (
        f". A word is a 64-bit number. The demo plays all clients, so it has the {tap.senders} vectors of round "
        f"{tap.number} before they were masked, which no server has. It added them modulo 2",
        tag("sup", "64"),
        ", and compared every word with the server's sum. It did this in every round.",
    )
    equal = tag("strong", f"{tap.equal_words} of {tap.vectors['plain'].size} words are equal")
    words = table(f"{len(rows)} words of each vector, in hexadecimal", heads, rows)
    return join([tag("p", equal, *how), tag("div", words, class_="words")])


def _dropouts(history: History) -> Slots:
    """Show how many clients left in each step, and how many are in the sums."""
    survivors = [report.survivors for report in history.reports]
    text = f"Clients that left, over all rounds {_by_step(history)}, and those in each sum, as in the table."
    rows = [
        [f"{number}", *map(str, gone.values()), f"{staying or 'lost'}"]
        for number, (gone, staying) in enumerate(zip(history.gone, survivors, strict=True), 1)
    ]
    lost = [[f"{number}", _reason(failure)] for number, failure in history.lost.items()]
    failed = tag("div", table("Rounds without a sum", ("round", "why"), lost), class_="prose")
    return {
        "dropouts": pictures.rounds_svg(history.gone, survivors, history.plan.clients, text),
        "by_step": _by_step(history),
        "left": table("Clients that left", ("round", *history.gone[0], "in the sum"), rows),
        "lost": failed if lost else "",
    }


def _accuracy(history: History) -> Slots:
    """Show the accuracy of the model, beside training in the clear."""
    lines = {
        "plain, same dropouts": ("band", history.plain),
        "plain, nobody drops out": ("dash", history.everyone),
        "secure aggregation": ("solid", history.secure),
    }
    curves = [ChartLine(name, style, list(enumerate(values, 1))) for name, (style, values) in lines.items()]
    by_round = list(zip(*(values for _, values in lines.values()), strict=True))
    apart = max(abs(secure - plain) for plain, _, secure in by_round)
    text = "; ".join(f"{name} from {line[0]:.1%} to {line[-1]:.1%}" for name, (_, line) in lines.items())
    x = Axis("round", {number: f"{number}" for number in pictures.every_fifth(len(by_round))})
    y = pictures.percentages([value for values in by_round for value in values], "accuracy")
    rows = [[f"{number}", *map("{:.1%}".format, values)] for number, values in enumerate(by_round, 1)]
    return {
        "curves": pictures.chart(curves, x, y, f"Accuracy by round: {text}.", list(history.lost)),
        "apart": f"at most {apart:.1%} apart" if apart else "equal",
        "axis": f"{min(y.ticks):.0%}",
        "learnt": table("Accuracy", ("round", *lines), rows),
    }


def _by_step(history: History) -> str:
    return ", ".join(f"{count} in {step}" for step, count in history.dropped.items())


def _exact(history: History) -> bool:
    return all(report.exact for report in history.sums)


def _survivors(history: History) -> str:
    return f"{mean([report.survivors for report in history.sums] or [0]):.1f}"


def _reason(failure: RoundFailed) -> str:
    return f"{type(failure).__name__}, {str(failure).split(';')[0]}"


#: From 10 clients to 100,000, four for each power of ten.
CLIENTS = tuple(round(10 ** (power / 4)) for power in range(4, 21))
#: The costs of a client for a round: a name, a figure of the round, and its format.
_COSTS: list[tuple[str, Callable[[SimulatedRound], float], str]] = [
    ("neighbours of a client", lambda report: report.degree_mean, "{:.0f}"),
    ("client, milliseconds of work", lambda report: sum(report.client_ms.values()), "{:.2f}"),
    ("client, bytes sent", lambda report: report.client_bytes["sent"], "{:,.0f}"),
    ("client, bytes received", lambda report: report.client_bytes["received"], "{:,.0f}"),
]
#: The lines of the curve, in the order of a bill: ccesa, the paper's rule, and conventional aggregation.
_LINES = {"ccesa, as planned": "solid", "the paper's rule": "dash", "conventional (everyone with everyone)": "dot"}


def compare_costs(history: History, conventional: SimulatedRound) -> list[tuple[str, str, str, str]]:
    """Return the costs of a client for a round, beside conventional secure aggregation."""
    rows = []
    for name, cost, form in _COSTS:
        ours, theirs = mean(map(cost, history.sums or history.reports)), cost(conventional)
        rows.append((name, form.format(ours), form.format(theirs), f"{ours / theirs:.0%}"))
    return rows


def price_plans(made: Plan) -> dict[int, Bill]:
    """Price the demo's round for other numbers of clients, down to the fewest with a reliable plan."""
    terms = {name: getattr(made, name) for name in ("length", "bits", "agreement", "accept")}
    found: dict[int, Bill] = {}
    for clients in reversed(CLIENTS):
        try:
            asked = PlanRequest(clients, made.assumptions.dropout, **terms)
            found[clients] = priced(asked.plan(explained=False))
        except ImpossiblePlan:
            break  # fewer clients have no reliable plan either
    return dict(sorted(found.items()))


def _costs(history: History, conventional: SimulatedRound) -> Slots:
    """Show the bill of the demo, and how it grows with the number of clients."""
    bills, heads = price_plans(history.plan), ("per client and round", "ccesa", "conventional", "ratio")
    sent = mean(report.client_bytes["sent"] for report in history.sums or history.reports)
    return {
        "sent": bytes_in_words(sent),
        "words": f"{history.plan.length:,}",
        "dropout": f"{history.plan.assumptions.dropout:.0%}",
        "bill": table("Measured in this demo (mean over rounds)", heads, compare_costs(history, conventional)),
        **(_draw_costs(bills) if bills else {"cost": "No plan is reliable at this dropout rate.", "planned": ""}),
    }


def _draw_costs(bills: dict[int, Bill]) -> Slots:
    lines: dict[str, dict[int, float]] = {name: {} for name in reversed(_LINES)}
    for clients, one in bills.items():
        for name, cost in zip(_LINES, one, strict=True):
            if cost is not None:
                lines[name][clients] = cost.sent_bytes + cost.received_bytes
    curves = [ChartLine(name, _LINES[name], list(points.items())) for name, points in lines.items() if points]
    everything = [value for points in lines.values() for value in points.values()]
    x = pictures.powers(list(bills), "clients", "{:,.0f}".format)
    y = pictures.powers(everything, "sent and received by a client in a round", bytes_in_words)
    rows = [
        [f"{clients:,}", *(bytes_in_words(one[clients]) if clients in one else "no rule" for one in lines.values())]
        for clients in bills
        if clients in (100, 1000, 10_000, 100_000)
    ]
    text = "; ".join(f"{name} {price}" for name, price in zip(lines, rows[-1][1:], strict=True))
    return {
        "cost": pictures.chart(curves, x, y, f"Bytes per client; with {rows[-1][0]} clients: {text}."),
        "planned": table("By plan, bytes per client and round", ("clients", *lines), rows),
    }


def write_chance(log2: float) -> Markup:
    """Write a bound on a probability, rounded up."""
    if log2 < -10 and log2 != -math.inf:
        return join(["10", tag("sup", f"\N{MINUS SIGN}{-math.ceil(log2 * math.log10(2))}")])
    return join([f"{math.ceil(1000 * 2**log2) / 1000:.3g}"])


def _promise(history: History, command: str) -> Slots:
    """Show the probability that the promise fails, and the versions of all parts."""
    plan, rounds = history.plan, len(history.reports)

    def ever(log2: float) -> Markup:
        return write_chance(min(0.0, log2 + math.log2(rounds)))

    private = plan.certificate.privacy(plan.guard)
    events = [[name, write_chance(log2), ever(log2), meaning] for name, log2, meaning in certificate_in_words(plan)]
    heads = ("event", "in a round", "in all rounds", "meaning")
    versions = [
        ["command", tag("code", command)],
        ["seed", f"{history.seed}: repeats data and dropouts, never keys"],
        ["ccesa", f"{ccesa.__version__}, wire format {VERSION}"],
        ["kernel", kernel().name],
        ["agreement", plan.agreement],
        ["values", history.values],
        ["Python", f"{platform.python_version()} on {platform.system()}, {platform.machine()}"],
        *([name, version(name)] for name in ("numpy", "cryptography", "scikit-learn")),
    ]
    short = [tag("p", f"Note: {line}.", class_="warn") for line in (*plan.shortfalls, *plan.notes)]
    return {
        "guard": plan.guard,
        "graph": plan.graph.in_words(plan.clients),
        "fails": write_chance(private),
        "fails_ever": ever(private),
        "short": join(short),
        "certificate": table("Certificate of the plan: probability at most", heads, events),
        "versions": table("Versions", ("part", "version"), versions),
    }
