"""A client of a series keeps one ``Client`` per round in flight, and hands each the message meant for it."""

from collections.abc import Callable, MutableSet

import msgspec

from ccesa.config import RoundConfig
from ccesa.errors import CcesaError, ConfigError, FaultyServer, MalformedMessage, OrderError
from ccesa.protocol import envelope, suspended
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.exclusive import OneCallAtATime
from ccesa.protocol.series import Schedule, check_series, numbered
from ccesa.protocol.steps import steps_of
from ccesa.wire import Data


class Saved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Saves a client of a series between two exchanges."""

    series: bytes
    exchange: int
    last_number: int
    #: Each as ``Client.suspend`` gives it, by number.
    clients: dict[int, bytes]


class SeriesClient:
    """One client in a series. Calls must not overlap.

    Args:
        config: The first round of the series.
        client: Makes the client of a round from its configuration, with vector and task of that round, and
            without ``used_rounds``. It is called when the round advertises, and when it is resumed.
        used_rounds: Remembers rounds across processes; a second use of a number is refused.

    Attributes:
        faults: Why this client is out of a round, by its number; of rounds in flight.

    Raises:
        ConfigError: The configuration has no *accept*.
    """

    def __init__(
        self,
        config: RoundConfig,
        client: Callable[[RoundConfig], Client],
        *,
        used_rounds: MutableSet[bytes] | None = None,
    ) -> None:
        check_series(config)
        self._config, self._make, self._used = config, client, used_rounds
        self._schedule = Schedule.of(config)
        self._step_names = {step.request: step.name for step in steps_of(config)}
        self._clients: dict[int, Client] = {}
        self._exchange, self._last_number = -1, config.number - 1
        self._exclusive = OneCallAtATime("client of a series")
        self.faults: dict[int, CcesaError] = {}

    @property
    def rounds(self) -> tuple[int, ...]:
        """Numbers of the rounds of which this client may hold secrets."""
        return tuple(sorted(number for number, client in self._clients.items() if not client.done))

    def receive(self, request: bytes) -> bytes:
        """Answer one exchange. The same exchange again gets the same answer, but for a masked vector.

        A round with a faulty message is over for this client, and ``faults`` says why; the others go on.

        Args:
            request: An envelope with the due steps of the rounds in flight; an empty one ends the series.

        Returns:
            An envelope with the replies.

        Raises:
            FaultyServer: These bytes are not one exchange, or an older one; nothing has changed.
            OrderError: Calls overlap.
            UsageError: The request is not bytes.
        """
        view = m.measured(request, "request")
        with self._exclusive:
            try:
                messages = envelope.unpack(view)
            except MalformedMessage as error:
                raise FaultyServer(str(error)) from error
            if not messages:
                self._drop(tuple(self._clients))
                return envelope.pack([])
            placed = [(number, one) for one in messages if (number := self._number(one)) is not None]
            self._enter({self._exchange_of(number, message) for number, message in placed})
            replies = [self._answer(number, message) for number, message in placed]
            return envelope.pack(reply for reply in replies if reply is not None)

    def prepare(self) -> None:
        """Sum the masks of every round that is ready for it, so that masking the vector is one addition.

        They live in memory and are never suspended: with the masked vector they are the vector.

        Raises:
            OrderError: Calls overlap.
        """
        with self._exclusive:
            for client in self._clients.values():
                client.prepare()

    def stop(self) -> None:
        """Leave the series; all secrets are dropped.

        Raises:
            OrderError: Calls overlap.
        """
        with self._exclusive:
            self._drop(tuple(self._clients))

    def suspend(self) -> bytes:
        """Return what is needed to go on in another process of this node, secrets included.

        What ``Client.suspend`` says about its bytes holds for these.

        Raises:
            OrderError: Calls overlap.
        """
        with self._exclusive:
            saved = Saved(
                series=self._config.context,
                exchange=self._exchange,
                last_number=self._last_number,
                clients={number: client.suspend() for number, client in sorted(self._clients.items())},
            )
            self._clients = {}
            return suspended.encode(saved)

    def resume(self, data: bytes, resumed: MutableSet[bytes] | None = None) -> None:
        """Go on from where ``suspend`` left off; only a client that has just been made can.

        Args:
            data: What ``suspend`` returned. Resume it once: take it out of where it is kept first.
            resumed: Remembers 32-byte digests of such bytes, and refuses a second use.

        Raises:
            OrderError: This client has answered already, or the bytes were resumed before.
            ConfigError: The bytes are damaged, or of another series, guard or version.
        """
        with self._exclusive:
            if self._exchange >= 0:
                raise OrderError("this client has answered already; make a new one to resume another")
            saved = suspended.decode(data, Saved)
            if saved.series != self._config.context:
                raise ConfigError("a suspended client of another series")
            suspended.check_first_use(data, resumed)
            for number, one in saved.clients.items():
                self._clients[number] = self._make(numbered(self._config, number))
                self._clients[number].resume(one)
            self._exchange, self._last_number = saved.exchange, saved.last_number

    def _number(self, message: Data) -> int | None:
        """Return the number of the round that a message is of; an advertise says a new one.

        A client that was restarted is asked about rounds that it is not in any more, and passes them over.
        """
        context = m.context_of(message)
        for number, client in self._clients.items():
            if client.context == context:
                return number
        if m.named(message) is not m.AdvertiseRequest:
            return None
        most = m.limit(m.AdvertiseRequest, self._config)
        try:
            request = m.checked(m.expect(m.decode(message, most), m.AdvertiseRequest), self._config)
        except MalformedMessage as error:
            raise FaultyServer(str(error)) from error
        number = int.from_bytes(request.number, "little")
        if numbered(self._config, number).context != context:
            raise FaultyServer("a message of another series")
        return number

    def _exchange_of(self, number: int, message: Data) -> int:
        name = self._step_names.get(m.named(message) or m.Message)
        if name is None:
            raise FaultyServer("a message that opens no step of this series")
        return self._schedule.exchange(number - self._config.number, name)

    def _enter(self, exchanges: set[int]) -> None:
        """Go on to an exchange: all messages must be of the same one, and none of an older one."""
        if not exchanges:
            raise FaultyServer("messages of rounds that this client is not in")
        if len(exchanges) > 1:
            raise FaultyServer("messages of different exchanges in one envelope")
        (exchange,) = exchanges
        if exchange < self._exchange:
            raise FaultyServer("an exchange that is over")
        self._exchange = exchange
        ends = self._schedule.ends
        self._drop([one for one in self._clients if ends(one - self._config.number) < exchange])

    def _answer(self, number: int, message: Data) -> bytes | None:
        """Hand a message to the client of its round; None if that is out of the round."""
        try:
            if number not in self._clients:
                self._join(number)
            return self._clients[number].receive(message)
        except CcesaError as error:
            self._drop([number])
            self.faults[number] = error
            return None

    def _join(self, number: int) -> None:
        if number <= self._last_number:
            raise FaultyServer(f"round {number} of this series, after round {self._last_number}")
        config = numbered(self._config, number)
        if self._used is not None:
            if config.round_id in self._used:
                raise ConfigError("this series has had a round of this number; every round needs a fresh one")
            self._used.add(config.round_id)
        self._last_number = number
        self._clients[number] = self._make(config)

    def _drop(self, numbers: "list[int] | tuple[int, ...]") -> None:
        """Drop all secrets of these rounds."""
        for number in numbers:
            self.faults.pop(number, None)
            client = self._clients.pop(number, None)
            if client is not None:
                client.leave()
