"""Whether the next round is prepared with this one: it is, if the same nodes are asked again."""

from collections.abc import Callable
from typing import NamedTuple

from ccesa.flower.both import log
from ccesa.flower.both.terms import Terms
from ccesa.flower.server.series import KeptSeries

#: After so many changes in a row nothing is prepared, until the same is asked twice.
_MISSES = 2
_CHANGED = {
    "nodes": "other nodes are asked",
    "terms": "the terms are others",
    "length": "the model has another size",
}


class Asked(NamedTuple):
    """What a strategy asks of whom; all rounds of a series have it in common."""

    nodes: frozenset[int]
    terms: Terms
    length: int


class Preparing:
    """Decides for one type of message whether a round belongs to a series, and keeps the series."""

    def __init__(self) -> None:
        self._asked: Asked | None = None
        self._misses = 0
        self._why = ""
        self._series: KeptSeries | None = None

    @property
    def series(self) -> KeptSeries | None:
        """The series whose next round is due; None for a single round."""
        return None if self._series is None or self._series.finished else self._series

    def enter(self, asked: Asked, left: int | None, make: Callable[[int | None], KeptSeries]) -> None:
        """Take note of what the strategy asks now, with so many rounds left, as far as that is known."""
        changed = self._changed(asked)
        if changed or self.series is None:
            self.stop(wait=False)
        if self._asked is None:  # in a loop of somebody's own this may be the only round
            self._misses = _MISSES if left is None else 0
        else:
            self._misses = self._misses + 1 if changed else 0
        self._asked, self._why = asked, changed or ("no other is to follow" if left == 1 else "")
        if self._series is None and self._misses < _MISSES and left != 1:
            self._series = make(left)

    def told(self, kind: str, single: int) -> None:
        """Log what kind of round is due; ``single`` is how many exchanges one takes that is in no series."""
        why = f", because {self._why}" if self._why else ""
        series = self.series
        if series is None:
            line = f"a single round: {single} exchanges{why}"
        elif series.is_fresh:
            line = f"the first round of a series: {series.exchanges} exchanges{why}"
        else:
            line = f"round {series.number + 1} of a series: {series.exchanges} exchanges"
        log.info(f"{kind}, {line}")

    def settle(self, *, lost: bool) -> None:
        """After a round: nodes that were left behind by a series that is over drop their keys."""
        if self._series is not None and self._series.finished:
            self.stop(wait=lost)

    def stop(self, *, wait: bool) -> None:
        """End the series, if there is one; nodes drop what they hold."""
        series, self._series = self._series, None
        if series is not None:
            series.stop(wait=wait)

    def _changed(self, asked: Asked) -> str:
        if self._asked is None:
            return ""
        pairs = zip(Asked._fields, self._asked, asked, strict=True)
        return next((_CHANGED[name] for name, before, now in pairs if before != now), "")
