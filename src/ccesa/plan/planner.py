"""``plan`` chooses the cheapest graph that keeps a demand. ``check`` certifies a configuration of somebody else.

If noise drowns the mean, ``advise`` finds a graph, or a number of clients, an epsilon or a length, with which it does
not.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import DEFAULT, needs_accept
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs import BEST, Harary
from ccesa.graphs.assumptions import MAX_PLANNED, Assumptions, Demand
from ccesa.graphs.per_step import PerStep
from ccesa.guards import ASSISTED, CURIOUS, guard_named
from ccesa.parts import check_type
from ccesa.plan.helpers import USUAL_HELPERS, AssistedPlan, HelpersRequest
from ccesa.plan.noise import WantedNoise
from ccesa.plan.report import compute_figures
from ccesa.plan.result import Plan, insist_on, make_plan
from ccesa.plan.search import Found, Option, Wanted, in_words, note_if_all_needed, search, take_complete, thin_masks
from ccesa.privacy import DifferentialPrivacy
from ccesa.privacy.accounting import gaussian_epsilon, gaussian_mu
from ccesa.privacy.mechanism import MAX_EPSILON
from ccesa.protocol.steps import steps_of

#: Privacy bits with noise and colluders under ``curious``. Delta counts every graph that fails, and colluders can try
#: many keys to find one.
_AGAINST_PICKED_KEYS = 80.0
_ACCEPTS = "rounds have the step accept: without it colluders could choose who drops out, and whose noise is missing"
#: How often ``advise`` tries another number of clients, and by which factors other numbers exceed an estimate.
_TRIES, _MARGINS = 8, (1.001, 1.05)
_SMALL_ROSTERS = (
    "with colluders the certificate covers rounds of at least min_survivors = {:,} clients; an honest round "
    "has {:,} or more, so min_survivors can be raised to that"
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
    """Return the cheapest graph that keeps all promises.

    Args:
        clients: How many are enrolled, 3 to 10^8.
        dropout: The probability that a client drops out during the round, in [0, 1), in the worst step. Give either
            this or ``dropout_per_step``.
        collusion: The fraction of clients that work with the server, in [0, 1); by default none, or a tenth under
            ``active``, where at least one client counts as a colluder.
        guard: ``curious`` or ``active``; ``plan_helpers`` plans for ``assisted``.
        length: Words of a vector; with ``privacy`` the parameters of a model, several of them in a word.
        bits: Bits of a word, 8, 16, 32 or 64; with ``privacy`` 64.
        privacy_bits: All privacy events together have probability 2^-privacy_bits at most; by default 40, or 80 with
            noise and colluders, or 128 under ``active``.
        reliability_bits: A round lacks share holders with probability 2^-reliability_bits at most; by default 20, or,
            with a note, what the complete graph reaches if that is less.
        graph: ``harary``, ``erdos-renyi``, ``complete``, or ``best``, which is Harary. If no sparse graph works, the
            plan has the complete graph and a note.
        exact_dropout: Whether exactly a fraction ``dropout`` drops out, and not each client by chance.
        dropout_per_step: If you have measured when clients leave: the probability that a client leaves in a step, given
            that it answered the steps before. One number counts for each step of the round. A mapping gives numbers by
            the names advertise, share, accept, mask, confirm, unmask; nobody leaves in steps that it does not name.
        agreement: ``x25519``, or ``x25519-mlkem768``, which stays secret even if X25519 is broken. It changes the cost
            of a round, not its graph.
        accept: Whether rounds have the step *accept*. Rounds of a series always have it, and so do rounds whose
            agreement needs it, and rounds under ``curious`` with noise and colluders.
        privacy: What all sums together may reveal about a client. The plan then has a ``mechanism``, the noise that
            every client adds, and the highest number of survivors that reliability allows.
        degree: The number of neighbours in a Harary graph; planned unless given.
        field_bits: Bits of a parameter in a sum with noise; by default the fewest that add hardly any noise.

    Raises:
        ImpossiblePlan: No graph works. Its ``options`` are changes that help.
        ConfigError: An argument is out of range.
    """
    return PlanRequest(**locals()).plan()


def check(
    config: RoundConfig,
    dropout: float | None = None,
    collusion: float | None = None,
    privacy_bits: float | None = None,
    reliability_bits: float | None = None,
    exact_dropout: bool = False,
    dropout_per_step: float | Mapping[str, float] | None = None,
) -> Plan:
    """Return the plan of a configuration that somebody else chose; its ``shortfalls`` are the demands that it misses.

    Args:
        config: The round, with its guard, graph, threshold rule and ``min_survivors``. With colluders under
            ``curious`` the certificate is about rounds of that many clients or more.
        dropout: The probability that a client drops out during the round, in [0, 1).
        collusion: The fraction of clients that work with the server; by default as in ``plan``.
        privacy_bits: The demand on privacy; by default as in ``plan``.
        reliability_bits: The demand on reliability; by default 20.
        exact_dropout: Whether exactly a fraction ``dropout`` drops out, and not each client by chance.
        dropout_per_step: In place of ``dropout``, as in ``plan``; one number for each step of this round.

    Raises:
        ConfigError: An argument is out of range.
    """
    asked = {name: value for name, value in locals().items() if name != "config"}
    terms = {name: getattr(config, name) for name in _TERMS}
    demand = PlanRequest(config.clients, guard=config.guard, **asked, **terms).demand
    found, least, reached = Found(config.graph, config.threshold), config.min_survivors, demand.roster.least
    if least < reached and demand.roster.colluders and not demand.roster.chosen:
        demand = replace(demand, roster=replace(demand.roster, least=least))
        found = replace(found, notes=(_SMALL_ROSTERS.format(least, reached),))
    return insist_on(make_plan(demand, found, **terms), least)


def plan_or_complete(clients: int, dropout: float | None = None, **others: Any) -> Plan:
    """Return what ``plan`` returns, or the complete graph and a note if it keeps privacy but not reliability."""
    request = PlanRequest(clients, dropout, **{"length": 1, **others})
    try:
        return request.plan()
    except ImpossiblePlan as error:
        demand = request.demand
        found = take_complete(demand)
        if found is None:
            raise
        made = make_plan(demand, replace(found, notes=(str(error),)), **request.terms)
        if not made.is_private:
            raise
        return made


#: Fields that a configuration shares with its plan, besides the graph.
_TERMS = ("length", "bits", "agreement", "accept")


@dataclass(frozen=True)
class PlanRequest:
    """The arguments of ``plan``, whose docstring explains them."""

    clients: int
    dropout: float | None = None
    collusion: float | None = None
    guard: str = CURIOUS.name
    length: int = 1_000_000
    bits: int = 32
    privacy_bits: float | None = None
    reliability_bits: float | None = None
    graph: str = BEST
    exact_dropout: bool = False
    dropout_per_step: float | Mapping[str, float] | None = None
    agreement: str = DEFAULT
    accept: bool = False
    privacy: DifferentialPrivacy | None = None
    degree: int | None = None
    field_bits: int | None = None

    def __post_init__(self) -> None:
        if needs_accept(self.agreement):
            object.__setattr__(self, "accept", True)

    def plan(self, *, explained: bool = True, names_helpers: bool = True) -> Plan:
        """Return the plan; if no graph works, the error names changes that do (``explained``), and helpers."""
        if self.privacy is not None and self.collusion and self.guard == CURIOUS.name and not self.accept:
            made = replace(self, accept=True).plan(explained=explained, names_helpers=names_helpers)
            return replace(made, notes=(*made.notes, _ACCEPTS))
        demand = self.demand
        works, advice = self.works_with if explained else None, self._advise_helpers if names_helpers else str
        wanted = Wanted(self.graph, self.degree, works, advice)
        wanted.check(self.clients)
        RoundConfig(clients=self.clients, graph=Harary(degree=2), **self.terms)  # refuses bad terms
        gives_way = self.reliability_bits is None  # only a default does
        if self.privacy is not None:
            check_type("privacy", self.privacy, DifferentialPrivacy)
            if self.privacy.against == "lies" and not demand.guard.chooses_roster:
                raise ConfigError(
                    f"guard = {self.guard} protects only against a server that follows the protocol; for "
                    "against = lies use guard = active"
                )
            noise = WantedNoise(self.privacy, self.length, self.field_bits, self.agreement, self.accept)
            return noise.plan(demand, wanted, gives_way=gives_way)
        if self.field_bits is not None:
            raise ConfigError("field_bits, the bits of a parameter in a sum with noise, needs privacy")
        found, demand = search(demand, wanted, gives_way=gives_way)
        if demand.assumptions.colluders == 0:
            found = thin_masks(demand, found)
        found = replace(found, notes=(*found.notes, *note_if_all_needed(demand)))
        return make_plan(demand, found, **self.terms)

    @property
    def terms(self) -> dict[str, Any]:
        """The fields that a configuration shares with its plan, besides the graph."""
        return {name: getattr(self, name) for name in _TERMS}

    @property
    def demand(self) -> Demand:
        """The demand, with the guard's defaults for what is not given."""
        guard, bits = guard_named(self.guard), self.privacy_bits
        if not guard.has_graph:
            raise ConfigError(f"guard = {guard.name} has helpers in place of a graph: use ccesa.plan.plan_helpers")
        if bits is None and self.privacy is not None and self.collusion and guard is CURIOUS:
            bits = _AGAINST_PICKED_KEYS
        if (self.dropout is None) == (self.dropout_per_step is None):
            raise ConfigError("give either dropout, for the whole round, or dropout_per_step")
        leaving: dict[str, Any] = {"dropout": self.dropout}
        if self.dropout_per_step is not None:
            steps = tuple(step.name for step in steps_of(self))
            per_step = PerStep.of(self.dropout_per_step, steps, confirms=not guard.dealer_counts)
            leaving = {"dropout": per_step.total, "per_step": per_step}
        collusion = guard.collusion if self.collusion is None else self.collusion
        assumptions = Assumptions(clients=self.clients, collusion=collusion, exact=self.exact_dropout, **leaving)
        return Demand.of(assumptions, guard, bits, self.reliability_bits)

    def change(self, option: Option) -> "PlanRequest":
        """Return the request changed by an option of ``ImpossiblePlan`` or of ``advise``."""
        if "epsilon" in option and self.privacy is not None:
            return replace(self, privacy=msgspec.structs.replace(self.privacy, **option))
        if option.keys() & {"dropout", "dropout_per_step"}:
            option = {"dropout": None, "dropout_per_step": None, **option}
        return replace(self, **option)

    def works_with(self, option: Option) -> bool:
        """Return whether there is a plan with this change."""
        try:
            return not self.change(option).plan(explained=False).shortfalls
        except ConfigError:
            return False

    def _advise_helpers(self) -> str:
        """Say which options plan the same with helpers, and what that changes; say nothing if there is no such plan."""
        names = ("clients", "collusion", "length", "bits", "reliability_bits", "exact_dropout", "agreement", "privacy")
        given: dict[str, Any] = {name: getattr(self, name) for name in (*names, "field_bits")}
        option: Option = {"guard": ASSISTED.name, "helpers": USUAL_HELPERS}
        option |= {name: None for name in ("degree", "privacy_bits") if getattr(self, name) is not None}
        if self.dropout_per_step is not None:
            option |= {"dropout": round(self.demand.assumptions.dropout, 3), "dropout_per_step": None}
        request = HelpersRequest(**given | {"dropout": option.get("dropout", self.dropout)})
        try:
            made = request.plan()
        except ImpossiblePlan as error:
            change = next(iter(error.options), None)
            if change is None:
                return ""
            option, made = option | change, request.change(change).plan()
        except ConfigError:
            return ""
        lost = f"2^{made.unreliable:.1f}" if made.unreliable > -math.inf else "0"
        return (
            f"; or name helpers, {in_words((option,)).removeprefix('try ')}: members then hold no "
            f"shares, and a round is lost only if fewer than {made.min_survivors} of {made.clients} members answer, "
            f"with a probability of {lost}, or if a helper stays away"
        )


#: A plan with a graph, or with helpers, and what was asked for.
AnyPlan = Plan | AssistedPlan
AnyRequest = PlanRequest | HelpersRequest


def advise(made: AnyPlan, asked: AnyRequest) -> tuple[Option, ...]:
    """Return single changes with which the noise does not drown the mean. Each of them was planned.

    A denser graph comes first, by its ``degree`` or as ``graph``; then ``clients``, ``epsilon`` and ``length``.
    """
    if made.mechanism is None or asked.privacy is None or (drowning := _drowning(made)) <= 1:
        return ()
    # A denser graph costs bytes and no privacy.
    graphs = (offer.graph for offer in made.offers)
    denser = ({"degree": one.degree} if isinstance(one, Harary) else {"graph": one.name} for one in graphs)
    delta, mu = asked.privacy.delta, gaussian_mu(asked.privacy.epsilon, asked.privacy.delta)
    epsilons = (_round_up(gaussian_epsilon(delta, margin * drowning * mu)) for margin in _MARGINS)
    # The noise grows with the root of the number of parameters.
    lengths = (_round_down(made.mechanism.dimension / (margin * drowning) ** 2) for margin in _MARGINS)
    changes = (
        _first_enough(asked, denser),
        _more_clients(made.clients, drowning, asked),
        _first_enough(asked, ({"epsilon": epsilon} for epsilon in epsilons if epsilon <= MAX_EPSILON)),
        _first_enough(asked, ({"length": fewer} for fewer in lengths if fewer >= 1)),
    )
    return tuple(option for option in changes if option is not None)


def _more_clients(clients: int, drowning: float, asked: AnyRequest) -> Option | None:
    """Return a number of clients that is enough, by the slope between the last two numbers."""
    power = 1.0
    for _ in range(_TRIES):
        more = int(_round_up(max(clients * drowning**power, clients + 1)))
        left = _drowning_with(asked, {"clients": more}) if more <= MAX_PLANNED else math.inf
        if left <= 1:
            return {"clients": more}
        if left >= drowning:
            return None
        power = math.log(more / clients) / math.log(drowning / left)
        clients, drowning = more, left
    return None


def _first_enough(asked: AnyRequest, options: Iterable[Option]) -> Option | None:
    return next((option for option in options if _drowning_with(asked, option) <= 1), None)


def _drowning_with(asked: AnyRequest, option: Option) -> float:
    try:
        return _drowning(asked.change(option).plan())
    except ConfigError:
        return math.inf


def _drowning(made: AnyPlan) -> float:
    return 0.0 if made.mechanism is None else compute_figures(made, made.mechanism).drowning


def _round_up(number: float) -> float:
    """Return the next number with two digits."""
    if number == math.inf:
        return number
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / unit * (1 - 1e-12)) * unit, 9)


def _round_down(number: float) -> int:
    """Return the last whole number with two digits before this one."""
    unit = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return math.floor(number / unit) * unit
