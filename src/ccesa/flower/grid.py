"""``SecureGrid``: a Flower grid through which a strategy sees the mean of all replies, and no single one."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from logging import INFO, WARNING
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.common import log
from flwr.serverapp import Grid

from ccesa.config import RoundConfig
from ccesa.errors import CcesaError, ConfigError
from ccesa.flower import records, strategies
from ccesa.flower.call import Call, RoundLost
from ccesa.flower.history import History
from ccesa.flower.mail import NoSecureMod
from ccesa.flower.members import Members
from ccesa.flower.models import Arrays, counters_of, model_of
from ccesa.flower.pace import Deadline, Pace
from ccesa.flower.report import log_result
from ccesa.flower.terms import METRIC_CLIP, Average, Terms
from ccesa.identity import Admission
from ccesa.plan.certify import check_guard
from ccesa.plan.planner import Plan, plan_or_complete
from ccesa.plan.population import Population
from ccesa.protocol.active_server import ActiveServer
from ccesa.protocol.round import run_round
from ccesa.protocol.server import Server

Kind = Literal["train", "evaluate"]


class SecureGrid(Grid):  # type: ignore[misc]  # flwr is not typed for us
    """Wraps a grid: ``strategy.start(grid=SecureGrid(grid), ...)``.

    Train messages, and evaluate messages unless ``secure_evaluate`` is off, go through a round of secure
    aggregation and come back as one reply: the weighted mean of all arrays and metrics, and the total weight.
    A round that is lost comes back as no reply; the strategy keeps its model. All else passes through.

    ``dropout`` and ``collusion`` are what the planner plans for, ``clip`` bounds the change of a single
    parameter, ``max_weight`` the number of examples of a node. Replies are weighted by what the strategy
    says, or ``num-examples``, unless ``weighted_by`` is given. ``guard="active"`` needs the admission list of
    the nodes' identities.

    A step waits for ``step_timeout`` seconds once its messages are out, or until a fraction ``enough`` of the
    nodes has answered and ``grace`` seconds more have passed. A lost round is repeated up to ``retries``
    times.

    ``send_and_receive`` raises RoundsLost in the last round of a strategy none of whose rounds went well, and
    after ``give_up_after`` lost rounds in a row; AttemptsSpent if nodes have contributed to the same model
    as often as they allow; ConfigError if no node has ``secure_mod``.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        dropout: float = 0.1,
        collusion: float = 0.0,
        guard: str = "curious",
        admission: Admission | None = None,
        clip: float = 2.0,
        metric_clip: float = METRIC_CLIP,
        bits: int = 32,
        max_weight: float = 65536.0,
        weighted_by: str | None = None,
        metric_slots: int = 16,
        step_timeout: float | None = None,
        enough: float = 1.0,
        grace: float = 10.0,
        retries: int = 0,
        give_up_after: int | None = None,
        secure_evaluate: bool = True,
    ) -> None:
        if (guard == "active") != (admission is not None):
            raise ConfigError("guard = active and an admission list go together")
        if type(retries) is not int or retries < 0:
            raise ConfigError(f"retries must be a number of rounds from 0 on, not {retries!r}")
        self._grid = grid
        self._members = Members(grid, admission)
        self._weighted_by, self._secure_evaluate = weighted_by, secure_evaluate
        self._pace = Pace(step_timeout=step_timeout, enough=enough, grace=grace)
        self._retries, self._history = retries, History(give_up_after)
        self._planned = partial(
            plan_or_complete, dropout=dropout, collusion=collusion, guard=guard, bits=bits
        )
        self._terms = partial(
            Terms,
            clip=clip,
            metric_clip=metric_clip,
            bits=bits,
            max_weight=_power_of_two(max_weight),
            slots=metric_slots,
        )
        #: Names of the arrays that were whole numbers in a model which the strategy sent.
        self._counters: set[str] = set()
        self._notes: set[str] = set()
        self._has_planned = False
        #: Types of messages to which some node has answered as ``secure_mod`` does.
        self._met: set[str] = set()
        #: By how much rounding can have moved any value of the last model; None before there is one.
        self.error_bound: float | None = None
        Population(clients=3, dropout=dropout, collusion=collusion)  # refuses nonsense at once
        check_guard(guard)
        self._pace.check(dropout)
        self._terms(message_type="train", clients=3, weighted_by="").length({})

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Secure rounds for train and evaluate messages, the wrapped grid for all others."""
        by_type: dict[str, list[Message]] = {}
        for message in messages:
            by_type.setdefault(message.metadata.message_type, []).append(message)
        replies: list[Message] = []
        start = strategies.running()
        self._history.enter(start)
        for some in by_type.values():
            kind = records.kind_of(some[0])
            if kind == "train" or (kind == "evaluate" and self._secure_evaluate):
                weighted_by = self._weight(strategies.check_caller())
                replies += self._secure(kind, some, timeout, weighted_by)  # type: ignore[arg-type]  # one of the two
            else:
                replies += self._grid.send_and_receive(some, timeout=timeout)
        self._history.check(start, {records.kind_of(some[0]) for some in by_type.values()})
        return replies

    def _weight(self, of_strategy: str | None) -> str:
        """The metric to weight by: the strategy looks for it in the reply."""
        if self._weighted_by and of_strategy and self._weighted_by != of_strategy:
            raise ConfigError(
                f"the strategy weights by {of_strategy!r}, SecureGrid by {self._weighted_by!r}; leave out "
                "weighted_by, or give both the same"
            )
        return self._weighted_by or of_strategy or "num-examples"

    def _secure(
        self, kind: Kind, messages: list[Message], timeout: float | None, weighted_by: str
    ) -> list[Message]:
        """One reply, or none if the round is lost."""
        _check_alike(messages)
        model = model_of(messages[0].content)
        self._counters |= counters_of(model)
        terms = self._terms(
            message_type=messages[0].metadata.message_type,
            clients=self._members.count(len(messages)),
            weighted_by=weighted_by,
            counters=sorted(self._counters) if kind == "train" else [],
        )
        try:
            planned = self._plan(len(messages), terms.length(model))
            reply = self._repeated(partial(self._round, planned, terms, model, messages), Deadline(timeout))
        except RoundLost as lost:
            log(
                WARNING,
                "secure aggregation: the %s round with %d nodes is lost: %s",
                kind,
                len(messages),
                lost,
            )
            self._history.lost(kind, str(lost))
            return []
        self._history.went_well(kind)
        return [reply]

    def _repeated(self, one_round: Callable[[Deadline], Message], deadline: Deadline) -> Message:
        """The reply of the first round that is not lost; each has keys of its own."""
        for _ in range(self._retries):
            try:
                return one_round(deadline)
            except RoundLost as lost:
                if not lost.repeatable or not deadline.left:
                    raise
                log(WARNING, "secure aggregation: a round is lost, and repeated: %s", lost)
        return one_round(deadline)

    def _round(
        self, planned: Plan, terms: Terms, model: Arrays, messages: list[Message], deadline: Deadline
    ) -> Message:
        config, kind = self._config(planned, terms, messages[0].content), messages[0].metadata.message_type
        server = (
            Server(config) if config.guard == "curious" else ActiveServer(config, self._members.admission)
        )
        call = Call(
            self._grid,
            config=config,
            terms=terms,
            messages=self._members.places(messages, self._pace, deadline),
            deadline=deadline,
            pace=self._pace,
            known=kind in self._met,
        )
        lost = True
        try:
            aggregate = run_round(server, call.carry, call.refuse)
            average = terms.unpack(model, aggregate.vector, len(aggregate.survivors))
            lost = False
        except NoSecureMod:
            raise
        except CcesaError as failure:
            raise call.failed(failure) from failure
        finally:
            call.end(lost=lost)
            if call.met:
                self._met.add(kind)
        if terms.kind == "train":
            self.error_bound = average.bound
        log_result(planned, terms, aggregate, average, call.nodes, len(messages))
        return _reply(messages[0], terms, average)

    def _plan(self, nodes: int, length: int) -> Plan:
        """A mistake before the first round is an error, later it is a lost round."""
        try:
            planned = self._planned(nodes, length=length)
        except ConfigError as error:
            if not self._has_planned:
                raise
            raise RoundLost(str(error), repeatable=False) from error
        self._has_planned = True
        for note in planned.notes:
            if note not in self._notes:
                log(INFO, "secure aggregation: %s", note)
        self._notes |= set(planned.notes)
        return planned

    def _config(self, planned: Plan, terms: Terms, content: RecordDict) -> RoundConfig:
        """Of the plan; under ``active`` everyone on the list has a place, whoever was sampled."""
        others: dict[str, Any] = {"clients": terms.clients, "task": terms.task(content)}
        if planned.guard == "active":
            others["admission"] = self._members.admission.digest
        return planned.config(**others)

    # What is not ours goes to the wrapped grid.

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(self, *arguments: Any, **others: Any) -> Message:
        return self._grid.create_message(*arguments, **others)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As they are: a single train message pushed by hand is not aggregated, and not protected."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)


def _power_of_two(max_weight: float) -> float:
    """Rounded up: then whole numbers of examples, up to 2^24 of them, travel as they are."""
    if not 0 < max_weight < math.inf:
        raise ConfigError(f"max_weight must be a positive number, not {max_weight!r}")
    return 2.0 ** math.ceil(math.log2(max_weight))


def _check_alike(messages: list[Message]) -> None:
    """One message a node, and the same for all: only then is there a mean of changes to one model."""
    node, times = Counter(message.metadata.dst_node_id for message in messages).most_common(1)[0]
    if times > 1:
        raise ConfigError(f"{times} messages to node {node} at once; secure aggregation sends one to each")
    first = messages[0].content
    for message in messages[1:]:
        if message.content is not first and dict(message.content) != dict(first):
            raise ConfigError(
                "the strategy sends different arrays or settings to different nodes; secure aggregation "
                "averages replies to one model, trained in one way"
            )


def _reply(asked: Message, terms: Terms, average: Average) -> Message:
    """One reply that stands for all: the mean, and the total weight, under the names that the apps use."""
    arrays, metrics = average.records
    content: dict[str, Any] = {metrics: MetricRecord({terms.weighted_by: average.weight, **average.metrics})}
    if terms.kind == "train":
        content[arrays] = ArrayRecord(
            {name: Array(np.asarray(value)) for name, value in average.arrays.items()}
        )
    return Message(RecordDict(content), reply_to=asked)
