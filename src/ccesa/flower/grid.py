"""``SecureGrid``: a Flower grid through which a strategy sees the mean of all replies, and no single one."""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from logging import INFO, WARNING
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.common import log
from flwr.serverapp import Grid

from ccesa.config import RoundConfig
from ccesa.errors import CcesaError, ConfigError, FaultyClient, MalformedMessage
from ccesa.flower import records
from ccesa.flower.members import Members
from ccesa.flower.records import Envelope
from ccesa.flower.strategies import check_caller
from ccesa.flower.terms import Arrays, Average, Terms, counters_of, model_of
from ccesa.identity import Admission
from ccesa.plan.certify import check_guard
from ccesa.plan.planner import Plan, plan_or_complete
from ccesa.plan.population import Population
from ccesa.protocol.active_server import ActiveServer
from ccesa.protocol.round import run_round
from ccesa.protocol.server import Aggregate, Requests, Server
from ccesa.protocol.steps import STEPS, Step

Kind = Literal["train", "evaluate"]

#: Seconds between two looks for replies: short at first, for fast steps, then longer.
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0
#: Replies that are fetched at once: each can be as large as the model.
_AT_ONCE = 16
#: Of the time that is left to a round, the parts of the step in which nodes train; other steps have one.
_TRAINING_PARTS = 4


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How rounds are planned and replies become vectors."""

    dropout: float
    collusion: float
    guard: str
    clip: float
    metric_clip: float
    bits: int
    max_weight: float
    weighted_by: str
    metric_slots: int
    step_timeout: float | None
    secure_evaluate: bool


class SecureGrid(Grid):  # type: ignore[misc]  # flwr is not typed for us
    """Wraps a grid: ``strategy.start(grid=SecureGrid(grid), ...)``.

    Train messages, and evaluate messages unless ``secure_evaluate`` is off, go through a round of secure
    aggregation and come back as one reply: the weighted mean of all arrays and metrics, and the total weight.
    A round that is lost comes back as no reply; the strategy keeps its model. All else passes through.

    ``dropout`` and ``collusion`` are what the planner plans for, ``clip`` bounds the change of a single
    parameter, ``max_weight`` the number of examples of a node, ``step_timeout`` the seconds of each step.
    ``guard="active"`` needs the admission list of the nodes' identities.
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
        metric_clip: float = 1e6,
        bits: int = 32,
        max_weight: float = 65536.0,
        weighted_by: str = "num-examples",
        metric_slots: int = 16,
        step_timeout: float | None = None,
        secure_evaluate: bool = True,
    ) -> None:
        if (guard == "active") != (admission is not None):
            raise ConfigError("guard = active and an admission list go together")
        self._grid = grid
        self._settings = Settings(
            dropout=dropout,
            collusion=collusion,
            guard=guard,
            clip=clip,
            metric_clip=metric_clip,
            bits=bits,
            max_weight=_power_of_two(max_weight),
            weighted_by=weighted_by,
            metric_slots=metric_slots,
            step_timeout=step_timeout,
            secure_evaluate=secure_evaluate,
        )
        self._members = Members(grid, admission)
        self._counters: set[str] = set()
        Population(clients=3, dropout=dropout, collusion=collusion)  # refuses nonsense at once
        check_guard(guard)
        self._terms("train", 3).length({})

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Secure rounds for train and evaluate messages, the wrapped grid for all others."""
        by_kind: dict[str, list[Message]] = {}
        for message in messages:
            by_kind.setdefault(message.metadata.message_type.split(".")[0], []).append(message)
        replies: list[Message] = []
        for kind, some in by_kind.items():
            if kind == "train" or (kind == "evaluate" and self._settings.secure_evaluate):
                check_caller()
                replies += self._secure(kind, some, timeout)  # type: ignore[arg-type]  # one of the two
            else:
                replies += self._grid.send_and_receive(some, timeout=timeout)
        return replies

    def _secure(self, kind: Kind, messages: list[Message], timeout: float | None) -> list[Message]:
        """One round. A reply, or none if the round is lost."""
        model = _common_model(messages)
        self._counters |= counters_of(model)
        # Introducing themselves takes nodes one part of the time, like a step without training.
        patience = self._settings.step_timeout or (timeout and timeout / (2 * _TRAINING_PARTS + 1))
        deadline = None if timeout is None else time.monotonic() + timeout
        places = self._members.places(messages, patience)
        clients = self._members.count(len(messages))
        terms = self._terms(kind, clients)
        planned = self._plan(len(messages), terms.length(model))
        config = self._config(planned, terms, model)
        server = (
            Server(config) if config.guard == "curious" else ActiveServer(config, self._members.admission)
        )
        call = _Call(
            self._grid,
            config=config,
            terms=terms,
            messages=places,
            deadline=deadline,
            step_timeout=self._settings.step_timeout,
        )
        try:
            aggregate = run_round(server, call.carry, _log_refusal)
            average = terms.unpack(model, aggregate.vector, call.common_names(aggregate))
        except CcesaError as failure:
            log(WARNING, "secure aggregation: the %s round is lost: %s", kind, failure)
            return []
        _log_result(kind, planned, aggregate, average, len(messages))
        return [_reply(kind, messages[0], average, self._settings.weighted_by)]

    def _terms(self, kind: Kind, clients: int) -> Terms:
        settings = self._settings
        return Terms(
            kind=kind,
            clients=clients,
            clip=settings.clip,
            metric_clip=settings.metric_clip,
            bits=settings.bits,
            max_weight=settings.max_weight,
            weighted_by=settings.weighted_by,
            slots=settings.metric_slots,
            counters=sorted(self._counters) if kind == "train" else [],
        )

    def _plan(self, nodes: int, length: int) -> Plan:
        settings = self._settings
        planned = plan_or_complete(
            nodes,
            settings.dropout,
            collusion=settings.collusion,
            guard=settings.guard,
            length=length,
            bits=settings.bits,
        )
        for note in planned.notes:
            log(INFO, "secure aggregation: %s", note)
        return planned

    def _config(self, planned: Plan, terms: Terms, model: Arrays) -> RoundConfig:
        others: dict[str, Any] = (
            {"admission": self._members.admission.digest} if planned.guard == "active" else {}
        )
        return RoundConfig(
            clients=terms.clients,
            length=planned.length,
            bits=planned.bits,  # type: ignore[arg-type]  # checked by the configuration itself
            graph=planned.graph,
            threshold=planned.threshold,
            guard=planned.guard,  # type: ignore[arg-type]  # the same
            task=terms.task(model),
            **others,
        )

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


@dataclass
class _Call:
    """The transport of one round: requests out as messages, replies in as they arrive."""

    grid: Grid
    config: RoundConfig
    terms: Terms
    messages: dict[int, Message]
    deadline: float | None
    step_timeout: float | None
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def carry(self, step: Step, requests: Requests) -> Iterator[tuple[int, bytes]]:
        asked = {self._node(client): client for client in requests if client in self.messages}
        # A list: grids go through it twice. A message that could not be sent has no id.
        sent = self.grid.push_messages([self._request(step, c, requests[c]) for c in asked.values()])
        left = {one for one in sent if one}
        ends = self._ends(step)
        wait = _FIRST_WAIT
        while left and time.monotonic() < ends:
            arrived = 0
            for reply in self._fetch(sorted(left)):
                if reply.metadata.reply_to_message_id not in left:
                    continue  # to another request
                arrived += 1
                left.discard(reply.metadata.reply_to_message_id)
                client = asked.pop(reply.metadata.src_node_id, None)
                answer = self._answer(step, client, reply)
                if client is not None and answer is not None:
                    yield client, answer
            wait = _FIRST_WAIT if arrived else min(2 * wait, _LONGEST_WAIT)
            if left:
                time.sleep(min(wait, max(ends - time.monotonic(), 0.0)))
        for node in asked:
            log(INFO, "secure aggregation: step %s: node %d did not answer in time", step.name, node)

    def common_names(self, aggregate: Aggregate) -> list[str]:
        """The metrics that are in the sum: those of all survivors, if they have the same."""
        found = {self.names.get(client, ()) for client in aggregate.survivors}
        if len(found) > 1:
            log(WARNING, "secure aggregation: nodes report different metrics; they are left out")
        return list(found.pop()) if len(found) == 1 else []

    def _node(self, client: int) -> int:
        return self.messages[client].metadata.dst_node_id

    def _fetch(self, ids: list[str]) -> Iterator[Message]:
        for place in range(0, len(ids), _AT_ONCE):
            yield from self.grid.pull_messages(ids[place : place + _AT_ONCE])

    def _ends(self, step: Step) -> float:
        """A node that never answers may use up the time of its step, not that of the steps after it."""
        now = time.monotonic()
        ends = math.inf if self.step_timeout is None else now + self.step_timeout
        if self.deadline is None:
            return ends
        steps = STEPS[self.config.guard]
        parts = [_TRAINING_PARTS if one.name == "mask" else 1 for one in steps[steps.index(step) :]]
        return min(ends, now + (self.deadline - now) * parts[0] / sum(parts))

    def _request(self, step: Step, client: int, request: bytes) -> Message:
        """The model goes along only where it is needed: in the masking step."""
        given = self.messages[client]
        envelope = Envelope(
            step=step.name, config=self.config.encode(), terms=self.terms.encode(), request=request
        )
        content = given.content if step.name == "mask" else RecordDict()
        return Message(
            records.put(content, envelope),
            given.metadata.dst_node_id,
            given.metadata.message_type,
            ttl=self.step_timeout or given.metadata.ttl,
            group_id=given.metadata.group_id,
        )

    def _answer(self, step: Step, client: int | None, reply: Message) -> bytes | None:
        node = reply.metadata.src_node_id
        if reply.has_error():
            log(INFO, "secure aggregation: step %s: node %d: %s", step.name, node, reply.error.reason)
            return None
        try:
            answer = records.take_answer(reply)
        except MalformedMessage as error:
            log(WARNING, "secure aggregation: step %s: node %d: %s", step.name, node, error)
            return None
        if client is not None and step.name == "mask":
            self.names[client] = tuple(answer.metrics)
        return answer.reply


def _power_of_two(max_weight: float) -> float:
    """Rounded up: then whole numbers of examples, up to 2^24 of them, travel as they are."""
    if not 0 < max_weight < math.inf:
        raise ConfigError(f"max_weight must be a positive number, not {max_weight!r}")
    return 2.0 ** math.ceil(math.log2(max_weight))


def _common_model(messages: list[Message]) -> Arrays:
    """All messages of a round carry the same arrays: only then is there a mean of changes to it."""
    first = messages[0].content
    for message in messages[1:]:
        if message.content is not first and message.content.array_records != first.array_records:
            raise ConfigError(
                "the strategy sends different arrays to different nodes; secure aggregation averages replies "
                "to one model"
            )
    return model_of(first)


def _reply(kind: Kind, asked: Message, average: Average, weighted_by: str) -> Message:
    """One reply that stands for all: the mean, and the total weight."""
    metrics = MetricRecord({weighted_by: average.weight, **average.metrics})
    content: dict[str, Any] = {"metrics": metrics}
    if kind == "train":
        content["arrays"] = ArrayRecord(
            {name: Array(np.asarray(value)) for name, value in average.arrays.items()}
        )
    return Message(RecordDict(content), reply_to=asked)


def _log_refusal(fault: FaultyClient) -> None:
    log(WARNING, "secure aggregation: %s", fault)


def _log_result(kind: Kind, planned: Plan, aggregate: Aggregate, average: Average, nodes: int) -> None:
    log(
        INFO,
        "secure aggregation: %s, %d of %d nodes in the sum, %.4g neighbours each; rounding moves no value by "
        "more than %.2g%s",
        kind,
        len(aggregate.survivors),
        nodes,
        planned.degree,
        average.error,
        f", no counter by {average.counter_error:.2g}" if average.counter_error else "",
    )
    if aggregate.culprits:
        log(WARNING, "secure aggregation: wrong shares came from clients %s", sorted(aggregate.culprits))
