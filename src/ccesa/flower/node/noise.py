"""What a node insists on about noise, and where it charges what leaves it.

Without a charter the server chooses the noise, and the node computes what it is worth by itself: of what the
server says only the numbers of the mechanism count, and none of its promises.
"""

import math

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError
from ccesa.flower.node.settings import NodeSettings
from ccesa.privacy.ledger import Account, Ledger
from ccesa.privacy.mechanism import Mechanism


def check_noise(own: NodeSettings, config: RoundConfig, mechanism: Mechanism | None) -> None:
    """Refuse a round with less noise than this node insists on; without any, where it insists on some."""
    if mechanism is None:
        if own.needs_noise:
            raise ConfigError(
                "a round without noise, and this node takes part with noise only (ccesa-min-noise, "
                "ccesa-budget, ccesa-ledger)"
            )
        return
    if not own.has_charter:
        _check_without_charter(own, config, mechanism)
    multiplier = 1 / math.sqrt(mechanism.release.mu2)
    if multiplier < own.min_noise:
        raise ConfigError(
            f"noise of {multiplier:.4g} times the norm in a sum, this node insists on {own.min_noise:g} "
            "(ccesa-min-noise)"
        )
    if own.budget is not None:
        _check_budget(mechanism, *own.allowed)


def account_of(own: NodeSettings, mechanism: Mechanism | None) -> Account | None:
    """Return what vectors with this noise are charged to; None where this node keeps no ledger."""
    if own.ledger is None or mechanism is None:
        return None
    return Ledger(own.ledger).account(mechanism, own.charter.digest if own.has_charter else None)


def _check_without_charter(own: NodeSettings, config: RoundConfig, mechanism: Mechanism) -> None:
    """Refuse a norm above this node's, or noise of more honest nodes than it counts in every sum."""
    if mechanism.against != "follows":
        raise ConfigError("noise against a server that lies, and only a charter holds against one")
    if own.colluders and not config.accept:
        raise ConfigError(
            f"a round without accept: {own.colluders} colluding node(s) could choose whose noise is missing "
            "(ccesa-colluders)"
        )
    honest = config.min_survivors - own.colluders
    if mechanism.honest > honest:
        raise ConfigError(
            f"noise that counts on {mechanism.honest} honest nodes, and a sum of at least "
            f"{config.min_survivors} has {honest} for certain (ccesa-colluders)"
        )
    if mechanism.norm > own.max_clip:
        raise ConfigError(f"norm = {mechanism.norm:g}, this node allows {own.max_clip:g} (ccesa-max-clip)")


def _check_budget(mechanism: Mechanism, epsilon: float, delta: float) -> None:
    """Refuse a training that would spend more than this, if all its rounds come."""
    spent = mechanism.released(mechanism.honest, epsilon).times(mechanism.rounds).epsilon(delta)
    if not spent <= epsilon:
        raise ConfigError(
            f"{mechanism.rounds} round(s) with this noise spend epsilon = {spent:.4g} at delta = {delta:g}, "
            f"this node allows {epsilon:g} (ccesa-budget)"
        )
