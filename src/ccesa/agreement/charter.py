"""``Charter``: everything about a federation's rounds but series, number, roster, length and *accept*.

A server that lies chooses whatever it may choose, against one client. Limits are not enough: another kind of
graph with the same mean degree lies within every limit, and its tail is another one. So all of it is fixed.
"""

import math
import numbers
import time
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from ccesa import files, labels
from ccesa.agreement import toml
from ccesa.agreement.config import CHARTER_BYTES, SERIES_ID_BYTES, VERSION, CharteredRound, RoundConfig
from ccesa.agreement.floor import BARE_FLOOR
from ccesa.agreement.identity import Admission, Member, in_base64
from ccesa.crypto.keys import DEFAULT, needs_accept
from ccesa.errors import ConfigError, quoted, shown
from ccesa.graphs import Complete, Graph
from ccesa.graphs.per_step import PerStep
from ccesa.graphs.thresholds import Threshold
from ccesa.guards import ACTIVE, guard_named
from ccesa.parts import MAX_CLIENTS, Part, check_type, is_printable, whole_number
from ccesa.privacy.ledger import Account
from ccesa.privacy.mechanism import Mechanism
from ccesa.statistics.schema import Schema
from ccesa.values.fields import USUAL_BITS, WORD_BITS, Fields

#: The largest serial number and time: what every language can count to.
_MOST = 2**53 - 1
#: What a charter does not say about a round.
_LEFT_OPEN = ("series_id", "number", "length", "accept")
#: A hundred thousand members fit in.
MAX_FILE_BYTES = 1 << 24
#: What a certificate can state; everything else is log2 of a probability.
_STATED = {
    "dropout": (0.0, 1.0),
    "exact_dropout": (False, True),
    "collusion": (0.0, 1.0),
    "colluders": (0, MAX_CLIENTS),
    "around": (0, MAX_CLIENTS),
    "least_honest": (0, MAX_CLIENTS),
    "privacy_bits": (0.0, 1024.0),
    "reliability_bits": (0.0, 1024.0),
}
#: What a hub logs of a certificate.
_PROMISED = ("colluders", "least_honest", "privacy_bits", "reliability_bits")


class Seat(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One member: a client's id is its place in the list."""

    name: str
    key: bytes


class Stated(Part, frozen=True, kw_only=True):
    """The certificate that graph and threshold rest on: what was assumed, and log2 of what can go wrong."""

    dropout: float
    exact_dropout: bool = False
    collusion: float
    #: So many of all members may work with the server.
    colluders: int
    #: So many of anyone's neighbours do, at most.
    around: int
    #: So many honest clients are in every sum that can be opened.
    least_honest: int
    privacy_bits: float
    reliability_bits: float
    unreliable: float
    disconnected: float
    exposed: float
    unmaskable: float
    #: With which probability a client leaves in each step, in order; left out where that was not said.
    dropout_per_step: tuple[float, ...] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _settle_numbers(self)
        if self.dropout_per_step is not msgspec.UNSET:
            each = PerStep(each=tuple(self.dropout_per_step), confirms=True).each
            msgspec.structs.force_setattr(self, "dropout_per_step", tuple(float(q) + 0.0 for q in each))
        figures = [name for name in self.__struct_fields__ if name != "dropout_per_step"]
        for name, value in ((name, getattr(self, name)) for name in figures):
            least, most = _STATED.get(name, (-math.inf, 0.0))
            if not least <= value <= most:  # not a number is neither
                raise ConfigError(f"{name} = {quoted(value)} in the charter's certificate cannot be")
        if not isinstance(self.exact_dropout, bool):
            raise ConfigError("exact_dropout in the charter's certificate is true or false")


class Learning(Part, frozen=True, kw_only=True):
    """How replies of learning become vectors: nothing of it is left to the server."""

    #: Full message types that take part, as the apps register them.
    message_types: tuple[str, ...] = ("train", "evaluate")
    #: The metric that a reply is weighted by.
    weighted_by: str = "num-examples"
    #: Metrics that are averaged, by name; no other leaves a site.
    metrics: tuple[str, ...] = ()
    #: Arrays of whole numbers, which have a bound of their own.
    counters: tuple[str, ...] = ()
    clip: float = 2.0
    metric_clip: float = 1e6
    max_weight: float = 65536.0
    #: Bits of a field; with the number of members it says how every number lies in the words.
    field_bits: int = USUAL_BITS

    def __post_init__(self) -> None:
        _settle_numbers(self)
        for name in ("clip", "metric_clip", "max_weight"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(
                    f"{name} in the charter must be a positive number, not {getattr(self, name)}"
                )
        if not self.message_types:
            raise ConfigError("the charter names no message type: nothing could be learned")
        for name in ("message_types", "metrics", "counters"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise ConfigError(f"{name} in the charter has an entry twice")
        for text in (*self.message_types, self.weighted_by, *self.metrics, *self.counters):
            _check_name(text)


class Charter(Part, frozen=True, kw_only=True, dict=True):
    """What all members have agreed on. ``str`` gives the text of its file, which ``load`` reads.

    Attributes:
        version: Version of the wire format, 2.
        serial: A site accepts the newest charter it was given, by this number, from 1 on.
        expires: Seconds since 1970; from then on no round is joined.
        members: Name and 32-byte key of each; a client's id is its place.
        graph: Who holds shares of whom; masks run on every edge.
        threshold: How many holders open a secret.
        generator: What expands masks, ``aes128-ctr`` or ``chacha20``.
        agreement: How two members come to a common secret: ``x25519`` or ``x25519-mlkem768``.
        bits: Bits of a word, 8, 16, 32 or 64; 64 with learning.
        least_roster: The fewest members whose keys make a round, F.
        min_survivors: The fewest members in a sum.
        attempts: How many vectors a member sends for one task, 1 to 1000.
        releases: In how many rounds a member releases shares for one task, 1 to ``attempts``. Left out of the
            encoding if it is 1.
        certificate: What graph and threshold rest on: assumptions, and log2 of what can go wrong.
        learning: How replies of learning become vectors; None outside of learning.
        privacy: The noise in every vector; left out where sums are released as they are.
        statistics: Which columns of the members' tables are counted, and how; left out elsewhere.

    Raises:
        ConfigError: Fields that cannot work, alone or together, or cannot work safely.
    """

    version: Literal[2] = VERSION
    serial: int
    expires: int
    members: tuple[Seat, ...]
    graph: Graph
    threshold: Threshold
    generator: str = "aes128-ctr"
    agreement: str = DEFAULT
    bits: Literal[8, 16, 32, 64] = 32
    least_roster: int
    min_survivors: int
    attempts: int = 2
    releases: int = 1
    certificate: Stated
    learning: Learning | None = None
    privacy: Mechanism | msgspec.UnsetType = msgspec.UNSET
    statistics: Schema | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        _settle_numbers(self)
        for name, least, most in (
            ("serial", 1, _MOST),
            ("expires", 1, _MOST),
            ("attempts", 1, 1000),
            ("releases", 1, self.attempts),
            ("least_roster", 3, len(self.members)),
        ):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"{name} of a charter lies in {least}..{most}, it is {getattr(self, name)}")
        if len(self.members) > MAX_CLIENTS:
            raise ConfigError(f"a charter has at most {MAX_CLIENTS} members")
        msgspec.structs.force_setattr(self, "members", tuple(self.members))
        if self.learning is not None:
            if self.bits != WORD_BITS:
                raise ConfigError(f"a charter with learning has words of {WORD_BITS} bits, not {self.bits}")
            Fields(self.learning.field_bits, len(self.members))  # refuses sums that would not fit
        if self.mechanism is not None:
            self._check_noise(self.mechanism)
        self._check_unit()
        _ = self.admission  # refuses keys and names that cannot be, or are there twice
        BARE_FLOOR.check(self.any_round)

    def _check_noise(self, mechanism: Mechanism) -> None:
        """Refuse noise of more honest clients than the certificate has in every sum that can be opened.

        Against a server that lies it is its least number. Against one that follows the protocol colluders may
        still choose who drops out, and part a sparse graph as that server would; not a complete one.
        """
        if self.bits != WORD_BITS:
            raise ConfigError(f"a charter with privacy has words of {WORD_BITS} bits, not {self.bits}")
        honest = self.certificate.least_honest
        if mechanism.against == "follows" and isinstance(self.graph, Complete):
            honest = self.min_survivors - self.certificate.colluders
        if mechanism.honest > honest:
            raise ConfigError(
                f"the charter's noise counts on {mechanism.honest} honest clients in every sum, and its "
                f"certificate has {honest}"
            )

    def _check_unit(self) -> None:
        """Refuse statistics and noise that are not made for each other."""
        if self.schema is not None:
            if self.learning is not None or self.bits != WORD_BITS:
                raise ConfigError(f"a charter with statistics has words of {WORD_BITS} bits, and no learning")
            self.schema.check_noise(self.mechanism, len(self.members))
        elif self.mechanism is not None and self.mechanism.unit:
            raise ConfigError(f"noise that hides a {self.mechanism.unit} goes with statistics in the charter")

    @property
    def schema(self) -> Schema | None:
        """What is counted of the members' tables; None where vectors come from elsewhere."""
        return self.statistics if isinstance(self.statistics, Schema) else None

    @property
    def length(self) -> int | None:
        """Words of a vector, where the charter says it: with statistics or noise."""
        said = self.schema or self.mechanism
        return None if said is None else said.length

    @cached_property
    def any_round(self) -> RoundConfig:
        """A round of this federation; its series and digest are zeros, and a length of 1 stands for any."""
        return self._config(
            length=self.length or 1, series_id=bytes(SERIES_ID_BYTES), charter=bytes(CHARTER_BYTES)
        )

    @cached_property
    def needed(self) -> int:
        """The minimum of members present for a round to succeed; with fewer none is begun."""
        return self.any_round.needed(self.least_roster)

    @property
    def names(self) -> tuple[str, ...]:
        """What the members are called, by id."""
        return tuple(seat.name for seat in self.members)

    @property
    def colluders(self) -> int:
        """The most members that may work with the server."""
        return self.certificate.colluders

    @property
    def around(self) -> int:
        """The most colluders among one member's neighbours."""
        return self.certificate.around

    @property
    def privacy_bits(self) -> float:
        """How unlikely it is, in bits, that the promise of privacy fails for one roster."""
        return self.certificate.privacy_bits

    @property
    def stated(self) -> dict[str, float]:
        """What the certificate promises, by name."""
        return {name: getattr(self.certificate, name) for name in _PROMISED}

    @property
    def promises(self) -> tuple[str, ...]:
        """What the certificate promises, in sentences."""
        stated = self.certificate
        return (
            f"Even if the hub lies and {stated.colluders} of {len(self.members)} members work with it, every "
            f"sum that can be opened has at least {stated.least_honest} honest members in it, except with a "
            f"probability of 2^-{stated.privacy_bits:.0f} per roster.",
            f"With {stated.dropout:.0%} of the members leaving, a round is lost with a probability of about "
            f"2^-{stated.reliability_bits:.0f}.",
            f"The charter has serial {self.serial}, expires on {self.expiry}, and its digest is "
            f"{self.fingerprint}.",
        )

    @property
    def mechanism(self) -> Mechanism | None:
        """The noise in every vector; None where sums are released as they are."""
        return self.privacy if isinstance(self.privacy, Mechanism) else None

    @cached_property
    def admission(self) -> Admission:
        """The members with their keys."""
        return Admission(Member(seat.name, seat.key) for seat in self.members)

    def encode(self) -> bytes:
        """Return the only encoding, which the digest is over; comments and layout of a file are not in it."""
        # Of a struct with 16 fields msgspec writes a longer header, even if some are left out; not of a dict.
        return msgspec.msgpack.encode(self._said(msgspec.to_builtins(self, builtin_types=(bytes,))))

    @cached_property
    def digest(self) -> bytes:
        """The 32-byte digest that all members have to have in common."""
        return labels.digest(labels.CHARTER, self.encode())

    @property
    def fingerprint(self) -> str:
        """The digest for people who compare it: hexadecimal, in groups of four."""
        text = self.digest.hex()
        return " ".join(text[place : place + 4] for place in range(0, len(text), 4))

    def config(
        self, *, length: int, series_id: bytes | None = None, number: int = 0, accept: bool | None = None
    ) -> RoundConfig:
        """Return the configuration of one round of this federation.

        Args:
            length: Words of a vector.
            series_id: 32 bytes, fresh for every series; random unless given.
            number: Of the round in its series.
            accept: Whether members say, before they mask, whose shares they could open; by default if the
                agreement needs it.

        Raises:
            ConfigError: One of them cannot be.
        """
        if self.length not in (None, length):
            what = "statistics have" if self.schema else "noise is made for"
            raise ConfigError(
                f"a round of {length} words, and the charter's {what} {self.length}: vectors of another size "
                "need another charter"
            )
        given: dict[str, Any] = {} if series_id is None else {"series_id": series_id}
        if accept is not None:
            given["accept"] = accept
        return self._config(length=length, number=number, charter=self.digest, **given)

    def series(self, length: int, bits: int) -> RoundConfig:
        """Return the first round of a new series.

        Args:
            length: Words of a vector.
            bits: Bits of a word.

        Raises:
            ConfigError: The charter has another length, or other bits.
        """
        if bits != self.bits:
            raise ConfigError(f"vectors of {bits} bits under a charter with bits = {self.bits}")
        return self.config(length=length, accept=True)

    def decode(self, data: bytes) -> RoundConfig:
        """Return the configuration that ``RoundConfig.encode`` gave these bytes for.

        Args:
            data: At most 1024 bytes.

        Raises:
            MalformedMessage: The bytes are not the only encoding of a configuration under a charter.
            ConfigError: It is for another charter, or cannot work.
        """
        found = CharteredRound.decode(data)
        self._check_digest(found.charter)
        return self.config(**{name: getattr(found, name) for name in _LEFT_OPEN})

    def check(self, config: RoundConfig) -> None:
        """Check that a round is as agreed on.

        Args:
            config: The round that a server proposes.

        Raises:
            ConfigError: It differs in anything but series, number, length and *accept*.
        """
        check_type("config", config, RoundConfig, "; charter.config(...) makes one")
        if not guard_named(config.guard).chartered:
            raise ConfigError(
                f"the round has guard = {config.guard}, which has no charter: make a Client or a Server"
            )
        self._check_digest(config.charter)
        agreed = self.config(**{name: getattr(config, name) for name in _LEFT_OPEN})
        for name in config.__struct_fields__:
            if getattr(config, name) != getattr(agreed, name):
                raise ConfigError(
                    f"the round differs from the charter in {name}: nothing but {', '.join(_LEFT_OPEN)} is "
                    "left to choose"
                )

    def check_account(self, config: RoundConfig, account: Account | None) -> None:
        """Refuse vectors with noise that nobody charges, or that are charged as others.

        Args:
            config: The round that they are for.
            account: What they are charged to.

        Raises:
            ConfigError: It is missing, or for other noise, or for another charter.
        """
        if account is None and self.mechanism is not None:
            raise ConfigError(
                "the charter has noise, and this client no ledger: give it an account, "
                "Ledger(path).account(charter.privacy, charter.digest)"
            )
        if account is not None and (account.mechanism, account.charter) != (self.mechanism, self.digest):
            raise ConfigError(
                "an account for other noise, or for another charter, than the one that this client holds"
            )

    def _check_digest(self, digest: object) -> None:
        if digest != self.digest:
            told, own = (one.hex()[:8] if isinstance(one, bytes) else "none" for one in (digest, self.digest))
            raise ConfigError(
                f"the round is for another charter ({told}...) than this one ({own}..., serial {self.serial})"
                ": compare the digests that `ccesa charter show` prints"
            )

    def check_current(self, now: float | None = None) -> None:
        """Check that the charter has not expired.

        Args:
            now: Seconds since 1970, by default the system's.

        Raises:
            ConfigError: It has; get a new one.
        """
        if not (time.time() if now is None else now) < self.expires:
            raise ConfigError(
                f"the charter with serial {self.serial} expired on {self.expiry}: get a new one"
            )

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
            ConfigError: The text is not a charter, or one that cannot be.
        """
        tables = toml.parse(text)
        try:
            found = msgspec.convert(tables, cls)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ConfigError(f"this is not a charter: {shown(str(error), 200)}") from None
        if [key for _, key in tables["members"]] != [in_base64(seat.key) for seat in found.members]:
            raise ConfigError("a key of the charter is in another spelling; copy it as it was made")
        return found

    @classmethod
    def load(cls, path: Path | str) -> "Charter":
        """Return the charter in a file.

        Args:
            path: A file of at most 16 MiB that nobody but its owner can change.

        Raises:
            ConfigError: Others can change the file, or ``parse`` refuses its text.
            OSError: The system cannot read the file.
        """
        text = files.read_trusted(path, MAX_FILE_BYTES)
        try:
            return cls.parse(text)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    def __str__(self) -> str:
        """The text of its file."""
        return toml.written(self._said(msgspec.to_builtins(self)))

    def _said(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Leave out what older charters do not say, so that their digests stay."""
        if self.releases == 1:
            del fields["releases"]
        return fields

    def _config(self, **others: Any) -> RoundConfig:
        others.setdefault("accept", needs_accept(self.agreement))
        return RoundConfig(
            clients=len(self.members),
            bits=self.bits,
            graph=self.graph,
            threshold=self.threshold,
            generator=self.generator,
            agreement=self.agreement,
            min_survivors=self.min_survivors,
            guard=ACTIVE.name,
            **others,
        )


def _settle_numbers(part: Part) -> None:
    """Give each number one form: 20 and 20.0 would have two digests, and numpy's numbers none."""
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if field.type is int:
            value = int(whole_number(field.name, value))
        elif field.type is float:
            if not isinstance(value, numbers.Real):
                raise ConfigError(f"{field.name} of a charter is a number, not {value!r:.60}")
            value = float(value) + 0.0  # the other zero is the same number
        msgspec.structs.force_setattr(part, field.name, value)


def _check_name(text: str) -> None:
    if not 1 <= len(text) <= 100 or not is_printable(text):
        raise ConfigError(f"{quoted(text)} in the charter is not a name: one to 100 printable characters")
