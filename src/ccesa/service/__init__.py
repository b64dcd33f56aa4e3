"""A service: a hub and many sites that talk over HTTP, in rounds that survive restarts.

``Hub`` runs a federation; ``Participant`` takes part in one, and ``Assistant`` helps in one. They are what ``ccesa
serve``, ``ccesa join`` and ``ccesa assist`` run. Nothing here knows about cryptography: the parties of
``ccesa.protocol`` do all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ccesa.extras import missing
from ccesa.policy import Policy
from ccesa.service.coordinator import Averaging, Coordinator, Questions, Result
from ccesa.service.errors import EngineFailed, NewerDatabase, Unavailable
from ccesa.service.federation import Federation, HubTable
from ccesa.service.forms import Arrays, Statistics, Words

if TYPE_CHECKING:
    from ccesa.service.hub.hub import Hub
    from ccesa.service.participant import Assistant, Participant

__all__ = [
    "Arrays",
    "Assistant",
    "Averaging",
    "Coordinator",
    "EngineFailed",
    "Federation",
    "Hub",
    "HubTable",
    "NewerDatabase",
    "Participant",
    "Policy",
    "Questions",
    "Result",
    "Statistics",
    "Unavailable",
    "Words",
]

#: Names that need packages of one side only: module, command, and extra.
_SIDES = {
    "Hub": ("ccesa.service.hub.hub", "ccesa serve", "service"),
    "Assistant": ("ccesa.service.participant", "ccesa assist", "join"),
    "Participant": ("ccesa.service.participant", "ccesa join", "join"),
}


def __getattr__(name: str) -> object:
    """Load a side of the service on first use: a site does not need the hub's packages."""
    if name not in _SIDES:
        raise AttributeError(f"module 'ccesa.service' has no attribute {name!r}")
    module, what, extra = _SIDES[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("ccesa"):
            raise
        raise missing(what, error.name, extra) from error
