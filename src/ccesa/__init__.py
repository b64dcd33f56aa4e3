"""Secure aggregation: the server learns the sum of everyone's vectors and nothing else."""

from importlib import import_module
from typing import TYPE_CHECKING

from ccesa.charter import Charter
from ccesa.config import RoundConfig
from ccesa.errors import (
    AttemptsSpent,
    BudgetSpent,
    CcesaError,
    ConfigError,
    ConflictingMessage,
    CorruptSeeds,
    CorruptShares,
    DamagedLedger,
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
from ccesa.memory import FolderMemory, ProcessMemory
from ccesa.protocol.client import ActiveClient, Client
from ccesa.quantize import Quantizer
from ccesa.thresholds import Fixed, Linear, Majority

if TYPE_CHECKING:
    from ccesa import plan
    from ccesa.privacy import DifferentialPrivacy, NoisyQuantizer
    from ccesa.privacy.ledger import Ledger
    from ccesa.protocol.round import run_series
    from ccesa.protocol.series import Ended, Series
    from ccesa.protocol.series_client import SeriesClient
    from ccesa.protocol.server import ActiveServer, Aggregate, Server
    from ccesa.simulate import aggregate

    __version__: str

__all__ = [
    "ActiveClient",
    "ActiveServer",
    "Admission",
    "Aggregate",
    "AttemptsSpent",
    "BudgetSpent",
    "CcesaError",
    "Charter",
    "Client",
    "Complete",
    "ConfigError",
    "ConflictingMessage",
    "CorruptSeeds",
    "CorruptShares",
    "DamagedLedger",
    "DifferentialPrivacy",
    "Disconnected",
    "Ended",
    "ErdosRenyi",
    "Evidence",
    "FaultyClient",
    "FaultyNeighbour",
    "FaultyServer",
    "Fixed",
    "Floor",
    "FolderMemory",
    "Harary",
    "Identity",
    "ImpossiblePlan",
    "LateMessage",
    "Ledger",
    "Linear",
    "Majority",
    "MalformedMessage",
    "Member",
    "NoisyQuantizer",
    "OrderError",
    "OverlappingSums",
    "ProcessMemory",
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


#: Where the names are that a client of a single round does not need: they are loaded when they are asked for.
_LATER = {
    "ActiveServer": "ccesa.protocol.server",
    "Aggregate": "ccesa.protocol.server",
    "DifferentialPrivacy": "ccesa.privacy",
    "Ended": "ccesa.protocol.series",
    "Ledger": "ccesa.privacy.ledger",
    "NoisyQuantizer": "ccesa.privacy",
    "Series": "ccesa.protocol.series",
    "SeriesClient": "ccesa.protocol.series_client",
    "Server": "ccesa.protocol.server",
    "aggregate": "ccesa.simulate",
    "run_series": "ccesa.protocol.round",
}


def __getattr__(name: str) -> object:
    """Load servers, series and the planner when they are asked for: the planner needs scipy."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name == "plan":
        return import_module("ccesa.plan")
    if name == "__version__":
        metadata = import_module("importlib.metadata")
        try:
            return metadata.version("ccesa")
        except metadata.PackageNotFoundError:  # a checkout on the path, which was never installed
            return "unknown"
    raise AttributeError(f"module 'ccesa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
