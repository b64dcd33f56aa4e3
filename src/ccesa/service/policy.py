"""A policy says when an exchange closes: everyone has answered, enough have after a while, or time is up."""

import math

from ccesa.errors import ConfigError, quoted
from ccesa.parts import Part
from ccesa.values.fields import is_positive


class Policy(Part, frozen=True, kw_only=True):
    """How long a hub waits for its sites, in seconds.

    Attributes:
        enough: The fraction of those asked that is enough after a while.
        after: How long everyone is waited for; after that ``enough`` of them will do.
        deadline: How long an exchange is open at most, if enough for a sum have answered.
        vector_after: As ``after``, for exchanges that ask for vectors: sites may have to train first.
        vector_deadline: As ``deadline``, for such exchanges.
        gather: How long all members are waited for before the first round of a series.
        absent: A member that was not heard from for this long is not asked to take part in a new round.
        faults: How many faults or blames set a member aside. One that is here, and has left that many rounds
            in a row without a word, is not asked for as long as ``absent``, then twice as long.

    Raises:
        ConfigError: A number is out of range, or a deadline ends before its while.
    """

    enough: float = 0.9
    after: float = 10.0
    deadline: float = 60.0
    vector_after: float = 60.0
    vector_deadline: float = 600.0
    gather: float = 30.0
    absent: float = 90.0
    faults: int = 3

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not is_positive(value):
                raise ConfigError(f"{name} of a policy must be a positive number, not {quoted(value)}")
        if self.enough > 1:
            raise ConfigError(f"enough of a policy is a fraction, not {self.enough:g}")
        if self.deadline < self.after or self.vector_deadline < self.vector_after:
            raise ConfigError(
                "deadline must not be shorter than after, nor vector_deadline than vector_after"
            )

    def lasts(self, vectors: bool) -> float:
        """Return how long an exchange is open at most.

        Args:
            vectors: Whether it asks for vectors.
        """
        return self.vector_deadline if vectors else self.deadline

    def closes(self, *, asked: int, answered: int, least: int, seconds: float, vectors: bool) -> bool:
        """Tell whether an exchange closes now.

        With fewer answers than ``least`` it stays open for a second deadline: rounds in it would be lost, and
        a slow site is better than a lost round. Then it closes all the same, so nothing hangs.

        Args:
            asked: How many were asked.
            answered: How many have answered.
            least: The fewest answers that are enough for a sum.
            seconds: How long it is open.
            vectors: Whether it asks for vectors.

        Returns:
            Whether it does.
        """
        if answered >= asked:
            return True
        if answered < least:
            return seconds >= 2 * self.lasts(vectors)
        after = self.vector_after if vectors else self.after
        if seconds >= after and answered >= math.ceil(self.enough * asked):
            return True
        return seconds >= self.lasts(vectors)
