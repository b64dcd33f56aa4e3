"""The rounds of a strategy are single ones or series, and can be further rounds over one model.

A round is prepared with the one before it while the same nodes are asked again. A node sends vectors for one
model in one series only, under rising numbers, and none after it has released shares (docs/protocol.md, 3.5).
So every further round over a model continues its last series, also with other nodes and terms. If nodes no
longer work on a model without a sum, training goes on with a model that differs a little, and an evaluation is
left out. If the model has a sum, an evaluation has its answer, and training ends.
"""

from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from ccesa.agreement.config import RoundConfig
from ccesa.errors import AttemptsSpent, FaultyClient
from ccesa.flower.both import log
from ccesa.flower.both.envelope import exchanges_of
from ccesa.flower.both.packing import MeanReply
from ccesa.flower.both.terms import ReplyTerms, content_parts, model_of, real_numbers
from ccesa.flower.server.exchange import RoundTransport, forget, node_of
from ccesa.flower.server.report import in_nodes
from ccesa.flower.server.rounds import Rounds
from ccesa.flower.server.strategy import RoundLost
from ccesa.protocol.round import run_round
from ccesa.protocol.schedule import Schedule, with_number
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import Requests, steps_of
from ccesa.values.fields import ASIDE, step_aside


class SingleRound:
    """A round that prepares no other."""

    def __init__(self, grid: Grid, message_type: str, server: Server) -> None:
        self.config, self.context = server.config, server.context
        #: The highest number that is used in its series, if only by the set-up of a round.
        self.last_number = server.config.number
        #: Nodes that may hold keys.
        self.holding: set[int] = set()
        self._grid, self._message_type, self._server = grid, message_type, server

    def __str__(self) -> str:
        return f"a single round: {len(exchanges_of(self.config))} exchanges"

    def enter(self, messages: dict[int, Message], task: bytes) -> bool:
        """Give the round its task; return True, as a single round is always left."""
        self._server.work_on(task)
        return True

    def run(self, transport: RoundTransport, task: bytes) -> Aggregate:
        """Return the sum, or raise RoundFailed."""
        try:
            return run_round(self._server, transport.carry, transport.refuse)
        finally:
            self.holding -= transport.answered_last

    def end(self, *, lost: bool) -> None:
        """Make all nodes that may hold keys drop them."""
        forget(self._grid, self.config, self._message_type, self.holding, wait=lost)


class KeptSeries:
    """A series with some nodes, for as long as a strategy asks the same of them.

    For nodes every round with *accept* is one of a series, so a ``single`` one is a series of one.
    """

    def __init__(self, grid: Grid, message_type: str, series: Series, *, single: bool = False) -> None:
        self.config, self.last_number = series.config, series.config.number
        self.holding: set[int] = set()
        self._grid, self._message_type, self._series, self._single = grid, message_type, series, single
        self._stride, self._steps = Schedule.of(series.config).stride, steps_of(series.config)
        #: The open or last exchange, and its requests.
        self._exchange = -1
        self._requests: Requests = {}
        #: The round that was entered, its nodes by client, and the nodes that were left behind in it.
        self._number, self._nodes = series.config.number, dict[int, int]()
        self._left_behind: set[int] = set()

    @property
    def finished(self) -> bool:
        return self._series.finished

    @property
    def context(self) -> bytes:
        """The context of the round that was entered."""
        return with_number(self.config, self._number).context

    def __str__(self) -> str:
        """Describe the round that was entered, and how many exchanges it takes without trouble."""
        name = "a single round" if self._single else f"round {self._place_of(self._number) + 1} of a series"
        return f"{name}: {len(self._steps) - self._place} exchanges"

    def enter(self, messages: dict[int, Message], task: bytes) -> bool:
        """Begin the next round that was not lost during its set-up, with these clients; False if none is left."""
        self._nodes = {client: node_of(message) for client, message in messages.items()}
        self._series.members, self._left_behind = set(messages), set()
        self._open(task)
        while not self._series.rounds:
            self._warn(self._series.close())
            if self.finished:
                return False
            self._open(task)
        self._number = self._series.rounds[0]
        return True

    def run(self, transport: RoundTransport, task: bytes) -> Aggregate:
        """Run the round that was entered; return the sum, or raise RoundFailed."""
        while (ended := self._pass(transport)) is None:
            self._open(task)
        if self.finished:
            self.holding -= transport.answered_last
        self._left_behind = transport.left_behind
        return ended.result()

    def end(self, *, lost: bool) -> None:
        """After a round, make the nodes that were left behind drop all keys; they are asked again later."""
        if self.finished or self._single:
            self.stop(wait=lost)
        else:
            self._forget(self._left_behind, wait=False)

    def stop(self, *, wait: bool) -> None:
        """End the series, and make all nodes that may hold keys drop them."""
        self._series.stop()
        self._forget(self.holding, wait=wait)

    def _forget(self, nodes: set[int], *, wait: bool) -> None:
        forget(self._grid, self.config, self._message_type, nodes, wait=wait)
        self.holding -= nodes

    @property
    def _place(self) -> int:
        """The place of the open exchange among the steps of the round that was entered."""
        return self._exchange - self._place_of(self._number) * self._stride

    def _place_of(self, number: int) -> int:
        """The place of a round in the series, whose numbers may continue those of another."""
        return number - self.config.number

    def _open(self, task: bytes) -> None:
        self._requests = self._series.open(task)
        self._exchange += 1
        self.last_number = max(self.last_number, *self._series.rounds, self._number)

    def _pass(self, transport: RoundTransport) -> Ended | None:
        """Carry the open exchange, by the name that it has for the round that was entered; return its end."""
        for client, reply in transport.carry(self._steps[self._place], self._requests):
            try:
                self._series.receive(client, reply)
            except FaultyClient as fault:
                transport.refuse(fault)
        over = self._series.close()
        self._warn([ended for ended in over if ended.number != self._number])
        return next((ended for ended in over if ended.number == self._number), None)

    def _warn(self, lost: list[Ended]) -> None:
        for ended in lost:
            if ended.failure is not None:
                why = in_nodes(ended.failure, self._nodes)
                place = self._place_of(ended.number) + 1
                log.warn(f"round {place} of a series was lost during its set-up: {why}")


Running = SingleRound | KeptSeries


#: Flower writes the number of the round into the settings of every round.
_ROUND = "server-round"
_LOST = "rounds over this model were lost so late that nodes no longer work on it"


#: The nodes, the weight and the content of an evaluation, without the number of the round.
Evaluation = tuple[frozenset[int], str, list[bytes]]


def _evaluation(messages: list[Message], terms: ReplyTerms) -> Evaluation:
    content = {
        name: ConfigRecord({key: value for key, value in record.items() if key != _ROUND})
        if isinstance(record, ConfigRecord)
        else record
        for name, record in messages[0].content.items()
    }
    return frozenset(map(node_of, messages)), terms.weighted_by, content_parts(RecordDict(content))


class Attempts:
    """The rounds over the model that a strategy sent last. Nodes release shares ``maximum`` times; None: no limit.

    ``bound``: Nodes send vectors for one task over a model only, because helpers count by task.
    """

    def __init__(self, maximum: int | None, *, bound: bool = False) -> None:
        self._maximum, self._bound = maximum, bound
        #: With ``bound``, the task of the last attempt.
        self._task = b""
        #: The digest of that model, and how often training has stepped aside from it.
        self._model, self._aside = b"", 0
        #: The series in which nodes were asked for vectors, and the highest number in it.
        self._series_id, self._number = b"", 0
        self._released, self._has_sum, self._closed = 0, False, False
        #: The current evaluation, and the last one that succeeded with its mean.
        self._evaluation: Evaluation | None = None
        self._answered: tuple[Evaluation, MeanReply] | None = None

    def enter(self, terms: ReplyTerms, messages: list[Message]) -> MeanReply | None:
        """Note what the strategy sends; return the mean of an evaluation that is asked for again."""
        model = terms.counted_task(messages[0].content)
        if model != self._model:
            self._model, self._aside = model, 0
            self._begin()
        self._evaluation = _evaluation(messages, terms) if terms.kind == "evaluate" else None
        if self._answered is None or self._evaluation != self._answered[0]:
            return None
        log.info("the same nodes have evaluated this model before: the strategy gets their mean again")
        return self._answered[1]

    def place(self, config: RoundConfig) -> RoundConfig:
        """Return the configuration with a number after all attempts, if there were any."""
        if not self._series_id:
            return config
        return msgspec.structs.replace(config, series_id=self._series_id, number=self._number + 1)

    def messages(self, given: list[Message], terms: ReplyTerms) -> list[Message]:
        """Return the messages of the next attempt: those of the strategy, or with a model aside of theirs."""
        if self._bound:
            before, self._task = self._task, terms.round_task(given[0].content)
            if self._series_id and self._task != before:
                self._close()
        if self._closed and terms.kind != "train":
            raise RoundLost(f"{_LOST}: the evaluation is left out", repeatable=False)
        if self._closed:
            self._aside += 1
            self._begin()
            log.warn(
                f"{_LOST}: two sums over one model can expose a node. Training goes on from a model that is a small "
                f"random step aside: no value moves by more than {ASIDE:.1%} of itself"
            )
        if not self._aside:
            return given
        content = self._step_aside(given[0].content, terms)
        return [Message(content, metadata=message.metadata) for message in given]

    def note(self, running: Running, transport: RoundTransport, *, lost: bool) -> None:
        """Note the end of a round."""
        if transport.asked_for_vectors or running.config.series_id == self._series_id:
            self._series_id, self._number = running.config.series_id, running.last_number
        self._released += transport.asked_for_shares
        self._has_sum = self._has_sum or not lost
        if transport.asked_for_shares and self._maximum is not None and self._released >= self._maximum:
            self._close()

    def give_up(self) -> bool:
        """Give the model up if nodes no longer work on it because of lost rounds; return whether it is given up."""
        if self._series_id:
            self._close()
        return self._closed

    def note_mean(self, mean: MeanReply) -> None:
        """Keep the mean of an evaluation, in case it is asked for again."""
        if self._evaluation is not None:
            self._answered = self._evaluation, mean

    def _begin(self) -> None:
        self._series_id, self._released, self._has_sum, self._closed = b"", 0, False, False

    def _close(self) -> None:
        """Give the model up, unless it has a sum."""
        self._closed = not self._has_sum

    def _step_aside(self, content: RecordDict, terms: ReplyTerms) -> RecordDict:
        """Return the content with a model that is a step aside: the same one whenever this is called."""
        model = model_of(content)
        seed = [self._aside, int.from_bytes(self._model, "big")]
        stepped = model | step_aside(real_numbers(model, terms.counters), np.random.default_rng(seed))
        record = ArrayRecord({name: Array(value) for name, value in stepped.items()})
        moved = RecordDict({name: record if isinstance(one, ArrayRecord) else one for name, one in content.items()})
        if terms.counted_task(moved) == self._model:
            raise AttemptsSpent(f"{_LOST}, and no number in it can move a little: start again from another model")
        return moved


#: After this many changes in a row nothing is prepared until the same is asked twice.
_MISSES = 2
_CHANGED = {"nodes": "other nodes are asked", "terms": "the terms have changed", "length": "the model has another size"}


class Asked(NamedTuple):
    """The nodes, terms and length of a round; all rounds of a series have the same."""

    nodes: frozenset[int]
    terms: ReplyTerms
    length: int


class Preparing:
    """Makes the rounds for one type of message, decides which belong to a series, and keeps the series."""

    def __init__(self, grid: Grid, rounds: Rounds, executor: Executor | None, message_type: str) -> None:
        self._grid, self._rounds, self._message_type = grid, rounds, message_type
        self._server = partial(Server, agreement=rounds.agreement, dropout=rounds.dropout, executor=executor)
        bound = bool(rounds.helpers) and rounds.privacy is None
        self.attempts = Attempts(rounds.maximum_releases, bound=bound)
        self._asked: Asked | None = None
        self._misses = 0
        #: Why the series has changed or ended.
        self._why = ""
        self._series: KeptSeries | None = None

    def enter(self, asked: Asked, left: int | None) -> None:
        """Note what the strategy asks, and how many rounds are left, if that is known."""
        if self._rounds.helpers:  # a series would save a message to each helper, and none to a member
            return
        before = self._asked or asked
        changed = next((_CHANGED[name] for name in _CHANGED if getattr(before, name) != getattr(asked, name)), "")
        if self._asked is None:  # a loop of the user's own may have only one round
            self._misses = _MISSES if left is None else 0
        else:
            self._misses = self._misses + 1 if changed else 0
        self._asked, self._why = asked, changed
        if changed or (self._series is not None and self._series.finished):
            self.stop(wait=False)
        if self._series is None and self._misses < _MISSES and left != 1:
            self._series = self._new_series(asked, left)

    def next_round(self, asked: Asked, messages: dict[int, Message], task: bytes) -> Running:
        """Return the next round of the series; a single one if there is no series, or it has no more rounds."""
        series, why, self._why = self._series, self._why, ""
        if series is not None and not series.finished and series.enter(messages, task):
            running: Running = series
        else:
            config = self._config(asked, accept=False)
            if config.accept:  # the agreement needs it
                running = self._new_series(asked, rounds=1, single=True)
            else:
                running = SingleRound(self._grid, self._message_type, self._server(config))
            running.enter(messages, task)
        log.info(f"{asked.terms.kind}, {running}" + (f", because {why}" if why else ""))
        return running

    def _new_series(self, asked: Asked, rounds: int | None, single: bool = False) -> KeptSeries:
        series = Series(self._config(asked, accept=True), server=self._server, rounds=rounds)
        return KeptSeries(self._grid, self._message_type, series, single=single)

    def _config(self, asked: Asked, *, accept: bool) -> RoundConfig:
        return self.attempts.place(self._rounds.config(asked.terms, asked.length, accept=accept))

    def stop(self, *, wait: bool) -> None:
        """End the series, if there is one. Nodes drop its keys."""
        series, self._series = self._series, None
        if series is not None:
            series.stop(wait=wait)
