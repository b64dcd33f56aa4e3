"""Secure aggregation: the server learns the sum of everyone's vectors and nothing else."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ccesa import errors
from ccesa.errors import *  # noqa: F403

if TYPE_CHECKING:
    from ccesa import plan as plan
    from ccesa.agreement.charter import Charter as Charter
    from ccesa.agreement.config import Floor as Floor
    from ccesa.agreement.config import RoundConfig as RoundConfig
    from ccesa.agreement.identity import Admission as Admission
    from ccesa.agreement.identity import Identity as Identity
    from ccesa.agreement.identity import Member as Member
    from ccesa.evidence import Evidence as Evidence
    from ccesa.graphs import Complete as Complete
    from ccesa.graphs import ErdosRenyi as ErdosRenyi
    from ccesa.graphs import Harary as Harary
    from ccesa.graphs.thresholds import Fixed as Fixed
    from ccesa.graphs.thresholds import Linear as Linear
    from ccesa.graphs.thresholds import Majority as Majority
    from ccesa.helper_keys import FolderKeys as FolderKeys
    from ccesa.helper_keys import ProcessKeys as ProcessKeys
    from ccesa.memory import FolderMemory as FolderMemory
    from ccesa.memory import ProcessMemory as ProcessMemory
    from ccesa.privacy import DifferentialPrivacy as DifferentialPrivacy
    from ccesa.privacy import NoisyQuantizer as NoisyQuantizer
    from ccesa.privacy.ledger import Ledger as Ledger
    from ccesa.protocol.assisted_helper import Helper as Helper
    from ccesa.protocol.client import ActiveClient as ActiveClient
    from ccesa.protocol.client import Client as Client
    from ccesa.protocol.log import RoundLog as RoundLog
    from ccesa.protocol.round import run_series as run_series
    from ccesa.protocol.series import Ended as Ended
    from ccesa.protocol.series import Series as Series
    from ccesa.protocol.series_client import SeriesClient as SeriesClient
    from ccesa.protocol.series_client import SeriesHelper as SeriesHelper
    from ccesa.protocol.server import Aggregate as Aggregate
    from ccesa.protocol.server import Server as Server
    from ccesa.simulate import aggregate as aggregate
    from ccesa.values.quantize import Quantizer as Quantizer

    __version__: str

#: The modules of the other public names, loaded on first use: commands begin at once, only the planner needs scipy.
_WHERE = {
    "ccesa.agreement.charter": "Charter",
    "ccesa.agreement.config": "Floor RoundConfig",
    "ccesa.evidence": "Evidence",
    "ccesa.graphs": "Complete ErdosRenyi Harary",
    "ccesa.agreement.identity": "Admission Identity Member",
    "ccesa.helper_keys": "FolderKeys ProcessKeys",
    "ccesa.memory": "FolderMemory ProcessMemory",
    "ccesa.privacy": "DifferentialPrivacy NoisyQuantizer",
    "ccesa.privacy.ledger": "Ledger",
    "ccesa.protocol.assisted_helper": "Helper",
    "ccesa.protocol.client": "ActiveClient Client",
    "ccesa.protocol.log": "RoundLog",
    "ccesa.protocol.round": "run_series",
    "ccesa.protocol.series": "Ended Series",
    "ccesa.protocol.series_client": "SeriesClient SeriesHelper",
    "ccesa.protocol.server": "Aggregate Server",
    "ccesa.values.quantize": "Quantizer",
    "ccesa.simulate": "aggregate",
    "ccesa.graphs.thresholds": "Fixed Linear Majority",
}
_PLACES = {name: module for module, names in _WHERE.items() for name in names.split()}
__all__ = sorted(["plan", *_PLACES, *errors.__all__])


def __getattr__(name: str) -> object:
    """Load a public name, or a module of the package."""
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
