"""Differential privacy: noise that clients add before they mask, and what it promises about the sum.

``mechanism`` has what is asked for, the numbers that keep it by ``accounting``, and what a vector spends;
``quantizer`` is a client's part, with noise from a ``table``; ``ledger`` counts what a site has spent.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ccesa.privacy.ledger import Account, Ledger, Spent
from ccesa.privacy.mechanism import DifferentialPrivacy, Mechanism, chosen

if TYPE_CHECKING:
    from ccesa.privacy.quantizer import NoisyQuantizer

__all__ = ["Account", "DifferentialPrivacy", "Ledger", "Mechanism", "NoisyQuantizer", "Spent", "chosen"]

#: Charters name mechanisms; what draws noise is loaded when it is asked for.
_LATER = {"NoisyQuantizer": "ccesa.privacy.quantizer"}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'ccesa.privacy' has no attribute {name!r}")
