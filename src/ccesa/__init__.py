"""Secure aggregation: the server learns the sum of everyone's vectors and nothing else."""

from importlib.metadata import version

from ccesa import plan
from ccesa.charter import Charter
from ccesa.config import Complete, ErdosRenyi, Fixed, Floor, Harary, Linear, Majority, RoundConfig
from ccesa.errors import (
    AttemptsSpent,
    CcesaError,
    ConfigError,
    ConflictingMessage,
    CorruptShares,
    Disconnected,
    FaultyClient,
    FaultyNeighbour,
    FaultyServer,
    ImpossiblePlan,
    LateMessage,
    MalformedMessage,
    OrderError,
    RoundFailed,
    RoundsLost,
    TaskSpent,
    TooFewClients,
    Unreliable,
    UsageError,
    VectorError,
)
from ccesa.evidence import Evidence
from ccesa.identity import Admission, Identity, Member
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import ActiveServer, Aggregate, Server
from ccesa.quantize import Quantizer
from ccesa.simulate import aggregate

__version__ = version("ccesa")

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
    "CorruptShares",
    "Disconnected",
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
    "Quantizer",
    "RoundConfig",
    "RoundFailed",
    "RoundsLost",
    "Server",
    "TaskSpent",
    "TooFewClients",
    "Unreliable",
    "UsageError",
    "VectorError",
    "aggregate",
    "plan",
]
