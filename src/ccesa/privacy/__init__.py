"""Differential privacy: noise that clients add before they mask, and what it promises about the sum.

``demand`` is what is asked for, ``mechanism`` the numbers that keep it by ``accounting``, ``quantizer`` a
client's part with ``rotation``, ``noise`` and its ``table``; ``ledger`` counts what a site has spent.
"""

from ccesa.privacy.demand import DifferentialPrivacy
from ccesa.privacy.ledger import Account, Ledger, Spent
from ccesa.privacy.mechanism import Mechanism, chosen

__all__ = ["Account", "DifferentialPrivacy", "Ledger", "Mechanism", "Spent", "chosen"]
