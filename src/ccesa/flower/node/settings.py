"""The settings of a node come from keys in its own configuration. The server cannot change them.

``flower-supernode --node-config 'ccesa-floor-clients=10 ccesa-memory="/var/lib/ccesa"'``. A charter takes the
place of most keys: ``ccesa-charter="/etc/ccesa/charter.toml" ccesa-identity="/etc/ccesa/site.key"``

Without a charter the server chooses the noise. The node computes its worth from the numbers of the mechanism.
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
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.flower.both.terms import COUNTER_CLIP, DEFAULTS, ReplyTerms, check_message_type
from ccesa.privacy.ledger import Account, Ledger
from ccesa.privacy.mechanism import Mechanism, check_budget

_PREFIX, _FLOOR = "ccesa-", "ccesa-floor-"
#: The keys that a charter leaves to its nodes.
_LEFT = ("identity", "charter", "memory", "forget-after", "threads", "min-noise", "budget", "ledger")
_BESIDE_CHARTER = {_PREFIX + name for name in _LEFT}


class NodeSettings(
    msgspec.Struct, frozen=True, kw_only=True, dict=True, rename=lambda name: _PREFIX + name.replace("_", "-")
):
    """The checked keys of one node. The field ``max_clip`` is the key ``ccesa-max-clip``, and so on."""

    #: Whether this node also answers in the clear.
    answers_in_clear: bool = msgspec.field(name="ccesa-plain", default=False)
    #: Full types, separated by commas: ``train.probe`` calls another function of the app than ``train``.
    message_types: str = ",".join(DEFAULTS.message_types)
    weighted_by: str = DEFAULTS.weighted_by
    minimum_metric_clip: float = msgspec.field(name="ccesa-floor-metric_clip", default=0.0)
    max_clip: float = math.inf
    #: By default ``max_clip``.
    max_counter_clip: float | None = None
    #: How often this node contributes to one task, and releases shares for it; a charter has its own numbers.
    attempts: Annotated[int, msgspec.Meta(ge=1)] = ATTEMPTS
    releases: Annotated[int, msgspec.Meta(ge=1)] = RELEASES
    #: The folder in which this node remembers what must not happen twice.
    memory: str | None = None
    #: How many seconds the keys of a round wait for its next message; no message of Flower lives longer.
    forget_after: float = float(DEFAULT_TTL)
    #: The maximum of threads that make masks; 0: as many as help.
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: The minimum standard deviation of the noise in a sum, in units of the norm.
    min_noise: float = 0.0
    #: Epsilon and delta, separated by a comma, that all rounds of one training may spend.
    budget: str | None = None
    #: The file to which every vector is charged. It has the budget of all trainings together.
    ledger: str | None = None
    #: How many of all nodes may work with the server. Their noise does not count.
    colluders: Annotated[int, msgspec.Meta(ge=0)] = 0
    identity_file: str | None = msgspec.field(name="ccesa-identity", default=None)
    charter_file: str | None = msgspec.field(name="ccesa-charter", default=None)
    #: The node's own minimums for rounds; the guard has the others.
    floor: Floor = msgspec.field(name="floor", default=Floor())

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "NodeSettings":
        """Return the settings in a node's configuration; ConfigError for an unknown key."""
        given = {key: value for key, value in config.items() if key.startswith(_PREFIX)}
        for key, value in given.items():
            if key not in _KEYS:
                raise ConfigError(f"this node's configuration has unknown key {key!r}; known are {', '.join(_KEYS)}")
            _convert(value, _KEYS[key], f"{key} in this node's configuration")
        others = [key for key in given if key not in _BESIDE_CHARTER]
        if "ccesa-charter" in given and others:
            raise ConfigError(
                f"leave out {', '.join(others)} beside ccesa-charter: the charter has these settings, and the "
                "node answers nothing in the clear"
            )
        floor = {name: given.pop(_FLOOR + name) for name in Floor.__struct_fields__ if _FLOOR + name in given}
        return _convert({**given, "floor": floor}, cls, "this node's configuration")

    def __post_init__(self) -> None:
        if (self.charter_file is None) != (self.identity_file is None):
            raise ConfigError("ccesa-charter and ccesa-identity go together; this node has only one of them")
        if self.releases > self.attempts:
            raise ConfigError(f"ccesa-releases must be at most {self.attempts} (ccesa-attempts), not {self.releases}")
        if not 0 < self.forget_after < math.inf:
            raise ConfigError("ccesa-forget-after must be a positive number of seconds")
        for message_type in self._message_types:
            check_message_type(message_type)
        if not 0 <= self.min_noise < math.inf:
            raise ConfigError(f"ccesa-min-noise must be 0 or greater, not {self.min_noise}")
        if self.needs_noise and self.answers_in_clear:
            raise ConfigError("leave out ccesa-plain, or the keys with which this node insists on noise")
        if self.budget is not None:
            _ = self.allowed
            if self.ledger is None:
                raise ConfigError("ccesa-budget needs ccesa-ledger, which counts the vectors of all trainings")

    @property
    def needs_noise(self) -> bool:
        """Whether this node refuses rounds without noise."""
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
        return Charter.load(_file(self.charter_file, "ccesa-charter"))

    @cached_property
    def identity(self) -> Identity:
        return Identity.load(_file(self.identity_file, "ccesa-identity"))

    @property
    def is_helper(self) -> bool:
        """Whether this node's own charter names its identity as a helper."""
        return self.has_charter and self.identity.public in {seat.key for seat in self.charter.helper_seats}

    def check_terms(self, message_type: str, terms: ReplyTerms) -> None:
        """Refuse terms beyond this node's limits. With them a lying server could make one node stand out."""
        if terms.message_type != message_type:
            raise ConfigError(f"terms for {terms.message_type!r} came in a message of type {message_type!r}")
        if message_type not in self._message_types:
            raise ConfigError(f"type {message_type!r} is not one of {self._message_types} (ccesa-message-types)")
        if terms.mechanism is not None:
            return  # nothing is weighted, and one norm bounds all
        if terms.weighted_by != self.weighted_by:
            raise ConfigError(
                f"the server weights by {terms.weighted_by!r}, this node by {self.weighted_by!r} (ccesa-weighted-by)"
            )
        if terms.clip > self.max_clip:
            raise ConfigError(f"clip = {terms.clip:g}, this node allows {self.max_clip:g} (ccesa-max-clip)")
        counter_clip = self.max_clip if self.max_counter_clip is None else self.max_counter_clip
        if terms.counters and counter_clip < COUNTER_CLIP:
            raise ConfigError(
                f"{len(terms.counters)} counters are clipped at {COUNTER_CLIP:g}, this node allows {counter_clip:g} "
                "(ccesa-max-counter-clip)"
            )
        if terms.metric_clip < self.minimum_metric_clip:
            raise ConfigError(
                f"metric_clip = {terms.metric_clip:g}, this node's floor is {self.minimum_metric_clip:g} "
                "(ccesa-floor-metric_clip)"
            )

    @property
    def _message_types(self) -> list[str]:
        return [one.strip() for one in self.message_types.split(",")]


_KEYS = {field.encode_name: field.type for field in msgspec.structs.fields(NodeSettings)[:-1]}
_KEYS |= {_FLOOR + field.name: field.type for field in msgspec.structs.fields(Floor)}


def _convert(value: object, kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}") from error


def _file(name: str | None, key: str) -> Path:
    path = Path(name or "")
    if not path.is_file():
        raise ConfigError(f"{key} in this node's configuration must name a file")
    return path


def check_noise(own: NodeSettings, config: RoundConfig, mechanism: Mechanism | None) -> None:
    """Refuse a round with less noise than this node insists on."""
    if mechanism is None:
        if own.needs_noise:
            raise ConfigError("this node refuses rounds without noise (ccesa-min-noise, ccesa-budget, ccesa-ledger)")
        return
    if not own.has_charter:
        _check_without_charter(own, config, mechanism)
    multiplier = 1 / math.sqrt(mechanism.release.mu2)
    if multiplier < own.min_noise:
        raise ConfigError(f"the noise is {multiplier:.4g} times the norm, below ccesa-min-noise = {own.min_noise:g}")
    if own.budget is not None:
        epsilon, delta = own.allowed
        spent = mechanism.release_at(mechanism.honest, epsilon).times(mechanism.rounds).epsilon(delta)
        if not spent <= epsilon:
            raise ConfigError(
                f"{mechanism.rounds} round(s) with this noise spend epsilon = {spent:.4g} at delta = {delta:g}, "
                f"this node allows {epsilon:g} (ccesa-budget)"
            )


def account_of(own: NodeSettings, mechanism: Mechanism | None) -> Account | None:
    """Return the account to which vectors with this noise are charged; None without a ledger."""
    if own.ledger is None or mechanism is None:
        return None
    return Ledger(own.ledger).account(mechanism, own.charter.digest if own.has_charter else None)


def _check_without_charter(own: NodeSettings, config: RoundConfig, mechanism: Mechanism) -> None:
    """Refuse a norm above this node's, or noise that counts on more honest nodes than are in every sum."""
    if mechanism.against != "follows":
        raise ConfigError("noise against a server that lies needs a charter")
    if own.colluders and not config.accept:
        raise ConfigError("without accept, colluding nodes could choose whose noise is missing (ccesa-colluders)")
    honest = config.min_survivors - own.colluders
    if mechanism.honest > honest:
        raise ConfigError(f"the noise needs {mechanism.honest} honest nodes; a sum has only {honest} (ccesa-colluders)")
    if mechanism.norm > own.max_clip:
        raise ConfigError(f"norm = {mechanism.norm:g}, this node allows {own.max_clip:g} (ccesa-max-clip)")
