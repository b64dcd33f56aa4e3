"""Secure aggregation in a Flower federation: one line in the ServerApp, one mod in the ClientApp."""

from ccesa.errors import ConfigError

try:
    import flwr  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise ConfigError("ccesa.flower needs Flower: pip install 'ccesa[flower]'") from error

from ccesa.flower.grid import SecureGrid
from ccesa.flower.mod import secure_mod

__all__ = ["SecureGrid", "secure_mod"]
