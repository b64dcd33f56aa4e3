"""What the demo's rounds promise, as probabilities, and what it takes to repeat them."""

import math
import platform
from importlib.metadata import version

import ccesa
from ccesa.agreement.config import VERSION
from ccesa.crypto.kernels import kernel
from ccesa.demo.markup import Markup, Slots, joined, table, tag
from ccesa.demo.training import History
from ccesa.plan.report import certificate_in_words


def chance(log2: float) -> Markup:
    """Write a bound on a probability, never less than it is."""
    if log2 < -10 and log2 != -math.inf:
        return joined(["10", tag("sup", f"\N{MINUS SIGN}{-math.ceil(log2 * math.log10(2))}")])
    return joined([f"{math.ceil(1000 * 2**log2) / 1000:.3g}"])


def slots(history: History, command: str) -> Slots:
    """Say with which probability the promise does not hold, and which versions ran on what."""
    plan, rounds = history.plan, len(history.reports)

    def ever(log2: float) -> Markup:
        return chance(min(0.0, log2 + math.log2(rounds)))

    private = plan.certificate.privacy(plan.guard)
    events = [[name, chance(log2), ever(log2), meaning] for name, log2, meaning in certificate_in_words(plan)]
    heads = ("event", "in a round", "in all rounds", "what it means")
    versions = [
        ["command", tag("code", command)],
        ["seed", f"{history.seed}: fixes data and dropouts, never keys"],
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
        "fails": chance(private),
        "fails_ever": ever(private),
        "short": joined(short),
        "certificate": table("Certificate of the plan: probability at most", heads, events),
        "versions": table("Versions", ("what", "here"), versions),
    }
