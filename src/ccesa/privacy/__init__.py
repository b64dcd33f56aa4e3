"""Differential privacy: noise that clients add before they mask, and what it promises about the sum.

``mechanism`` has demands, the numbers that keep them by ``accounting``, and what a vector spends. ``quantizer`` is the
client's part, with noise from a ``table``. ``ledger`` counts what a site has spent.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ccesa.privacy.ledger import Account, Ledger, Spent
from ccesa.privacy.mechanism import DifferentialPrivacy, Mechanism, choose_mechanism

if TYPE_CHECKING:
    from ccesa.privacy.quantizer import NoisyQuantizer

__all__ = ["Account", "DifferentialPrivacy", "Ledger", "Mechanism", "NoisyQuantizer", "Spent", "choose_mechanism"]


def __getattr__(name: str) -> object:
    if name == "NoisyQuantizer":  # charters need mechanisms, but not the code that draws noise
        return import_module("ccesa.privacy.quantizer").NoisyQuantizer
    raise AttributeError(f"module 'ccesa.privacy' has no attribute {name!r}")
