"""The strategy that calls is read off the stack: its progress, and its rounds that were lost."""

import inspect
import weakref
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from flwr.serverapp.strategy import Strategy

from ccesa.errors import ConfigError, RoundFailed, RoundsLost

#: Flower's strategies that look at single updates, and what for.
NEED_SINGLE_UPDATES = {
    "FedMedian": "takes the median of single updates",
    "FedTrimmedAvg": "cuts off extreme updates",
    "Krum": "compares single updates",
    "MultiKrum": "compares single updates",
    "Bulyan": "compares single updates",
    "QFedAvg": "weights single updates by their loss",
    "FedXgbBagging": "collects single trees",
    "FedXgbCyclic": "passes single models on",
    "DifferentialPrivacyServerSideFixedClipping": "clips single updates on the server",
    "DifferentialPrivacyServerSideAdaptiveClipping": "clips single updates on the server",
    "DifferentialPrivacyClientSideAdaptiveClipping": "counts the nodes whose updates were clipped",
}


class Start(NamedTuple):
    """The progress of a running ``Strategy.start``."""

    #: An object that no other start has.
    result: Any
    #: The numbers of the current round, 0 before the first, and of the last.
    current: int
    last: int

    @property
    def left(self) -> int:
        """How many rounds are left, including the current one."""
        return self.last - self.current + 1


def check_caller() -> str | None:
    """Refuse a strategy that needs single updates; return the metric by which it weights replies, if it has one."""
    owners = (frame.f_locals.get("self") for frame in _frames())
    strategy, weighted_by = next((owner for owner in owners if isinstance(owner, Strategy)), None), None
    while isinstance(strategy, Strategy):
        for name in (its_class.__name__ for its_class in type(strategy).__mro__):
            if name in NEED_SINGLE_UPDATES:
                raise ConfigError(
                    f"{name} {NEED_SINGLE_UPDATES[name]}, but secure aggregation gives it only their mean: "
                    "use a strategy that averages (FedAvg, FedAvgM, FedProx, FedAdam, FedYogi, "
                    "FedAdagrad), or Flower's own grid"
                )
        weighted_by = weighted_by or getattr(strategy, "weighted_by_key", None)
        strategy = getattr(strategy, "strategy", None)  # some wrap another one
    return weighted_by


def find_start() -> Start | None:
    """Read ``Strategy.start`` off the stack; None in a loop of the user's own. Flower does not pass it to a grid."""
    for frame in _frames():
        if frame.f_code is Strategy.start.__code__:
            names = frame.f_locals
            return Start(names["result"], names.get("current_round", 0), names["num_rounds"])
    return None


def _frames() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


class RoundLost(RoundFailed):
    """A round ended without a mean; the text names nodes."""

    def __init__(self, why: str, *, repeatable: bool) -> None:
        super().__init__(why)
        #: Whether another round with the same messages may succeed.
        self.repeatable = repeatable


class LostRounds:
    """The lost rounds of a ``Strategy.start``, or of a ``SecureGrid`` in a loop of the user's own.

    Train rounds count. Evaluate rounds count only if nothing is trained.
    """

    def __init__(self, give_up_after: int | None) -> None:
        if give_up_after is not None and (type(give_up_after) is not int or give_up_after < 1):
            raise ConfigError(f"give_up_after must be a whole number, 1 or greater, not {give_up_after!r}")
        self._give_up_after = give_up_after
        self._start: weakref.ref[Any] | None = None
        #: By kind, why rounds were lost since the last success.
        self._reasons: dict[str, list[str]] = {}
        #: The kinds that had a success.
        self._succeeded: set[str] = set()

    def enter(self, start: Start | None) -> None:
        """Begin again if a strategy is started again."""
        if start is not None and (self._start is None or self._start() is not start.result):
            self._start = weakref.ref(start.result)
            self._reasons.clear()
            self._succeeded.clear()

    def note_success(self, kind: str) -> None:
        self._succeeded.add(kind)
        self._reasons[kind] = []

    def note_loss(self, kind: str, why: str) -> None:
        self._reasons.setdefault(kind, []).append(why)

    def check(self, start: Start | None, asked: set[str]) -> None:
        """Raise RoundsLost in the last round if all were lost, and after too many lost rounds in a row.

        ``asked`` are the kinds of messages that the strategy has just sent. If it sent none, it will not train
        in this round any more, but may evaluate. After a query it may do both.
        """
        kind = "train" if "train" in self._reasons else "evaluate"
        if asked.isdisjoint({kind, "evaluate"}) and (asked or kind == "evaluate"):
            return
        reasons = self._reasons.get(kind, [])
        last = start is not None and start.current >= start.last
        if reasons and last and kind not in self._succeeded:
            raise RoundsLost(f"all {kind} rounds of this strategy are lost: {_summarize(reasons)}")
        if self._give_up_after is not None and len(reasons) >= self._give_up_after:
            raise RoundsLost(
                f"the last {len(reasons)} {kind} round(s) are lost (give_up_after = {self._give_up_after}): "
                f"{_summarize(reasons)}"
            )


def _summarize(reasons: list[str]) -> str:
    """Return each reason once, the most frequent first."""
    return " | ".join(f"{times} x {why}" for why, times in Counter(reasons).most_common(3))
