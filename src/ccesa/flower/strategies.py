"""Which strategies can work with a mean: one look at who is calling."""

import inspect
from types import FrameType

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


def check_caller() -> str | None:
    """Refuse if a strategy that needs single updates is asking; else, what it weights replies by."""
    strategy, weighted_by = _calling(inspect.currentframe()), None
    while isinstance(strategy, Strategy):
        for kind in type(strategy).__mro__:
            if kind.__name__ in NEED_SINGLE_UPDATES:
                raise ConfigError(
                    f"{kind.__name__} {NEED_SINGLE_UPDATES[kind.__name__]}, and secure aggregation shows "
                    "nothing but their mean: use a strategy that averages (FedAvg, FedAvgM, FedProx, "
                    "FedAdam, FedYogi, FedAdagrad), or the plain grid"
                )
        weighted_by = weighted_by or getattr(strategy, "weighted_by_key", None)
        strategy = getattr(strategy, "strategy", None)  # some wrap another one
    return weighted_by


def _calling(frame: FrameType | None) -> Strategy | None:
    """The strategy whose ``start`` (or any other method) is on the stack."""
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Strategy):
            return owner
        frame = frame.f_back
    return None
