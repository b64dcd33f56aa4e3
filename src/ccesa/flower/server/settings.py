"""Which rounds follow from the settings of ``SecureGrid``: with a charter or without, with noise or not."""

from typing import Any

from ccesa.agreement.charter import Charter
from ccesa.errors import ConfigError
from ccesa.flower.server.noisy_rounds import NoisyRounds
from ccesa.flower.server.rounds import CharteredRounds, PlannedRounds

Rounds = PlannedRounds | NoisyRounds | CharteredRounds


def rounds_of(charter: Charter | None, settings: dict[str, Any], secure_evaluate: bool) -> Rounds:
    """Make rounds from the charter, or from what is given; never from both."""
    given = {name: value for name, value in settings.items() if value is not None}
    if charter is not None:
        return _chartered(charter, given, secure_evaluate)
    if "privacy" in given:
        if not secure_evaluate:
            raise ConfigError("secure_evaluate=False beside privacy: metrics would be sent without noise")
        return NoisyRounds(**given)
    noisy = [name for name in ("metrics", "reliability_bits") if name in given]
    if noisy:
        raise ConfigError(f"{', '.join(noisy)} without privacy: leave it out, or ask for noise")
    return PlannedRounds(**given)


def _chartered(charter: Charter, given: dict[str, Any], secure_evaluate: bool) -> CharteredRounds:
    if given:
        raise ConfigError(
            f"{', '.join(given)} beside a charter: the charter says this, and nodes take nothing else; leave "
            "it out, or agree on another charter"
        )
    if not secure_evaluate:
        raise ConfigError("secure_evaluate=False beside a charter: its nodes answer nothing in the clear")
    return CharteredRounds(charter)
