"""Secure aggregation: the server learns the sum of everyone's vectors and nothing else."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ccesa import plan
    from ccesa.agreement.charter import Charter
    from ccesa.agreement.config import Floor, RoundConfig
    from ccesa.agreement.identity import Admission, Identity, Member
    from ccesa.errors import (
        AttemptsSpent,
        BudgetSpent,
        CcesaError,
        ConfigError,
        ConflictingMessage,
        CorruptSeeds,
        CorruptShares,
        DamagedLedger,
        DamagedLog,
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
        StaleLog,
        TaskSpent,
        TooFewClients,
        Unreliable,
        UsageError,
        VectorError,
    )
    from ccesa.evidence import Evidence
    from ccesa.graphs import Complete, ErdosRenyi, Harary
    from ccesa.graphs.thresholds import Fixed, Linear, Majority
    from ccesa.memory import FolderMemory, ProcessMemory
    from ccesa.privacy import DifferentialPrivacy, NoisyQuantizer
    from ccesa.privacy.ledger import Ledger
    from ccesa.protocol.client import ActiveClient, Client
    from ccesa.protocol.log import RoundLog
    from ccesa.protocol.round import run_series
    from ccesa.protocol.series import Ended, Series
    from ccesa.protocol.series_client import SeriesClient
    from ccesa.protocol.server import Aggregate, Server
    from ccesa.simulate import aggregate
    from ccesa.values.quantize import Quantizer

    __version__: str

__all__ = [
    "ActiveClient",
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
    "DamagedLog",
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
    "RoundLog",
    "RoundsLost",
    "Series",
    "SeriesClient",
    "Server",
    "StaleLog",
    "TaskSpent",
    "TooFewClients",
    "Unreliable",
    "UsageError",
    "VectorError",
    "aggregate",
    "plan",
    "run_series",
]


#: Where the public names are, which are loaded when they are asked for. So a command begins at once, and
#: whoever stops it sees no traceback of an import; and nobody but the planner needs scipy.
_WHERE = {
    "ccesa.agreement.charter": "Charter",
    "ccesa.agreement.config": "Floor RoundConfig",
    "ccesa.errors": (
        "AttemptsSpent BudgetSpent CcesaError ConfigError ConflictingMessage CorruptSeeds CorruptShares "
        "DamagedLedger DamagedLog Disconnected FaultyClient FaultyNeighbour FaultyServer ImpossiblePlan "
        "LateMessage MalformedMessage OrderError OverlappingSums RoundFailed RoundsLost StaleLog TaskSpent "
        "TooFewClients Unreliable UsageError VectorError "
    ),
    "ccesa.evidence": "Evidence",
    "ccesa.graphs": "Complete ErdosRenyi Harary",
    "ccesa.agreement.identity": "Admission Identity Member",
    "ccesa.memory": "FolderMemory ProcessMemory",
    "ccesa.privacy": "DifferentialPrivacy NoisyQuantizer",
    "ccesa.privacy.ledger": "Ledger",
    "ccesa.protocol.client": "ActiveClient Client",
    "ccesa.protocol.log": "RoundLog",
    "ccesa.protocol.round": "run_series",
    "ccesa.protocol.series": "Ended Series",
    "ccesa.protocol.series_client": "SeriesClient",
    "ccesa.protocol.server": "Aggregate Server",
    "ccesa.values.quantize": "Quantizer",
    "ccesa.simulate": "aggregate",
    "ccesa.graphs.thresholds": "Fixed Linear Majority",
}
_PLACES = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load what is asked for: a public name, or a module of the package."""
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name == "__version__":
        metadata = import_module("importlib.metadata")
        try:
            return metadata.version("ccesa")
        except metadata.PackageNotFoundError:  # a checkout on the path, which was never installed
            return "unknown"
    if find_spec(f"ccesa.{name}") is not None:
        return import_module(f"ccesa.{name}")
    raise AttributeError(f"module 'ccesa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
