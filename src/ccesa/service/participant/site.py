"""What a participant brings along: who it is, what it insists on, and what it must not do twice."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ccesa.agreement.charter import Charter
from ccesa.agreement.floor import Floor
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.memory import Memory
from ccesa.privacy.ledger import Ledger
from ccesa.protocol.spending import ATTEMPTS
from ccesa.service.participant.events import Tell, silent
from ccesa.service.participant.in_time import Make, at_once
from ccesa.service.participant.line import Member, is_token
from ccesa.service.participant.results import TakeResult
from ccesa.words import Vector

#: Gets what a task asks for and the number of the round, and returns this site's contribution.
Contribute = Callable[[Any, int], Any]


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a participant brings along. Either charter and identity, or a token.

    ``memory`` has to outlive the process where the hub might lie.
    """

    contribute: Contribute = field(repr=False)
    memory: Memory = field(repr=False)
    #: The hub's address, which a member signs.
    origin: str = ""
    charter: Charter | None = None
    identity: Identity | None = None
    token: str | None = field(default=None, repr=False)
    #: Without a charter: which client this is. None takes it from the first request.
    client: int | None = None
    floor: Floor | None = None
    attempts: int = ATTEMPTS
    ledger: Ledger | None = None
    threads: int = 0
    #: Takes part in one sum, and is done.
    once: bool = False
    #: Ends with the first fault, of whomever, in place of sitting out its round.
    strict: bool = False
    #: Seconds that the hub is asked to wait until there is something new.
    wait: int = 30
    patience: float = 3600.0
    #: Bytes of one part of a large reply or task; None leaves it to the hub.
    part_bytes: int | None = None
    #: The most bytes of a task; None leaves it to the form of the federation.
    most_task: int | None = None
    tell: Tell = silent
    #: Makes vectors with noise, as ``InTime`` does where the time must not tell anything.
    make: Callable[[Make], Vector] = at_once
    #: Gets what the hub publishes, in the end.
    results: TakeResult | None = None

    def __post_init__(self) -> None:
        if (self.charter is None) != (self.identity is None):
            raise ConfigError("a charter and an identity go together; one of them is missing")
        if (self.charter is None) == (self.token is None):
            raise ConfigError("a participant has either a charter and an identity, or a token")
        if self.token is not None and not is_token(self.token):
            raise ConfigError("this is not a token: one begins with ccesa_, and `ccesa invite` prints it")
        if self.most_task is not None and self.most_task < 1:
            raise ConfigError(f"max_task_bytes must be at least 1, not {self.most_task}")
        if self.charter is not None and self.identity is not None:
            self.charter.admission.id_of(self.identity.public)
            self.charter.check_current()

    @property
    def member(self) -> Member | None:
        """Who this is under a charter."""
        if self.charter is None or self.identity is None:
            return None
        return Member(charter=self.charter, identity=self.identity, origin=self.origin)
