"""What goes into a round on one node, and what comes out of it on the server."""

import msgspec

from ccesa.flower.models import Arrays
from ccesa.flower.slots import Metrics

#: What an app calls its ArrayRecord and its MetricRecord, where nodes do not agree on other names.
RECORDS = ("arrays", "metrics")


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the app of one node replied, as far as it goes into the sum."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: What it calls its arrays and its metrics.
    records: tuple[str, str] = RECORDS


class Average(msgspec.Struct, frozen=True, kw_only=True):
    """The weighted mean over the survivors that contributed, and how exact it is."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: How far any metric, and any value of an array that is no counter, can be off through rounding, if
    #: nothing was clipped, before an array is cast back to its own type.
    error: float
    #: How far any value of a counter can be off, which is more; 0 if there are none.
    counter_error: float
    #: Metrics that are not there, because some node's was no finite number or beyond ``metric_clip``.
    unusable: list[str]
    #: Metrics of the terms that no node has as such a number: an evaluation has others than training.
    absent: list[str]
    #: Nodes with more weight than ``max_weight``; they count as that.
    capped: int
    #: Survivors that contributed nothing: no reply, or none that could be used.
    nothing: int
    #: Whether all nodes have metrics of the same names. If not, there are no metrics.
    alike: bool
    #: What the apps call their arrays and their metrics.
    records: tuple[str, str]

    @property
    def bound(self) -> float:
        """How far any value at all can be off."""
        return max(self.error, self.counter_error)
