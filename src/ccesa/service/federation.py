"""A federation's file says what the hub runs, for whom, and how long it waits.

    name = "five hospitals"
    rounds = 3                       # the number of sums
    charter = "charter.toml"         # under the guard active: everything that members have agreed on

    [form]                           # if the charter leaves it open
    type = "words"
    words = 1000

    [policy]
    deadline = 60

    [hub]
    store = "sqlite:///federation.db"
    listen = "127.0.0.1:8470"
    operate = "127.0.0.1:8471"
    origins = ["https://hub.example"]

Without a charter, a table ``[round]`` has the configuration of rounds under the guard ``curious``.
"""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from ccesa import files, labels
from ccesa.agreement.agreement import ATTEMPTS, DECIDED, make_agreement
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, MalformedMessage, quoted, shown
from ccesa.guards import guard_named
from ccesa.parts import Part, is_printable
from ccesa.policy import Policy
from ccesa.protocol.messages import has_vector
from ccesa.protocol.steps import steps_of
from ccesa.service.forms import AnyForm, Arrays, form_of

_MOST_BYTES = 1 << 20
#: Requests that are made of a hub without a proxy in between.
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class HubTable(Part, frozen=True, kw_only=True):
    """Where a hub keeps its state, and where it listens.

    Attributes:
        store: ``sqlite:///FILE`` for one process, or ``postgresql://...`` that several share.
        listen: Address and port for the sites.
        operate: Address and port for the operator: page, metrics and health. Keep it inside.
        origins: The addresses that sites use for this hub, such as ``https://hub.example``; members sign
            them. By default, the loopback addresses.
        pages: Origins of web pages whose clients may take part.
        spool: Folder for uploads in parts; by default one beside the file.
        counter: File that counts what this hub has asked; never restored together with the store.
        part_bytes: Replies above this size are sent in parts.
        certificate: File of a TLS certificate, if no proxy does TLS.
        key: File of its key.
        connections: The most connections at a time.
        publish: Whether members may fetch results.
        hosts: Host names of the operator's page for browsers, besides ``localhost`` and addresses.
    """

    store: str = "sqlite:///federation.db"
    listen: str = "127.0.0.1:8470"
    operate: str = "127.0.0.1:8471"
    origins: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    spool: str = "spool"
    counter: str = "federation.counter"
    part_bytes: int = 8 << 20
    certificate: str | None = None
    key: str | None = None
    connections: int = 20_000
    publish: bool = True
    hosts: tuple[str, ...] = ()


class _File(Part, frozen=True, kw_only=True):
    """The file as it is written."""

    name: str
    rounds: int
    charter: str | None = None
    round: dict[str, Any] | None = None
    form: dict[str, Any] | None = None
    attempts: int = ATTEMPTS
    question: str = ""
    dropout: float = 0.1
    policy: Policy = Policy()
    hub: HubTable = HubTable()


class Federation:
    """What a hub runs; ``load`` reads it from a file.

    Args:
        name: For people.
        rounds: The number of sums.
        charter: The charter of the members, under the guard ``active``.
        config: Without a charter: a round under the guard ``curious``; length and series do not matter.
        form: How contributions become vectors: a form, or a table of one, if the charter leaves it open.
        attempts: Without a charter: how often one question is asked at most.
        question: The question, for people.
        dropout: The fraction of clients that may still leave once shares are accepted.
        policy: How long the hub waits.
        hub: Where it listens and keeps its state.
        folder: The folder for relative paths.

    Raises:
        ConfigError: Neither or both of charter and configuration, or one that cannot work.
    """

    def __init__(
        self,
        *,
        name: str,
        rounds: int,
        charter: Charter | None = None,
        config: RoundConfig | None = None,
        form: AnyForm | dict[str, Any] | None = None,
        attempts: int = ATTEMPTS,
        question: str = "",
        dropout: float = 0.1,
        policy: Policy | None = None,
        hub: HubTable | None = None,
        folder: Path | str = ".",
    ) -> None:
        if not 1 <= len(name) <= 100 or not is_printable(name) or not is_printable(question):
            raise ConfigError("the name of a federation is one to 100 printable characters")
        if rounds < 1:
            raise ConfigError(f"rounds of a federation must be at least 1, not {rounds}")
        self.agreement = make_agreement(charter, config, attempts)
        self.name, self.rounds = name, rounds
        self.question, self.dropout = question, dropout
        table = msgspec.to_builtins(form) if isinstance(form, msgspec.Struct) else form
        self.form = form_of(self.agreement, table)
        self.policy, self.hub = policy or Policy(), hub or HubTable()
        self._folder = Path(folder)
        if self.agreement.schema is not None and rounds > self.agreement.attempts:
            raise ConfigError(
                f"{rounds} rounds of statistics: under this charter a member sends its table at most "
                f"{self.agreement.attempts} time(s) in all"
            )
        if self.signs_in and not self.hub.origins and self.hub.listen.endswith(":0"):
            raise ConfigError("members sign the hub's address: choose a port to listen on, or give origins")
        for address in (self.hub.listen, self.hub.operate):
            if not _is_address(address):
                raise ConfigError(f"{quoted(address)} is not ADDRESS:PORT, as in 127.0.0.1:8470")
        if (self.hub.certificate is None) != (self.hub.key is None):
            raise ConfigError("TLS needs both a certificate and its key; or leave it to a proxy")

    @classmethod
    def load(cls, path: Path | str) -> "Federation":
        """Return the federation in a file.

        Args:
            path: TOML, which nobody but its owner can change.

        Raises:
            ConfigError: The text is not a federation, or others can change the file.
            OSError: The system cannot read a file.
        """
        path = Path(path)
        try:
            found = msgspec.convert(tomllib.loads(files.read_trusted(path, _MOST_BYTES)), _File)
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{path} is not a federation: {shown(str(error), 200)}") from None
        try:
            return cls(
                name=found.name,
                rounds=found.rounds,
                charter=None if found.charter is None else Charter.load(path.parent / found.charter),
                config=None if found.round is None else _round_of(found.round),
                form=found.form,
                attempts=found.attempts,
                question=found.question,
                dropout=found.dropout,
                policy=found.policy,
                hub=found.hub,
                folder=path.parent,
            )
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @property
    def guard(self) -> str:
        """The guard of all rounds."""
        return self.agreement.any_round.guard

    @property
    def clients(self) -> int:
        """How many members or clients there are."""
        return self.agreement.any_round.clients

    @property
    def min_survivors(self) -> int:
        """The minimum of clients in a sum."""
        return self.agreement.any_round.min_survivors

    @property
    def signs_in(self) -> bool:
        """Whether members sign in with their identities; else clients have tokens."""
        return len(self.agreement.admission) > 0

    @property
    def digest(self) -> bytes:
        """The name of this federation's database."""
        return labels.digest(labels.FEDERATION, self.name.encode(), self.guard.encode())

    @property
    def origins(self) -> tuple[str, ...]:
        """The addresses that sites may use for this hub."""
        if self.hub.origins:
            return self.hub.origins
        _, _, port = self.hub.listen.rpartition(":")
        scheme = "http" if self.hub.certificate is None else "https"
        return tuple(f"{scheme}://{host}:{port}" for host in _LOOPBACK)

    @property
    def store(self) -> str:
        """Where the state is kept, with the full path of a file."""
        kind, _, rest = self.hub.store.partition("sqlite:///")
        return self.hub.store if kind else f"sqlite:///{self._folder / rest}"

    @property
    def spool(self) -> Path:
        """The folder for uploads in parts."""
        return self._folder / self.hub.spool

    @property
    def counter(self) -> Path:
        """The file that counts what this hub has asked."""
        return self._folder / self.hub.counter

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """Files of certificate and key; None if a proxy does TLS."""
        if self.hub.certificate is None or self.hub.key is None:
            return None
        return self._folder / self.hub.certificate, self._folder / self.hub.key

    def config(self, length: int) -> RoundConfig:
        """Return the first round of a new series.

        Args:
            length: Words of a vector.

        Raises:
            ConfigError: Vectors cannot have this length.
        """
        return self.agreement.series(length, self.form.bits)

    def decode(self, config: bytes) -> RoundConfig:
        """Return the configuration that a series was begun with.

        Args:
            config: Its encoding.

        Raises:
            ConfigError: It is for another charter, or for rounds of another kind. After such a change of its
                file, a hub would log what no hub can follow.
        """
        try:
            found = self.agreement.decode(config)
        except MalformedMessage as error:
            raise ConfigError(f"the series in the store is of another kind: {error}") from error
        is_model = isinstance(self.form, Arrays)  # which has its own length
        length = found.length if is_model else self.form.length(b"")
        own = msgspec.structs.replace(
            self.config(length), series_id=found.series_id, number=found.number, accept=found.accept
        )
        if found != own:
            raise ConfigError(
                "the series in the store has other rounds than the federation's file, such as more clients: "
                "put the file back until the series is over, or end it with --new-series"
            )
        return found

    def masked_in(self, exchange: int) -> int:
        """Return the number of the round for whose vectors an exchange of a series asks.

        Args:
            exchange: The place of the exchange in its series.
        """
        steps = steps_of(msgspec.structs.replace(self.agreement.any_round, accept=True))
        place = next(place for place, step in enumerate(steps) if has_vector(step.reply))
        return (exchange - place) // guard_named(self.guard).stride


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and int(port) < 1 << 16


def _round_of(table: dict[str, Any]) -> RoundConfig:
    """Read a table ``[round]``, with the fields of a ``RoundConfig`` that a federation chooses."""
    extra = sorted(table.keys() & DECIDED)
    if extra:
        raise ConfigError(f"leave {extra[0]} out of [round]: the form or the hub decides it")
    try:
        return msgspec.convert({**table, "length": 1, "type": "round"}, RoundConfig)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"[round] cannot be: {shown(str(error), 200)}") from None
