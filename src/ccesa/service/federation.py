"""A federation's file has the rounds that a hub runs, their members, and the times that it waits.

    name = "five hospitals"
    rounds = 3                       # the number of sums
    charter = "charter.toml"         # the agreement of the members

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
from ccesa.errors import ConfigError, quoted, shown
from ccesa.parts import Part, is_printable
from ccesa.policy import Policy
from ccesa.service.forms import AnyForm, form_of

_MOST_BYTES = 1 << 20
#: Hosts of requests that reach a hub without a proxy in between.
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class HubTable(Part, frozen=True, kw_only=True):
    """The addresses and files of a hub.

    Attributes:
        store: ``sqlite:///FILE`` for one process, or ``postgresql://...`` that several share.
        listen: Address and port for the sites.
        operate: Address and port for the operator: page, metrics and health. Keep it inside your network.
        origins: The addresses that sites use for this hub, such as ``https://hub.example``; members sign
            them. By default, the loopback addresses.
        pages: Origins of web pages whose clients may take part.
        spool: Folder for uploads in parts; by default one beside the file.
        counter: File that counts what this hub has asked; never restored together with the store.
        part_bytes: Sites send larger replies in parts.
        certificate: File of a TLS certificate, if no proxy does TLS.
        key: File of its key.
        connections: The maximum number of connections at a time.
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
    """A hub runs one federation; ``load`` reads it from a file.

    Args:
        name: For people.
        rounds: The number of sums.
        charter: The charter of the members.
        config: Without a charter: a round under the guard ``curious``; length and series do not matter.
        form: How contributions become vectors: a form, or a table of one, if the charter leaves it open.
        attempts: Without a charter: the maximum number of attempts at one question.
        question: The question, for people.
        dropout: The fraction of clients that may still leave once shares are accepted.
        policy: How long the hub waits.
        hub: Its addresses and files.
        folder: The folder for relative paths.

    Attributes:
        guard: The guard of all rounds.
        clients: The number of members or clients.
        helper_ids: The ids of the helpers that the charter names; they follow those of the members.
        min_survivors: The minimum number of clients in a sum.
        signs_in: Whether members sign in with their identities; otherwise clients have tokens.
        digest: The name of this federation's database.
        origins: The addresses that sites may use for this hub.
        store: The database, with the full path of a file.
        spool: The folder for uploads in parts.
        counter: The file that counts what this hub has asked.
        tls: Files of certificate and key; None if a proxy does TLS.

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
            raise ConfigError("name and question of a federation must be printable, and the name 1 to 100 characters")
        if rounds < 1:
            raise ConfigError(f"rounds of a federation must be at least 1, not {rounds}")
        self.name, self.rounds, self.question, self.dropout = name, rounds, question, dropout
        self.policy, self.hub = policy or Policy(), hub or HubTable()
        self.agreement = make_agreement(charter, config, attempts)
        table = msgspec.to_builtins(form) if isinstance(form, msgspec.Struct) else form
        self.form = form_of(self.agreement, table)
        agreed = self.agreement.any_round
        self.guard, self.clients, self.min_survivors = agreed.guard, agreed.clients, agreed.min_survivors
        self.helper_ids = agreed.helper_ids
        self.signs_in = len(self.agreement.admission) > 0
        self.digest = labels.digest(labels.FEDERATION, name.encode(), self.guard.encode())
        self._check()
        self._locate(Path(folder))

    def _locate(self, folder: Path) -> None:
        hub = self.hub
        kind, _, file = hub.store.partition("sqlite:///")
        self.store = hub.store if kind else f"sqlite:///{folder / file}"
        self.spool, self.counter = folder / hub.spool, folder / hub.counter
        self.tls: tuple[Path, Path] | None = None
        if hub.certificate is not None and hub.key is not None:
            self.tls = folder / hub.certificate, folder / hub.key
        scheme, port = "http" if self.tls is None else "https", hub.listen.rpartition(":")[2]
        self.origins = hub.origins or tuple(f"{scheme}://{host}:{port}" for host in _LOOPBACK)

    def _check(self) -> None:
        """Refuse parts that contradict each other."""
        most = self.agreement.attempts
        if self.agreement.schema is not None and self.rounds > most:
            raise ConfigError(
                f"{self.rounds} rounds: under this charter a member sends its table at most {most} time(s)"
            )
        if self.signs_in and not self.hub.origins and self.hub.listen.endswith(":0"):
            raise ConfigError("members sign the hub's address: choose a port to listen on, or give origins")
        for address in (self.hub.listen, self.hub.operate):
            if not _is_address(address):
                raise ConfigError(f"{quoted(address)} is not ADDRESS:PORT, as in 127.0.0.1:8470")
        if (self.hub.certificate is None) != (self.hub.key is None):
            raise ConfigError("TLS needs both a certificate and its key; or leave TLS to a proxy")

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
            read = msgspec.convert(tomllib.loads(files.read_trusted(path, _MOST_BYTES)), _File)
        except ConfigError:
            raise
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not a federation: {shown(str(error), 200)}") from None
        fields = msgspec.structs.asdict(read)
        charter, table = fields.pop("charter"), fields.pop("round")
        try:
            return cls(
                charter=None if charter is None else Charter.load(path.parent / charter),
                config=None if table is None else _round_of(table),
                folder=path.parent,
                **fields,
            )
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error


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
        raise ConfigError(f"[round] is not valid: {shown(str(error), 200)}") from None
