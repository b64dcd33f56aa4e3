"""A ``RoundConfig`` has everything about a round that is public and agreed on before it starts.

It validates itself and has exactly one encoding. The hash of that encoding, the *context*, enters every derivation of
the round: after a change of any field nothing decrypts any more. A ``Floor`` is a client's own minimum.
"""

import os
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args

import msgspec

from ccesa import labels, wire, words
from ccesa.crypto import check_words
from ccesa.crypto.keys import AGREEMENTS, DEFAULT, needs_accept
from ccesa.crypto.primitives import GENERATORS
from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError, MalformedMessage, quoted
from ccesa.graphs import Complete, Graph
from ccesa.graphs.thresholds import Degree, Majority, Threshold
from ccesa.guards import ASSISTED, CURIOUS, GUARDS, GuardName, guard_named
from ccesa.parts import Part, check_clients, check_integer, check_range

#: Version of the wire format.
VERSION: Final = 2
SERIES_ID_BYTES = 32
#: Rounds of a series have numbers below this one.
MAX_NUMBER: Final = 2**32 - 1
CHARTER_BYTES = 32
#: More helpers cost more keystreams, and seldom less trust.
MAX_HELPERS = 16
#: The most bytes of a byte string on the wire.
MAX_VECTOR_BYTES = 2**32 - 1
MAX_BYTES = 1024  # of an encoded configuration; the longest has less than half

_CHOICES: dict[str, tuple[object, ...]] = {
    "version": (VERSION,),
    "bits": words.BITS,
    "generator": tuple(GENERATORS),
    "agreement": tuple(AGREEMENTS),
    "accept": (False, True),
    "guard": tuple(GUARDS),
}
#: The types of other fields.
_TYPES: dict[str, Any] = {"series_id": bytes, "graph": Graph, "threshold": Threshold}


class RoundConfig(Part, frozen=True, kw_only=True, tag="round"):
    """The configuration that all parties of one round agree on. See docs/protocol.md, "Configuration".

    Attributes:
        version: Version of the wire format, 2.
        series_id: 32 bytes, fresh for every series; random unless given.
        number: The number of the round in its series, 0 or greater. A single round is a series of one.
        clients: The number of enrolled clients, 3 to 2^32 - 1; their ids are 0 to ``clients`` - 1.
        length: Words of a vector, at least 1; a vector has at most 2^32 - 1 bytes.
        bits: Bits of a word, 8, 16, 32 or 64; sums are modulo 2^bits.
        graph: Which clients hold shares of each other and mask together: Complete, Harary or ErdosRenyi.
        threshold: How many holders open a secret: Majority, Linear or Fixed.
        generator: The generator that expands masks, ``aes128-ctr`` or ``chacha20``.
        agreement: How two clients agree on a secret: ``x25519``, or ``x25519-mlkem768``, which keeps it secret even if
            X25519 is broken later, as by a quantum computer. With a graph it needs ``accept``.
        accept: Whether clients report, before they mask, whose shares they could open. Rounds of a series do.
        min_survivors: The minimum of clients in a sum, 2 to ``clients``.
        guard: ``curious``, for a server that follows the protocol, ``active``, for one that may lie, or
            ``assisted``, for one that may lie and works with all but one of the helpers.
        charter: 32 bytes, the digest of the charter; absent under ``curious``. ``Charter.config`` sets it.

    Raises:
        ConfigError: A field is out of range, or fields do not work together, or not safely.
    """

    version: Literal[2] = VERSION
    series_id: bytes = msgspec.field(default_factory=lambda: os.urandom(SERIES_ID_BYTES))
    number: int = 0
    clients: int
    length: int
    bits: Literal[8, 16, 32, 64] = 32
    graph: Graph = msgspec.field(default_factory=Complete)
    threshold: Threshold = msgspec.field(default_factory=Majority)
    generator: str = "aes128-ctr"
    agreement: str = DEFAULT
    accept: bool = False
    min_survivors: int = 3
    guard: GuardName = CURIOUS.name
    charter: bytes | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_sizes()
        has_graph = guard_named(self.guard).has_graph
        if has_graph:
            self._check_holders()
        self._check_guard()
        if not has_graph and not self.helper_ids:
            raise ConfigError(f"guard = {self.guard} needs helpers: make the configuration with Charter.config(...)")
        if has_graph and needs_accept(self.agreement) and not self.accept:
            raise ConfigError(
                f"agreement = {self.agreement} needs accept = True: clients have to accept the seeds of masks before "
                "they mask"
            )

    @property
    def context(self) -> bytes:
        """The 32-byte hash of the encoding, which enters every message and key of the round."""
        return labels.digest(labels.CONTEXT, self.encode())

    def encode(self) -> bytes:
        """Return the only encoding, at most 1024 bytes. It leaves out the fields that a charter fixes."""
        if not guard_named(self.guard).chartered:
            return wire.encode(self)
        return wire.encode(CharteredRound(**{name: getattr(self, name) for name in CharteredRound.__struct_fields__}))

    @staticmethod
    def decode(data: bytes) -> "RoundConfig":
        """Return the configuration that ``encode`` encoded.

        Args:
            data: At most 1024 bytes. For a round under a charter use ``Charter.decode``.

        Raises:
            MalformedMessage: The bytes are not the only encoding of a valid configuration without a charter.
        """
        if b"chartered-round" in bytes(data[:32]):
            raise MalformedMessage("a configuration under a charter: use Charter.decode")
        found = wire.decode(_DECODER, data, MAX_BYTES, "configuration")
        if guard_named(found.guard).chartered:
            raise MalformedMessage(f"a configuration with guard = {found.guard} that is not under a charter")
        return found

    @property
    def round_id(self) -> bytes:
        """The id of the series and the number: 36 bytes that no other round has."""
        return self.series_id + labels.client_bytes(self.number)

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector."""
        return self.length * self.bits // 8

    @property
    def masked_length(self) -> int:
        """Words of a masked vector: with helpers, check words follow those of the vector."""
        return self.length + (0 if guard_named(self.guard).has_graph else check_words.count(self.bits))

    @property
    def masked_bytes(self) -> int:
        """Bytes of one masked vector."""
        return self.masked_length * self.bits // 8

    @property
    def helper_ids(self) -> range:
        """The ids of the helpers, which follow those of the clients; none without helpers."""
        return range(self.clients, self.clients)

    def _check_choices(self) -> None:
        """Check values and types. msgspec does so only when it decodes, not when Python makes an object."""
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if not any(value == known and type(value) is type(known) for known in allowed):
                raise ConfigError(f"{name} must be one of {', '.join(map(str, allowed))}, not {quoted(value)}")
        for name, kind in _TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                kinds = ", ".join(f"ccesa.{one.__name__}(...)" for one in get_args(kind))
                hint = f": give one of {kinds}" if kinds else ""
                raise ConfigError(f"{name} cannot be {quoted(value)}{hint}")

    def _check_sizes(self) -> None:
        for name in ("number", "clients", "length", "min_survivors"):
            check_integer(name, getattr(self, name))
        if len(self.series_id) != SERIES_ID_BYTES:
            raise ConfigError(f"series_id must have {SERIES_ID_BYTES} bytes, not {len(self.series_id)}")
        check_range("number", self.number, 0, MAX_NUMBER)
        check_clients(self.clients)
        if self.length < 1 or self.masked_bytes > MAX_VECTOR_BYTES:
            most = MAX_VECTOR_BYTES * 8 // self.bits - (self.masked_length - self.length)
            raise ConfigError(f"length must lie in 1..{most} for {self.bits} bits, not {self.length}")
        if not 2 <= self.min_survivors <= self.clients:
            raise ConfigError(f"min_survivors must lie in 2..clients = {self.clients}, not {self.min_survivors}")

    def _check_guard(self) -> None:
        if not guard_named(self.guard).chartered:
            if self.charter is not msgspec.UNSET:
                raise ConfigError(f"a round with guard = {self.guard} has no charter")
            return
        if not isinstance(self.charter, bytes) or len(self.charter) != CHARTER_BYTES:
            raise ConfigError(
                f"guard = {self.guard} needs the {CHARTER_BYTES}-byte digest of a charter: make the configuration "
                "with Charter.config(...)"
            )
        if self.graph.thin:
            raise ConfigError(
                f"leave out mask_p and mask_degree: under guard = {self.guard} masks run on every edge, because a "
                "lying server chooses who drops out after it has seen the graph"
            )

    def _check_holders(self) -> None:
        degree = self.graph.mean_degree(self.clients)
        if degree + 1 > MAX_HOLDERS:
            raise ConfigError(
                f"about {degree:.0f} neighbours per client; a secret can be shared among at most {MAX_HOLDERS} "
                "holders: choose a sparser graph"
            )
        self.graph.check(self.clients)
        self.threshold.check(self.graph, self.clients, guard_named(self.guard).dealer_counts)

    def can_share(self, degree: Degree) -> Any:
        """Return whether a client can take part: enough hold shares of its secrets, and no two sets of t_i do.

        Args:
            degree: The number of the client's neighbours. An array of such numbers gives an array.
        """
        t, holders = self.threshold.of(degree), degree + 1
        shared = (t <= self.largest_threshold(degree)) & (holders < 2 * t)
        return (degree >= 1) & (holders <= MAX_HOLDERS) & shared

    def needed(self, roster: int = 0) -> int:
        """Return the minimum of clients for a round to succeed, if none of them leaves.

        With fewer, everyone has too few neighbours to share with. If degrees vary, this is about a client of
        the mean degree. All clients are needed if no smaller number is enough.

        Args:
            roster: The minimum roster, from the charter.
        """
        if not guard_named(self.guard).has_graph:
            return self.min_survivors
        sizes = range(max(self.min_survivors, roster), self.clients)
        enough = (size for size in sizes if self.can_share(int(self.graph.mean_degree(size))))
        return next(enough, self.clients)

    def largest_threshold(self, degree: Degree) -> Degree:
        """Return the largest t_i with which a client can take part.

        All holders of a share count; only the neighbours count if they have to confirm.

        Args:
            degree: The number of the client's neighbours.
        """
        return degree + guard_named(self.guard).dealer_counts


class AssistedConfig(RoundConfig, frozen=True, kw_only=True, tag="assisted-round"):
    """A round with helpers, under a charter that names them; ``Charter.config`` makes it.

    It is a class of its own because one more field of ``RoundConfig`` would change the encoding of all rounds. There is
    no graph: ``graph``, ``threshold`` and ``accept`` keep their defaults.

    Attributes:
        helpers: The number of helpers, 2 to 16. Their ids in the round follow those of the members.

    Raises:
        ConfigError: A field is out of range, or belongs to a graph.
    """

    guard: GuardName = ASSISTED.name
    helpers: int

    def __post_init__(self) -> None:
        check_range("helpers", self.helpers, 2, MAX_HELPERS)
        super().__post_init__()
        if guard_named(self.guard).has_graph:
            raise ConfigError(f"a round with guard = {self.guard} has no helpers")
        if (self.graph, self.threshold, self.accept) != (Complete(), Majority(), False):
            raise ConfigError(f"leave out graph, threshold and accept: guard = {self.guard} has helpers in their place")

    @property
    def helper_ids(self) -> range:
        """The ids of the helpers, which follow those of the members."""
        return range(self.clients, self.clients + self.helpers)


_DECODER = msgspec.msgpack.Decoder(RoundConfig)


class CharteredRound(Part, frozen=True, kw_only=True, tag="chartered-round"):
    """A configuration under a charter, as it travels: the charter's digest, and the open fields."""

    version: Literal[2] = VERSION
    charter: bytes
    series_id: bytes
    number: int
    length: int
    accept: bool

    @staticmethod
    def decode(data: bytes) -> "CharteredRound":
        return wire.decode(_CHARTERED_DECODER, data, MAX_BYTES, "configuration under a charter")


_CHARTERED_DECODER = msgspec.msgpack.Decoder(CharteredRound)


def threshold_ratio(threshold: int, degree: int) -> float:
    """Return t_i / d_i: the holders that open a secret, per neighbour."""
    return threshold / max(degree, 1)


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """A client's own minimum, whatever the server proposes.

    By default fields are as in the floor of every client: no round of two, no vector without a mask.
    If degrees vary, ``degree``, ``mask_degree`` and ``threshold`` are about a client of mean degree.

    Attributes:
        clients: The minimum of clients in a round (3).
        degree: The minimum of a client's neighbours (1).
        mask_degree: The minimum of neighbours that share a mask with a client (1).
        threshold: The minimum of holders that open a secret, t_i (2).
        threshold_ratio: The minimum of t_i / d_i in each neighbourhood, in [0, 2] (0). Without it a server could
            raise the degree, which weakens the same threshold.
        survivors: The minimum of clients in a sum (2).

    Raises:
        ConfigError: A field is not a number, or the ratio is out of range.
    """

    clients: int | None = None
    degree: int | None = None
    mask_degree: int | None = None
    threshold: int | None = None
    threshold_ratio: float | None = None
    survivors: int | None = None

    def __post_init__(self) -> None:
        for name, least in self._given():
            if name != "threshold_ratio":
                check_integer(f"floor {name}", least)
            elif isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 2:
                raise ConfigError(f"floor threshold_ratio must lie in [0, 2], not {quoted(least)}")

    def over(self, default: "Floor") -> "Floor":
        """Return this floor, with the fields of another in place of those that it leaves out.

        Args:
            default: The other floor.
        """
        return msgspec.structs.replace(default, **dict(self._given()))

    def lacking(self, **found: float) -> str | None:
        """Return the first value below this floor, in words; None if all are high enough.

        Args:
            **found: The values of a round, by the names of fields.
        """
        for name, least in self._given():
            if name in found and found[name] < least:
                return f"{name} = {_short(found[name])}, this client's floor is {_short(least)}"
        return None

    def check(self, config: RoundConfig) -> None:
        """Check that a round is not weaker than this floor.

        Args:
            config: The round that a server proposes.

        Raises:
            ConfigError: A field is below the floor; the text names it.
        """
        degree = config.graph.mean_degree(config.clients)
        t = config.threshold.of(int(degree))
        lacking = self.lacking(
            clients=config.clients,
            degree=degree,
            mask_degree=config.graph.mean_mask_degree(config.clients),
            threshold=t,
            threshold_ratio=threshold_ratio(t, int(degree)),
            survivors=config.min_survivors,
        )
        if lacking:
            raise ConfigError(f"the round offers {lacking}")

    def _given(self) -> Iterator[tuple[str, float]]:
        every = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return (item for item in every if item[1] is not None)


#: The floor of a server.
NO_FLOOR = Floor()
#: The floor of every client: no round of two, no vector without a mask.
BARE_FLOOR = Floor(clients=3, degree=1, mask_degree=1, threshold=2, threshold_ratio=0.0, survivors=2)
