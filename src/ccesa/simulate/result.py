"""``AggregatedModels``: what ``ccesa.aggregate`` returns."""

from dataclasses import dataclass
from typing import Generic

from ccesa.privacy import Mechanism
from ccesa.simulate.simulation import Report
from ccesa.values.quantize import Model


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AggregatedModels(Generic[Model]):
    """The weighted mean over the survivors, in the form of the models, and what came with it.

    Attributes:
        mean: A dict or a list, as the first model.
        survivors: Clients in the mean, ascending.
        weight: The sum of their weights.
        clipped_by: How many values each client had to cut to the bound, whether it is in the mean or not;
            with noise 1 for a model that was longer than the norm.
        values: How many values all clients have together.
        report: What the round was like and what it cost.
        mechanism: The noise in the mean, if there is any.
    """

    mean: Model
    survivors: tuple[int, ...]
    weight: float
    clipped_by: tuple[int, ...]
    values: int
    report: Report
    mechanism: Mechanism | None = None

    @property
    def clipped(self) -> int:
        """How many values were clipped, over all clients; with noise, how many models."""
        return sum(self.clipped_by)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise in each coordinate of the mean."""
        many = len(self.survivors)
        return 0.0 if self.mechanism is None else self.mechanism.noise(many) / many

    @property
    def epsilon(self) -> float | None:
        """The epsilon that as many rounds as were asked for keep together, rounded up; None without noise."""
        return None if self.mechanism is None else self.mechanism.certified()

    def __repr__(self) -> str:
        inside = f"{len(self.survivors)} of {self.report.clients} clients in the mean"
        if self.mechanism is None:
            rest = f"weight {self.weight:g}, {self.clipped} of {self.values} values clipped"
        else:
            rest = (
                f"noise of {self.noise:.3g} in each coordinate, epsilon {self.epsilon:.3g} over "
                f"{self.mechanism.rounds} round(s), {self.clipped} models clipped"
            )
        return f"AggregatedModels({inside}, {rest})"
