"""Secure aggregation in a Flower federation: one line in the ServerApp, one mod in the ClientApp."""

from ccesa.extras import missing

try:
    import flwr  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise missing("ccesa.flower", "Flower", "flower") from error

from ccesa.flower.grid import SecureGrid
from ccesa.flower.mod import secure_mod

__all__ = ["SecureGrid", "secure_mod"]
