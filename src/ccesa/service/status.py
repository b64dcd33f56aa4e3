"""What can be seen of a federation: one record that the page, the metrics and ``/status`` show.

No vector, share or key is in it, and nothing that would be secret from a member.
"""

from typing import Literal

import msgspec

#: A federation waits for members, is in a round, held up by its operator, at its end, or in trouble.
State = Literal["gathering", "running", "paused", "over", "stuck"]
#: A member was heard from lately, or not, or is not asked any more.
MemberState = Literal["present", "absent", "set aside"]


class StepStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A step of one round in the open exchange."""

    round: int
    step: str
    asked: int
    answered: int


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A member, whether it is here, and what is held against it."""

    client: int
    name: str
    state: MemberState
    reason: str = ""
    blames: int = 0
    seen: float = 0.0
    #: Whether the open exchange asks it, and whether it has answered.
    asked: bool = False
    answered: bool = False


class RoundStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A round that is over. ``outcome`` is "sum", or the name of an error's class."""

    series: int
    number: int
    question: int | None
    attempt: int
    outcome: str
    reason: str
    survivors: int
    asked: int
    pairs: list[tuple[int, int]]
    started: float
    ended: float
    metrics: dict[str, float]


class PrivacyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the noise has spent so far, of which budget."""

    epsilon: float
    budget: float
    delta: float
    vectors: int
    rounds: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A federation as it is now, and the reason for that."""

    name: str
    guard: str
    state: State
    reason: str = ""
    #: Since when that is so, as far as this hub knows, and what the operator can do about it.
    since: float = 0.0
    advice: str = ""
    #: Sums that are wanted in all, and those that are there.
    questions: int
    answered: int
    series: int
    exchange: int
    steps: list[StepStatus]
    #: Seconds since 1970: when the open exchange opened, and when it closes at the latest (0: not decided).
    opened: float
    closes: float
    members: list[MemberStatus]
    rounds: list[RoundStatus]
    #: The certificate in words, one sentence each.
    certificate: list[str]
    privacy_bits: float | None
    privacy: PrivacyStatus | None = None
    #: The head of the audit log in hexadecimal.
    head: str = ""
    #: Names of the hub processes that are alive; the first one leads.
    hubs: list[str] = []
    now: float
