"""What rounds rest on: a plan that the server makes from its settings, or the charter that everyone holds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from flwr.app import RecordDict

from ccesa.charter import Charter
from ccesa.errors import ConfigError, quoted
from ccesa.flower.call import RoundLost
from ccesa.flower.models import Arrays, counters_of
from ccesa.flower.report import Once
from ccesa.flower.terms import METRIC_CLIP, Terms, learning_of, power_of_two
from ccesa.plan.planner import Plan, plan_or_complete
from ccesa.plan.population import Population
from ccesa.protocol.server import ActiveServer, Server

#: Makes the server of a round; each has a round id of its own.
Opening = Callable[[], Server]


class Basis(Protocol):
    """Where terms and servers of rounds come from."""

    @property
    def dropout(self) -> float:
        """The fraction of nodes that may vanish in a round."""

    @property
    def around(self) -> int | None:
        """Of anyone's neighbours so many lie at most; None if nobody has agreed on a number."""

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> Terms:
        """For this many messages with this model; the strategy weights by ``of_strategy``, if it says so."""

    def opening(self, terms: Terms, model: Arrays, content: RecordDict) -> Opening:
        """For rounds about the content of these messages."""


@dataclass(kw_only=True)
class Planned:
    """Under ``curious``: settings of ``SecureGrid``, from which the planner makes every round."""

    dropout: float = 0.1
    collusion: float = 0.0
    clip: float = 2.0
    metric_clip: float = METRIC_CLIP
    bits: int = 32
    max_weight: float = 65536.0
    weighted_by: str | None = None
    metric_slots: int = 16
    around: None = field(default=None, init=False)
    #: Names of the arrays that were whole numbers in a model which the strategy sent.
    _counters: set[str] = field(default_factory=set, init=False)
    _once: Once = field(default_factory=Once, init=False)
    _has_planned: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Nonsense is refused at once."""
        Population(clients=3, dropout=self.dropout, collusion=self.collusion)
        self.terms("train", 3, {}, None).length({})

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> Terms:
        self._counters |= counters_of(model)
        return Terms(
            message_type=message_type,
            clients=nodes,
            clip=self.clip,
            metric_clip=self.metric_clip,
            bits=self.bits,
            max_weight=power_of_two(self.max_weight),
            weighted_by=_one_weight(of_strategy, self.weighted_by, "SecureGrid") or "num-examples",
            slots=self.metric_slots,
            counters=sorted(self._counters) if message_type.split(".")[0] == "train" else [],
        )

    def opening(self, terms: Terms, model: Arrays, content: RecordDict) -> Opening:
        planned, task = self._plan(terms.clients, terms.length(model)), terms.task(content)
        return lambda: Server(planned.config(task=task))

    def _plan(self, nodes: int, length: int) -> Plan:
        """A mistake before the first round is an error, later it is a lost round."""
        try:
            planned = plan_or_complete(
                nodes,
                dropout=self.dropout,
                collusion=self.collusion,
                guard="curious",
                length=length,
                bits=self.bits,
            )
        except ConfigError as error:
            if not self._has_planned:
                raise
            raise RoundLost(str(error), repeatable=False) from error
        self._has_planned = True
        for note in planned.notes:
            self._once.say(note)
        return planned


class Chartered:
    """Under ``active``: rounds of a charter. Nothing is planned, and nothing is left to set."""

    def __init__(self, charter: Charter) -> None:
        charter.check_current()
        for message_type in learning_of(charter).message_types:
            Terms.under(charter, message_type)  # refuses what is no type of message
        self._charter, self._once = charter, Once()

    @property
    def dropout(self) -> float:
        return self._charter.certificate.dropout

    @property
    def around(self) -> int:
        return self._charter.certificate.around

    def terms(self, message_type: str, nodes: int, model: Arrays, of_strategy: str | None) -> Terms:
        """Every member has a place, whoever was sampled."""
        terms = Terms.under(self._charter, message_type)
        _one_weight(of_strategy, terms.weighted_by, "the charter")
        if terms.kind == "train":
            for name in sorted(counters_of(model) - {*terms.counters}):
                self._once.say(
                    f"array {quoted(name)} is of whole numbers and no counter of the charter: a change "
                    f"beyond clip = {terms.clip:g} is cut off"
                )
        return terms

    def opening(self, terms: Terms, model: Arrays, content: RecordDict) -> Opening:
        length, task = terms.length(model), terms.task(content)

        def opened() -> Server:
            self._charter.check_current()
            return ActiveServer(self._charter.config(length=length, task=task), self._charter)

        return opened


def _one_weight(of_strategy: str | None, agreed: str | None, whose: str) -> str | None:
    """The metric to weight by: the strategy looks for it in the reply."""
    if of_strategy and agreed and of_strategy != agreed:
        raise ConfigError(
            f"the strategy weights by {of_strategy!r}, {whose} by {agreed!r}: give both the same "
            "(weighted_by_key of a strategy)"
        )
    return agreed or of_strategy
