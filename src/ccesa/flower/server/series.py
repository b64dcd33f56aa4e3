"""The rounds of a strategy: single ones, series, and further rounds over one model.

A round is prepared with the one before it while the same nodes are asked again. A node sends vectors for one
model in one series only, each under a higher number than the one before, and none after it has released
shares for it (docs/protocol.md, 3.5). So every further round over a model continues the series of the last
one, whatever nodes and terms it has. If nodes work on a model no more and there is no sum, training goes on
with a model that differs a little, and an evaluation is left out. If there is a sum, an evaluation has its
answer, and training ends: nodes guard against a second sum.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from ccesa.agreement.config import RoundConfig
from ccesa.errors import AttemptsSpent, FaultyClient
from ccesa.flower.both import log
from ccesa.flower.both.packing import AnyMean
from ccesa.flower.both.terms import ReplyTerms, content_parts, model_of, real_numbers
from ccesa.flower.server.exchange import RoundTransport, forget, node_of
from ccesa.flower.server.report import in_nodes
from ccesa.flower.server.strategy import RoundLost
from ccesa.protocol.round import run_round
from ccesa.protocol.schedule import Schedule, with_number
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import Requests, steps_of
from ccesa.values.fields import ASIDE, step_aside

_NONE: Requests = {}


class SingleRound:
    """A round that prepares no other."""

    def __init__(self, grid: Grid, message_type: str, server: Server) -> None:
        self.config = server.config
        #: Nodes that may hold keys.
        self.holding: set[int] = set()
        self._grid, self._message_type, self._server = grid, message_type, server

    def __str__(self) -> str:
        return f"a single round: {len(steps_of(self.config))} exchanges"

    @property
    def context(self) -> bytes:
        """Of the round."""
        return self.config.context

    @property
    def last_number(self) -> int:
        """The highest number that is used in its series."""
        return self.config.number

    def enter(self, messages: dict[int, Message], task: bytes) -> bool:
        """Give the round its task; there always is a round."""
        self._server.work_on(task)
        return True

    def run(self, transport: RoundTransport, task: bytes) -> Aggregate:
        """Return the sum, or raise RoundFailed."""
        try:
            return run_round(self._server, transport.carry, transport.refuse)
        finally:
            self.holding -= transport.answered_last

    def end(self, *, lost: bool) -> None:
        """Tell all nodes that may hold keys to drop them."""
        forget(self._grid, self.config, self._message_type, self.holding, wait=lost)


class KeptSeries:
    """A series with some nodes, for as long as a strategy asks the same of them.

    Each call works on its next round, and sets up those after it.
    """

    def __init__(self, grid: Grid, message_type: str, series: Series) -> None:
        self.config = series.config
        #: Nodes that may hold keys.
        self.holding: set[int] = set()
        self._grid, self._message_type, self._series = grid, message_type, series
        self._stride, self._steps = Schedule.of(series.config).stride, steps_of(series.config)
        #: The open or last exchange, and its requests.
        self._exchange, self._requests = -1, _NONE
        #: The round that was entered, its nodes by client, and the nodes that were left behind in it.
        self._number, self._nodes = series.config.number, dict[int, int]()
        self._left_behind: set[int] = set()
        #: The highest number that is used in its series: of the round that is set up.
        self.last_number = series.config.number

    @property
    def finished(self) -> bool:
        """Whether it has no more rounds."""
        return self._series.finished

    @property
    def context(self) -> bytes:
        """Of the round that was entered."""
        return with_number(self.config, self._number).context

    def __str__(self) -> str:
        """Describe the round that was entered, and how many exchanges it takes without trouble."""
        left = len(self._steps) - self._place
        return f"round {self._place_of(self._number) + 1} of a series: {left} exchanges"

    def enter(self, messages: dict[int, Message], task: bytes) -> bool:
        """Begin to work on the next round, with these clients; False if no round is left.

        A round that was lost during its set-up cost nothing: the one after it takes its place.
        """
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
        """After a round, tell nodes that were left behind to drop all keys; they are asked again later."""
        if self.finished:
            self.stop(wait=lost)
        else:
            self._forget(self._left_behind, wait=False)

    def stop(self, *, wait: bool) -> None:
        """End the series, and tell all nodes that may hold keys to drop them."""
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
        step = self._steps[self._place]
        for client, reply in transport.carry(step, self._requests):
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


class SeriesOfOne(KeptSeries):
    """A round with *accept* that prepares no other: for nodes every such round is one of a series."""

    def __str__(self) -> str:
        return f"a single round: {len(self._steps)} exchanges"

    def end(self, *, lost: bool) -> None:
        """End the series: there is no call after this one."""
        self.stop(wait=lost)


Running = SingleRound | KeptSeries


# Whether there is a series


#: After this many changes in a row nothing is prepared, until the same is asked twice.
_MISSES = 2
_CHANGED = {"nodes": "other nodes are asked", "terms": "the terms have changed", "length": "the model has another size"}


class Asked(NamedTuple):
    """The nodes, terms and length of a round; all rounds of a series have the same."""

    nodes: frozenset[int]
    terms: ReplyTerms
    length: int


class Preparing:
    """Decides for one type of message whether a round belongs to a series, and keeps the series."""

    def __init__(self) -> None:
        self._asked: Asked | None = None
        self._misses = 0
        #: Why there is another series, or no series.
        self._why = ""
        self._series: KeptSeries | None = None

    def enter(self, asked: Asked, left: int | None, make: Callable[[int | None], KeptSeries]) -> None:
        """Note what the strategy asks now, and how many rounds are left, if that is known."""
        changed = self._changed(asked)
        if self._asked is None:  # in a loop of the user's own this may be the only round
            self._misses = _MISSES if left is None else 0
        else:
            self._misses = self._misses + 1 if changed else 0
        self._asked, self._why = asked, changed
        if changed or (self._series is not None and self._series.finished):
            self.stop(wait=False)
        if self._series is None and self._misses < _MISSES and left != 1:
            self._series = make(left)

    def next_round(
        self, kind: str, messages: dict[int, Message], task: bytes, single: Callable[[], Running]
    ) -> Running:
        """Return the next round of the series, or a single one if there is no series, or no more of it."""
        series, why, self._why = self._series, self._why, ""
        if series is not None and not series.finished and series.enter(messages, task):
            running: Running = series
        else:
            running = single()
            running.enter(messages, task)
        log.info(f"{kind}, {running}" + (f", because {why}" if why else ""))
        return running

    def stop(self, *, wait: bool) -> None:
        """End the series, if there is one; nodes drop its keys."""
        series, self._series = self._series, None
        if series is not None:
            series.stop(wait=wait)

    def _changed(self, asked: Asked) -> str:
        if self._asked is None:
            return ""
        pairs = zip(Asked._fields, self._asked, asked, strict=True)
        return next((_CHANGED[name] for name, before, now in pairs if before != now), "")


# Further rounds over one model


#: Flower writes the number of the round into the settings of every round.
_ROUND = "server-round"
_LOST = "rounds over this model were lost after nodes had sent shares, so nodes no longer work on it"


class Evaluation(NamedTuple):
    """The nodes and the content of an evaluation, without the number of the round."""

    nodes: frozenset[int]
    weighted_by: str
    parts: list[bytes]

    @classmethod
    def of(cls, messages: list[Message], terms: ReplyTerms) -> "Evaluation":
        content = RecordDict(
            {
                name: ConfigRecord({key: value for key, value in record.items() if key != _ROUND})
                if isinstance(record, ConfigRecord)
                else record
                for name, record in messages[0].content.items()
            }
        )
        nodes = frozenset(map(node_of, messages))
        return cls(nodes, terms.weighted_by, content_parts(content))


class Attempts:
    """The rounds over the model that a strategy sent last, for one type of message.

    ``maximum`` is how often nodes release shares for one model; None: without limit.
    """

    def __init__(self, maximum: int | None) -> None:
        self._maximum = maximum
        #: The digest of that model, and how often training has stepped aside from it.
        self._model, self._aside = b"", 0
        #: The series in which nodes were asked for vectors, and the highest number in it.
        self._series_id, self._number = b"", 0
        self._released, self._has_sum, self._closed = 0, False, False
        #: The current evaluation, the last one that succeeded, and its mean.
        self._evaluation: Evaluation | None = None
        self._answered: Evaluation | None = None
        self._answer: AnyMean | None = None

    def enter(self, terms: ReplyTerms, messages: list[Message]) -> AnyMean | None:
        """Note what the strategy sends now; return the mean of an evaluation that is asked for again."""
        model = terms.counted_task(messages[0].content)
        if model != self._model:
            self._model, self._aside = model, 0
            self._begin()
        self._evaluation = Evaluation.of(messages, terms) if terms.kind == "evaluate" else None
        if self._evaluation is None or self._evaluation != self._answered:
            return None
        log.info("the same nodes have evaluated this model before: the strategy gets their mean again")
        return self._answer

    def place(self, config: RoundConfig) -> RoundConfig:
        """Return the configuration with a number after all attempts, if there are any."""
        if not self._series_id:
            return config
        return msgspec.structs.replace(config, series_id=self._series_id, number=self._number + 1)

    def messages(self, given: list[Message], terms: ReplyTerms) -> list[Message]:
        """Return the messages of the next attempt: those of the strategy, or with a model aside of it.

        Raises:
            RoundLost: Nodes take no part in this evaluation any more.
            AttemptsSpent: Nothing in the model can step aside.
        """
        if self._closed and terms.kind != "train":
            raise RoundLost(f"{_LOST}: the evaluation is left out", repeatable=False)
        if self._closed:
            self._aside += 1
            self._begin()
            log.warn(
                f"{_LOST}: two sums over one model can expose a node. Training goes on from a model that "
                f"is a small random step aside: no value moves by more than {ASIDE:.1%} of itself"
            )
        if not self._aside:
            return given
        content = self._step_aside(given[0].content, terms)
        return [Message(content, metadata=message.metadata) for message in given]

    def note(self, running: Running, transport: RoundTransport, *, lost: bool) -> None:
        """Note a round that is over."""
        if transport.asked_for_vectors or running.config.series_id == self._series_id:
            self._series_id, self._number = running.config.series_id, running.last_number
        self._released += transport.asked_for_shares
        self._has_sum = self._has_sum or not lost
        if transport.asked_for_shares and self._maximum is not None and self._released >= self._maximum:
            self._close()

    def give_up(self) -> bool:
        """Give the model up, if lost rounds are why nodes no longer work on it; return whether they are."""
        if self._series_id:
            self._close()
        return self._closed

    def note_mean(self, mean: AnyMean) -> None:
        """Keep the mean of an evaluation, in case it is asked for again."""
        if self._evaluation is not None:
            self._answered, self._answer = self._evaluation, mean

    def _begin(self) -> None:
        self._series_id, self._released, self._has_sum, self._closed = b"", 0, False, False

    def _close(self) -> None:
        """Give the model up, unless it has a sum."""
        self._closed = not self._has_sum

    def _step_aside(self, content: RecordDict, terms: ReplyTerms) -> RecordDict:
        """Return the content with a model that is a step aside: the same one, as often as this is called."""
        model = model_of(content)
        seed = [self._aside, int.from_bytes(self._model, "big")]
        stepped = model | step_aside(real_numbers(model, terms.counters), np.random.default_rng(seed))
        record = ArrayRecord({name: Array(value) for name, value in stepped.items()})
        moved = RecordDict({name: record if isinstance(one, ArrayRecord) else one for name, one in content.items()})
        if terms.counted_task(moved) == self._model:
            raise AttemptsSpent(
                f"{_LOST}, and it has no real number that could move a little: start again from another model"
            )
        return moved
