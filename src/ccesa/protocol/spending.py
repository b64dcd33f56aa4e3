"""A client contributes to one task a few times only.

Two sums over the same task that differ by one client give that client's vector away. So a client counts the
vectors that have left it, by the digest of the task, and stops after a few: a lost round can be repeated
once. What has left is spent, whatever became of the round: colluders may know the sum of one that was lost.

Where vectors have noise, each is also charged to the account of a ledger, for the same reason: before it
leaves, and whatever becomes of it. Nothing leaves unless both have it; one count too many is safe.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass
from threading import Lock

from ccesa.errors import ConfigError, TaskSpent
from ccesa.privacy.ledger import Account

ATTEMPTS = 2

#: Rounds in other threads may have the same memory.
_LOCK = Lock()
#: Vectors that have left, by task. It outlives rounds, and belongs on disk where the process does not.
Tasks = MutableMapping[bytes, int]


@dataclass(frozen=True)
class Spending:
    """Counts the vectors of one client by task, and charges them. Without a memory nothing is counted."""

    tasks: Tasks | None
    attempts: int = ATTEMPTS
    account: Account | None = None
    #: Of the round that is charged.
    round_id: bytes = b""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ConfigError(f"attempts must be at least 1, not {self.attempts}")

    def check_named(self, task: bytes) -> None:
        """Refuse to count for no task at all."""
        if self.tasks is not None and not any(task):
            raise ConfigError("this client counts what it contributes to each task, and works on none")

    def check_account(self) -> None:
        """Refuse what has no room in the ledger, whatever the task."""
        if self.account is not None:
            self.account.check()

    def check(self, task: bytes) -> None:
        """Refuse a task for which no vector may leave any more."""
        self.check_named(task)
        if self.tasks is not None and self.tasks.get(task, 0) >= self.attempts:
            raise TaskSpent(
                f"this client has contributed to this task {self.attempts} time(s), as often as it may: sums "
                "over the same task that differ by one client would give that client's vector away"
            )
        self.check_account()

    def __call__(self, task: bytes) -> None:
        """Count a vector, before it leaves; what is never given back is charged last."""
        with _LOCK:
            self.check(task)
            if self.tasks is not None:
                self.tasks[task] = self.tasks.get(task, 0) + 1
            if self.account is not None:
                self.account.charge(task, self.round_id)
