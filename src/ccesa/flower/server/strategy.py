"""Which strategy is calling, whether it can work with a mean, and whether this is its last round."""

import inspect
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from flwr.serverapp.strategy import Strategy

from ccesa.errors import ConfigError

#: Flower's strategies that look at single updates, and what for.
NEED_SINGLE_UPDATES = {
    "FedMedian": "takes the median of single updates",
    "FedTrimmedAvg": "cuts off extreme updates",
    "Krum": "compares single updates",
    "MultiKrum": "compares single updates",
    "Bulyan": "compares single updates",
    "QFedAvg": "weights single updates by their loss",
    "FedXgbBagging": "collects single trees",
    "FedXgbCyclic": "passes single models on",
    "DifferentialPrivacyServerSideFixedClipping": "clips single updates on the server",
    "DifferentialPrivacyServerSideAdaptiveClipping": "clips single updates on the server",
    "DifferentialPrivacyClientSideAdaptiveClipping": "counts the nodes whose updates were clipped",
}


class Start(NamedTuple):
    """How far a ``Strategy.start`` that is running has come."""

    #: An object that every start has of its own.
    result: Any
    #: The round that it is in, 0 before the first, and the one that it ends with.
    current: int
    last: int

    @property
    def left(self) -> int:
        """Rounds that are left, the current one included."""
        return self.last - self.current + 1


def check_caller() -> str | None:
    """Refuse a strategy that needs single updates; return what it weights replies by, if it says so."""
    strategy, weighted_by = _calling(), None
    while isinstance(strategy, Strategy):
        for name in (its_class.__name__ for its_class in type(strategy).__mro__):
            if name in NEED_SINGLE_UPDATES:
                raise ConfigError(
                    f"{name} {NEED_SINGLE_UPDATES[name]}, and secure aggregation gives it nothing but their "
                    "mean: use a strategy that averages (FedAvg, FedAvgM, FedProx, FedAdam, FedYogi, "
                    "FedAdagrad), or Flower's own grid"
                )
        weighted_by = weighted_by or getattr(strategy, "weighted_by_key", None)
        strategy = getattr(strategy, "strategy", None)  # some wrap another one
    return weighted_by


def running() -> Start | None:
    """Return the ``Strategy.start`` on the stack; None in a loop of somebody's own, whose end nobody knows.

    Flower tells a grid neither the number of rounds nor that they are over, so its variables are read.
    """
    for frame in _stack():
        if frame.f_code is Strategy.start.__code__:
            found = frame.f_locals
            return Start(found["result"], found.get("current_round", 0), found["num_rounds"])
    return None


def _calling() -> Strategy | None:
    """Return the strategy whose ``start`` (or any other method) is on the stack."""
    for frame in _stack():
        owner = frame.f_locals.get("self")
        if isinstance(owner, Strategy):
            return owner
    return None


def _stack() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
