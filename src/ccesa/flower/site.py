"""What a site insists on, whatever the server says: keys of its node's configuration.

``flower-supernode --node-config 'ccesa-floor-clients=10 ccesa-memory="/var/lib/ccesa"'``
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from flwr.app import DEFAULT_TTL

from ccesa.config import Floor
from ccesa.errors import ConfigError
from ccesa.flower.terms import COUNTER_CLIP, METRIC_CLIP, Terms, check_message_type

_PREFIX, _FLOOR = "ccesa-", "ccesa-floor-"
_PLAIN, _TYPES, _WEIGHT = "ccesa-plain", "ccesa-message-types", "ccesa-weighted-by"
_MAX_CLIP, _MAX_COUNTER_CLIP = "ccesa-max-clip", "ccesa-max-counter-clip"
_METRIC_CLIP, _ATTEMPTS = "ccesa-floor-metric_clip", "ccesa-attempts"
_MEMORY, _FORGET_AFTER = "ccesa-memory", "ccesa-forget-after"
_IDENTITY, _ADMISSION = "ccesa-identity", "ccesa-admission"
_FLOORS = {_FLOOR + name: name for name in Floor.__struct_fields__}
_KEYS: dict[str, type] = {
    _PLAIN: bool,
    _TYPES: str,
    _WEIGHT: str,
    **{key: float if name == "threshold_share" else int for key, name in _FLOORS.items()},
    _METRIC_CLIP: float,
    _MAX_CLIP: float,
    _MAX_COUNTER_CLIP: float,
    _ATTEMPTS: int,
    _MEMORY: str,
    _FORGET_AFTER: float,
    _IDENTITY: str,
    _ADMISSION: str,
}
#: A lost round can be repeated once.
ATTEMPTS = 2


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a node has decided for itself, and a server can only keep or be refused."""

    message_types: tuple[str, ...]
    weighted_by: str
    max_clip: float
    max_counter_clip: float
    least_metric_clip: float
    #: How often it contributes to one model.
    attempts: int

    def check(self, message_type: str, terms: Terms) -> None:
        """Refuse what is not as agreed. A server that lies could choose it so that one node stands out."""
        if terms.message_type != message_type:
            raise ConfigError(f"terms of {terms.message_type!r} in a message of type {message_type!r}")
        if message_type not in self.message_types:
            raise ConfigError(
                f"a message of type {message_type!r}, this node answers {list(self.message_types)} ({_TYPES})"
            )
        if terms.weighted_by != self.weighted_by:
            raise ConfigError(
                f"replies weighted by {terms.weighted_by!r}, this node weights by {self.weighted_by!r} "
                f"({_WEIGHT})"
            )
        if terms.clip > self.max_clip:
            raise ConfigError(f"clip = {terms.clip:g}, this node allows {self.max_clip:g} ({_MAX_CLIP})")
        if terms.counters and self.max_counter_clip < COUNTER_CLIP:
            raise ConfigError(
                f"{len(terms.counters)} arrays are counters, clipped at {COUNTER_CLIP:g}, this node allows "
                f"{self.max_counter_clip:g} ({_MAX_COUNTER_CLIP})"
            )
        if terms.metric_clip < self.least_metric_clip:
            raise ConfigError(
                f"metric_clip = {terms.metric_clip:g}, this node's floor is {self.least_metric_clip:g} "
                f"({_METRIC_CLIP})"
            )


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
        self._check_values()

    def _check_values(self) -> None:
        if self.plain and self.has_identity:
            raise ConfigError(f"{_PLAIN} and {_IDENTITY}: a node with an identity answers nothing in clear")
        if self.given.get(_ATTEMPTS, ATTEMPTS) < 1:
            raise ConfigError(f"{_ATTEMPTS} must be at least 1, not {self.given[_ATTEMPTS]}")
        if not 0 < self.forget_after < math.inf:
            raise ConfigError(f"{_FORGET_AFTER} must be a positive number of seconds")
        for message_type in self.message_types:
            check_message_type(message_type)

    @property
    def plain(self) -> bool:
        """Whether this node also answers in clear."""
        return bool(self.given.get(_PLAIN, False))

    @property
    def message_types(self) -> tuple[str, ...]:
        """In full, with the function of the app that they call."""
        return tuple(one.strip() for one in str(self.given.get(_TYPES, "train,evaluate")).split(","))

    @property
    def has_identity(self) -> bool:
        return _IDENTITY in self.given or _ADMISSION in self.given

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

    @property
    def memory(self) -> Path | None:
        """The folder in which this node remembers what must not happen twice."""
        return Path(str(self.given[_MEMORY])) if _MEMORY in self.given else None

    @property
    def forget_after(self) -> float:
        """Seconds that the keys of a round wait for its next message; no message of Flower's lives longer."""
        return float(self.given.get(_FORGET_AFTER, DEFAULT_TTL))

    def rules(self, guard: str) -> Rules:
        """For rounds under this guard."""
        max_clip = float(self.given.get(_MAX_CLIP, math.inf))
        return Rules(
            message_types=self.message_types,
            weighted_by=str(self.given.get(_WEIGHT, "num-examples")),
            max_clip=max_clip,
            max_counter_clip=float(self.given.get(_MAX_COUNTER_CLIP, max_clip)),
            least_metric_clip=float(self.given.get(_METRIC_CLIP, METRIC_CLIP if guard == "active" else 0.0)),
            attempts=int(self.given.get(_ATTEMPTS, ATTEMPTS)),
        )

    def _path(self, key: str) -> Path:
        path = Path(str(self.given.get(key, "")))
        if not path.is_file():
            raise ConfigError(f"guard = active needs a file in this node's configuration: {key}")
        return path
