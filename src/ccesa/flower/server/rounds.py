"""Where terms and servers of rounds come from: a plan that is made from settings, or everyone's charter."""

from collections.abc import Callable
from typing import Any

import msgspec
from flwr.serverapp import Grid

from ccesa.agreement.agreement import RELEASES
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import DEFAULT, POST_QUANTUM, needs_accept
from ccesa.errors import ConfigError, ImpossiblePlan, quoted
from ccesa.flower.both import log
from ccesa.flower.both.envelope import kind_of
from ccesa.flower.both.model import Arrays, counters_of
from ccesa.flower.both.noisy import AnyPacking
from ccesa.flower.both.packing import Packing
from ccesa.flower.both.terms import DEFAULTS, Terms, learning_of, power_of_two
from ccesa.flower.server.client_ids import ClientIds, IntroducedIds
from ccesa.flower.server.lost_rounds import RoundLost
from ccesa.graphs.assumptions import Assumptions
from ccesa.guards import CURIOUS
from ccesa.plan.planner import plan_or_complete
from ccesa.plan.result import Plan
from ccesa.protocol.server import Server
from ccesa.values.fields import Fields

#: The fewest nodes of a round: no round has fewer clients.
LEAST_NODES = 3


class PlannedRounds:
    """Rounds without a charter: the planner makes each of them from the settings of ``SecureGrid``.

    What is not about the plan or the weight is a field of ``Terms``. Nonsense is refused at once.
    """

    #: Nobody has agreed on how many of anyone's neighbours lie at most.
    around: None = None
    privacy: None = None
    #: How often nodes release shares for one model, if they do not say otherwise themselves.
    most_releases = RELEASES

    def __init__(
        self,
        *,
        dropout: float = 0.1,
        collusion: float = CURIOUS.collusion,
        max_weight: float = DEFAULTS.max_weight,
        weighted_by: str | None = None,
        bits: int | None = None,
        precision: float | None = None,
        post_quantum: bool = False,
        **bounds: Any,
    ) -> None:
        Assumptions(clients=LEAST_NODES, dropout=dropout, collusion=collusion)
        self.dropout, self._collusion, self._weighted_by = dropout, collusion, weighted_by
        weight = power_of_two(max_weight)
        self._terms = Terms(message_type="train", clients=LEAST_NODES, max_weight=weight, **bounds)
        self._bits, self._precision = bits, precision
        self._agreement = POST_QUANTUM if post_quantum else DEFAULT
        _ = Packing(self._terms, {}).length, self._field_bits(LEAST_NODES)
        #: Names of the arrays that were whole numbers in a model which the strategy sent.
        self._counters: set[str] = set()
        self._planning = Planning()

    def releases(self, message_type: str) -> bool:
        """Return whether there is anything to ask the nodes for."""
        return True

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> Terms:
        """Return the terms for so many messages with this model; the strategy weights by ``of_strategy``."""
        self._counters |= counters_of(model)
        return msgspec.structs.replace(
            self._terms,
            message_type=message_type,
            clients=nodes,
            field_bits=self._field_bits(nodes),
            weighted_by=_one_weight(of_strategy, self._weighted_by, "SecureGrid") or DEFAULTS.weighted_by,
            counters=sorted(self._counters) if kind_of(message_type) == "train" else [],
        )

    def _field_bits(self, nodes: int) -> int:
        """Return the width for so many nodes. A counter has a bound of its own, and is as precise as that."""
        return Fields.chosen(nodes, self._bits, self._precision, self._terms.clip).bits

    def config(self, packing: AnyPacking, *, accept: bool) -> RoundConfig:
        """Return the configuration of a round for such replies; with *accept* it is the first of a series."""
        nodes, length = packing.terms.clients, packing.length
        planned = self._planning.of(nodes, lambda: self._plan(nodes, length))
        return planned.config(agreement=self._agreement, accept=accept or needs_accept(self._agreement))

    def client_ids(self, grid: Grid) -> ClientIds:
        """Return which client each node is: nobody has agreed on that."""
        return ClientIds()

    def server(self, config: RoundConfig, **options: Any) -> Server:
        """Make the server of one round."""
        return Server(config, dropout=self.dropout, **options)

    def _plan(self, nodes: int, length: int) -> Plan:
        return plan_or_complete(nodes, self.dropout, self._collusion, CURIOUS.name, length, self._terms.bits)


class Planning:
    """Remembers whether there was a plan: too few nodes for any are an error at first, and later a loss."""

    def __init__(self) -> None:
        self._has_planned = False

    def of(self, nodes: int, make: Callable[[], Plan]) -> Plan:
        """Return the plan that is made for so many nodes."""
        if self._has_planned and nodes < LEAST_NODES:
            raise RoundLost(f"{nodes} nodes, a round needs at least {LEAST_NODES}", repeatable=False)
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


class CharteredRounds:
    """Rounds of a charter. Nothing is planned, and nothing is left to set."""

    def __init__(self, charter: Charter) -> None:
        charter.check_current()
        self._learning = learning_of(charter)
        for message_type in self._learning.message_types:
            Terms.under(charter, message_type)  # refuses what is not a type of message
        self._charter = charter
        self.privacy = charter.mechanism.demand if charter.mechanism else None
        self.dropout, self.around = charter.certificate.dropout, charter.certificate.around
        #: How often nodes release shares for one model; with noise there is no limit but their ledgers.
        self.most_releases = None if charter.mechanism else charter.releases

    def releases(self, message_type: str) -> bool:
        """Return whether there is anything to ask the nodes for: with noise metrics have to be named."""
        return kind_of(message_type) == "train" or self.privacy is None or bool(self._learning.metrics)

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> Terms:
        """Return the charter's terms; every member has a place, whoever was sampled."""
        self._charter.check_current()
        terms = Terms.under(self._charter, message_type)
        _one_weight(of_strategy, terms.weighted_by, "the charter")
        if terms.kind == "train" and terms.mechanism is None:
            for name in sorted(counters_of(model) - {*terms.counters}):
                log.info_once(
                    f"array {quoted(name)} is of whole numbers and not a counter of the charter: a change "
                    f"beyond clip = {terms.clip:g} is cut off"
                )
        return terms

    def config(self, packing: AnyPacking, *, accept: bool) -> RoundConfig:
        """Return the configuration of a round for such replies; with *accept* it is the first of a series."""
        accept = accept or needs_accept(self._charter.agreement)
        return self._charter.config(length=packing.length, accept=accept)

    def client_ids(self, grid: Grid) -> ClientIds:
        """Return which client each node is: the charter says so, once nodes have introduced themselves."""
        return IntroducedIds(grid, self._charter)

    def server(self, config: RoundConfig, **options: Any) -> Server:
        """Make the server of one round."""
        return Server(config, self._charter, dropout=self.dropout, **options)


def _one_weight(of_strategy: str | None, agreed: str | None, whose: str) -> str | None:
    """Return the metric to weight by, on which the strategy must agree: it looks for it in the reply."""
    if of_strategy and agreed and of_strategy != agreed:
        raise ConfigError(
            f"the strategy weights by {of_strategy!r}, {whose} by {agreed!r}: give both the same "
            "(weighted_by_key of a strategy)"
        )
    return agreed or of_strategy
