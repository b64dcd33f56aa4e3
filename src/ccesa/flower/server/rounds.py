"""Terms and configurations of rounds follow from a plan that is made from settings, or from a charter."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec
from flwr.serverapp import Grid

from ccesa.agreement.agreement import RELEASES, TRUST, Agreement
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import DEFAULT, POST_QUANTUM, needs_accept
from ccesa.errors import BudgetSpent, ConfigError, ImpossiblePlan, quoted
from ccesa.flower.both import log
from ccesa.flower.both.envelope import kind_of
from ccesa.flower.both.packing import Packing
from ccesa.flower.both.terms import (
    DEFAULTS,
    Arrays,
    ReplyTerms,
    counters_of,
    learning_of,
    power_of_two,
    real_numbers,
    slots_of,
)
from ccesa.flower.server.exchange import ClientIds, IntroducedIds
from ccesa.flower.server.report import NO_HELPERS, HelperNames, nodes_text
from ccesa.flower.server.strategy import RoundLost
from ccesa.graphs.assumptions import Assumptions
from ccesa.guards import CURIOUS
from ccesa.parts import check_type
from ccesa.plan.planner import plan, plan_or_complete
from ccesa.plan.result import Plan
from ccesa.policy import Policy
from ccesa.privacy.mechanism import DifferentialPrivacy, Mechanism, total
from ccesa.values.fields import WORD_BITS, Fields

#: No round has fewer clients.
MINIMUM_NODES = 3
#: The settings that all rounds without a charter have.
_ASSUMED = ("dropout", "collusion", "post_quantum")
#: Fields of a policy about the members of a hub. In Flower the strategy chooses nodes.
_OF_HUBS = ("gather", "absent", "faults", "helper_deadline")


class UncharteredRounds:
    """Rounds without a charter: the planner makes each of them for the nodes that it asks."""

    agreement: Agreement = TRUST
    #: No charter limits how many neighbours of a node lie.
    around: None = None
    #: How often nodes release shares for one model, unless a node or its ledger allows otherwise.
    maximum_releases = RELEASES
    #: Without helpers a round can prepare the one after it.
    helpers = NO_HELPERS

    def __init__(
        self,
        make_plan: Callable[..., Plan],
        *,
        dropout: float = 0.1,
        collusion: float = CURIOUS.collusion,
        post_quantum: bool = False,
        **asked: Any,
    ) -> None:
        Assumptions(clients=MINIMUM_NODES, dropout=dropout, collusion=collusion)
        self.dropout = dropout
        agreement = POST_QUANTUM if post_quantum else DEFAULT
        self._make_plan = partial(make_plan, dropout=dropout, collusion=collusion, agreement=agreement, **asked)
        #: Names of the arrays that were whole numbers in a model which the strategy sent.
        self._counters: set[str] = set()
        #: By number of nodes and length; with noise the length is the number of parameters.
        self._plans: dict[tuple[int, int], Plan] = {}

    def client_ids(self, grid: Grid) -> ClientIds:
        return ClientIds()

    def config(self, terms: ReplyTerms, length: int, *, accept: bool) -> RoundConfig:
        """Return the configuration of a round; with *accept* it is the first of a series."""
        planned = self._plan(terms.clients, terms.mechanism.dimension if terms.mechanism else length)
        return planned.config(accept=accept or planned.accept)

    def _plan(self, nodes: int, length: int) -> Plan:
        """Return the plan for this many nodes. Too few nodes for a plan are an error at first, and later a loss."""
        if (nodes, length) in self._plans:
            return self._plans[nodes, length]
        if self._plans and nodes < MINIMUM_NODES:
            raise RoundLost(f"{nodes} nodes, a round needs at least {MINIMUM_NODES}", repeatable=False)
        try:
            planned = self._make_plan(nodes, length=length)
        except ImpossiblePlan as error:
            if not self._plans:
                raise
            raise RoundLost(str(error), repeatable=False) from error
        self._plans[nodes, length] = planned
        for note in planned.notes:
            log.info_once(note)
        return planned


class PlannedRounds(UncharteredRounds):
    """Rounds without noise. ``others`` are fields of the terms, and settings of all rounds without a charter."""

    privacy, evaluates = None, True

    def __init__(
        self,
        *,
        max_weight: float = DEFAULTS.max_weight,
        weighted_by: str | None = None,
        bits: int | None = None,
        precision: float | None = None,
        **others: Any,
    ) -> None:
        assumed = {name: others.pop(name) for name in _ASSUMED if name in others}
        super().__init__(plan_or_complete, bits=WORD_BITS, **assumed)
        weight = power_of_two(max_weight)
        self._terms = ReplyTerms(message_type="train", clients=MINIMUM_NODES, max_weight=weight, **others)
        self._weighted_by, self._bits, self._precision = weighted_by, bits, precision
        _ = Packing(self._terms, {}).length, self._field_bits(MINIMUM_NODES)  # refuses nonsense at once

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> ReplyTerms:
        """Return the terms for this many nodes and this model; the strategy weights by ``of_strategy``."""
        self._counters |= counters_of(model)
        return msgspec.structs.replace(
            self._terms,
            message_type=message_type,
            clients=nodes,
            field_bits=self._field_bits(nodes),
            weighted_by=_agreed_weight(of_strategy, self._weighted_by, "SecureGrid") or DEFAULTS.weighted_by,
            counters=sorted(self._counters) if kind_of(message_type) == "train" else [],
        )

    def _field_bits(self, nodes: int) -> int:
        """Return the width for this many nodes. Counters have a bound and a precision of their own."""
        return Fields.choose(nodes, self._bits, self._precision, self._terms.clip).bits


class NoisyRounds(UncharteredRounds):
    """Rounds with noise. All plans are for the same demand, so each release uses at most its share of it."""

    def __init__(
        self,
        *,
        privacy: DifferentialPrivacy,
        reliability_bits: float | None = None,
        metrics: Sequence[str] = (),
        metric_clip: float | None = None,
        **others: Any,
    ) -> None:
        check_type("privacy", privacy, DifferentialPrivacy)
        if privacy.against != "follows":
            raise ConfigError("privacy against a server that lies needs a charter: SecureGrid(charter=...)")
        assumed = {name: others.pop(name) for name in _ASSUMED if name in others}
        if others:
            raise ConfigError(f"leave out {', '.join(others)} beside privacy: every node counts one, within one norm")
        if isinstance(metrics, str) or not all(isinstance(name, str) and name for name in metrics):
            raise ConfigError(f"metrics must be a list of names, not {quoted(metrics)}")
        if (metric_clip is None) == bool(metrics):
            raise ConfigError("metrics and metric_clip go together: with noise each metric needs a bound")
        super().__init__(plan, reliability_bits=reliability_bits, privacy=privacy, **assumed)
        self.privacy, slots = privacy, slots_of(dict.fromkeys(metrics, 0.0))
        self.evaluates = bool(slots)
        self._terms = ReplyTerms(
            message_type="train",
            clients=MINIMUM_NODES,
            metric_clip=DEFAULTS.metric_clip if metric_clip is None else metric_clip,
            metric_slots=len(slots),
            metrics=slots,
        )

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> ReplyTerms:
        """Return the terms for this many nodes and this model; nothing is weighted."""
        self._counters |= counters_of(model)
        trains, counters = kind_of(message_type) == "train", sorted(self._counters)
        released = sum(value.size for value in real_numbers(model, counters).values())
        planned = self._plan(nodes, released if trains else self._terms.metric_slots)
        weighted_by = of_strategy or DEFAULTS.weighted_by
        if weighted_by in self._terms.named_metrics:
            raise ConfigError(f"metric {weighted_by!r} cannot be released, because the strategy weights by it")
        return msgspec.structs.replace(
            self._terms,
            message_type=message_type,
            clients=nodes,
            weighted_by=weighted_by,
            counters=counters if trains else [],
            privacy=planned.mechanism or msgspec.UNSET,
        )


class CharteredRounds:
    """Rounds of a charter. Nothing is planned, and nothing can be set."""

    def __init__(self, charter: Charter) -> None:
        charter.check_current()
        learning = learning_of(charter)
        for message_type in learning.message_types:
            ReplyTerms.under(charter, message_type)  # refuses unknown types of messages
        self.agreement = charter
        self.privacy = charter.mechanism.demand if charter.mechanism else None
        #: Whether evaluations release anything: with noise they need named metrics.
        self.evaluates = self.privacy is None or bool(learning.metrics)
        self.helpers: HelperNames = dict(
            zip(charter.any_round.helper_ids, (seat.name for seat in charter.helper_seats), strict=True)
        )
        if self.helpers:  # any helper but one may lie about any member
            self.dropout, self.around = 1 - charter.min_survivors / len(charter.members), None
        else:
            self.dropout, self.around = charter.certificate.dropout, charter.certificate.around
        #: How often nodes release shares for one model. With noise only their ledgers limit it.
        self.maximum_releases = None if charter.mechanism else charter.releases

    def client_ids(self, grid: Grid) -> ClientIds:
        return IntroducedIds(grid, self.agreement)

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> ReplyTerms:
        """Return the charter's terms, in which every member has a place, sampled or not."""
        self.agreement.check_current()
        terms = ReplyTerms.under(self.agreement, message_type)
        _agreed_weight(of_strategy, terms.weighted_by, "the charter")
        if terms.kind == "train" and terms.mechanism is None:
            for name in sorted(counters_of(model) - {*terms.counters}):
                log.info_once(
                    f"array {quoted(name)} has whole numbers and is not a counter of the charter: a change "
                    f"beyond clip = {terms.clip:g} is cut off"
                )
        return terms

    def config(self, terms: ReplyTerms, length: int, *, accept: bool) -> RoundConfig:
        may_accept = self.agreement.guard.has_graph
        accept = may_accept and (accept or needs_accept(self.agreement.agreement))
        return self.agreement.config(length=length, accept=accept)


Rounds = PlannedRounds | NoisyRounds | CharteredRounds


def make_rounds(charter: Charter | None, settings: dict[str, Any], secure_evaluate: bool) -> Rounds:
    """Make rounds from the charter, or from these settings; never from both."""
    given = {name: value for name, value in settings.items() if value is not None}
    if charter is not None:
        if given:
            raise ConfigError(f"leave out {', '.join(given)} beside a charter, which has these settings")
        if not secure_evaluate:
            raise ConfigError("secure_evaluate=False beside a charter: its nodes answer nothing in the clear")
        return CharteredRounds(charter)
    if "privacy" in given:
        if not secure_evaluate:
            raise ConfigError("secure_evaluate=False beside privacy: metrics would be sent without noise")
        return NoisyRounds(**given)
    noisy = [name for name in ("metrics", "reliability_bits") if name in given]
    if noisy:
        raise ConfigError(f"{', '.join(noisy)} need privacy: leave them out, or ask for noise")
    return PlannedRounds(**given)


def check_policy(policy: Policy, dropout: float) -> None:
    """Refuse a policy that leaves more nodes behind in one step than rounds are planned to lose."""
    check_type("policy", policy, Policy)
    own = Policy()
    given = [name for name in _OF_HUBS if getattr(policy, name) != getattr(own, name)]
    if given:
        raise ConfigError(f"leave out {', '.join(given)} of the policy: they are for hubs")
    if policy.enough + dropout < 1 - 1e-9:
        raise ConfigError(
            f"enough = {policy.enough:g} lets a step leave {1 - policy.enough:.3g} of its nodes behind, more than "
            f"dropout = {dropout:g} plans for: raise one of the two"
        )


def _agreed_weight(of_strategy: str | None, agreed: str | None, whose: str) -> str | None:
    """Return the metric to weight by. The strategy must agree, because it looks for it in the reply."""
    if of_strategy and agreed and of_strategy != agreed:
        raise ConfigError(f"the strategy weights by {of_strategy!r}, {whose} by {agreed!r}: change its weighted_by_key")
    return agreed or of_strategy


class Releases:
    """Counts the vectors that each node was asked for, including those of evaluations and of lost rounds.

    The noise is made for a number of them, and no node is asked for more. The noise can differ from round to
    round, so ``check`` computes whether all releases together keep the demand. Without noise there is no limit.
    """

    def __init__(self, demand: DifferentialPrivacy | None) -> None:
        self._demand = demand
        #: By node, how many with which noise.
        self._vectors: dict[int, Counter[Mechanism]] = {}

    def check_ahead(self, left: int, *, evaluates: bool, everyone: Callable[[], bool]) -> None:
        """Before its first vector, refuse a training that ends early if ``everyone`` is asked; warn if it may."""
        if self._demand is None or self._vectors or left * (1 + evaluates) <= self._demand.rounds:
            return
        what = f"a training of {left} rounds" + " with evaluations" * evaluates
        text = f"{what} needs more than the noise is made for, {self._demand.rounds} vectors of a node"
        if left > self._demand.rounds and everyone():
            raise ConfigError(f"{text}: ask for privacy of as many rounds")
        log.warn(f"{text}: it ends with an error when a node is asked for more")

    def check(self, nodes: Iterable[int], mechanism: Mechanism | None) -> None:
        """Refuse to ask these nodes for one more vector if it is one too many for any of them."""
        if self._demand is None or mechanism is None:
            return
        after = {node: frozenset((self._vectors.get(node, Counter()) + Counter([mechanism])).items()) for node in nodes}
        too_much = set()
        for vectors in {*after.values()}:
            noise = total(one.release.times(count) for one, count in vectors)
            few = sum(count for _, count in vectors) <= self._demand.rounds
            if not (few and noise.epsilon(self._demand.delta) <= self._demand.epsilon):
                too_much.add(vectors)
        spent = [node for node, vectors in after.items() if vectors in too_much]
        if spent:
            raise BudgetSpent(
                f"{nodes_text(spent)} cannot be asked for another vector: the noise is made for "
                f"{self._demand.rounds} of them, including those of evaluations and lost rounds. Ask for "
                "privacy of more rounds, which takes more noise in each"
            )

    def add(self, nodes: Iterable[int], mechanism: Mechanism | None) -> None:
        """Count one vector of each of these nodes, even if it did not come."""
        if mechanism is not None:
            self._vectors |= {node: self._vectors.get(node, Counter()) + Counter([mechanism]) for node in nodes}
