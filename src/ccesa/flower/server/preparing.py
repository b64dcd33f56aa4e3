"""Whether the next round is prepared with this one: it is, if the same nodes are asked again."""

from collections.abc import Callable
from typing import NamedTuple

from flwr.app import Message

from ccesa.flower.both import log
from ccesa.flower.both.terms import Terms
from ccesa.flower.server.running import KeptSeries, Running

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
        #: Why there is another series, or none.
        self._why = ""
        self._series: KeptSeries | None = None

    def enter(self, asked: Asked, left: int | None, make: Callable[[int | None], KeptSeries]) -> None:
        """Take note of what the strategy asks now, with so many rounds left, as far as that is known."""
        changed = self._changed(asked)
        if self._asked is None:  # in a loop of somebody's own this may be the only round
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
        """Return the next round of the series, or a single one where there is no series, or no more of it."""
        series, why, self._why = self._series, self._why, ""
        there_is = series is not None and not series.finished and series.enter(messages, task)
        found: Running = series if series is not None and there_is else single()
        if not there_is:
            found.enter(messages, task)
        log.info(f"{kind}, {found}" + (f", because {why}" if why else ""))
        return found

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
