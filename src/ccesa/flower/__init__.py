"""Secure aggregation in a Flower federation: one line in the ServerApp, one mod in the ClientApp.

What is in ``server`` runs in the ServerApp, what is in ``node`` in the ClientApp, and ``both`` in each.
"""

from ccesa.extras import missing

try:
    import flwr  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise missing("ccesa.flower", "Flower", "flower") from error

from ccesa.flower.node.mod import secure_mod
from ccesa.flower.server.grid import SecureGrid

__all__ = ["SecureGrid", "secure_mod"]
