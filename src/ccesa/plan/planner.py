"""``plan`` chooses the cheapest graph that keeps a demand; ``check`` judges one that somebody else chose."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import DEFAULT, needs_accept
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs import BEST, Harary
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.demand import Demand
from ccesa.graphs.per_step import PerStep
from ccesa.guards import CURIOUS, guard_named
from ccesa.parts import check_type
from ccesa.plan.explanation import Option, Tries, everyone
from ccesa.plan.making import certified, surviving
from ccesa.plan.noise import WantedNoise
from ccesa.plan.result import Plan
from ccesa.plan.search import Found, thinned
from ccesa.plan.wanted import Wanted, all_needed, search
from ccesa.privacy import DifferentialPrivacy
from ccesa.protocol.steps import steps_of

#: What noise with colluders is planned for under ``curious``: delta counts every graph that fails, and who
#: picks keys for one that does can try many.
_AGAINST_PICKED_KEYS = 80.0
_ACCEPTS = (
    "rounds have the step accept: without it colluders choose who drops out, and whose noise is missing"
)
_SMALL_ROSTERS = (
    "with colluders the certificate covers rounds of min_survivors = {:,} clients; an honest round has {:,} "
    "or more, so that many can be asked for"
)


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
    privacy: DifferentialPrivacy | None = None,
    degree: int | None = None,
    field_bits: int | None = None,
) -> Plan:
    """Return the cheapest graph of which all promises hold.

    Args:
        clients: How many are enrolled, 3 to 10^8.
        dropout: The probability that a client drops out in the course of the round, in [0, 1), in whichever
            step is worst. Either this or ``dropout_per_step`` has to be given.
        collusion: The fraction of clients that work with the server, in [0, 1); by default none, or a tenth
            under ``active``, where it is never less than one client.
        guard: ``curious`` or ``active``.
        length: Words of a vector; with ``privacy`` the parameters of a model, several of them in a word.
        bits: Bits of a word, 8, 16, 32 or 64; with ``privacy`` 64.
        privacy_bits: All privacy events together may have probability 2^-privacy_bits; by default 40,
            or 80 with noise and colluders, or 128 under ``active``.
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
            needs it, and those under ``curious`` with noise and colluders.
        privacy: What all sums together may tell about a client. The plan then has a ``mechanism``, the noise
            that every client adds, and as high a number of survivors as reliability allows.
        degree: The neighbours of a Harary graph that is to be taken; else they are planned.
        field_bits: Bits of a parameter in a sum with noise; else the fewest that cost hardly any noise.

    Raises:
        ImpossiblePlan: No graph works; its ``options`` are what would.
        ConfigError: An argument is out of range.
    """
    asked = _Asked(
        clients=clients,
        dropout=dropout,
        collusion=collusion,
        guard=guard,
        length=length,
        bits=bits,
        privacy_bits=privacy_bits,
        reliability_bits=reliability_bits,
        graph=graph,
        exact_dropout=exact_dropout,
        dropout_per_step=dropout_per_step,
        agreement=agreement,
        accept=accept,
        privacy=privacy,
        degree=degree,
        field_bits=field_bits,
    )
    return _planned(asked, asked.works_with)


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
        config: The round, with its guard, graph, threshold rule and ``min_survivors``. With colluders under
            ``curious`` the certificate is about rounds of that many clients or more.
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
    leaving = _Leaving(config.guard, dropout, exact_dropout, dropout_per_step, config.accept)
    demand = _demand(config.clients, leaving, collusion, privacy_bits, reliability_bits)
    reached, roster = demand.roster.least, demand.roster.opening(config.min_survivors)
    notes = (_SMALL_ROSTERS.format(roster.least, reached),) if roster.least < reached else ()
    demand, found = replace(demand, roster=roster), Found(config.graph, config.threshold, notes)
    made = certified(demand, config.length, config.bits, found)
    made = replace(made, agreement=config.agreement, accept=config.accept)
    return surviving(made, config.min_survivors)


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
        made = certified(demand, length, bits, replace(found, notes=(str(error),)))
        if not made.is_private:
            raise
        return replace(made, agreement=agreement, accept=accept)


class _Asked(NamedTuple):
    """The arguments of ``plan``."""

    clients: int
    dropout: float | None
    collusion: float | None
    guard: str
    length: int
    bits: int
    privacy_bits: float | None
    reliability_bits: float | None
    graph: str
    exact_dropout: bool
    dropout_per_step: float | Mapping[str, float] | None
    agreement: str
    accept: bool
    privacy: DifferentialPrivacy | None
    degree: int | None
    field_bits: int | None

    def works_with(self, option: Option) -> bool:
        """Return whether there is a plan with this change: what is advised was planned before."""
        changed = self._replace(**option)
        if "dropout" in option or "dropout_per_step" in option:
            said = {"dropout": None, "dropout_per_step": None, **option}
            changed = self._replace(**said)
        try:
            return not _planned(changed, None).shortfalls
        except ConfigError:
            return False


def _planned(asked: _Asked, works: Tries | None) -> Plan:
    """Return the plan; where there is none, say what ``works``."""
    clients, guard, length, bits, agreement = (
        asked.clients,
        asked.guard,
        asked.length,
        asked.bits,
        asked.agreement,
    )
    collusion, privacy, field_bits = asked.collusion, asked.privacy, asked.field_bits
    privacy_bits, reliability_bits = asked.privacy_bits, asked.reliability_bits
    accept = asked.accept or needs_accept(agreement)
    notes: tuple[str, ...] = ()
    if privacy is not None and collusion and guard == CURIOUS.name:
        privacy_bits = _AGAINST_PICKED_KEYS if privacy_bits is None else privacy_bits
        if not accept:
            accept, notes = True, (_ACCEPTS,)
    leaving = _Leaving(guard, asked.dropout, asked.exact_dropout, asked.dropout_per_step, accept)
    demand = _demand(clients, leaving, collusion, privacy_bits, reliability_bits)
    wanted = Wanted.checked(asked.graph, asked.degree, clients, works)
    RoundConfig(  # refuses what cannot be
        clients=clients,
        length=length,
        bits=bits,  # type: ignore[arg-type]
        graph=Harary(degree=2),
        agreement=agreement,
        accept=accept,
    )
    gives_way = reliability_bits is None
    if privacy is not None:
        _check_against(privacy, guard)
        noise = WantedNoise(
            privacy=privacy,
            dimension=length,
            field_bits=field_bits,
            agreement=agreement,
            accept=accept,
        )
        made = noise.planned(demand, wanted, gives_way=gives_way)
        return replace(made, notes=(*made.notes, *notes))
    if field_bits is not None:
        raise ConfigError("field_bits goes with privacy: there it is the bits of a parameter")
    found, demand = search(demand, wanted, gives_way=gives_way)
    if demand.assumptions.colluders == 0:
        found = thinned(demand, found)
    found = replace(found, notes=(*found.notes, *all_needed(demand)))
    return replace(certified(demand, length, bits, found), agreement=agreement, accept=accept)


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


def _check_against(privacy: DifferentialPrivacy, guard: str) -> None:
    check_type("privacy", privacy, DifferentialPrivacy)
    if privacy.against == "lies" and not guard_named(guard).chooses_roster:
        raise ConfigError(
            f"against = lies does not go with guard = {guard}, which holds against a server that follows the "
            "protocol: take guard = active"
        )
