"""What the demo's rounds promise, in words and as probabilities, and what it takes to repeat them."""

import math
import platform
from importlib.metadata import version

import ccesa
from ccesa.config import VERSION
from ccesa.crypto.kernels import kernel
from ccesa.demo.markup import Markup, joined, table, tag
from ccesa.demo.training import History
from ccesa.plan.report import certificate_in_words

_LISTS = {
    "The server sees": (
        "who takes part, and who drops out when;",
        "public keys, and shares that are sealed for others;",
        "one masked vector per client, which looks like any other string of random words;",
        "the sum of all updates and of the clients' weights, after every round.",
    ),
    "It does not learn": (
        "the update of any client, or its number of images;",
        "the sum over some of the survivors: only over all of them;",
        "anything about clients that left before the mask step, except that they did.",
    ),
    "Not promised here": (
        "that a sum says nothing about its clients: noise (differential privacy) is for that, see ccesa plan "
        "--epsilon;",
        "anything against a server that lies: that is the guard active, see ccesa plan --guard active;",
        "that a client told the truth about its data.",
    ),
}


def chance(log2: float) -> Markup:
    """Write a bound on a probability, never less than it is."""
    if log2 == -math.inf:
        return joined(["0"])
    if log2 > -10:
        return joined([f"{math.ceil(1000 * 2**log2) / 1000:.3g}"])
    return joined(["10", tag("sup", f"\N{MINUS SIGN}{-math.ceil(log2 * math.log10(2))}")])


def section(history: History) -> list[Markup]:
    """Say what is assumed, what follows from it, and with which probability it does not."""
    plan, rounds = history.plan, len(history.reports)
    several = math.log2(rounds)
    private = plan.certificate.privacy(plan.guard)
    assumed = (
        "This holds if server and clients follow the protocol, whatever the server makes of the messages "
        f"that it keeps (guard {plan.guard}); if nobody works with it; if the cryptography holds; and if "
        f"each client drops out of a round with a probability of at most {plan.assumptions.dropout:.0%}, in "
        "whichever step is worst."
    )
    lists = [
        tag("div", tag("h3", title), tag("ul", *(tag("li", line) for line in said)))
        for title, said in _LISTS.items()
    ]
    rows = [
        [name, chance(log2), chance(min(0.0, log2 + several)), meaning]
        for name, log2, meaning in certificate_in_words(plan)
    ]
    heads = ("event", "in a round", f"in all {rounds}", "what it means")
    short = [tag("p", f"Note: {line}.", class_="warn") for line in (*plan.shortfalls, *plan.notes)]
    return [
        tag("p", assumed),
        tag("div", *lists, class_="tiles"),
        tag(
            "p",
            "The plan (",
            plan.graph.in_words(plan.clients),
            ") breaks this promise of privacy with a probability of at most ",
            tag("strong", chance(private)),
            " in a round, and ",
            tag("strong", chance(min(0.0, private + several))),
            f" in all {rounds}. The bounds are exact tails and union bounds; docs/planning.md derives them.",
        ),
        *short,
        tag("div", table("Certificate of the plan: probability at most", heads, rows), class_="prose"),
        tag(
            "p",
            "All parts ran in one process here: it shows the messages, it is not a deployment.",
            class_="note",
        ),
    ]


def repetition(history: History, command: str) -> list[Markup]:
    """Say which versions ran on what, and how to run them again."""
    rows: list[list[str]] = [
        ["command", tag("code", command)],
        ["seed", f"{history.seed}: fixes data and dropouts, never keys"],
        ["ccesa", f"{ccesa.__version__}, wire format {VERSION}"],
        ["kernel", kernel().name],
        ["agreement", history.plan.agreement],
        ["values", history.values],
        ["Python", f"{platform.python_version()} on {platform.system()}, {platform.machine()}"],
        *([name, version(name)] for name in ("numpy", "cryptography", "scikit-learn")),
    ]
    same = (
        "With the same seed the same clients have the same images and drop out in the same steps. Keys and "
        "masks are new every time: what the server received will never look the same again."
    )
    return [tag("p", same), tag("div", table("Versions", ("what", "here"), rows), class_="prose")]
