"""Where attacks on series take place: real parties, and every envelope in the attacker's hands."""

from collections.abc import Callable, Collection
from typing import Any

from attacks.base import Tell
from attacks.eavesdropper import Eavesdropper
from attacks.hostile import Change, as_it_is
from attacks.stage import inputs
from ccesa.agreement.config import RoundConfig
from ccesa.errors import CcesaError, FaultyClient
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.schedule import with_number
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.steps import Requests
from ccesa.words import Vector


class SeriesStage:
    """A series of rounds that all work on the same, in which the attacker overhears everything.

    ``kind`` plays the rounds and ``member`` the series; ``options`` are those of each client of a round.
    """

    def __init__(
        self,
        tell: Tell,
        *,
        rounds: int,
        kind: type[Client] = Client,
        member: type[SeriesClient] = SeriesClient,
        options: Callable[[int], dict[str, Any]] = lambda client: {},
        clients: int = 9,
    ) -> None:
        self.tell, self.member = tell, member
        self.config = RoundConfig(clients=clients, length=8, accept=True)
        self.vectors: dict[int, Vector] = inputs(self.config)
        self.series = Series(self.config, rounds=rounds)
        self.clients = {
            i: member(self.config, self._maker(kind, i, options(i)), used_rounds=set()) for i in self.vectors
        }
        #: What was overheard of each round, by its context.
        self.ears = {
            config.context: Eavesdropper(config)
            for config in (with_number(self.config, number) for number in range(rounds))
        }
        self.requests: Requests = {}
        self.refused: dict[int, str] = {}

    def _maker(self, kind: type[Client], i: int, options: dict[str, Any]) -> Callable[[RoundConfig], Client]:
        return lambda config: kind(config, i, self.vectors[i], **options)

    def overheard(self, number: int) -> Eavesdropper:
        """Return what was overheard of a round."""
        return self.ears[with_number(self.config, number).context]

    def open(self, task: bytes = m.NO_TASK) -> None:
        """Open the next exchange."""
        self.requests = self.series.open(task)

    def ask(self, client: int, request: bytes) -> bytes:
        """Return what this client answers: nothing where it refuses all of it."""
        self._listen(client, request)
        try:
            reply = self.clients[client].receive(request)
        except CcesaError as error:
            self.refused[client] = str(error)
            return b""
        for number, fault in self.clients[client].faults.items():
            self.refused[client] = f"round {number}: {fault}"
        self._listen(client, reply)
        return reply

    def exchange(
        self, task: bytes = m.NO_TASK, gone: Collection[int] = (), to_client: Change = as_it_is
    ) -> list[Ended]:
        """Play one exchange; the server does not hear what those say that are gone."""
        self.open(task)
        return self.finish(gone, to_client)

    def finish(self, gone: Collection[int] = (), to_client: Change = as_it_is) -> list[Ended]:
        """Ask everyone, and close the open exchange."""
        for client, request in self.requests.items():
            reply = self.ask(client, to_client(client, request))
            if client not in gone:
                self._hand_over(client, reply)
        return self.series.close()

    def _hand_over(self, client: int, reply: bytes) -> None:
        try:
            self.series.receive(client, reply)
        except FaultyClient as fault:
            self.tell(f"  the server refuses an answer: {fault}")

    def _listen(self, client: int, data: bytes) -> None:
        for message in envelope.unpack(data):
            ear = self.ears.get(m.context_of(message) or b"")
            if ear is not None:
                ear.overhear(client, bytes(message))


def messages(data: bytes) -> list[bytes]:
    """Return what is in an envelope."""
    return [bytes(one) for one in envelope.unpack(data)]
