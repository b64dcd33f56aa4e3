"""RoundConfig: everything about a round that is public and agreed before it starts.

A configuration validates itself, has exactly one encoding, and that encoding's hash, the
*context*, enters every derivation of the round: change a field and nothing decrypts any more.
"""

import math
import operator
import os
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from ccesa import labels, wire, words
from ccesa.errors import ConfigError, MalformedMessage, quoted
from ccesa.guards import CURIOUS, GUARDS, GuardName, guard_named

#: Of the wire format. Parties with different versions refuse each other's configurations by name.
VERSION: Final = 2
ROUND_ID_BYTES = 32
CHARTER_BYTES = 32
MAX_CLIENTS = 2**32 - 1
#: What one byte string of the wire format can carry.
MAX_VECTOR_BYTES = 2**32 - 1
#: Shares are points of GF(65521) with distinct non-zero x-coordinates.
MAX_HOLDERS = 65520
MAX_BYTES = 1024  # of an encoded configuration; the longest has less than half


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the typed parts of a configuration or a charter."""


def whole_number(name: str, value: object) -> int:
    """As an int, also if it is one of numpy's."""
    if not hasattr(value, "__index__"):
        raise ConfigError(f"{name} must be a whole number, not {quoted(value)}")
    return operator.index(value)


def check_clients(clients: int) -> None:
    if clients < 3:
        raise ConfigError(f"a round needs at least 3 clients, not {clients}: with 2 the sum tells all")
    if clients > MAX_CLIENTS:
        raise ConfigError(f"a round has at most {MAX_CLIENTS} clients, not {clients}")


def _check_integer(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{name} must be a whole number, not {quoted(value)}")
    if value.bit_length() > 63:
        raise ConfigError(f"{name} must lie below 2^63, not {quoted(value)}")


def _check_probability(part: Part, name: str) -> None:
    p = getattr(part, name)
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 < p <= 1:
        raise ConfigError(f"{name} must lie in (0, 1], not {quoted(p)}")
    msgspec.structs.force_setattr(part, name, float(p))  # one encoding: 1 and 1.0 are the same p


def _check_circle_degree(name: str, degree: int) -> None:
    _check_integer(name, degree)
    if degree < 2 or degree % 2:
        raise ConfigError(
            f"{name} must be an even number of at least 2, not {degree}: half on each side of the circle"
        )


class ErdosRenyi(Part, frozen=True, kw_only=True, tag="erdos-renyi"):
    """Each pair is an edge with probability p; it carries masks with probability mask_p / p."""

    p: float
    mask_p: float | None = None

    def __post_init__(self) -> None:
        _check_probability(self, "p")
        if self.mask_p is not None:
            _check_probability(self, "mask_p")
            if self.mask_p > self.p:
                raise ConfigError(
                    f"mask_p = {self.mask_p} exceeds p = {self.p}: masks run on share edges only"
                )

    def mean_degree(self, clients: int) -> float:
        return self.p * (clients - 1)

    def max_degree(self, clients: int) -> int:
        return clients - 1

    def mean_mask_degree(self, clients: int) -> float:
        return (self.mask_p or self.p) * (clients - 1)

    def mask_edges(self, degree: int) -> int | None:
        return degree if self.mask_p is None else None


class Harary(Part, frozen=True, kw_only=True, tag="harary"):
    """A random circle on which everyone is joined to the nearest degree / 2 on each side."""

    degree: int
    mask_degree: int | None = None

    def __post_init__(self) -> None:
        _check_circle_degree("degree", self.degree)
        if self.mask_degree is not None:
            _check_circle_degree("mask_degree", self.mask_degree)
            if self.mask_degree > self.degree:
                raise ConfigError(
                    f"mask_degree = {self.mask_degree} exceeds degree = {self.degree}: "
                    "masks run on share edges only"
                )

    def mean_degree(self, clients: int) -> float:
        return self.max_degree(clients)

    def max_degree(self, clients: int) -> int:
        return min(self.degree, clients - 1)

    def mean_mask_degree(self, clients: int) -> float:
        return self.mask_edges(self.max_degree(clients))

    def mask_edges(self, degree: int) -> int:
        return min(self.mask_degree or degree, degree)


class Complete(Part, frozen=True, kw_only=True, tag="complete"):
    """Everyone with everyone: conventional secure aggregation."""

    mask_p: float | None = None
    mask_degree: int | None = None

    def __post_init__(self) -> None:
        if self.mask_p is not None and self.mask_degree is not None:
            raise ConfigError("a complete graph takes mask_p or mask_degree, not both")
        if self.mask_p is not None:
            _check_probability(self, "mask_p")
        if self.mask_degree is not None:
            _check_circle_degree("mask_degree", self.mask_degree)

    def mean_degree(self, clients: int) -> float:
        return clients - 1

    def max_degree(self, clients: int) -> int:
        return clients - 1

    def mean_mask_degree(self, clients: int) -> float:
        if self.mask_p is not None:
            return self.mask_p * (clients - 1)
        return min(self.mask_degree or clients - 1, clients - 1)

    def mask_edges(self, degree: int) -> int | None:
        """How many of a client's edges carry masks, where that follows from their number."""
        return min(self.mask_degree or degree, degree) if self.mask_p is None else None


Graph = ErdosRenyi | Harary | Complete


class Majority(Part, frozen=True, kw_only=True, tag="majority"):
    """t_i = floor((d_i + 1) / 2) + 1: two disjoint sets of t_i holders cannot exist."""

    def of(self, degree: int) -> int:
        return (degree + 1) // 2 + 1


class Linear(Part, frozen=True, kw_only=True, tag="linear"):
    """t_i = floor(slope · d_i / 1024) + base, and never below the majority.

    For colluders among neighbours whose number varies: the certified maximum of colluders grows with it.
    """

    slope: int
    base: int

    def __post_init__(self) -> None:
        for name, value, most in (("slope", self.slope, 1024), ("base", self.base, MAX_HOLDERS)):
            _check_integer(name, value)
            if not 0 <= value <= most:
                raise ConfigError(f"{name} of a linear threshold must lie in 0..{most}, not {value}")

    def of(self, degree: int) -> int:
        return max((degree + 1) // 2 + 1, self.slope * degree // 1024 + self.base)


class Fixed(Part, frozen=True, kw_only=True, tag="fixed"):
    """The paper's common t."""

    t: int

    def __post_init__(self) -> None:
        _check_integer("t", self.t)
        if self.t < 2:
            raise ConfigError(f"threshold t must be at least 2, not {self.t}: one holder alone would know")

    def of(self, degree: int) -> int:
        return self.t


Threshold = Majority | Linear | Fixed


_CHOICES: dict[str, tuple[object, ...]] = {
    "version": (VERSION,),
    "bits": words.BITS,
    "generator": ("aes128-ctr", "chacha20"),
    "guard": tuple(GUARDS),
}
#: What is given in place of a name.
_MEANT = {
    "graph": ": give ccesa.Complete(), ccesa.Harary(degree=...) or ccesa.ErdosRenyi(p=...)",
    "threshold": ": give ccesa.Majority(), ccesa.Linear(slope=…, base=…) or ccesa.Fixed(t=…)",
}


class RoundConfig(Part, frozen=True, kw_only=True, tag="round"):
    """What all parties of one round agree on. See docs/protocol.md, "Configuration"."""

    version: Literal[2] = VERSION
    round_id: bytes = msgspec.field(default_factory=lambda: os.urandom(ROUND_ID_BYTES))
    clients: int
    length: int
    bits: Literal[8, 16, 32, 64] = 32
    graph: Graph = msgspec.field(default_factory=Complete)
    threshold: Threshold = msgspec.field(default_factory=Majority)
    generator: Literal["aes128-ctr", "chacha20"] = "aes128-ctr"
    min_survivors: int = 3
    guard: GuardName = CURIOUS.name
    #: Digest of what the clients were asked to work on; for learning, of the global model.
    task: bytes = b""
    #: Digest of the charter, under a guard that has one and only there.
    charter: bytes | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_sizes()
        self._check_graph()
        self._check_threshold()
        self._check_guard()

    @property
    def context(self) -> bytes:
        return labels.digest(labels.CONTEXT, self.encode())

    def encode(self) -> bytes:
        """What a charter says is not said again: there is no place to differ from it."""
        return wire.encode(CharteredRound.of(self) if guard_named(self.guard).chartered else self)

    @staticmethod
    def decode(data: bytes) -> "RoundConfig":
        """Strictly: only the one encoding that ``encode`` gives is accepted.

        A configuration under a charter says little without it: ``Charter.decode`` reads it.
        """
        if b"chartered-round" in bytes(data[:32]):
            raise MalformedMessage("a configuration under a charter: Charter.decode reads it")
        found = wire.decode(_DECODER, data, MAX_BYTES, "configuration")
        if guard_named(found.guard).chartered:
            raise MalformedMessage(f"a configuration with guard = {found.guard} that is not under a charter")
        return found

    @property
    def vector_bytes(self) -> int:
        return self.length * self.bits // 8

    def _check_choices(self) -> None:
        """msgspec checks types when it decodes, not when Python code builds a configuration."""
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if not any(value == known and type(value) is type(known) for known in allowed):
                raise ConfigError(
                    f"{name} must be one of {', '.join(map(str, allowed))}, not {quoted(value)}"
                )
        for name, kind in (("round_id", bytes), ("task", bytes), ("graph", Graph), ("threshold", Threshold)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ConfigError(f"{name} cannot be {quoted(value)}{_MEANT.get(name, '')}")

    def _check_sizes(self) -> None:
        for name in ("clients", "length", "min_survivors"):
            _check_integer(name, getattr(self, name))
        if len(self.round_id) != ROUND_ID_BYTES:
            raise ConfigError(f"round_id must have {ROUND_ID_BYTES} bytes, not {len(self.round_id)}")
        if len(self.task) > 64:
            raise ConfigError(f"task is a digest of at most 64 bytes, not {len(self.task)}")
        check_clients(self.clients)
        if self.length < 1 or self.vector_bytes > MAX_VECTOR_BYTES:
            most = MAX_VECTOR_BYTES * 8 // self.bits
            raise ConfigError(f"length must lie in 1..{most} for {self.bits} bits, not {self.length}")
        if not 2 <= self.min_survivors <= self.clients:
            raise ConfigError(
                f"min_survivors must lie in 2..clients = {self.clients}, not {self.min_survivors}"
            )

    def _check_guard(self) -> None:
        if not guard_named(self.guard).chartered:
            if self.charter is not msgspec.UNSET:
                raise ConfigError(f"a charter does not go with guard = {self.guard}")
            return
        if not isinstance(self.charter, bytes) or len(self.charter) != CHARTER_BYTES:
            raise ConfigError(
                f"guard = {self.guard} needs the {CHARTER_BYTES}-byte digest of a charter: make the "
                "configuration with Charter.config(...)"
            )
        if getattr(self.graph, "mask_p", None) or getattr(self.graph, "mask_degree", None):
            raise ConfigError(
                f"under guard = {self.guard} masks run on every edge: a lying server chooses who drops out "
                "after it has seen the graph; leave out mask_p and mask_degree"
            )

    def _check_graph(self) -> None:
        degree = self.graph.mean_degree(self.clients)
        if degree + 1 > MAX_HOLDERS:
            raise ConfigError(
                f"about {degree:.0f} neighbours a client; a secret can be shared among at most "
                f"{MAX_HOLDERS} holders: choose a sparser graph"
            )
        if isinstance(self.graph, Harary) and self.graph.degree >= self.clients:
            raise ConfigError(
                f"degree = {self.graph.degree} needs more than {self.graph.degree} clients, there are "
                f"{self.clients}: lower it or use the complete graph"
            )
        if isinstance(self.graph, Complete) and (self.graph.mask_degree or 0) >= self.clients:
            raise ConfigError(
                f"mask_degree = {self.graph.mask_degree} needs more clients than {self.clients}"
            )

    def _check_threshold(self) -> None:
        if isinstance(self.threshold, Linear):
            self._check_linear(self.threshold)
        if isinstance(self.threshold, Fixed):
            self._check_fixed(self.threshold.t)

    def largest_threshold(self, degree: int) -> int:
        """The largest t_i with which a client of this degree can take part.

        Everyone who holds a share counts; where neighbours have to confirm, only they do.
        """
        return degree + guard_named(self.guard).dealer_counts

    def _check_linear(self, rule: Linear) -> None:
        """It is never below the majority; but a client of the mean degree has to be able to share."""
        degree = int(self.graph.mean_degree(self.clients))
        t, most = rule.of(degree), self.largest_threshold(degree)
        if t > most:
            raise ConfigError(
                f"linear threshold t = {t} exceeds the neighbourhood: at the mean degree only {most} clients "
                f"count{self._counted}; lower slope or base"
            )

    @property
    def _counted(self) -> str:
        included = guard_named(self.guard).dealer_counts
        return ", the dealer included" if included else ": its neighbours, who have to confirm"

    def _check_fixed(self, t: int) -> None:
        mean = self.graph.mean_degree(self.clients)
        largest = self.largest_threshold(self.graph.max_degree(self.clients))
        if t > largest:
            raise ConfigError(
                f"threshold t = {t} exceeds the neighbourhood: at most {largest} clients count{self._counted}"
            )
        # Two disjoint sets of t holders would let a server ask one for b_i and the other for s_i.
        if 2 * t <= mean + 1:
            # Where degrees are random, four standard deviations above their mean leave hardly anyone out.
            spread = 4 * math.sqrt(mean * (1 - self.graph.p)) if isinstance(self.graph, ErdosRenyi) else 0
            raise ConfigError(
                f"threshold t = {t} is unsafe: {mean + 1:.0f} clients hold a share, so two disjoint "
                f"sets of t exist and could open both secrets of one client; use at least "
                f"{int(mean + 1 + spread) // 2 + 1}"
            )


_DECODER = msgspec.msgpack.Decoder(RoundConfig)


class CharteredRound(Part, frozen=True, kw_only=True, tag="chartered-round"):
    """A configuration under a charter, as it travels: the charter's digest, and what is left."""

    version: Literal[2] = VERSION
    charter: bytes
    round_id: bytes
    length: int
    task: bytes

    @classmethod
    def of(cls, config: RoundConfig) -> "CharteredRound":
        return cls(**{name: getattr(config, name) for name in cls.__struct_fields__})

    @staticmethod
    def decode(data: bytes) -> "CharteredRound":
        return wire.decode(_CHARTERED_DECODER, data, MAX_BYTES, "configuration under a charter")


_CHARTERED_DECODER = msgspec.msgpack.Decoder(CharteredRound)


def threshold_share(threshold: int, degree: int) -> float:
    """Holders that have to agree, a neighbour."""
    return threshold / max(degree, 1)


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _check_share(share: object) -> None:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 2:
        raise ConfigError(f"floor threshold_share must lie in [0, 2], not {quoted(share)}")


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """What a client insists on by itself, whatever the server proposes.

    What is left out stays as ``BARE_FLOOR`` has it. ``threshold_share`` is the least t_i / d_i, of each
    neighbourhood: without it a higher degree would make the same threshold weaker. Where degrees vary,
    ``degree``, ``mask_degree`` and ``threshold`` are about a client of mean degree.
    """

    clients: int | None = None
    degree: int | None = None
    mask_degree: int | None = None
    threshold: int | None = None
    threshold_share: float | None = None
    survivors: int | None = None

    def __post_init__(self) -> None:
        for name, least in self._given():
            if name == "threshold_share":
                _check_share(least)
            else:
                _check_integer(f"floor {name}", least)

    def over(self, default: "Floor") -> "Floor":
        """The default, with what this floor says instead."""
        return msgspec.structs.replace(default, **dict(self._given()))

    def lacking(self, **found: float) -> str | None:
        """The first of what was found that is below this floor, in words; None if nothing is."""
        for name, least in self._given():
            if name in found and found[name] < least:
                return f"{name} = {_short(found[name])}, this client's floor is {_short(least)}"
        return None

    def check(self, config: RoundConfig) -> None:
        """Refuse a configuration that is weaker than this floor, before any key exists."""
        degree = config.graph.mean_degree(config.clients)
        t = config.threshold.of(int(degree))
        lacking = self.lacking(
            clients=config.clients,
            degree=degree,
            mask_degree=config.graph.mean_mask_degree(config.clients),
            threshold=t,
            threshold_share=threshold_share(t, int(degree)),
            survivors=config.min_survivors,
        )
        if lacking:
            raise ConfigError(f"the round offers {lacking}")

    def _given(self) -> Iterator[tuple[str, float]]:
        every = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return (item for item in every if item[1] is not None)


#: Where nothing else is asked for: no sum of two, no vector without a mask.
BARE_FLOOR = Floor(clients=3, degree=1, mask_degree=1, threshold=2, threshold_share=0.0, survivors=2)
