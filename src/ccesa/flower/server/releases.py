"""How many vectors each node was asked for: the noise is made for so many, and none is asked for beyond.

The number of nodes, and with it the noise, can differ from round to round. Each release was made for the same
demand, so all of them together keep it; that is computed, not assumed.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from ccesa.errors import BudgetSpent, ConfigError
from ccesa.flower.both import log
from ccesa.flower.server.report import nodes_text
from ccesa.privacy.mechanism import DifferentialPrivacy, Mechanism, total


class Releases:
    """The vectors that each node was asked for, those of evaluations and of lost rounds included."""

    def __init__(self, demand: DifferentialPrivacy) -> None:
        self._demand = demand
        #: By node, how many with which noise.
        self._vectors: dict[int, Counter[Mechanism]] = {}

    def check_ahead(self, left: int, *, evaluates: bool, everyone: Callable[[], bool]) -> None:
        """Refuse a training that is certain to end early, before its first vector; warn where it may.

        It has so many rounds left, and is certain to if ``everyone`` is asked in each.
        """
        if self._vectors or left * (1 + evaluates) <= self._demand.rounds:
            return
        what = f"a training of {left} rounds" + ", with evaluations" * evaluates
        text = f"{what}, and noise that is made for {self._demand.rounds} vectors of a node"
        if left > self._demand.rounds and everyone():
            raise ConfigError(f"{text}: ask for privacy of as many rounds")
        log.warn(f"{text}: it ends with an error when one node is asked for more")

    def check(self, nodes: Iterable[int], mechanism: Mechanism) -> None:
        """Refuse to ask these nodes for one more vector, where that would be one too many for any."""
        after = {node: frozenset((self._of(node) + Counter([mechanism])).items()) for node in nodes}
        fits = {vectors: self._fits(vectors) for vectors in {*after.values()}}
        spent = [node for node, vectors in after.items() if not fits[vectors]]
        if spent:
            raise BudgetSpent(
                f"{nodes_text(spent)} can be asked for no further vector: the noise is made for "
                f"{self._demand.rounds} of them, those of evaluations and lost rounds included. Ask for "
                "privacy of more rounds, which takes more noise in each"
            )

    def add(self, nodes: Iterable[int], mechanism: Mechanism) -> None:
        """Count one vector of each of these nodes, whatever became of it."""
        for node in nodes:
            self._vectors[node] = self._of(node) + Counter([mechanism])

    def _of(self, node: int) -> Counter[Mechanism]:
        return self._vectors.get(node, Counter())

    def _fits(self, vectors: frozenset[tuple[Mechanism, int]]) -> bool:
        """Tell whether so many vectors keep the demand together."""
        few = sum(count for _, count in vectors) <= self._demand.rounds
        spent = total(mechanism.release.times(count) for mechanism, count in vectors)
        return few and spent.epsilon(self._demand.delta) <= self._demand.epsilon
