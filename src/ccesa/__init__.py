"""Secure aggregation: the server learns the sum of everyone's vectors and nothing else."""

from importlib import import_module
from typing import TYPE_CHECKING

from ccesa.charter import Charter
from ccesa.config import RoundConfig
from ccesa.errors import (
    AttemptsSpent,
    CcesaError,
    ConfigError,
    ConflictingMessage,
    CorruptSeeds,
    CorruptShares,
    Disconnected,
    FaultyClient,
    FaultyNeighbour,
    FaultyServer,
    ImpossiblePlan,
    LateMessage,
    MalformedMessage,
    OrderError,
    OverlappingSums,
    RoundFailed,
    RoundsLost,
    StaleCheckpoint,
    TaskSpent,
    TooFewClients,
    Unreliable,
    UsageError,
    VectorError,
)
from ccesa.evidence import Evidence
from ccesa.floor import Floor
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.identity import Admission, Identity, Member
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.round import run_series
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.server import ActiveServer, Aggregate, Server
from ccesa.quantize import Quantizer
from ccesa.thresholds import Fixed, Linear, Majority

if TYPE_CHECKING:
    from ccesa import plan
    from ccesa.simulate import aggregate

    __version__: str

__all__ = [
    "ActiveClient",
    "ActiveServer",
    "Admission",
    "Aggregate",
    "AttemptsSpent",
    "CcesaError",
    "Charter",
    "Client",
    "Complete",
    "ConfigError",
    "ConflictingMessage",
    "CorruptSeeds",
    "CorruptShares",
    "Disconnected",
    "Ended",
    "ErdosRenyi",
    "Evidence",
    "FaultyClient",
    "FaultyNeighbour",
    "FaultyServer",
    "Fixed",
    "Floor",
    "Harary",
    "Identity",
    "ImpossiblePlan",
    "LateMessage",
    "Linear",
    "Majority",
    "MalformedMessage",
    "Member",
    "OrderError",
    "OverlappingSums",
    "Quantizer",
    "RoundConfig",
    "RoundFailed",
    "RoundsLost",
    "Series",
    "SeriesClient",
    "Server",
    "StaleCheckpoint",
    "TaskSpent",
    "TooFewClients",
    "Unreliable",
    "UsageError",
    "VectorError",
    "aggregate",
    "plan",
    "run_series",
]


def __getattr__(name: str) -> object:
    """Load the planner, and what plans, when it is asked for: it needs scipy, a client does not."""
    if name == "plan":
        return import_module("ccesa.plan")
    if name == "aggregate":
        return import_module("ccesa.simulate").aggregate
    if name == "__version__":
        return import_module("importlib.metadata").version("ccesa")
    raise AttributeError(f"module 'ccesa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
