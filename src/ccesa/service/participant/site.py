"""A ``Site`` is one side of a participant: its agreement, its function and its memory."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ccesa.agreement.agreement import ATTEMPTS, Trust
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import BARE_FLOOR, Floor, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError, FaultyServer, shown
from ccesa.guards import guard_named
from ccesa.memory import Memory
from ccesa.privacy.ledger import Account, Ledger
from ccesa.privacy.mechanism import Mechanism
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient, Client
from ccesa.service.participant.calls import Tell, silent
from ccesa.service.tokens import signed_text
from ccesa.words import Vector

#: Gets the argument in a task and the number of the round, and returns this site's contribution.
Contribute = Callable[[Any, int], Any]
TakeResult = Callable[[dict[str, Any]], None]  # gets the published result of one question, as in JSON
Make = Callable[[], Vector]  # makes a vector, or raises
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,1024}")


def is_token(token: str) -> bool:
    return _TOKEN.fullmatch(token) is not None


def at_once(make: Make) -> Vector:
    return make()


@dataclass(frozen=True, kw_only=True)
class Enrolled:
    """A member has agreed to a charter, and proves its identity to one hub.

    It refuses other charters and rounds, an expired charter, and noise without a ledger. Its memory has to outlive the
    process, because the hub may ask twice.
    """

    agreement: Charter
    identity: Identity
    #: The address at which this member reaches its hub. Another hub cannot use a signature over it.
    origin: str

    token: ClassVar = None
    needs_folder: ClassVar = True
    helps: ClassVar = False

    def __post_init__(self) -> None:
        _ = self.client  # which the charter has
        self.agreement.check_current()

    @property
    def member(self) -> "Enrolled":
        """The member that signs in."""
        return self

    @property
    def client(self) -> int:
        """The id of this client in the charter."""
        return self.agreement.admission.id_of(self.identity.public)

    def signature(self, challenge: bytes) -> bytes:
        """Sign a challenge of the hub at this address, in this federation and for nothing else."""
        return self.identity.sign(signed_text(self.agreement.digest, self.origin, challenge))

    def check_hub(self, guard: str, digest: str | None) -> None:
        """Refuse a hub that announces another guard or charter."""
        if not guard_named(guard).chartered:
            raise FaultyServer(f"this site has a charter, and the hub's rounds with guard = {shown(guard)} have none")
        own = self.agreement.digest.hex()
        if digest != own:
            raise FaultyServer(
                f"the hub has another charter ({shown((digest or 'none')[:8])}...) than this site "
                f"({own[:8]}..., serial {self.agreement.serial}): compare the digests that "
                "`ccesa charter show` prints"
            )

    def account(self, ledger: Ledger | None, mechanism: Mechanism) -> Account:
        """Return the account to which vectors with noise are charged."""
        if ledger is None:
            raise ConfigError("the charter has noise: take part with a ledger")
        return ledger.account(mechanism, self.agreement.digest)

    def as_helper(self) -> "Helping | None":
        """Return the other part of this site, if the charter names it as a helper."""
        if self.identity.public not in {seat.key for seat in self.agreement.helper_seats}:
            return None
        return Helping(agreement=self.agreement, identity=self.identity, origin=self.origin)

    def make_client(self, config: RoundConfig, place: int | None, vector: Make, **options: Any) -> Client:
        return ActiveClient(config, self.identity, self.agreement, vector, **options)


@dataclass(frozen=True, kw_only=True)
class Helping(Enrolled):
    """A helper that the charter names. It may be a member, too, and then it signs in twice."""

    helps: ClassVar = True

    @property
    def client(self) -> int:
        """The id of this helper in rounds."""
        return self.agreement.helper_id(self.identity.public)

    def make_helper(self, config: RoundConfig, **options: Any) -> Helper:
        return Helper(config, self.identity, self.agreement, **options)


@dataclass(frozen=True, kw_only=True)
class Invited:
    """A client with a token trusts the hub to follow the protocol. It refuses charters, and rounds below its floor."""

    agreement: Trust
    token: str = field(repr=False)
    client: int | None = None  # the id of this client; None takes it from the first request

    member: ClassVar = None
    identity: ClassVar = None
    needs_folder: ClassVar = False

    def __post_init__(self) -> None:
        if not is_token(self.token):
            raise ConfigError("this is not a token: a token begins with ccesa_, and `ccesa invite` prints it")

    def check_hub(self, guard: str, digest: str | None) -> None:
        """Refuse a hub that announces a guard with a charter."""
        if guard_named(guard).chartered:
            raise ConfigError(f"this hub runs rounds with guard = {guard}: take part with a charter and an identity")

    def account(self, ledger: Ledger | None, mechanism: Mechanism) -> Account | None:
        """Return the account to which vectors with noise are charged; None without a ledger."""
        return None if ledger is None else ledger.account(mechanism)

    def make_client(self, config: RoundConfig, place: int | None, vector: Make, **options: Any) -> Client:
        if place is None:
            raise ConfigError("this site does not know which client it is")
        trust = self.agreement
        return Client(config, place, vector, floor=trust.floor, attempts=trust.attempts, **options)


def standing_of(
    *,
    charter: Charter | None = None,
    identity: Identity | None = None,
    token: str | None = None,
    client: int | None = None,
    floor: Floor | None = None,
    attempts: int = ATTEMPTS,
    origin: str = "",
) -> Enrolled | Invited:
    """Return the standing of a site, from a charter and an identity, or from a token; raise ConfigError otherwise."""
    match charter, identity, token:
        case Charter(), Identity(), None:
            return Enrolled(agreement=charter, identity=identity, origin=origin)
        case None, None, str():
            trust = Trust(floor=(floor or Floor()).over(BARE_FLOOR), attempts=attempts)
            return Invited(agreement=trust, token=token, client=client)
        case (Charter(), None, _) | (None, Identity(), _):
            raise ConfigError("a charter and an identity go together; one of them is missing")
    raise ConfigError("a participant has either a charter and an identity, or a token")


@dataclass(frozen=True, kw_only=True)
class Site:
    """A participant's own side. If the hub may lie, ``memory`` has to outlive the process."""

    standing: Enrolled | Invited
    contribute: Contribute = field(repr=False)
    memory: Memory = field(repr=False)
    ledger: Ledger | None = None
    threads: int = 0
    once: bool = False  # ends after one sum
    strict: bool = False  # ends at the first fault; otherwise only sits out its round
    wait: int = 30  # seconds that the hub may wait for news before it answers
    patience: float = 3600.0
    #: The size of one part of a large reply or task; None leaves it to the hub.
    part_bytes: int | None = None
    #: The maximum size of a task; None leaves it to the form of the federation.
    max_task: int | None = None
    tell: Tell = silent
    #: Makes vectors with noise, as ``InTime`` does if the time must not reveal anything.
    make: Callable[[Make], Vector] = at_once
    results: TakeResult | None = None  # gets the published results in the end

    def __post_init__(self) -> None:
        if self.max_task is not None and self.max_task < 1:
            raise ConfigError(f"max_task_bytes must be at least 1, not {self.max_task}")
