"""How nodes are asked about the same model again: in one series, and not after they have released shares.

A node sends vectors for one model in one series only, each under a higher number than the one before, and
none after it has released shares for it (docs/protocol.md, 3.5). So every further round about a model goes on
in the series of the last one, whatever nodes and terms it has. Where nodes work on a model no more and there
is no sum, training goes on with a model that differs a little, and an evaluation is left out. Where there is
a sum, an evaluation has its answer, and training ends: a second one is what nodes guard against.
"""

from typing import NamedTuple

import msgspec
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from ccesa.agreement.config import RoundConfig
from ccesa.errors import AttemptsSpent
from ccesa.flower.both import log
from ccesa.flower.both.model import content_parts, model_of, real_numbers
from ccesa.flower.both.noisy import AnyMean
from ccesa.flower.both.terms import Terms
from ccesa.flower.server.lost_rounds import RoundLost
from ccesa.flower.server.running import Running
from ccesa.flower.server.transport import RoundTransport
from ccesa.values.fields import ASIDE, stepped_aside

#: What Flower writes into the settings of every round.
_ROUND = "server-round"
_LOST = "rounds over this model were lost after nodes had sent their part, and they no longer work on it"


class Question(NamedTuple):
    """What is asked of whom in an evaluation, but for the number of the round."""

    nodes: frozenset[int]
    weighted_by: str
    parts: list[bytes]

    @classmethod
    def of(cls, messages: list[Message], terms: Terms) -> "Question":
        """Return what these messages ask."""
        content = RecordDict(
            {
                name: ConfigRecord({key: value for key, value in record.items() if key != _ROUND})
                if isinstance(record, ConfigRecord)
                else record
                for name, record in messages[0].content.items()
            }
        )
        nodes = frozenset(int(message.metadata.dst_node_id) for message in messages)
        return cls(nodes, terms.weighted_by, content_parts(content))


class Attempts:
    """The rounds about the model that a strategy sent last, for one type of message.

    ``most`` is how often nodes release shares for one model; None where that has no limit.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        #: The digest of that model, and how often training has stepped aside from it.
        self._model, self._aside = b"", 0
        #: The series in which nodes were asked for vectors, and the highest number in it.
        self._series_id, self._number = b"", 0
        self._released, self._has_sum, self._closed = 0, False, False
        #: The evaluation that is asked for, the last one that went well, and what came out of it.
        self._question: Question | None = None
        self._answered: Question | None = None
        self._answer: AnyMean | None = None

    def enter(self, terms: Terms, messages: list[Message]) -> AnyMean | None:
        """Note what the strategy sends now; return what came out, if it is an evaluation once more."""
        model = terms.counted_task(messages[0].content)
        if model != self._model:
            self._model, self._aside = model, 0
            self._begin()
        self._question = Question.of(messages, terms) if terms.kind == "evaluate" else None
        if self._question is None or self._question != self._answered:
            return None
        log.info("the same nodes have evaluated this model before: their mean is given once more")
        return self._answer

    def placed(self, config: RoundConfig) -> RoundConfig:
        """Return the configuration with a place after all attempts; with its own if there are none."""
        if not self._series_id:
            return config
        return msgspec.structs.replace(config, series_id=self._series_id, number=self._number + 1)

    def messages(self, given: list[Message], terms: Terms) -> list[Message]:
        """Return what nodes are asked in the next attempt: what the strategy gave, or a model aside of it.

        Raises:
            RoundLost: An evaluation that nodes take no part in any more.
            AttemptsSpent: There is nothing in the model that could step aside.
        """
        if self._closed and terms.kind != "train":
            raise RoundLost(f"{_LOST}: the evaluation is left out", repeatable=False)
        if self._closed:
            self._aside += 1
            self._begin()
            log.warn(
                f"{_LOST}: two sums over one model can give a node away. Training goes on from a model that "
                f"is a small random step aside: no value moves by more than {ASIDE:.1%} of itself"
            )
        if not self._aside:
            return given
        content = self._stepped(given[0].content, terms)
        return [Message(content, metadata=message.metadata) for message in given]

    def note(self, running: Running, transport: RoundTransport, *, lost: bool) -> None:
        """Take note of a round that is over."""
        if transport.asked_for_vectors or running.config.series_id == self._series_id:
            self._series_id, self._number = running.config.series_id, running.last_number
        self._released += transport.asked_for_shares
        self._has_sum = self._has_sum or not lost
        if transport.asked_for_shares and self._most is not None and self._released >= self._most:
            self._close()

    def refused(self) -> bool:
        """Tell whether lost rounds are why nodes work on this model no more; if so, it is given up."""
        if self._series_id:
            self._close()
        return self._closed

    def answer(self, mean: AnyMean) -> None:
        """Take note of what came out; that of a training is not given again."""
        if self._question is not None:
            self._answered, self._answer = self._question, mean

    def _begin(self) -> None:
        self._series_id, self._released, self._has_sum, self._closed = b"", 0, False, False

    def _close(self) -> None:
        """Give the model up, unless there is a sum."""
        self._closed = not self._has_sum

    def _stepped(self, content: RecordDict, terms: Terms) -> RecordDict:
        """Return the content with a model that is a step aside: the same one, as often as this is called."""
        model = model_of(content)
        seed = [self._aside, int.from_bytes(self._model, "big")]
        stepped = model | stepped_aside(real_numbers(model, terms.counters), np.random.default_rng(seed))
        record = ArrayRecord({name: Array(value) for name, value in stepped.items()})
        found = {name: record if isinstance(one, ArrayRecord) else one for name, one in content.items()}
        if terms.counted_task(RecordDict(found)) == self._model:
            raise AttemptsSpent(
                f"{_LOST}, and there is no real number in it that could move a little: start anew from "
                "another model"
            )
        return RecordDict(found)
