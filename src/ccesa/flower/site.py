"""What a site insists on, whatever the server says: keys of its node's configuration.

``flower-supernode --node-config 'ccesa-required=true ccesa-floor-clients=10'``
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ccesa.config import Floor, RoundConfig
from ccesa.errors import ConfigError
from ccesa.flower.terms import METRIC_CLIP, Terms

_PREFIX, _FLOOR = "ccesa-", "ccesa-floor-"
_REQUIRED, _MAX_CLIP, _METRIC_CLIP = "ccesa-required", "ccesa-max-clip", "ccesa-floor-metric_clip"
_IDENTITY, _ADMISSION = "ccesa-identity", "ccesa-admission"
_FLOORS = {_FLOOR + name: name for name in Floor.__struct_fields__}
_KEYS: dict[str, type] = {
    _REQUIRED: bool,
    **{key: float if name == "threshold_share" else int for key, name in _FLOORS.items()},
    _METRIC_CLIP: float,
    _MAX_CLIP: float,
    _IDENTITY: str,
    _ADMISSION: str,
}


@dataclass(frozen=True)
class Site:
    """The keys of one node, checked."""

    given: Mapping[str, Any] = field(repr=False)

    def __post_init__(self) -> None:
        for key in (key for key in self.given if key.startswith(_PREFIX)):
            if key not in _KEYS:
                raise ConfigError(
                    f"this node's configuration has a key {key!r}; there are {', '.join(_KEYS)}"
                )
            wanted = _KEYS[key]
            try:
                msgspec.convert(self.given[key], wanted)
            except msgspec.ValidationError as error:
                raise ConfigError(
                    f"{key} in this node's configuration must be a {wanted.__name__}"
                ) from error

    @property
    def required(self) -> bool:
        """Secure aggregation, or nothing."""
        return bool(self.given.get(_REQUIRED, False))

    @property
    def has_identity(self) -> bool:
        return _IDENTITY in self.given

    @property
    def identity(self) -> Path:
        return self._path(_IDENTITY)

    @property
    def admission(self) -> Path:
        return self._path(_ADMISSION)

    @property
    def floor(self) -> Floor:
        """What this site says itself; the rest is up to the guard."""
        return Floor(**{name: self.given[key] for key, name in _FLOORS.items() if key in self.given})

    def check(self, config: RoundConfig, terms: Terms) -> None:
        """Where values are cut off: a server that lies could choose bounds by which one node stands out."""
        most = self.given.get(_MAX_CLIP)
        if most is not None and terms.clip > float(most):
            raise ConfigError(f"clip = {terms.clip:g}, this node allows {most:g}")
        least = self.given.get(_METRIC_CLIP, METRIC_CLIP if config.guard == "active" else 0.0)
        if terms.metric_clip < least:
            raise ConfigError(
                f"metric_clip = {terms.metric_clip:g}, this node's floor is {least:g} ({_METRIC_CLIP})"
            )

    def _path(self, key: str) -> Path:
        path = Path(str(self.given.get(key, "")))
        if not path.is_file():
            raise ConfigError(f"guard = active needs a file in this node's configuration: {key}")
        return path
