"""The demo's result as rows of words, and as one HTML file that needs nothing beside it."""

from collections.abc import Callable
from importlib import resources
from statistics import mean
from string import Template
from typing import NamedTuple

import numpy as np

from ccesa.demo import costs, pictures, promise
from ccesa.demo.markup import Markup, figure, joined, table, tag
from ccesa.demo.pictures import Axis, Curve
from ccesa.demo.training import History, Wiretap
from ccesa.errors import RoundFailed
from ccesa.simulate import Report

_SHOWN = 4  # words of a vector in the report


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
        ("clients in a sum", f"{_survivors(history):.1f} of {history.plan.clients} (mean)"),
        ("dropouts", ", ".join(f"{count} in {step}" for step, count in history.dropped.items())),
        ("values clipped", f"{history.clipped}"),
        ("on the wire", history.values),
    ]


def to_html(story: Story) -> str:
    """Return the whole report as one file."""
    sections = [
        tag("section", tag("h2", f"{number}. {title}", id=f"part-{number}"), *section(story),
            aria_labelledby=f"part-{number}")
        for number, (title, section) in enumerate(_SECTIONS.items(), 1)
    ]  # fmt: skip
    title = "Training together without showing an update"
    body = [
        tag("header", tag("h1", title), tag("p", *_lead(story.history), class_="lead"), _figures(story)),
        tag("main", *sections),
        tag("footer", tag("p", "Written by ", tag("code", story.command), ". This file loads nothing.")),
    ]
    page = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return Template(page).substitute(title=f"ccesa demo: {title.lower()}", body=joined(body))


def _lead(history: History) -> list[str]:
    """Say in a sentence what happened."""
    clients, rounds, sums = history.plan.clients, len(history.reports), len(history.sums)
    said = [
        f"{clients} clients trained one model in {rounds} {_plural('round', rounds)}, and sent the server "
        f"nothing but masked vectors. Clients dropped out {sum(history.dropped.values())} times; "
    ]
    if not sums:
        return [*said, tag("strong", "no round had a sum", class_="bad"), ", and the model is the first one."]
    exact = "word for word the plain sum" if _exact(history) else tag("strong", "NOT the plain sum")
    return [
        *said,
        f"{sums} of {rounds} rounds had a sum, each ",
        exact,
        f" of those who stayed. The model recognises {history.secure[-1]:.1%} of digits that nobody trained "
        f"on; plain averaging with the same dropouts reaches {history.plain[-1]:.1%}, and "
        f"{history.everyone[-1]:.1%} if nobody drops out.",
    ]


def _figures(story: Story) -> Markup:
    history, plan = story.history, story.history.plan
    sent = mean(report.client_bytes["sent"] for report in history.sums or history.reports)
    shown = {
        "accuracy, through secure aggregation": f"{history.secure[-1]:.1%}",
        "accuracy, plain averaging": f"{history.plain[-1]:.1%}",
        "rounds with a sum": f"{len(history.sums)} of {len(history.reports)}",
        "clients in a sum, on average": f"{_survivors(history):.1f}",
        "sent by a client in a round": costs.size(sent),
        "chance at most that privacy fails, in a round": promise.chance(plan.certificate.privacy(plan.guard)),
    }
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in shown.items()]
    return tag("dl", *pairs, class_="figures")


def _seen(story: Story) -> list[Markup]:
    """Show an update, what the server received in its place, and the sum that came out."""
    tap = story.history.wiretap
    if tap is None:
        return [tag("p", "No client stayed until vectors were sent.")]
    several = f"all {tap.senders} vectors"
    shown = [
        (tap.own, f"What client {tap.client} learnt from its own images. This stays with it."),
        (tap.received, "What the server received in its place: the same numbers, masked."),
        (tap.masked, f"The sum of {several} as they were received. Still noise."),
        (tap.opened, "The same sum with the masks off, which takes the shares of those who stayed."),
        (tap.plain, f"Beside it, the plain sum of {several}, which nobody sends to anybody."),
    ]
    drawn = [
        figure(pictures.tiles_svg(tap.numbers(vector), f"Ten images of 8 by 8 pixels. {caption}"), caption)
        for vector, caption in shown
        if vector is not None
    ]
    key = tag(
        "p",
        "Each picture is one vector: how much each of 8 by 8 pixels should count for the digits 0 to 4 "
        "(above) and 5 to 9 (below). Orange counts for a digit, blue against it, and stronger counts more. "
        "All five are drawn by one rule.",
        class_="note",
    )
    return [
        tag("p", f"Round {tap.number}, taken from the messages on the wire."),
        tag("div", *drawn[:2], key, class_="tiles"),
        tag("div", *drawn[2:], class_="tiles"),
        *_checked(tap),
    ]


def _checked(tap: Wiretap) -> list[Markup]:
    if tap.opened is None:
        return [tag("p", "This round was lost: the masks stayed on, and nobody learnt anything.")]
    equal = f"{tap.equal_words} of {tap.plain.size} words are equal"
    how = (
        f". The demo plays all clients, so it has what no server has: it added the {tap.senders} vectors as "
        "they were before masking, modulo 2",
        tag("sup", "64"),
        ", and compared every word with what the server made of the round's own messages. It did so in every "
        "round.",
    )
    heads = (
        "word",
        f"client {tap.client}'s own",
        "received",
        "all received, added",
        "masks off",
        "plain sum",
    )
    vectors = (tap.own, tap.received, tap.masked, tap.opened, tap.plain)
    told = np.flatnonzero(tap.own)  # corners of an image say nothing
    places = told[:: max(1, told.size // _SHOWN)][:_SHOWN].tolist()
    rows = [[str(place), *(f"{int(one[place]):016x}" for one in vectors)] for place in places]
    words = table(f"{len(rows)} words of each vector, in hexadecimal", heads, rows)
    return [tag("p", tag("strong", equal), *how), tag("div", words, class_="words")]


def _dropouts(story: Story) -> list[Markup]:
    """Show who left in which step, and who is in the sums."""
    history = story.history
    clients, survivors = history.plan.clients, [report.survivors for report in history.reports]
    left = ", ".join(f"{count} in {step}" for step, count in history.dropped.items())
    told = f"Clients that left in each step of each round, over all rounds {left}; below, those in the sum."
    picture = pictures.rounds_svg(history.gone, survivors, clients, f"{told} The table has the numbers.")
    lost = [[str(number), _reason(failure)] for number, failure in history.lost.items()]
    caption = f"{told} A cross is a round that was lost." if lost else f"{told} No round was lost."
    rows = [
        [str(number), *map(str, gone.values()), str(report.survivors) if report.survivors else "lost"]
        for number, (gone, report) in enumerate(zip(history.gone, history.reports, strict=True), 1)
    ]
    heads = ("round", *history.gone[0], "in the sum")
    pair = tag("div", figure(picture, caption), table("Clients that left", heads, rows), class_="pair")
    why = (
        "Who leaves before the mask step is not in the sum. Who leaves in the unmask step is: those who stay "
        "have the shares to take the masks off without them. A lost round keeps the old model."
    )
    failed = tag("div", table("Rounds without a sum", ("round", "why"), lost), class_="prose")
    return [tag("p", why), pair, *[failed] * bool(lost)]


def _accuracy(story: Story) -> list[Markup]:
    """Show what the model learnt, beside training in the clear."""
    history = story.history
    lines = {
        "plain averaging, same dropouts": ("band", history.plain),
        "plain averaging, nobody drops out": ("dash", history.everyone),
        "secure aggregation": ("solid", history.secure),
    }
    curves = [Curve(name, style, list(enumerate(values, 1))) for name, (style, values) in lines.items()]
    rounds, values = len(history.secure), [value for _, values in lines.values() for value in values]
    ticks = {float(number): f"{number}" for number in pictures.every_fifth(rounds)}
    apart = max(abs(one - other) for one, other in zip(history.secure, history.plain, strict=True))
    told = "; ".join(f"{name} from {line[0]:.1%} to {line[-1]:.1%}" for name, (_, line) in lines.items())
    axes = Axis("round", ticks), pictures.percentages(values, "accuracy")
    picture = pictures.chart(curves, *axes, f"Accuracy by round: {told}.", list(history.lost))
    caption = (
        "Accuracy on digits that nobody trained on. Secure aggregation and plain averaging with the same "
        f"dropouts are {f'at most {apart:.1%} apart' if apart else 'equal'} in every round. The axis "
        f"starts at {min(axes[1].ticks):.0%}."
    ) + " A dotted upright line is a round that was lost." * bool(history.lost)
    rows = [
        [str(number), f"{one:.1%}", f"{two:.1%}", f"{three:.1%}"]
        for number, (one, two, three) in enumerate(
            zip(history.secure, history.plain, history.everyone, strict=True), 1
        )
    ]
    heads = ("round", "secure", "plain, same dropouts", "plain, nobody drops out")
    return [tag("div", figure(picture, caption), table("Accuracy", heads, rows), class_="pair")]


def _exact(history: History) -> bool:
    return all(report.exact for report in history.sums)


def _survivors(history: History) -> float:
    return mean([report.survivors for report in history.sums] or [0])


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _reason(failure: RoundFailed) -> str:
    return f"{type(failure).__name__}, {str(failure).split(';')[0]}"


#: The parts of the report, in order.
_SECTIONS: dict[str, Callable[[Story], list[Markup]]] = {
    "What the server saw, and what came out": _seen,
    "Who dropped out, and when": _dropouts,
    "What the model learnt": _accuracy,
    "What it cost": lambda story: costs.section(story.history, story.conventional),
    "What is promised": lambda story: promise.section(story.history),
    "To repeat it": lambda story: promise.repetition(story.history, story.command),
}
