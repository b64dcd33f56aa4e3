"""The demo's result as rows of words, and as one HTML file that needs nothing beside it."""

from importlib import resources
from statistics import mean
from string import Template
from typing import NamedTuple

import numpy as np

from ccesa.demo import costs, pictures, promise
from ccesa.demo.markup import Markup, Slots, joined, table, tag
from ccesa.demo.pictures import Axis, Curve
from ccesa.demo.training import History, Wiretap
from ccesa.errors import RoundFailed
from ccesa.simulate import Report

_SHOWN = 4  # words of a vector in the report
#: What is shown of a round: the names of vectors as a head of a table, and below a picture.
_VECTORS = {
    "own": ("own vector", "What client {} learnt from its own images. This stays with it."),
    "received": ("received", "What the server received in its place: the same numbers, masked."),
    "masked": ("all received, added", "The sum of all {} vectors as they were received. Still noise."),
    "opened": ("masks off", "The same sum with the masks off, which takes the shares of those who stayed."),
    "plain": ("plain sum", "Beside it, the plain sum of all {} vectors, which nobody sends to anybody."),
}


class Story(NamedTuple):
    """All that the report tells: the demo, a round of the conventional kind, and the command to repeat it."""

    history: History
    conventional: Report
    command: str


def summary(history: History) -> list[tuple[str, str]]:
    """Say what happened, line by line."""
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
        **costs.slots(history, story.conventional),
        **promise.slots(history, story.command),
    }
    page = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return Template(page).substitute({name: joined([value]) for name, value in slots.items()})


def _headline(history: History) -> Slots:
    exact = "each of them exactly the plain sum of those who stayed"
    if not (history.sums and _exact(history)):
        wrong = "NOT always the plain sum of those who stayed" if history.sums else "so nothing was learnt"
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
    """Show an update, what the server received in its place, and the sum that came out."""
    if tap is None:
        return {"one": tag("p", "No client stayed until vectors were sent."), "all": "", "checked": ""}
    drawn = []
    for name, vector in tap.vectors.items():
        said = _VECTORS[name][1].format(tap.client if name == "own" else tap.senders)
        picture = pictures.tiles_svg(tap.numbers(vector), f"Ten images of 8 by 8 pixels. {said}")
        drawn.append(tag("figure", picture, tag("figcaption", said)))
    return {"one": joined(drawn[:2]), "all": joined(drawn[2:]), "checked": _checked(tap)}


def _checked(tap: Wiretap) -> Markup:
    if "opened" not in tap.vectors:
        return tag("p", "This round was lost: the masks stayed on, and nobody learnt anything.")
    told = np.flatnonzero(tap.vectors["own"])  # corners of an image say nothing
    places = told[:: max(1, told.size // _SHOWN)][:_SHOWN].tolist()
    rows = [[f"{place}", *(f"{int(one[place]):016x}" for one in tap.vectors.values())] for place in places]
    heads = ("word", *(_VECTORS[name][0] for name in tap.vectors))
    how = (
        ". A word is a 64-bit number. The demo plays all clients, so it has what no server has: it added "
        f"the {tap.senders} vectors of round {tap.number} as they were before masking, modulo 2",
        tag("sup", "64"),
        ", and compared every word with what the server made of the messages. It did so in every round.",
    )
    equal = tag("strong", f"{tap.equal_words} of {tap.vectors['plain'].size} words are equal")
    words = table(f"{len(rows)} words of each vector, in hexadecimal", heads, rows)
    return joined([tag("p", equal, *how), tag("div", words, class_="words")])


def _dropouts(history: History) -> Slots:
    """Show who left in which step, and who is in the sums."""
    survivors = [report.survivors for report in history.reports]
    told = f"Clients that left, over all rounds {_by_step(history)}, and those in each sum, as in the table."
    rows = [
        [f"{number}", *map(str, gone.values()), f"{staying or 'lost'}"]
        for number, (gone, staying) in enumerate(zip(history.gone, survivors, strict=True), 1)
    ]
    lost = [[f"{number}", _reason(failure)] for number, failure in history.lost.items()]
    failed = tag("div", table("Rounds without a sum", ("round", "why"), lost), class_="prose")
    return {
        "dropouts": pictures.rounds_svg(history.gone, survivors, history.plan.clients, told),
        "by_step": _by_step(history),
        "left": table("Clients that left", ("round", *history.gone[0], "in the sum"), rows),
        "lost": failed if lost else "",
    }


def _accuracy(history: History) -> Slots:
    """Show what the model learnt, beside training in the clear."""
    lines = {
        "plain, same dropouts": ("band", history.plain),
        "plain, nobody drops out": ("dash", history.everyone),
        "secure aggregation": ("solid", history.secure),
    }
    curves = [Curve(name, style, list(enumerate(values, 1))) for name, (style, values) in lines.items()]
    by_round = list(zip(*(values for _, values in lines.values()), strict=True))
    apart = max(abs(secure - plain) for plain, _, secure in by_round)
    told = "; ".join(f"{name} from {line[0]:.1%} to {line[-1]:.1%}" for name, (_, line) in lines.items())
    x = Axis("round", {number: f"{number}" for number in pictures.every_fifth(len(by_round))})
    y = pictures.percentages([value for values in by_round for value in values], "accuracy")
    rows = [[f"{number}", *map("{:.1%}".format, values)] for number, values in enumerate(by_round, 1)]
    return {
        "curves": pictures.chart(curves, x, y, f"Accuracy by round: {told}.", list(history.lost)),
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
