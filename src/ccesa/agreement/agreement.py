"""An agreement holds for all rounds of a federation: a charter, or trust in the server.

Code that makes clients, servers, forms or memories asks the agreement, and not which kind it is.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import msgspec

from ccesa.agreement.charter import Charter
from ccesa.agreement.config import NO_FLOOR, Floor, RoundConfig
from ccesa.agreement.identity import Admission
from ccesa.errors import ConfigError
from ccesa.guards import guard_named
from ccesa.parts import check_type
from ccesa.privacy.ledger import Account
from ccesa.values.fields import WORD_BITS

#: Without a charter: the most vectors for one task, and the most rounds that release shares for it.
ATTEMPTS, RELEASES = 2, 1
#: The fields of a round that the server chooses for each series.
DECIDED = frozenset({"series_id", "number", "length", "bits", "accept", "charter", "version"})


class NoCertificate(NamedTuple):
    """The figures without a charter: nobody colludes with a trusted server."""

    colluders: int = 0
    around: int | None = None
    privacy_bits: float | None = None
    logged: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Without a charter, clients trust the server, which chooses the rounds. No member signs in."""

    floor: Floor = NO_FLOOR
    attempts: int = ATTEMPTS
    releases: int = RELEASES

    digest: ClassVar = b""
    admission: ClassVar = Admission(())
    helper_admission: ClassVar = Admission(())
    schema: ClassVar = None
    mechanism: ClassVar = None
    certificate: ClassVar = NoCertificate()
    promises: ClassVar = ("The hub is trusted to follow the protocol. It sees masked vectors and their sum.",)

    def check_current(self, now: float | None = None) -> None:
        """Do nothing: trust does not expire."""

    def check(self, config: RoundConfig) -> None:
        check_type("config", config, RoundConfig, "; plan.config() makes one")
        if guard_named(config.guard).chartered:
            raise ConfigError(
                f"the round has guard = {config.guard}, which needs a charter: make an ActiveClient, or a "
                "Server(config, charter)"
            )
        self.floor.check(config)

    def check_account(self, config: RoundConfig, account: Account | None) -> None:
        """Refuse a round whose sums may have less noise than its vectors are charged for."""
        if account is None:
            return
        noise = account.mechanism
        if (config.length, config.bits) != (noise.length, WORD_BITS):
            raise ConfigError(
                f"the noise of this client's account is made for {noise.length} words of {WORD_BITS} bits, but the "
                f"round has {config.length} words of {config.bits} bits"
            )
        if noise.honest > config.min_survivors:
            raise ConfigError(
                f"the noise of this client's account counts on {noise.honest} honest clients in every sum, but this "
                f"round opens sums of {config.min_survivors}"
            )

    def decode(self, data: bytes) -> RoundConfig:
        return RoundConfig.decode(data)


@dataclass(frozen=True, kw_only=True)
class OwnRounds(Trust):
    """The rounds that a trusted server chooses; length, bits and series of ``any_round`` do not matter."""

    any_round: RoundConfig

    def __post_init__(self) -> None:
        if guard_named(self.any_round.guard).chartered:
            raise ConfigError(f"rounds with guard = {self.any_round.guard} need a charter")

    @property
    def needed(self) -> int:
        return self.any_round.needed()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"client {client}" for client in range(self.any_round.clients))

    @property
    def party_names(self) -> tuple[str, ...]:
        return self.names

    def series(self, length: int, bits: int) -> RoundConfig:
        given = msgspec.structs.asdict(self.any_round)
        kept = {name: value for name, value in given.items() if name not in DECIDED}
        return RoundConfig(**kept | {"length": length, "bits": bits, "accept": True})


#: The agreement of a server without a charter.
TRUST = Trust()
Agreement = Charter | Trust
#: The agreement of a hub, which also says which rounds to begin.
HostedAgreement = Charter | OwnRounds


def make_agreement(charter: Charter | None, config: RoundConfig | None, attempts: int) -> HostedAgreement:
    """Return the agreement of a federation; raise ConfigError unless exactly one of both is given."""
    match charter, config:
        case Charter(), None:
            return charter
        case None, RoundConfig():
            return OwnRounds(any_round=config, attempts=attempts)
    raise ConfigError("a federation has either a charter or a configuration of rounds, [round]")
