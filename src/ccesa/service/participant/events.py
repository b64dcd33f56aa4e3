"""What a participant says about its part while it takes it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "waiting",
    "joined",
    "working",
    "sending",
    "sent",
    "summed",
    "late",
    "out",
    "nothing",
    "refused",
    "away",
    "over",
]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, for people and for logs. No vector, share or key is in it.

    Attributes:
        kind: What it is about: waiting for the hub, joined a round, working on a task, sending and sent a
            vector, in a sum, late, out of the rounds in flight, nothing but noise sent, refused something,
            hub away, all over.
        text: A sentence without a full stop.
        round: The number of the round, where it is about one.
    """

    kind: Kind
    text: str
    round: int | None = None


Tell = Callable[[Event], None]


def silent(event: Event) -> None:
    """Say nothing."""
