"""Where terms and servers of rounds come from: a plan that is made from settings, or everyone's charter."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from flwr.serverapp import Grid

from ccesa.agreement.agreement import RELEASES
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import DEFAULT, POST_QUANTUM, needs_accept
from ccesa.errors import BudgetSpent, ConfigError, ImpossiblePlan, quoted
from ccesa.flower.both import log
from ccesa.flower.both.envelope import kind_of
from ccesa.flower.both.packing import AnyPacking, Packing
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
from ccesa.flower.server.report import nodes_text
from ccesa.flower.server.strategy import RoundLost
from ccesa.graphs.assumptions import Assumptions
from ccesa.guards import CURIOUS
from ccesa.parts import check_type
from ccesa.plan.planner import plan, plan_or_complete
from ccesa.plan.result import Plan
from ccesa.policy import Policy
from ccesa.privacy.mechanism import DifferentialPrivacy, Mechanism, total
from ccesa.protocol.server import Server
from ccesa.values.fields import Fields

#: No round has fewer clients.
MINIMUM_NODES = 3
#: Fields of a policy about the members of a hub; in Flower the strategy chooses nodes.
_OF_HUBS = ("gather", "absent", "faults")


class UncharteredRounds:
    """Rounds without a charter: the planner makes each of them for the nodes that it asks."""

    #: No charter limits how many of anyone's neighbours lie.
    around: None = None
    #: How often nodes release shares for one model, unless a node or its ledger allows otherwise.
    maximum_releases = RELEASES

    def __init__(self, dropout: float = 0.1, collusion: float = CURIOUS.collusion, post_quantum: bool = False) -> None:
        Assumptions(clients=MINIMUM_NODES, dropout=dropout, collusion=collusion)
        self.dropout, self._collusion = dropout, collusion
        self._agreement = POST_QUANTUM if post_quantum else DEFAULT
        #: Names of the arrays that were whole numbers in a model which the strategy sent.
        self._counters: set[str] = set()
        self._has_planned = False

    def client_ids(self, grid: Grid) -> ClientIds:
        """Return the client ids of nodes, which are in any order."""
        return ClientIds()

    def server(self, config: RoundConfig, **options: Any) -> Server:
        """Make the server of one round."""
        return Server(config, dropout=self.dropout, **options)

    def _make_plan(self, nodes: int, make: Callable[[], Plan]) -> Plan:
        """Make a plan for this many nodes: too few for any plan are an error at first, and later a loss."""
        if self._has_planned and nodes < MINIMUM_NODES:
            raise RoundLost(f"{nodes} nodes, a round needs at least {MINIMUM_NODES}", repeatable=False)
        try:
            planned = make()
        except ImpossiblePlan as error:
            if not self._has_planned:
                raise
            raise RoundLost(str(error), repeatable=False) from error
        self._has_planned = True
        for note in planned.notes:
            log.info_once(note)
        return planned


class PlannedRounds(UncharteredRounds):
    """Rounds without noise. Other settings than those of plan and weight are fields of the terms."""

    privacy: None = None

    def __init__(
        self,
        *,
        max_weight: float = DEFAULTS.max_weight,
        weighted_by: str | None = None,
        bits: int | None = None,
        precision: float | None = None,
        dropout: float = 0.1,
        collusion: float = CURIOUS.collusion,
        post_quantum: bool = False,
        **bounds: Any,
    ) -> None:
        super().__init__(dropout, collusion, post_quantum)
        weight = power_of_two(max_weight)
        self._terms = ReplyTerms(message_type="train", clients=MINIMUM_NODES, max_weight=weight, **bounds)
        self._weighted_by, self._bits, self._precision = weighted_by, bits, precision
        _ = Packing(self._terms, {}).length, self._field_bits(MINIMUM_NODES)  # refuses nonsense at once

    def releases(self, message_type: str) -> bool:
        """Return whether there is anything to ask the nodes for."""
        return True

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

    def config(self, packing: AnyPacking, *, accept: bool) -> RoundConfig:
        """Return the configuration of a round for such replies; with *accept* it is the first of a series."""
        planned = self._make_plan(packing.terms.clients, lambda: self._plan(packing))
        return planned.config(agreement=self._agreement, accept=accept or needs_accept(self._agreement))

    def _plan(self, packing: AnyPacking) -> Plan:
        asked = {"collusion": self._collusion, "length": packing.length, "bits": self._terms.bits}
        return plan_or_complete(packing.terms.clients, self.dropout, **asked)


class NoisyRounds(UncharteredRounds):
    """Rounds with noise. The plan of each has the noise for as many nodes as it asks.

    Every plan is made for the same demand, so no release spends more than the demand's share of one, whatever
    the number of nodes is.
    """

    def __init__(
        self,
        *,
        privacy: DifferentialPrivacy,
        reliability_bits: float | None = None,
        metrics: Sequence[str] = (),
        metric_clip: float | None = None,
        dropout: float = 0.1,
        collusion: float = CURIOUS.collusion,
        post_quantum: bool = False,
        **others: Any,
    ) -> None:
        check_type("privacy", privacy, DifferentialPrivacy)
        if privacy.against != "follows":
            raise ConfigError("privacy against a server that lies needs a charter: SecureGrid(charter=...)")
        if others:
            raise ConfigError(
                f"leave out {', '.join(others)} beside privacy: every node counts one, and one norm bounds "
                "all that it adds"
            )
        if isinstance(metrics, str) or not all(isinstance(name, str) and name for name in metrics):
            raise ConfigError(f"metrics must be a list of names, not {quoted(metrics)}")
        if (metric_clip is None) == bool(metrics):
            raise ConfigError("metrics and metric_clip go together: with noise each metric needs a bound")
        super().__init__(dropout, collusion, post_quantum)
        self.privacy, self._reliability_bits = privacy, reliability_bits
        slots = slots_of(dict.fromkeys(metrics, 0.0))
        self._terms = ReplyTerms(
            message_type="train",
            clients=MINIMUM_NODES,
            metric_clip=DEFAULTS.metric_clip if metric_clip is None else metric_clip,
            metric_slots=len(slots),
            metrics=slots,
        )
        #: By number of nodes and of parameters.
        self._plans: dict[tuple[int, int], Plan] = {}

    def releases(self, message_type: str) -> bool:
        """Return whether there is anything to ask the nodes for: an evaluation needs named metrics."""
        return kind_of(message_type) == "train" or bool(self._terms.metrics)

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> ReplyTerms:
        """Return the terms for this many nodes and this model; nothing is weighted."""
        self._counters |= counters_of(model)
        trains, counters = kind_of(message_type) == "train", sorted(self._counters)
        released = sum(value.size for value in real_numbers(model, counters).values())
        planned = self._planned(nodes, released if trains else self._terms.metric_slots)
        weighted_by = of_strategy or DEFAULTS.weighted_by
        if weighted_by in self._terms.named_metrics:
            raise ConfigError(
                f"metric {weighted_by!r} cannot be released, because the strategy weights by it: every node counts one"
            )
        return msgspec.structs.replace(
            self._terms,
            message_type=message_type,
            clients=nodes,
            weighted_by=weighted_by,
            counters=counters if trains else [],
            privacy=planned.mechanism or msgspec.UNSET,
        )

    def config(self, packing: AnyPacking, *, accept: bool) -> RoundConfig:
        """Return the configuration of a round for such replies; with *accept* it is the first of a series."""
        mechanism = packing.terms.mechanism
        planned = self._planned(packing.terms.clients, mechanism.dimension if mechanism else 0)
        return planned.config(accept=accept or planned.accept)

    def _planned(self, nodes: int, parameters: int) -> Plan:
        if (nodes, parameters) not in self._plans:
            planned = self._make_plan(nodes, lambda: self._plan(nodes, parameters))
            self._plans[nodes, parameters] = planned
        return self._plans[nodes, parameters]

    def _plan(self, nodes: int, parameters: int) -> Plan:
        return plan(
            nodes,
            self.dropout,
            self._collusion,
            length=parameters,
            reliability_bits=self._reliability_bits,
            agreement=self._agreement,
            privacy=self.privacy,
        )


class CharteredRounds:
    """Rounds of a charter. Nothing is planned, and nothing is left to set."""

    def __init__(self, charter: Charter) -> None:
        charter.check_current()
        self._learning = learning_of(charter)
        for message_type in self._learning.message_types:
            ReplyTerms.under(charter, message_type)  # refuses unknown types of messages
        self._charter = charter
        self.privacy = charter.mechanism.demand if charter.mechanism else None
        self.dropout, self.around = charter.certificate.dropout, charter.certificate.around
        #: How often nodes release shares for one model; with noise only their ledgers limit it.
        self.maximum_releases = None if charter.mechanism else charter.releases

    def releases(self, message_type: str) -> bool:
        """Return whether there is anything to ask for: with noise, evaluations need named metrics."""
        return kind_of(message_type) == "train" or self.privacy is None or bool(self._learning.metrics)

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> ReplyTerms:
        """Return the charter's terms; every member has a place, whoever was sampled."""
        self._charter.check_current()
        terms = ReplyTerms.under(self._charter, message_type)
        _agreed_weight(of_strategy, terms.weighted_by, "the charter")
        if terms.kind == "train" and terms.mechanism is None:
            for name in sorted(counters_of(model) - {*terms.counters}):
                log.info_once(
                    f"array {quoted(name)} has whole numbers and is not a counter of the charter: a change "
                    f"beyond clip = {terms.clip:g} is cut off"
                )
        return terms

    def config(self, packing: AnyPacking, *, accept: bool) -> RoundConfig:
        """Return the configuration of a round for such replies; with *accept* it is the first of a series."""
        accept = accept or needs_accept(self._charter.agreement)
        return self._charter.config(length=packing.length, accept=accept)

    def client_ids(self, grid: Grid) -> ClientIds:
        """Return the client ids of nodes: the charter's, once nodes have introduced themselves."""
        return IntroducedIds(grid, self._charter)

    def server(self, config: RoundConfig, **options: Any) -> Server:
        """Make the server of one round."""
        return Server(config, self._charter, dropout=self.dropout, **options)


Rounds = PlannedRounds | NoisyRounds | CharteredRounds


def rounds_of(charter: Charter | None, settings: dict[str, Any], secure_evaluate: bool) -> Rounds:
    """Make rounds from the charter, or from these settings; never from both."""
    given = {name: value for name, value in settings.items() if value is not None}
    if charter is not None:
        if given:
            raise ConfigError(
                f"leave out {', '.join(given)} beside a charter: the charter says this, and nodes accept "
                "nothing else; or agree on another charter"
            )
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
            f"enough = {policy.enough:g} lets a step leave {1 - policy.enough:.3g} of its nodes behind, and "
            f"dropout = {dropout:g} plans for fewer: raise one of the two"
        )


def _agreed_weight(of_strategy: str | None, agreed: str | None, whose: str) -> str | None:
    """Return the metric to weight by. The strategy must agree, because it looks for it in the reply."""
    if of_strategy and agreed and of_strategy != agreed:
        raise ConfigError(
            f"the strategy weights by {of_strategy!r}, {whose} by {agreed!r}: give both the same "
            "(weighted_by_key of a strategy)"
        )
    return agreed or of_strategy


class Releases:
    """The vectors that each node was asked for, those of evaluations and of lost rounds included.

    The noise is made for a number of them, and no node is asked for more. The number of nodes, and with it
    the noise, can differ from round to round. Each release was made for the same demand, so all of them
    together keep it; that is computed, not assumed.
    """

    def __init__(self, demand: DifferentialPrivacy) -> None:
        self._demand = demand
        #: By node, how many with which noise.
        self._vectors: dict[int, Counter[Mechanism]] = {}

    def check_ahead(self, left: int, *, evaluates: bool, everyone: Callable[[], bool]) -> None:
        """Before its first vector, refuse a training that is certain to end early; warn if it may.

        It has this many rounds left, and is certain to end early if ``everyone`` is asked in each.
        """
        if self._vectors or left * (1 + evaluates) <= self._demand.rounds:
            return
        what = f"a training of {left} rounds" + " with evaluations" * evaluates
        text = f"{what} needs more than the noise is made for, {self._demand.rounds} vectors of a node"
        if left > self._demand.rounds and everyone():
            raise ConfigError(f"{text}: ask for privacy of as many rounds")
        log.warn(f"{text}: it ends with an error when one node is asked for more")

    def check(self, nodes: Iterable[int], mechanism: Mechanism) -> None:
        """Refuse to ask these nodes for one more vector if that is one too many for any of them."""
        after = {node: frozenset((self._of(node) + Counter([mechanism])).items()) for node in nodes}
        fits = {vectors: self._fits(vectors) for vectors in {*after.values()}}
        spent = [node for node, vectors in after.items() if not fits[vectors]]
        if spent:
            raise BudgetSpent(
                f"{nodes_text(spent)} cannot be asked for another vector: the noise is made for "
                f"{self._demand.rounds} of them, those of evaluations and lost rounds included. Ask for "
                "privacy of more rounds, which takes more noise in each"
            )

    def add(self, nodes: Iterable[int], mechanism: Mechanism) -> None:
        """Count one vector of each of these nodes, whatever became of it."""
        for node in nodes:
            self._vectors[node] = self._of(node) + Counter([mechanism])

    def _of(self, node: int) -> Counter[Mechanism]:
        return self._vectors.get(node, Counter())

    def _fits(self, vectors: frozenset[tuple[Mechanism, int]]) -> bool:
        """Return whether all these vectors together keep the demand."""
        few = sum(count for _, count in vectors) <= self._demand.rounds
        spent = total(mechanism.release.times(count) for mechanism, count in vectors)
        return few and spent.epsilon(self._demand.delta) <= self._demand.epsilon
