"""Secure aggregation in a Flower federation: one line in the ServerApp, one mod in the ClientApp.

``server`` runs in the ServerApp, ``node`` in the ClientApp, and ``both`` in each.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ccesa.extras import missing

try:
    import flwr  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise missing("ccesa.flower", "Flower", "flower") from error

from ccesa.flower.node.mod import secure_mod
from ccesa.policy import Policy

if TYPE_CHECKING:
    from ccesa.flower.server.grid import SecureGrid

__all__ = ["Policy", "SecureGrid", "secure_mod"]


def __getattr__(name: str) -> Any:
    """Load the server's part when it is asked for: a node starts again for every message, without it."""
    if name != "SecureGrid":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("ccesa.flower.server.grid").SecureGrid
