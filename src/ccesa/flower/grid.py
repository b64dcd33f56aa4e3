"""``SecureGrid``: a Flower grid through which a strategy sees the mean of all replies, and no single one."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from logging import WARNING
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.common import log
from flwr.serverapp import Grid

from ccesa.charter import Charter
from ccesa.errors import CcesaError, ConfigError
from ccesa.flower import records, strategies
from ccesa.flower.average import Average
from ccesa.flower.basis import Basis, Chartered, Opening, Planned
from ccesa.flower.call import Call, RoundLost
from ccesa.flower.history import History
from ccesa.flower.mail import NoSecureMod
from ccesa.flower.members import Members
from ccesa.flower.models import Arrays, model_of
from ccesa.flower.pace import Deadline, Pace
from ccesa.flower.report import Once, log_evidence, log_result
from ccesa.flower.terms import Terms
from ccesa.protocol.round import run_round


class SecureGrid(Grid):  # type: ignore[misc]  # flwr is not typed for us
    """Wraps a grid: ``strategy.start(grid=SecureGrid(grid), ...)``.

    Train messages, and evaluate messages unless ``secure_evaluate`` is off, go through a round of secure
    aggregation and come back as one reply: the weighted mean of all arrays and metrics, and the total weight.
    A round that is lost comes back as no reply; the strategy keeps its model. All else passes through.

    ``dropout`` (0.1) and ``collusion`` (0) are what the planner plans for, ``clip`` (2.0) bounds the change
    of a single parameter, ``max_weight`` (65,536) the number of examples of a node. Replies are weighted by
    what the strategy says, or ``num-examples``, unless ``weighted_by`` is given. ``bits`` (32),
    ``metric_clip`` (1e6) and ``metric_slots`` (16) are about how numbers travel.

    With a ``charter`` rounds are under the guard ``active``, and the charter says all of this: then none of
    these settings may be given.

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
        charter: Charter | None = None,
        dropout: float | None = None,
        collusion: float | None = None,
        clip: float | None = None,
        metric_clip: float | None = None,
        bits: int | None = None,
        max_weight: float | None = None,
        weighted_by: str | None = None,
        metric_slots: int | None = None,
        step_timeout: float | None = None,
        enough: float = 1.0,
        grace: float = 10.0,
        retries: int = 0,
        give_up_after: int | None = None,
        secure_evaluate: bool = True,
    ) -> None:
        settings = {
            "dropout": dropout,
            "collusion": collusion,
            "clip": clip,
            "metric_clip": metric_clip,
            "bits": bits,
            "max_weight": max_weight,
            "weighted_by": weighted_by,
            "metric_slots": metric_slots,
        }
        if type(retries) is not int or retries < 0:
            raise ConfigError(f"retries must be a number of rounds from 0 on, not {retries!r}")
        self._grid = grid
        self._basis = _basis(charter, settings, secure_evaluate)
        self._members, self._secure_evaluate = Members(grid, charter), secure_evaluate
        self._pace = Pace(step_timeout=step_timeout, enough=enough, grace=grace)
        self._retries, self._history = retries, History(give_up_after)
        self._once = Once()
        #: Types of messages to which some node has answered as ``secure_mod`` does.
        self._met: set[str] = set()
        #: By how much rounding can have moved any value of the last model; None before there is one.
        self.error_bound: float | None = None
        self._pace.check(self._basis.dropout)

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
                replies += self._secure(kind, some, timeout, strategies.check_caller())
            else:
                replies += self._grid.send_and_receive(some, timeout=timeout)
        self._history.check(start, {records.kind_of(some[0]) for some in by_type.values()})
        return replies

    def _secure(
        self, kind: str, messages: list[Message], timeout: float | None, weighted_by: str | None
    ) -> list[Message]:
        """One reply, or none if the round is lost."""
        _check_alike(messages)
        content, message_type = messages[0].content, str(messages[0].metadata.message_type)
        model = model_of(content)
        terms = self._basis.terms(message_type, len(messages), model, weighted_by)
        try:
            opening = self._basis.opening(terms, model, content)
            reply = self._repeated(partial(self._round, opening, terms, model, messages), Deadline(timeout))
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
        self, opening: Opening, terms: Terms, model: Arrays, messages: list[Message], deadline: Deadline
    ) -> Message:
        server, kind = opening(), messages[0].metadata.message_type
        call = Call(
            self._grid,
            config=server.config,
            terms=terms,
            messages=self._members.places(messages, self._pace, deadline),
            deadline=deadline,
            pace=self._pace,
            known=kind in self._met,
            around=self._basis.around,
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
        asked = len(messages)
        neighbours = server.config.graph.mean_degree(asked)
        log_result(terms, aggregate, average, asked, neighbours, self._once)
        log_evidence(aggregate.evidence, call.nodes, self._basis.around)
        return _reply(messages[0], terms, average)

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


def _basis(charter: Charter | None, settings: dict[str, Any], secure_evaluate: bool) -> Basis:
    """Of the charter, or of what is given; never of both."""
    given = {name: value for name, value in settings.items() if value is not None}
    if charter is None:
        return Planned(**given)
    if given:
        raise ConfigError(
            f"{', '.join(given)} beside a charter: the charter says this, and nodes take nothing else; leave "
            "it out, or agree on another charter"
        )
    if not secure_evaluate:
        raise ConfigError("secure_evaluate=False beside a charter: its nodes answer nothing in clear")
    return Chartered(charter)


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
