"""What a site insists on, whatever the server says: keys of its node's configuration.

``flower-supernode --node-config 'ccesa-floor-clients=10 ccesa-memory="/var/lib/ccesa"'``, or with a charter,
which says all of it: ``ccesa-charter="/etc/ccesa/charter.toml" ccesa-identity="/etc/ccesa/site.key"``
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from flwr.app import DEFAULT_TTL

from ccesa.charter import Charter
from ccesa.errors import ConfigError
from ccesa.floor import Floor
from ccesa.flower.terms import COUNTER_CLIP, Terms, check_message_type
from ccesa.identity import Identity
from ccesa.protocol.spending import ATTEMPTS

_PREFIX, _FLOOR = "ccesa-", "ccesa-floor-"
_PLAIN, _TYPES, _WEIGHT = "ccesa-plain", "ccesa-message-types", "ccesa-weighted-by"
_MAX_CLIP, _MAX_COUNTER_CLIP = "ccesa-max-clip", "ccesa-max-counter-clip"
_METRIC_CLIP, _ATTEMPTS = "ccesa-floor-metric_clip", "ccesa-attempts"
_MEMORY, _FORGET_AFTER = "ccesa-memory", "ccesa-forget-after"
_IDENTITY, _CHARTER = "ccesa-identity", "ccesa-charter"
_FLOORS = {_FLOOR + name: name for name in Floor.__struct_fields__}
_KEYS: dict[str, type] = {
    _PLAIN: bool,
    _TYPES: str,
    _WEIGHT: str,
    **{key: float if name == "threshold_ratio" else int for key, name in _FLOORS.items()},
    _METRIC_CLIP: float,
    _MAX_CLIP: float,
    _MAX_COUNTER_CLIP: float,
    _ATTEMPTS: int,
    _MEMORY: str,
    _FORGET_AFTER: float,
    _IDENTITY: str,
    _CHARTER: str,
}
#: All that a charter leaves to its sites.
_BESIDE_CHARTER = {_IDENTITY, _CHARTER, _MEMORY, _FORGET_AFTER}


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a node without a charter has decided for itself, and a server can only keep or be refused."""

    message_types: tuple[str, ...]
    weighted_by: str
    max_clip: float
    max_counter_clip: float
    least_metric_clip: float

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
        if (_CHARTER in self.given) != (_IDENTITY in self.given):
            raise ConfigError(f"{_CHARTER} and {_IDENTITY} go together, and this node has one of them only")
        self._check_charter_alone()
        if self.given.get(_ATTEMPTS, ATTEMPTS) < 1:
            raise ConfigError(f"{_ATTEMPTS} must be at least 1, not {self.given[_ATTEMPTS]}")
        if not 0 < self.forget_after < math.inf:
            raise ConfigError(f"{_FORGET_AFTER} must be a positive number of seconds")
        for message_type in self.message_types:
            check_message_type(message_type)

    def _check_charter_alone(self) -> None:
        others = [key for key in self.given if key in _KEYS and key not in _BESIDE_CHARTER]
        if self.has_charter and others:
            raise ConfigError(
                f"{', '.join(others)} beside {_CHARTER}: the charter says what this node takes part in, and "
                "it answers nothing in clear; leave the others out"
            )

    @property
    def plain(self) -> bool:
        """Whether this node also answers in clear."""
        return bool(self.given.get(_PLAIN, False))

    @property
    def message_types(self) -> tuple[str, ...]:
        """In full, with the function of the app that they call."""
        return tuple(one.strip() for one in str(self.given.get(_TYPES, "train,evaluate")).split(","))

    @property
    def has_charter(self) -> bool:
        return _CHARTER in self.given

    @cached_property
    def charter(self) -> Charter:
        """This site's own copy of what was agreed on."""
        return Charter.load(self._path(_CHARTER))

    @cached_property
    def identity(self) -> Identity:
        return Identity.load(self._path(_IDENTITY))

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

    @property
    def attempts(self) -> int:
        """How often this node contributes to one model."""
        return self.charter.attempts if self.has_charter else int(self.given.get(_ATTEMPTS, ATTEMPTS))

    @property
    def rules(self) -> Rules:
        max_clip = float(self.given.get(_MAX_CLIP, math.inf))
        return Rules(
            message_types=self.message_types,
            weighted_by=str(self.given.get(_WEIGHT, "num-examples")),
            max_clip=max_clip,
            max_counter_clip=float(self.given.get(_MAX_COUNTER_CLIP, max_clip)),
            least_metric_clip=float(self.given.get(_METRIC_CLIP, 0.0)),
        )

    def _path(self, key: str) -> Path:
        path = Path(str(self.given.get(key, "")))
        if not path.is_file():
            raise ConfigError(f"rounds under a charter need a file in this node's configuration: {key}")
        return path
