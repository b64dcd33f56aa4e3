"""Which rounds are lost: a training in which all were must not end as if none had been."""

import weakref
from collections import Counter
from typing import Any

from ccesa.errors import ConfigError, RoundFailed, RoundsLost
from ccesa.flower.server.strategy import Start


class RoundLost(RoundFailed):
    """A round ended without a mean; says why in terms of nodes."""

    def __init__(self, why: str, *, repeatable: bool) -> None:
        super().__init__(why)
        #: Whether the same messages can go better in another round.
        self.repeatable = repeatable


class LostRounds:
    """The lost rounds of one ``Strategy.start``, or of one ``SecureGrid`` where there is none.

    What counts are train rounds; evaluate rounds, where nothing is trained.
    """

    def __init__(self, give_up_after: int | None) -> None:
        if give_up_after is not None and (type(give_up_after) is not int or give_up_after < 1):
            raise ConfigError(f"give_up_after must be a number of rounds from 1 on, not {give_up_after!r}")
        self._give_up_after = give_up_after
        self._start: weakref.ref[Any] | None = None
        #: By kind, why rounds were lost since the last one that went well; and the kinds of which one did.
        self._lost: dict[str, list[str]] = {}
        self._well: set[str] = set()

    def enter(self, start: Start | None) -> None:
        """Begin anew where a strategy is started again."""
        if start is not None and (self._start is None or self._start() is not start.result):
            self._start = weakref.ref(start.result)
            self._lost.clear()
            self._well.clear()

    def went_well(self, kind: str) -> None:
        self._well.add(kind)
        self._lost[kind] = []

    def lost(self, kind: str, why: str) -> None:
        self._lost.setdefault(kind, []).append(why)

    def check(self, start: Start | None, asked: set[str]) -> None:
        """Raise RoundsLost in the last round if none went well, and after too many lost rounds in a row.

        ``asked`` are the kinds of messages that the strategy has just sent. After none at all it will not
        train in this round any more, but may evaluate; after a question to the nodes it may do both.
        """
        kind = "train" if "train" in self._lost else "evaluate"
        if asked.isdisjoint({kind, "evaluate"}) and (asked or kind == "evaluate"):
            return
        reasons = self._lost.get(kind, [])
        last = start is not None and start.current >= start.last
        if reasons and last and kind not in self._well:
            raise RoundsLost(f"every {kind} round of this strategy is lost: {_summary(reasons)}")
        if self._give_up_after is not None and len(reasons) >= self._give_up_after:
            raise RoundsLost(
                f"the last {len(reasons)} {kind} round(s) are lost (give_up_after = {self._give_up_after}): "
                f"{_summary(reasons)}"
            )


def _summary(reasons: list[str]) -> str:
    """Return each reason once, the most frequent first."""
    return " | ".join(f"{times} x {why}" for why, times in Counter(reasons).most_common(3))
