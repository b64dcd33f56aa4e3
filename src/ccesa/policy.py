"""How long a server waits for the answers to an exchange: for all, for enough, or until a deadline."""

import math
from typing import Self

from ccesa.errors import ConfigError, quoted
from ccesa.parts import Part
from ccesa.values.fields import is_positive


class Policy(Part, frozen=True, kw_only=True):
    """How long a hub waits for its sites, or ``SecureGrid`` for its nodes, in seconds.

    An exchange is open from when its requests are out. ``gather``, ``absent``, ``faults`` and ``helper_deadline`` are
    for hubs; ``SecureGrid`` refuses them, because Flower decides which nodes are asked.

    Attributes:
        enough: The fraction of those asked that is enough after a while.
        after: How long a server waits for everyone. After that ``enough`` of them will do.
        deadline: How long an exchange is open at most, if enough for a sum have answered.
        vector_after: As ``after``, for exchanges that ask for vectors: sites may have to train first.
        vector_deadline: As ``deadline``, for such exchanges.
        gather: How long a hub waits for all members before the first round of a series.
        absent: A member that was silent for this long is not asked to take part in a new round.
        faults: The faults or blames that set a member aside. A member that is present, but did not answer in
            this many rounds in a row, is not asked for as long as ``absent``, then twice as long.
        helper_deadline: How long a round waits for a helper that is away. Then it is lost.

    Raises:
        ConfigError: A number is out of range, or a deadline is shorter than the time before it.
    """

    enough: float = 0.9
    after: float = 10.0
    deadline: float = 60.0
    vector_after: float = 60.0
    vector_deadline: float = 600.0
    gather: float = 30.0
    absent: float = 90.0
    faults: int = 3
    helper_deadline: float = 86400.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not is_positive(value):
                raise ConfigError(f"{name} of a policy must be a positive number, not {quoted(value)}")
        if self.enough > 1:
            raise ConfigError(f"enough of a policy is a fraction, not {self.enough:g}")
        if self.deadline < self.after or self.vector_deadline < self.vector_after:
            raise ConfigError("deadline must not be shorter than after, nor vector_deadline than vector_after")

    @classmethod
    def wait_for_all(cls, seconds: float) -> Self:
        """Return the policy that waits for everyone, but in no exchange longer than this.

        Args:
            seconds: The deadline of every exchange.
        """
        return cls(enough=1.0, after=seconds, deadline=seconds, vector_after=seconds, vector_deadline=seconds)

    def lasts(self, vectors: bool) -> float:
        """Return how long an exchange is open at most.

        Args:
            vectors: Whether it asks for vectors.
        """
        return self.vector_deadline if vectors else self.deadline

    def stays_open(self, *, asked: int, answered: int, minimum: int, seconds: float, vectors: bool) -> float:
        """Return the seconds that an exchange stays open if nobody else answers; 0 if it closes.

        With fewer answers than ``minimum`` it stays open for a second deadline: a slow site is better than a lost
        round. Then it closes in any case, so nothing hangs.

        Args:
            asked: The number of sites that were asked.
            answered: The number that have answered.
            minimum: The minimum of answers for a sum.
            seconds: How long it is open.
            vectors: Whether it asks for vectors.
        """
        if answered >= asked:
            return 0.0
        if answered < minimum:
            lasts = 2 * self.lasts(vectors)
        elif answered >= math.ceil(self.enough * asked - 1e-9):  # 0.55 * 100 is 55.00000000000001
            lasts = self.vector_after if vectors else self.after
        else:
            lasts = self.lasts(vectors)
        return max(lasts - seconds, 0.0)
