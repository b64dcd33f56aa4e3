"""How long the server waits for nodes."""

import math
import time
from dataclasses import dataclass

from ccesa.errors import ConfigError

#: Of the time that is left to a round, the parts of the step in which nodes train; other steps have one.
TRAINING_PARTS = 4


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """When a step closes, if not all of its nodes have answered by then."""

    #: Seconds from when the messages of the step are out; None: as many as the strategy's timeout leaves.
    step_timeout: float | None = None
    #: The fraction of the nodes asked whose answers are enough, and seconds for the others after that.
    enough: float = 1.0
    grace: float = 10.0

    def __post_init__(self) -> None:
        if self.step_timeout is not None and not 0 < self.step_timeout < math.inf:
            raise ConfigError(f"step_timeout must be a positive number of seconds, not {self.step_timeout!r}")
        if not 0 < self.enough <= 1:
            raise ConfigError(f"enough must be a fraction of the nodes in (0, 1], not {self.enough!r}")
        if not 0 <= self.grace < math.inf:
            raise ConfigError(f"grace must be 0 seconds or more, not {self.grace!r}")

    @property
    def seconds(self) -> float:
        """Seconds of a step; infinite where nothing is set."""
        return math.inf if self.step_timeout is None else self.step_timeout

    def check(self, dropout: float) -> None:
        """Refuse to leave more nodes behind in a single step than rounds are planned to lose."""
        if self.enough + dropout < 1 - 1e-9:
            raise ConfigError(
                f"enough = {self.enough:g} lets a step leave {1 - self.enough:.3g} of its nodes behind, and "
                f"dropout = {dropout:g} plans for fewer: raise one of the two"
            )

    def quorum(self, asked: int) -> int:
        """Return how many answers are enough."""
        return math.ceil(self.enough * asked - 1e-9)


class Deadline:
    """When the strategy's own timeout is over. Sending is not counted, as in Flower's own grids."""

    def __init__(self, timeout: float | None) -> None:
        self._ends = math.inf if timeout is None else time.monotonic() + timeout

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(self._ends - time.monotonic(), 0.0)

    def extend(self, seconds: float) -> None:
        self._ends += seconds
