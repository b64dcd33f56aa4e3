"""Where terms and servers of rounds come from: a plan that is made from settings, or everyone's charter."""

from collections.abc import Callable
from dataclasses import dataclass, field

from flwr.app import RecordDict

from ccesa.charter import Charter
from ccesa.errors import ConfigError, ImpossiblePlan, quoted
from ccesa.flower.both.envelope import kind_of
from ccesa.flower.both.log import Once
from ccesa.flower.both.model import Arrays, counters_of
from ccesa.flower.both.packing import Packing
from ccesa.flower.both.terms import DEFAULTS, Terms, learning_of, power_of_two
from ccesa.flower.server.lost_rounds import RoundLost
from ccesa.guards import CURIOUS
from ccesa.plan.planner import Plan, plan_or_complete
from ccesa.plan.population import Population
from ccesa.protocol.active_server import ActiveServer
from ccesa.protocol.server import Server

#: As of the clients of a round.
LEAST_NODES = 3
#: Makes the server of a round; each has a round id of its own.
MakeServer = Callable[[], Server]


@dataclass(kw_only=True)
class PlannedRounds:
    """Rounds without a charter: the planner makes each of them from the settings of ``SecureGrid``."""

    #: The fraction of nodes that may vanish in a round.
    dropout: float = 0.1
    collusion: float = CURIOUS.collusion
    clip: float = DEFAULTS.clip
    metric_clip: float = DEFAULTS.metric_clip
    bits: int = 32
    max_weight: float = DEFAULTS.max_weight
    weighted_by: str | None = None
    metric_slots: int = 16
    #: Nobody has agreed on how many of anyone's neighbours lie at most.
    around: None = field(default=None, init=False)
    #: Names of the arrays that were whole numbers in a model which the strategy sent.
    _counters: set[str] = field(default_factory=set, init=False)
    _once: Once = field(default_factory=Once, init=False)
    _has_planned: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Refuse nonsense at once."""
        Population(clients=LEAST_NODES, dropout=self.dropout, collusion=self.collusion)
        _ = Packing(self.terms("train", LEAST_NODES, {}, None), {}).length

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> Terms:
        """Return the terms for so many messages with this model; the strategy weights by ``of_strategy``."""
        self._counters |= counters_of(model)
        return Terms(
            message_type=message_type,
            clients=nodes,
            clip=self.clip,
            metric_clip=self.metric_clip,
            bits=self.bits,
            max_weight=power_of_two(self.max_weight),
            weighted_by=_one_weight(of_strategy, self.weighted_by, "SecureGrid") or DEFAULTS.weighted_by,
            metric_slots=self.metric_slots,
            counters=sorted(self._counters) if kind_of(message_type) == "train" else [],
        )

    def servers(self, packing: Packing, content: RecordDict) -> MakeServer:
        """Return what makes servers of rounds about the content of these messages."""
        planned = self._plan(packing.terms.clients, packing.length)
        task = packing.terms.round_task(content)
        return lambda: Server(planned.config(task=task))

    def _plan(self, nodes: int, length: int) -> Plan:
        """Too few nodes for any plan are an error before the first round; later the round is lost."""
        if self._has_planned and nodes < LEAST_NODES:
            raise RoundLost(f"{nodes} nodes, a round needs at least {LEAST_NODES}", repeatable=False)
        try:
            planned = plan_or_complete(
                nodes, self.dropout, self.collusion, guard=CURIOUS.name, length=length, bits=self.bits
            )
        except ImpossiblePlan as error:
            if not self._has_planned:
                raise
            raise RoundLost(str(error), repeatable=False) from error
        self._has_planned = True
        for note in planned.notes:
            self._once.info(note)
        return planned


class CharteredRounds:
    """Rounds of a charter. Nothing is planned, and nothing is left to set."""

    def __init__(self, charter: Charter) -> None:
        charter.check_current()
        for message_type in learning_of(charter).message_types:
            Terms.under(charter, message_type)  # refuses what is not a type of message
        self._charter, self._once = charter, Once()
        self.dropout, self.around = charter.certificate.dropout, charter.certificate.around

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> Terms:
        """Return the charter's terms; every member has a place, whoever was sampled."""
        terms = Terms.under(self._charter, message_type)
        _one_weight(of_strategy, terms.weighted_by, "the charter")
        if terms.kind == "train":
            for name in sorted(counters_of(model) - {*terms.counters}):
                self._once.info(
                    f"array {quoted(name)} is of whole numbers and not a counter of the charter: a change "
                    f"beyond clip = {terms.clip:g} is cut off"
                )
        return terms

    def servers(self, packing: Packing, content: RecordDict) -> MakeServer:
        """Return what makes servers of rounds about the content of these messages."""
        length, task = packing.length, packing.terms.round_task(content)

        def made() -> Server:
            self._charter.check_current()
            return ActiveServer(self._charter.config(length=length, task=task), self._charter)

        return made


Rounds = PlannedRounds | CharteredRounds


def _one_weight(of_strategy: str | None, agreed: str | None, whose: str) -> str | None:
    """Return the metric to weight by, on which the strategy must agree: it looks for it in the reply."""
    if of_strategy and agreed and of_strategy != agreed:
        raise ConfigError(
            f"the strategy weights by {of_strategy!r}, {whose} by {agreed!r}: give both the same "
            "(weighted_by_key of a strategy)"
        )
    return agreed or of_strategy
