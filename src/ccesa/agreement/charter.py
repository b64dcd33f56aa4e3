"""A ``Charter`` fixes a federation's rounds, except series, number, roster, length and *accept*.

A lying server uses every choice against one client. Limits are not enough: another kind of graph with the same mean
degree is within every limit, and has another tail. So the charter fixes everything else.
"""

import math
import numbers
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from ccesa import files, labels
from ccesa.agreement import toml
from ccesa.agreement.config import (
    BARE_FLOOR,
    CHARTER_BYTES,
    MAX_HELPERS,
    SERIES_ID_BYTES,
    VERSION,
    AssistedConfig,
    CharteredRound,
    RoundConfig,
)
from ccesa.agreement.identity import Admission, Member, in_base64
from ccesa.crypto.keys import DEFAULT, needs_accept
from ccesa.errors import ConfigError, quoted, shown
from ccesa.graphs import Complete, Graph
from ccesa.graphs.per_step import PerStep
from ccesa.graphs.thresholds import Majority, Threshold
from ccesa.guards import ACTIVE, ASSISTED, Guard, guard_named
from ccesa.parts import MAX_CLIENTS, Part, check_range, check_type, is_printable, whole_number
from ccesa.privacy.ledger import Account
from ccesa.privacy.mechanism import Mechanism
from ccesa.statistics.schema import Schema
from ccesa.values.fields import USUAL_BITS, WORD_BITS, Fields

#: The largest serial number and time; every language can count to it.
_MOST = 2**53 - 1
#: The fields of a round that a charter leaves open.
_LEFT_OPEN = ("series_id", "number", "length", "accept")
#: The fields of a charter under each of its guards.
OF_GRAPHS = ("graph", "threshold", "least_roster", "certificate")
_OF_HELPERS = ("helpers", "key_days", "colluders")
_LEFT_OUT: Any = msgspec.UNSET
_NO_GRAPH = (Complete(), Majority())
#: The most days that a helper keeps a key, by default.
KEY_DAYS = 7
#: Enough for a hundred thousand members.
MAX_FILE_BYTES = 1 << 24
#: The range of each figure of a certificate; the others are log2 of a probability.
_STATED: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("dropout", "exact_dropout", "collusion"), (0, 1)),
    **dict.fromkeys(("colluders", "around", "least_honest"), (0, MAX_CLIENTS)),
    **dict.fromkeys(("privacy_bits", "reliability_bits"), (0, 1024)),
}


class Seat(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One member. A client's id is its place in the list."""

    name: str
    key: bytes


class Stated(Part, frozen=True, kw_only=True):
    """The certificate of graph and threshold: assumptions, and log2 of the probabilities of failure."""

    dropout: float
    exact_dropout: bool = False
    collusion: float
    #: The most members that may work with the server.
    colluders: int
    #: The most colluders among one member's neighbours.
    around: int
    #: The minimum of honest clients in every sum that can be opened.
    least_honest: int
    privacy_bits: float
    reliability_bits: float
    unreliable: float
    disconnected: float
    exposed: float
    unmaskable: float
    #: The probability that a client leaves in each step, in order; left out if it is unknown.
    dropout_per_step: tuple[float, ...] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _settle_numbers(self)
        if self.dropout_per_step is not msgspec.UNSET:
            each = PerStep(each=tuple(self.dropout_per_step), confirms=True).each
            msgspec.structs.force_setattr(self, "dropout_per_step", tuple(float(q) + 0.0 for q in each))
        for name in (one for one in self.__struct_fields__ if one != "dropout_per_step"):
            value, (least, most) = getattr(self, name), _STATED.get(name, (-math.inf, 0.0))
            if not least <= value <= most:  # also if it is not a number
                raise ConfigError(f"{name} = {quoted(value)} in the charter's certificate is out of range")
        if not isinstance(self.exact_dropout, bool):
            raise ConfigError("exact_dropout in the charter's certificate must be true or false")

    @property
    def logged(self) -> dict[str, float]:
        names = ("colluders", "least_honest", "privacy_bits", "reliability_bits")
        return {name: getattr(self, name) for name in names}


class Learning(Part, frozen=True, kw_only=True):
    """How replies in learning become vectors. The server cannot change it."""

    #: Full message types that take part, as registered by the apps.
    message_types: tuple[str, ...] = ("train", "evaluate")
    #: The metric that weights a reply.
    weighted_by: str = "num-examples"
    #: Names of the metrics that are averaged; no other metric leaves a site.
    metrics: tuple[str, ...] = ()
    #: Arrays of whole numbers, with a bound of their own.
    counters: tuple[str, ...] = ()
    clip: float = 2.0
    metric_clip: float = 1e6
    max_weight: float = 65536.0
    #: Bits of a field; with the number of members it fixes the layout of the words.
    field_bits: int = USUAL_BITS

    def __post_init__(self) -> None:
        _settle_numbers(self)
        for name in ("clip", "metric_clip", "max_weight"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} in the charter must be a positive number, not {getattr(self, name)}")
        if not self.message_types:
            raise ConfigError("message_types in the charter must name at least one type")
        for name in ("message_types", "metrics", "counters"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise ConfigError(f"{name} in the charter must not have an entry twice")
        for text in (*self.message_types, self.weighted_by, *self.metrics, *self.counters):
            if not 1 <= len(text) <= 100 or not is_printable(text):
                raise ConfigError(f"a name in the charter must have 1 to 100 printable characters, not {quoted(text)}")


class Charter(Part, frozen=True, kw_only=True, dict=True):
    """The agreement of all members. ``str`` gives the text of its file, which ``load`` reads.

    Attributes:
        version: Version of the wire format, 2.
        serial: 1 or greater. A site accepts only a charter with a higher serial than its own.
        expires: Seconds since 1970. From this time members join no round.
        members: Name and 32-byte key of each; a client's id is its place.
        helpers: Name and key of each helper, 2 to 16; left out if members mask along a graph. A helper that is
            also a member has the same name and key in both lists.
        key_days: With helpers: the most days that a helper keeps a key, 1 to 365, 7 by default.
        colluders: With helpers: the most members that may work with the hub.
        graph: Which members hold shares of which; masks run on every edge.
        threshold: How many holders open a secret.
        generator: The generator that expands masks, ``aes128-ctr`` or ``chacha20``.
        agreement: How two members agree on a secret: ``x25519`` or ``x25519-mlkem768``.
        bits: Bits of a word, 8, 16, 32 or 64; 64 with learning.
        least_roster: The minimum of members in a roster, F.
        min_survivors: The minimum of members in a sum.
        attempts: The most vectors that a member sends for one task, 1 to 1000.
        releases: The most rounds with releases of shares for one task, 1 to ``attempts``. Not encoded if it is 1.
        certificate: The assumptions behind graph and threshold, and log2 of the probabilities of failure.
        learning: How replies in learning become vectors; None outside of learning.
        privacy: The noise in every vector; left out if sums are released as they are.
        statistics: Which columns of the members' tables are counted, and how; left out elsewhere.

    Raises:
        ConfigError: Fields that cannot work, alone or together, or cannot work safely.
    """

    version: Literal[2] = VERSION
    serial: int
    expires: int
    members: tuple[Seat, ...]
    helpers: tuple[Seat, ...] | msgspec.UnsetType = msgspec.UNSET
    key_days: int | msgspec.UnsetType = msgspec.UNSET
    colluders: int | msgspec.UnsetType = msgspec.UNSET
    graph: Graph = _LEFT_OUT
    threshold: Threshold = _LEFT_OUT
    generator: str = "aes128-ctr"
    agreement: str = DEFAULT
    bits: Literal[8, 16, 32, 64] = 32
    least_roster: int = _LEFT_OUT
    min_survivors: int
    attempts: int = 2
    releases: int = 1
    certificate: Stated = _LEFT_OUT
    learning: Learning | None = None
    privacy: Mechanism | msgspec.UnsetType = msgspec.UNSET
    statistics: Schema | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        self._settle_guard()
        _settle_numbers(self)
        for name, least, most in (
            ("serial", 1, _MOST),
            ("expires", 1, _MOST),
            ("attempts", 1, 1000),
            ("releases", 1, self.attempts),
            ("least_roster", 3, len(self.members)),
        ):
            check_range(name, getattr(self, name), least, most, " of a charter")
        if len(self.members) > MAX_CLIENTS:
            raise ConfigError(f"a charter has at most {MAX_CLIENTS} members, not {len(self.members)}")
        msgspec.structs.force_setattr(self, "members", tuple(self.members))
        if self.learning is not None:
            if self.bits != WORD_BITS:
                raise ConfigError(f"a charter with learning has words of {WORD_BITS} bits, not {self.bits}")
            Fields(self.learning.field_bits, len(self.members))  # refuses sums that would not fit
        if self.mechanism is not None:
            self._check_noise(self.mechanism)
        if self.schema is not None:
            if self.learning is not None or self.bits != WORD_BITS:
                raise ConfigError(f"a charter with statistics has words of {WORD_BITS} bits, and no learning")
            self.schema.check_noise(self.mechanism, len(self.members))
        elif self.mechanism is not None and self.mechanism.unit:
            raise ConfigError(f"noise that hides a {self.mechanism.unit} goes with statistics in the charter")
        _ = self.admission, self.helper_admission  # refuses invalid names and keys, and those that appear twice
        BARE_FLOOR.check(self.any_round)

    def _settle_guard(self) -> None:
        """Refuse fields of another guard. With helpers nobody reads those of graphs, which get fixed values."""
        has_helpers = self.helpers is not msgspec.UNSET
        needed, foreign = (_OF_HELPERS, OF_GRAPHS) if has_helpers else (OF_GRAPHS, _OF_HELPERS)
        absent = [name for name in needed if name != "key_days" and getattr(self, name) is msgspec.UNSET]
        given = [name for name in foreign if getattr(self, name) is not msgspec.UNSET]
        if absent or (given and not has_helpers):
            raise ConfigError(
                f"a charter has either {', '.join(OF_GRAPHS)} or {', '.join(_OF_HELPERS)}: check {[*absent, *given][0]}"
            )
        if has_helpers:
            self._settle_helpers()

    def _settle_helpers(self) -> None:
        if (self.graph, self.threshold) not in (_NO_GRAPH, (msgspec.UNSET, msgspec.UNSET)):
            raise ConfigError("a charter with helpers has no graph and no threshold: leave both out")
        if self.releases != 1:
            raise ConfigError(f"a charter with helpers has releases = 1, not {self.releases}: a task is answered once")
        seats, days = tuple(self.helper_seats), whole_number("key_days", self.longest_key_days)
        colluders, least = whole_number("colluders", self.colluders), whole_number("min_survivors", self.min_survivors)
        check_range("helpers", len(seats), 2, MAX_HELPERS, " of a charter")
        check_range("key_days", days, 1, 365, " of a charter")
        check_range("colluders", colluders, 0, len(self.members), " of a charter")
        if least - colluders < 2:
            raise ConfigError(
                f"sums of {least} members, of which {colluders} collude, may show one member's vector: set "
                f"min_survivors to at least {colluders + 2}"
            )
        stated = _state_helpers(colluders, least - colluders, len(self.members))
        settled = {"helpers": seats, "key_days": days, "colluders": colluders, "min_survivors": least}
        settled |= dict(zip(OF_GRAPHS, (*_NO_GRAPH, max(3, least), stated), strict=True))
        for name, value in settled.items():
            msgspec.structs.force_setattr(self, name, value)

    def _check_noise(self, mechanism: Mechanism) -> None:
        """Refuse noise that counts on more honest clients than every sum that can be opened has.

        Against a lying server that minimum is in the certificate. Colluders of an honest one may still choose who drops
        out, and part a sparse graph as a lying server would; a complete graph they cannot part.
        """
        if self.bits != WORD_BITS:
            raise ConfigError(f"a charter with privacy has words of {WORD_BITS} bits, not {self.bits}")
        honest = self.certificate.least_honest
        if mechanism.against == "follows" and isinstance(self.graph, Complete):
            honest = self.min_survivors - self.certificate.colluders
        if mechanism.honest > honest:
            raise ConfigError(
                f"the charter's noise counts on {mechanism.honest} honest clients in every sum, but its certificate "
                f"promises {honest}"
            )

    @property
    def schema(self) -> Schema | None:
        """The statistics of the members' tables; None if vectors come from elsewhere."""
        return self.statistics if isinstance(self.statistics, Schema) else None

    @property
    def length(self) -> int | None:
        """Words of a vector, with statistics or noise; None if the charter leaves it open."""
        said = self.schema or self.mechanism
        return None if said is None else said.length

    @cached_property
    def any_round(self) -> RoundConfig:
        """A round of this federation; its series and digest are zeros, and a length of 1 stands for any."""
        return self._config(length=self.length or 1, series_id=bytes(SERIES_ID_BYTES), charter=bytes(CHARTER_BYTES))

    @cached_property
    def needed(self) -> int:
        """The minimum of members present for a round to succeed; with fewer none is begun."""
        return self.any_round.needed(self.least_roster)

    @property
    def guard(self) -> Guard:
        """The guard of its rounds: ``assisted`` with helpers, else ``active``."""
        return ACTIVE if isinstance(self.helpers, msgspec.UnsetType) else ASSISTED

    @property
    def helper_seats(self) -> tuple[Seat, ...]:
        """The helpers by their place; none under ``active``."""
        return () if isinstance(self.helpers, msgspec.UnsetType) else self.helpers

    @property
    def longest_key_days(self) -> int:
        """The most days that a helper keeps a key."""
        return KEY_DAYS if isinstance(self.key_days, msgspec.UnsetType) else self.key_days

    def check_key_time(self, place: int, not_after: int, now: float | None = None) -> None:
        """Check that a helper's key has not expired, and does not stay for longer than the charter allows.

        Args:
            place: Of the helper in the list.
            not_after: Seconds since 1970, as the helper signed it.
            now: Seconds since 1970, by default the system's.

        Raises:
            ConfigError: It is out of time.
        """
        now, name = current_time() if now is None else now, self.helper_seats[place].name
        if not_after <= now:
            raise ConfigError(f"the key of helper {name} has expired; check the clocks")
        if not_after > now + self.key_seconds:
            raise ConfigError(f"the key of helper {name} would stay for longer than key_days; check the clocks")

    @property
    def key_seconds(self) -> int:
        """The most seconds that a helper keeps a key."""
        return 86400 * self.longest_key_days

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members, by id."""
        return tuple(seat.name for seat in self.members)

    @property
    def party_names(self) -> tuple[str, ...]:
        """The names of the members and after them of the helpers, by id in a round."""
        return (*self.names, *(f"{seat.name} (helper)" for seat in self.helper_seats))

    @property
    def promises(self) -> tuple[str, ...]:
        """The promises of the charter, in sentences."""
        return (*(self._promises_of_helpers() if self.helper_seats else self._promises_of_graph()), self._says_which())

    def _promises_of_helpers(self) -> tuple[str, ...]:
        honest, members = self.certificate.least_honest, len(self.members)
        who = all_of([seat.name for seat in self.helper_seats])
        return promise_of_helpers(who, honest, self.certificate.colluders, members, noisy=self.mechanism is not None)

    def _promises_of_graph(self) -> tuple[str, ...]:
        stated = self.certificate
        return (
            f"Even if the hub lies and {stated.colluders} of {len(self.members)} members work with it, every "
            f"sum that can be opened has at least {stated.least_honest} honest members in it, except with a "
            f"probability of 2^-{stated.privacy_bits:.0f} per roster.",
            f"With {stated.dropout:.0%} of the members leaving, a round is lost with a probability of about "
            f"2^-{stated.reliability_bits:.0f}.",
        )

    def _says_which(self) -> str:
        return f"The charter has serial {self.serial}, expires on {self.expiry}, and its digest is {self.fingerprint}."

    @property
    def mechanism(self) -> Mechanism | None:
        """The noise in every vector; None if sums are released as they are."""
        return self.privacy if isinstance(self.privacy, Mechanism) else None

    @cached_property
    def admission(self) -> Admission:
        """The members with their keys."""
        return Admission(Member(seat.name, seat.key) for seat in self.members)

    @cached_property
    def helper_admission(self) -> Admission:
        """The helpers with their keys. A name that is also a member's has that member's key."""
        keys, names = ({seat[place]: seat[1 - place] for seat in map(_pair, self.members)} for place in (0, 1))
        for name, key in map(_pair, self.helper_seats):
            if keys.get(name, key) != key or names.get(key, name) != name:
                raise ConfigError(
                    f"the helper {quoted(name)} has the name or the key of a member, and not both: a member that helps "
                    "has the same name and key in both lists"
                )
        return Admission(Member(seat.name, seat.key) for seat in self.helper_seats)

    def helper_id(self, key: bytes) -> int:
        """Return the id in a round of the helper with this public key; raise ConfigError if no helper has it.

        Args:
            key: 32 bytes, of an identity.
        """
        try:
            return len(self.members) + self.helper_admission.id_of(key)
        except ConfigError:
            raise ConfigError("this identity is not among the charter's helpers") from None

    def encode(self) -> bytes:
        """Return the only encoding, under the digest. It has no comments and no layout of a file."""
        # msgspec gives a struct with 16 fields a longer header, even if some are left out, but not a dict.
        return msgspec.msgpack.encode(self._leave_out(msgspec.to_builtins(self, builtin_types=(bytes,))))

    @cached_property
    def digest(self) -> bytes:
        """The 32-byte digest, the same for all members."""
        return labels.digest(labels.CHARTER, self.encode())

    @property
    def fingerprint(self) -> str:
        """The digest for people to compare: hexadecimal, in groups of four."""
        text = self.digest.hex()
        return " ".join(text[place : place + 4] for place in range(0, len(text), 4))

    def config(
        self, *, length: int, series_id: bytes | None = None, number: int = 0, accept: bool | None = None
    ) -> RoundConfig:
        """Return the configuration of one round of this federation.

        Args:
            length: Words of a vector.
            series_id: 32 bytes, fresh for every series; random unless given.
            number: The number of the round in its series.
            accept: Whether members report whose shares they could open; by default if the key agreement needs it.

        Raises:
            ConfigError: An argument is out of range, or the charter has another length.
        """
        if self.length not in (None, length):
            what = "statistics have" if self.schema else "noise is made for"
            raise ConfigError(f"the round has {length} words, but the charter's {what} {self.length}: use that length")
        chosen = {name: value for name, value in (("series_id", series_id), ("accept", accept)) if value is not None}
        return self._config(length=length, number=number, charter=self.digest, **chosen)

    def series(self, length: int, bits: int) -> RoundConfig:
        """Return the first round of a new series; raise ConfigError if the charter has other sizes.

        Args:
            length: Words of a vector.
            bits: Bits of a word.
        """
        if bits != self.bits:
            raise ConfigError(f"vectors of {bits} bits under a charter with bits = {self.bits}")
        return self.config(length=length, accept=self.guard.has_graph)

    def decode(self, data: bytes) -> RoundConfig:
        """Return the configuration that ``RoundConfig.encode`` encoded.

        Args:
            data: At most 1024 bytes.

        Raises:
            MalformedMessage: The bytes are not the only encoding of a configuration under a charter.
            ConfigError: It is for another charter, or out of range.
        """
        given = CharteredRound.decode(data)
        self._check_digest(given.charter)
        return self.config(**{name: getattr(given, name) for name in _LEFT_OPEN})

    def check(self, config: RoundConfig) -> None:
        """Check that a round follows the charter in everything but series, number, length and *accept*.

        Args:
            config: The round that a server proposes.

        Raises:
            ConfigError: It does not.
        """
        check_type("config", config, RoundConfig, "; charter.config(...) makes one")
        if not guard_named(config.guard).chartered:
            raise ConfigError(f"the round has guard = {config.guard}, which has no charter: make a Client or a Server")
        self._check_digest(config.charter)
        agreed = self.config(**{name: getattr(config, name) for name in _LEFT_OPEN})
        for name in config.__struct_fields__:
            if getattr(config, name) != getattr(agreed, name):
                raise ConfigError(
                    f"the round differs from the charter in {name}: the server chooses only {', '.join(_LEFT_OPEN)}"
                )

    def check_account(self, config: RoundConfig, account: Account | None) -> None:
        """Raise ConfigError if the account is missing, or for other noise than the charter's, or another charter.

        Args:
            config: The round of the vectors.
            account: The account that is charged for them.
        """
        if account is None and self.mechanism is not None:
            raise ConfigError(
                "the charter has noise, but this client has no ledger: give it an account, "
                "Ledger(path).account(charter.privacy, charter.digest)"
            )
        if account is not None and (account.mechanism, account.charter) != (self.mechanism, self.digest):
            raise ConfigError("the account is for other noise, or another charter, than this client's")

    def _check_digest(self, digest: object) -> None:
        if digest != self.digest:
            given, own = digest.hex()[:8] if isinstance(digest, bytes) else "none", self.digest.hex()[:8]
            raise ConfigError(
                f"the round is for another charter ({given}...) than this one ({own}..., serial {self.serial}): "
                "compare the digests that `ccesa charter show` prints"
            )

    def check_current(self, now: float | None = None) -> None:
        """Check that the charter has not expired; raise ConfigError if it has.

        Args:
            now: Seconds since 1970, by default the system's.
        """
        if not (current_time() if now is None else now) < self.expires:
            raise ConfigError(f"the charter with serial {self.serial} expired on {self.expiry}: get a new one")

    @property
    def expiry(self) -> str:
        """When the charter expires, for people."""
        try:
            return datetime.fromtimestamp(self.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
        except (OverflowError, ValueError, OSError):
            return f"second {self.expires} of the epoch"

    @classmethod
    def parse(cls, text: str) -> "Charter":
        """Return the charter that a text describes.

        Args:
            text: TOML, as ``str`` of a charter gives it.

        Raises:
            ConfigError: The text is not a valid charter.
        """
        tables = toml.parse(text)
        try:
            charter = msgspec.convert(tables, cls)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ConfigError(f"this is not a charter: {shown(str(error), 200)}") from None
        written = [key for _, key in [*tables["members"], *tables.get("helpers", ())]]
        if written != [in_base64(seat.key) for seat in (*charter.members, *charter.helper_seats)]:
            raise ConfigError("a key of the charter has another spelling; copy it unchanged")
        if charter.helper_seats and (foreign := [name for name in (*OF_GRAPHS, "releases") if name in tables]):
            raise ConfigError(f"a charter with helpers has no {foreign[0]}: take it out")
        return charter

    @classmethod
    def load(cls, path: Path | str) -> "Charter":
        """Return the charter in a file.

        Args:
            path: A file of at most 16 MiB that nobody but its owner can change.

        Raises:
            ConfigError: Others can change the file, or ``parse`` refuses its text.
            OSError: The system cannot read the file.
        """
        return files.parse_trusted(path, MAX_FILE_BYTES, cls.parse)

    def __str__(self) -> str:
        return toml.write(self._leave_out(msgspec.to_builtins(self)))

    def _leave_out(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Leave out fields that older charters do not have, so that their digests stay."""
        if self.releases == 1:
            del fields["releases"]
        for name in OF_GRAPHS if self.helper_seats else ():
            del fields[name]
        return fields

    def _config(self, **others: Any) -> RoundConfig:
        fixed = ("bits", "graph", "threshold", "generator", "agreement", "min_survivors")
        given: dict[str, Any] = {"accept": self.guard.has_graph and needs_accept(self.agreement)}
        given |= {"clients": len(self.members), **{name: getattr(self, name) for name in fixed}, **others}
        if self.helper_seats:
            return AssistedConfig(helpers=len(self.helper_seats), **given)
        return RoundConfig(guard=ACTIVE.name, **given)


def current_time() -> float:
    """Return seconds since 1970: the clock of everybody who is not given another."""
    return time.time()


def all_of(names: Sequence[str]) -> str:
    return f"all of {', '.join(names[:-1])} and {names[-1]}"


def promise_of_helpers(who: str, honest: int, colluders: int, members: int, *, noisy: bool) -> tuple[str, str]:
    """Return the promise of rounds with helpers, and its price, in sentences; ``who`` are all helpers."""
    one_sum = "" if noisy else ", and the hub learns at most one sum for each task"  # with noise a task may come again
    return (
        f"A member's vector is opened only if the hub and {who} work together. Otherwise every sum covers at least "
        f"{honest:,} honest members if at most {colluders:,} of {members:,} work with the hub{one_sum}.",
        "A round waits while a helper is away, and is lost if one stays away.",
    )


def _pair(seat: Seat) -> tuple[str, bytes]:
    return seat.name, seat.key


def _state_helpers(colluders: int, honest: int, members: int) -> Stated:
    """Return a certificate without a graph: its only probabilities are those of the primitives."""
    return Stated(
        dropout=0.0,
        collusion=colluders / members,
        colluders=colluders,
        around=colluders,
        least_honest=honest,
        privacy_bits=ASSISTED.privacy_bits,
        reliability_bits=0.0,
        unreliable=-math.inf,
        disconnected=-math.inf,
        exposed=-math.inf,
        unmaskable=-math.inf,
    )


def _settle_numbers(part: Part) -> None:
    """Give each number one form; 20 and 20.0 would have two digests, and numpy's numbers none."""
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if field.type is int:
            value = int(whole_number(field.name, value))
        elif field.type is float:
            if not isinstance(value, numbers.Real):
                raise ConfigError(f"{field.name} of a charter must be a number, not {value!r:.60}")
            value = float(value) + 0.0  # the other zero is the same number
        msgspec.structs.force_setattr(part, field.name, value)
