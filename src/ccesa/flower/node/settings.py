"""What a node insists on, whatever the server says: keys of its own configuration.

``flower-supernode --node-config 'ccesa-floor-clients=10 ccesa-memory="/var/lib/ccesa"'``, or with a charter,
which says all of it: ``ccesa-charter="/etc/ccesa/charter.toml" ccesa-identity="/etc/ccesa/site.key"``
"""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
from flwr.app import DEFAULT_TTL

from ccesa.agreement.agreement import ATTEMPTS, RELEASES
from ccesa.agreement.charter import Charter
from ccesa.agreement.floor import Floor
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.flower.both.terms import COUNTER_CLIP, DEFAULTS, Terms, check_message_type
from ccesa.privacy.mechanism import check_budget

_PREFIX, _FLOOR = "ccesa-", "ccesa-floor-"
#: All that a charter leaves to its nodes.
_BESIDE_CHARTER = {
    "ccesa-identity",
    "ccesa-charter",
    "ccesa-memory",
    "ccesa-forget-after",
    "ccesa-threads",
    "ccesa-min-noise",
    "ccesa-budget",
    "ccesa-ledger",
}


def _key(field: str) -> str:
    return _PREFIX + field.replace("_", "-")


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True, dict=True, rename=_key):
    """The keys of one node, checked. Field ``max_clip`` is key ``ccesa-max-clip``, and so on."""

    #: Whether this node also answers in the clear.
    answers_in_clear: bool = msgspec.field(name="ccesa-plain", default=False)
    #: Separated by commas, in full, with the function of the app that they call.
    message_types: str = ",".join(DEFAULTS.message_types)
    weighted_by: str = DEFAULTS.weighted_by
    least_metric_clip: float = msgspec.field(name="ccesa-floor-metric_clip", default=0.0)
    max_clip: float = math.inf
    #: What is not given is as ``max_clip``.
    max_counter_clip: float | None = None
    #: How often this node contributes to one task, and releases shares for one; a charter has its own.
    attempts: int = ATTEMPTS
    releases: int = RELEASES
    #: The folder in which this node remembers what must not happen twice.
    memory: str | None = None
    #: Seconds that the keys of a round wait for its next message; no message of Flower's lives longer.
    forget_after: float = float(DEFAULT_TTL)
    #: The most threads that make masks; 0 stands for as many as help.
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: The least standard deviation of the noise in a sum, in units of the norm.
    min_noise: float = 0.0
    #: Epsilon and delta, separated by a comma: what one training may spend, if all its rounds come.
    budget: str | None = None
    #: The file to which every vector is charged; it has the budget of all trainings together.
    ledger: str | None = None
    #: So many of all nodes may work with the server: their noise does not count.
    colluders: int = 0
    identity_file: str | None = msgspec.field(name="ccesa-identity", default=None)
    charter_file: str | None = msgspec.field(name="ccesa-charter", default=None)
    #: What this node says itself about rounds; the rest is up to the guard.
    floor: Floor = msgspec.field(name="floor", default=Floor())

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "NodeSettings":
        """Return the settings in a node's configuration; ConfigError where a key is not understood."""
        given = {key: value for key, value in config.items() if key.startswith(_PREFIX)}
        for key, value in given.items():
            if key not in _KEYS:
                raise ConfigError(f"this node's configuration has key {key!r}; there are {', '.join(_KEYS)}")
            try:
                msgspec.convert(value, _KEYS[key])
            except msgspec.ValidationError as error:
                raise ConfigError(f"{key} in this node's configuration: {error}") from error
        others = [key for key in given if key not in _BESIDE_CHARTER]
        if "ccesa-charter" in given and others:
            raise ConfigError(
                f"{', '.join(others)} beside ccesa-charter: the charter says what this node takes part in, "
                "and it answers nothing in the clear; leave the others out"
            )
        floor = {name: given.pop(_FLOOR + name) for name in Floor.__struct_fields__ if _FLOOR + name in given}
        try:
            return msgspec.convert({**given, "floor": floor}, cls)
        except msgspec.ValidationError as error:
            raise ConfigError(f"this node's configuration: {error}") from error

    def __post_init__(self) -> None:
        if (self.charter_file is None) != (self.identity_file is None):
            raise ConfigError(
                "ccesa-charter and ccesa-identity go together, and this node has one of them only"
            )
        self._check_attempts()
        if not 0 < self.forget_after < math.inf:
            raise ConfigError("ccesa-forget-after must be a positive number of seconds")
        for message_type in self._message_types:
            check_message_type(message_type)
        if self.colluders < 0:
            raise ConfigError(f"ccesa-colluders must be 0 or greater, not {self.colluders}")
        if not 0 <= self.min_noise < math.inf:
            raise ConfigError(f"ccesa-min-noise must be 0 or greater, not {self.min_noise}")
        if self.needs_noise and self.answers_in_clear:
            raise ConfigError("ccesa-plain beside noise that this node insists on: leave one of them out")
        if self.budget is not None:
            _ = self.allowed
            if self.ledger is None:
                raise ConfigError("ccesa-budget goes with ccesa-ledger: nobody else counts what has left")

    def _check_attempts(self) -> None:
        if self.attempts < 1:
            raise ConfigError(f"ccesa-attempts must be at least 1, not {self.attempts}")
        if not 1 <= self.releases <= self.attempts:
            raise ConfigError(
                f"ccesa-releases must lie in 1..{self.attempts} (ccesa-attempts), not {self.releases}"
            )

    @property
    def needs_noise(self) -> bool:
        """Whether this node takes part in rounds with noise only."""
        return self.min_noise > 0 or self.budget is not None or self.ledger is not None

    @property
    def allowed(self) -> tuple[float, float]:
        """Epsilon and delta that one training may spend."""
        try:
            epsilon, delta = map(float, (self.budget or "").split(","))
            check_budget(epsilon, delta)
        except ValueError as error:  # ConfigError is one
            raise ConfigError(f"ccesa-budget must be epsilon,delta as in 3.0,1e-6: {error}") from error
        return epsilon, delta

    @property
    def has_charter(self) -> bool:
        return self.charter_file is not None

    @cached_property
    def charter(self) -> Charter:
        """This node's own copy of what was agreed on."""
        return Charter.load(_file(self.charter_file, "ccesa-charter"))

    @cached_property
    def identity(self) -> Identity:
        """This node's private key."""
        return Identity.load(_file(self.identity_file, "ccesa-identity"))

    def check_terms(self, message_type: str, terms: Terms) -> None:
        """Refuse what is not as agreed. A server that lies could choose it so that one node stands out."""
        if terms.message_type != message_type:
            raise ConfigError(f"terms of {terms.message_type!r} in a message of type {message_type!r}")
        if message_type not in self._message_types:
            raise ConfigError(
                f"a message of type {message_type!r}, this node answers {self._message_types} "
                "(ccesa-message-types)"
            )
        if terms.mechanism is not None:
            return  # nothing is weighted, and one norm bounds all
        if terms.weighted_by != self.weighted_by:
            raise ConfigError(
                f"replies weighted by {terms.weighted_by!r}, this node weights by {self.weighted_by!r} "
                "(ccesa-weighted-by)"
            )
        if terms.clip > self.max_clip:
            raise ConfigError(f"clip = {terms.clip:g}, this node allows {self.max_clip:g} (ccesa-max-clip)")
        counter_clip = self.max_clip if self.max_counter_clip is None else self.max_counter_clip
        if terms.counters and counter_clip < COUNTER_CLIP:
            raise ConfigError(
                f"{len(terms.counters)} arrays are counters, clipped at {COUNTER_CLIP:g}, this node allows "
                f"{counter_clip:g} (ccesa-max-counter-clip)"
            )
        if terms.metric_clip < self.least_metric_clip:
            raise ConfigError(
                f"metric_clip = {terms.metric_clip:g}, this node's floor is {self.least_metric_clip:g} "
                "(ccesa-floor-metric_clip)"
            )

    @property
    def _message_types(self) -> list[str]:
        return [one.strip() for one in self.message_types.split(",")]


#: Every key, and of which type it is.
_KEYS = {field.encode_name: field.type for field in msgspec.structs.fields(NodeSettings)[:-1]}
_KEYS |= {_FLOOR + field.name: field.type for field in msgspec.structs.fields(Floor)}


def _file(name: str | None, key: str) -> Path:
    path = Path(name or "")
    if not path.is_file():
        raise ConfigError(f"rounds under a charter need a file in this node's configuration: {key}")
    return path
