"""``plan`` chooses the cheapest graph that keeps a demand; ``check`` judges one that somebody else chose."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ccesa.config import RoundConfig
from ccesa.crypto.agreements import DEFAULT, needs_accept
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs import BEST, Complete, Harary, kind_named
from ccesa.guards import CURIOUS, guard_named
from ccesa.plan.certificate import certify
from ccesa.plan.explanation import everyone, explain, reachable
from ccesa.plan.result import Plan
from ccesa.plan.search import Found, cheapest, sparsest, thinned
from ccesa.probability.assumptions import Assumptions
from ccesa.probability.demand import Demand
from ccesa.probability.per_step import PerStep
from ccesa.probability.reliability import log_fewer
from ccesa.probability.tails import LN2, log2_upwards
from ccesa.protocol.steps import steps_of


def plan(
    clients: int,
    dropout: float | None = None,
    collusion: float | None = None,
    guard: str = CURIOUS.name,
    length: int = 1_000_000,
    bits: int = 32,
    privacy_bits: float | None = None,
    reliability_bits: float | None = None,
    graph: str = BEST,
    exact_dropout: bool = False,
    dropout_per_step: float | Mapping[str, float] | None = None,
    agreement: str = DEFAULT,
    accept: bool = False,
) -> Plan:
    """Return the cheapest graph of which all promises hold.

    Args:
        clients: How many are enrolled, 3 to 10^8.
        dropout: The probability that a client drops out in the course of the round, in [0, 1), in whichever
            step is worst. Either this or ``dropout_per_step`` has to be given.
        collusion: The fraction of clients that work with the server, in [0, 1); by default none, or a tenth
            under ``active``, where it is never less than one client.
        guard: ``curious`` or ``active``.
        length: Words of a vector.
        bits: Bits of a word, 8, 16, 32 or 64.
        privacy_bits: All privacy events together may have probability 2^-privacy_bits; by default 40, or 128
            under ``active``.
        reliability_bits: A round may fail for want of share holders with probability 2^-reliability_bits; by
            default 20, or what the complete graph reaches, with a note, where that is less.
        graph: ``harary``, ``erdos-renyi``, ``complete``, or ``best``, which is Harary; where no sparse graph
            works, the complete one is taken, with a note.
        exact_dropout: Whether exactly a fraction ``dropout`` drops out, not each client by itself.
        dropout_per_step: The finer assumption, for federations that have counted: the probability that a
            client leaves in a step, if it has answered those before; one number for each step that the round
            has, or numbers by the names advertise, share, accept, mask, confirm, unmask, where others lose
            nobody.
        agreement: ``x25519``, or ``x25519-mlkem768``, which stays secret when X25519 falls. No graph depends
            on it, but what a round costs.
        accept: Whether rounds have the step *accept*, as those of a series do, and those of an agreement that
            needs it.

    Raises:
        ImpossiblePlan: No graph works; its ``options`` are what would.
        ConfigError: An argument is out of range.
    """
    accept = accept or needs_accept(agreement)
    leaving = _Leaving(guard, dropout, exact_dropout, dropout_per_step, accept)
    demand = _demand(clients, leaving, collusion, privacy_bits, reliability_bits)
    kind_named(graph)
    RoundConfig(  # refuses what cannot be
        clients=clients,
        length=length,
        bits=bits,  # type: ignore[arg-type]
        graph=Harary(degree=2),
        agreement=agreement,
        accept=accept,
    )
    found, demand = _search(demand, graph, gives_way=reliability_bits is None)
    if demand.assumptions.colluders == 0:
        found = replace(found, graph=thinned(demand, found.graph))
    found = replace(found, notes=(*found.notes, *_all_needed(demand)))
    return replace(_certified(demand, length, bits, found), agreement=agreement, accept=accept)


def check(
    config: RoundConfig,
    dropout: float | None = None,
    collusion: float | None = None,
    privacy_bits: float | None = None,
    reliability_bits: float | None = None,
    exact_dropout: bool = False,
    dropout_per_step: float | Mapping[str, float] | None = None,
) -> Plan:
    """Certify a configuration that somebody else chose.

    Args:
        config: The round, with its guard, graph, threshold rule and ``min_survivors``.
        dropout: The probability that a client drops out in the course of the round, in [0, 1).
        collusion: The fraction of clients that work with the server; by default as in ``plan``.
        privacy_bits: What is demanded; by default as in ``plan``.
        reliability_bits: What is demanded; by default 20.
        exact_dropout: Whether exactly a fraction ``dropout`` drops out, not each client by itself.
        dropout_per_step: In place of ``dropout``, as in ``plan``; one number for each step of this round.

    Returns:
        The plan with its certificate; ``shortfalls`` says which demands it does not meet.

    Raises:
        ConfigError: An argument is out of range.
    """
    bits, found = (privacy_bits, reliability_bits), Found(config.graph, config.threshold)
    leaving = _Leaving(config.guard, dropout, exact_dropout, dropout_per_step, config.accept)
    demand = _demand(config.clients, leaving, collusion, *bits)
    made = _certified(demand, config.length, config.bits, found)
    made = replace(made, agreement=config.agreement, accept=config.accept)
    return _surviving(made, config.min_survivors)


def _surviving(made: Plan, least: int) -> Plan:
    """Return the plan of a round that opens no sum over fewer than ``least``, which may be above its own."""
    if least <= made.least_survivors:
        return made
    bounds = made.certificate
    lost = np.logaddexp(bounds.unreliable * LN2, log_fewer(made.assumptions, least))
    return replace(made, certificate=replace(bounds, unreliable=log2_upwards(lost)))


def plan_or_complete(
    clients: int,
    dropout: float | None = None,
    collusion: float | None = None,
    guard: str = CURIOUS.name,
    length: int = 1,
    bits: int = 32,
    graph: str = BEST,
    dropout_per_step: float | Mapping[str, float] | None = None,
    agreement: str = DEFAULT,
    accept: bool = False,
) -> Plan:
    """Return the plan; where most rounds would be lost whatever the graph, the complete graph and a note.

    Only reliability gives way. Privacy that cannot be had stays an error.
    """
    try:
        return plan(
            clients,
            dropout,
            collusion,
            guard,
            length,
            bits,
            graph=graph,
            dropout_per_step=dropout_per_step,
            agreement=agreement,
            accept=accept,
        )
    except ImpossiblePlan as error:
        accept = accept or needs_accept(agreement)
        leaving = _Leaving(guard, dropout, per_step=dropout_per_step, accept=accept)
        demand = _demand(clients, leaving, collusion)
        found = everyone(demand)
        if found is None:
            raise
        made = _certified(demand, length, bits, replace(found, notes=(str(error),)))
        if not made.is_private:
            raise
        return replace(made, agreement=agreement, accept=accept)


class _Leaving(NamedTuple):
    """Who drops out, as it was said: in the whole round, or in each of its steps."""

    guard: str
    dropout: float | None
    exact: bool = False
    per_step: float | Mapping[str, float] | None = None
    accept: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the fields of ``Assumptions``."""
        if (self.dropout is None) == (self.per_step is None):
            raise ConfigError("say either dropout, of the whole round, or dropout_per_step")
        if self.per_step is None:
            return {"dropout": self.dropout, "exact": self.exact}
        confirms, steps = not guard_named(self.guard).dealer_counts, steps_of(self)
        per_step = PerStep.of(self.per_step, tuple(step.name for step in steps), confirms=confirms)
        return {"dropout": per_step.total, "exact": self.exact, "per_step": per_step}


def _demand(
    clients: int,
    leaving: _Leaving,
    collusion: float | None,
    privacy_bits: float | None = None,
    reliability_bits: float | None = None,
) -> Demand:
    """Return what was said, with the guard's defaults for what was not."""
    rules = guard_named(leaving.guard)
    fraction = rules.collusion if collusion is None else collusion
    assumptions = Assumptions(clients=clients, collusion=fraction, **leaving.fields())
    return Demand.of(assumptions, rules, privacy_bits, reliability_bits)


def _search(demand: Demand, graph: str, *, gives_way: bool) -> tuple[Found, Demand]:
    """Return the cheapest graph for the demand, or for a lower reliability than the default."""
    found = cheapest(demand, graph)
    if found is not None:
        return found, demand
    failure = explain(demand, graph)
    # Only a default gives way, and only in reliability: a lost round can be run again.
    lower = _lowered(demand) if gives_way else None
    all_with_all = None if lower is None else sparsest(lower, Complete)
    if lower is None or all_with_all is None:
        raise failure
    note = f"{failure}; planned with {lower.reliability_bits:.3g} bits, everyone with everyone"
    return replace(all_with_all, notes=(note,)), lower


def _all_needed(demand: Demand) -> Iterator[str]:
    """Say that no client may be missing, where that follows from steps that were not named."""
    roster = demand.roster
    if roster.chosen and demand.assumptions.per_step and roster.least == demand.assumptions.clients:
        yield f"nobody is said to leave in advertise, so a round needs all {roster.least:,} clients at first"


def _lowered(demand: Demand) -> Demand | None:
    """Return the demand with as much reliability as there is; None where that is less than a bit."""
    bits = reachable(demand) or 0.0
    return demand.changed(reliability_bits=min(demand.reliability_bits, bits)) if bits >= 1 else None


def _certified(demand: Demand, length: int, bits: int, found: Found) -> Plan:
    """Return a graph and a rule with their certificate."""
    made = Plan(
        roster=demand.roster,
        guard=demand.guard.name,
        length=length,
        bits=bits,
        privacy_bits=demand.privacy_bits,
        reliability_bits=demand.reliability_bits,
        graph=found.graph,
        threshold=found.threshold,
        certificate=certify(found.graph, found.threshold, demand.assumptions, demand.roster),
        notes=found.notes,
    )
    return _promising_more(demand, made) if demand.roster.chosen and made.is_private else made


def _promising_more(demand: Demand, made: Plan) -> Plan:
    """Return the plan, about more colluders than a fraction γ of the smallest roster, where it bears them."""
    surely = min(_bearable(demand, made), demand.assumptions.colluders)
    if surely <= made.colluders:
        return made
    roster = replace(demand.roster, anywhere=surely)
    certificate = certify(made.graph, made.threshold, demand.assumptions, roster)
    return replace(made, roster=roster, certificate=certificate)


def _bearable(demand: Demand, made: Plan) -> int:
    """Return with how many colluders no event can happen, wherever they are; none where degrees vary."""
    if made.graph.varies:
        return 0
    degrees = np.array(made.degrees)
    t = made.threshold.of(degrees)
    return min(int(event(t, degrees).min()) for event in demand.events) - 1
