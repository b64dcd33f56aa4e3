"""A client of a series keeps one ``Client`` per round in flight, and hands each the messages of its round.

The series only restricts a server: exchanges go forward, numbers go up, each number has one client, and a round without
a message in an exchange is over.
"""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ccesa.agreement.config import RoundConfig
from ccesa.errors import (
    CcesaError,
    ConfigError,
    FaultyServer,
    MalformedMessage,
    OrderError,
    VectorError,
    without_frames,
)
from ccesa.memory import Used
from ccesa.protocol import envelope, suspended
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import Client
from ccesa.protocol.parties import OneCallAtATime, OwnProcess, check_unused
from ccesa.protocol.schedule import Schedule, check_series, make_party, with_number
from ccesa.protocol.steps import steps_of
from ccesa.wire import Data


class SeriesClient:
    """One client in a series. Calls must not overlap; after one that was interrupted there is only ``stop``.

    Args:
        config: The first round of the series.
        client: Makes the client of a round from its configuration, with vector and task of that round, and
            without ``used_rounds``, when the round advertises and when it is resumed.
        used_rounds: Remembers rounds across processes; a second use of one is refused.

    Attributes:
        faults: Why this client left rounds in the latest exchange, by number.
        failures: Why it has sent noise around zeros in that exchange, by number: ``Client.failure`` of each.

    Raises:
        ConfigError: The configuration has no *accept*.
    """

    def __init__(
        self, config: RoundConfig, client: Callable[[RoundConfig], Client], *, used_rounds: Used | None = None
    ) -> None:
        check_series(config)
        self._config, self._make, self._used = config, client, used_rounds
        self._schedule = Schedule.of(config)
        self._first = next(step for step in steps_of(config) if not step.by_helpers)
        self._clients: dict[int, Client] = {}
        self._exchange, self._last_number, self._over = -1, config.number - 1, False
        self._exclusive, self._process = OneCallAtATime("client of a series"), OwnProcess()
        self.faults: dict[int, CcesaError] = {}
        self.failures: dict[int, VectorError] = {}

    @property
    def rounds(self) -> tuple[int, ...]:
        """Numbers of the rounds of which this client may hold secrets."""
        return tuple(sorted(number for number, client in self._clients.items() if not client.done))

    def receive(self, request: Data) -> bytes:
        """Return the replies to one exchange. The same exchange again gets the same replies, but for a masked vector.

        A round with a faulty message is over for this client, and ``faults`` says why. A round without a message
        is over, too: the server goes on without this client. The other rounds go on.

        Args:
            request: An envelope with the due steps of the rounds in flight; an empty one ends the series.

        Raises:
            FaultyServer: These bytes are not one exchange, or an older one; nothing has changed.
            OrderError: The series is over, the client was suspended, or calls overlap. In a fork, or if this became
                one meanwhile, all secrets are dropped.
            UsageError: The request is not bytes.
        """
        view = m.view_of(request, "request")
        with self._exclusive:
            self._process.check(self._end)
            try:
                messages = envelope.unpack(view)
            except MalformedMessage as error:
                raise FaultyServer(str(error)) from error
            if not messages:
                self._end()
                return envelope.pack([])
            if self._over:
                raise OrderError("this client has left the series, or was suspended; it answers nothing")
            placed = self._placed(messages)
            self._enter(placed)
            replies = [self._answer(number, message) for number, (_, message) in placed.items()]
            self._process.check(self._end)
            return envelope.pack(reply for reply in replies if reply is not None)

    def prepare(self) -> None:
        """Sum the masks of every round that is ready for it, so that masking the vector is one addition.

        They live in memory and are never suspended: with the masked vector they are the vector.
        """
        with self._exclusive:
            self._process.check(self._end)
            for client in self._clients.values():
                client.prepare()

    def stop(self) -> None:
        """Leave the series, also after a call that was interrupted; all secrets are dropped."""
        with self._exclusive.to_end():
            self._end()

    def suspend(self) -> bytes:
        """Return the state of this client for another process of this node, secrets included.

        Treat them as those of ``Client.suspend``.
        """
        with self._exclusive:
            self._process.check(self._end)
            saved = suspended.SavedSeriesClient(
                series=self._config.context,
                exchange=self._exchange,
                last_number=self._last_number,
                over=self._over,
                clients={number: client.suspend() for number, client in sorted(self._clients.items())},
            )
            self._end()
            return suspended.encode(saved)

    def resume(self, data: bytes, resumed: Used | None = None) -> None:
        """Go on from where ``suspend`` left off; only a client that has just been made can.

        Args:
            data: The bytes of ``suspend``. Take them out of the memory first, and resume them once.
            resumed: Remembers 32-byte digests of such bytes, and refuses a second use.

        Raises:
            OrderError: This client has answered already, or the bytes were resumed before.
            ConfigError: The bytes are damaged, or of another series, guard or version.
        """
        with self._exclusive:
            if self._exchange >= 0 or self._over:
                raise OrderError("this client has answered already; make a new one to resume another")
            saved = suspended.decode(data, suspended.SavedSeriesClient)
            if saved.series != self._config.context:
                raise ConfigError("these bytes are a suspended client of another series")
            clients = {number: self._make_client(number) for number in saved.clients}
            for number, client in clients.items():
                client.resume(saved.clients[number])
            suspended.check_first_use(data, resumed)
            self._clients = clients
            self._exchange, self._last_number, self._over = saved.exchange, saved.last_number, saved.over

    def __reduce__(self) -> NoReturn:
        """Refuse pickles and copies: only ``suspend`` takes secrets out, and ends this object."""
        raise TypeError("a SeriesClient cannot be copied or pickled: suspend it, or join the next round")

    def _make_client(self, number: int) -> Client:
        return make_party(self._make, with_number(self._config, number), Client)

    def _placed(self, messages: list[memoryview]) -> dict[int, tuple[int, Data]]:
        """Return exchange and message by number of the round, without the rounds that this client is not in."""
        placed: dict[int, tuple[int, Data]] = {}
        for message in messages:
            number = self._number_of(message)
            if number is None:
                continue
            exchange = self._schedule.exchange(number - self._config.number, m.kind_of(message))
            if exchange is None:
                raise FaultyServer("a message that opens no step of this series")
            if number in placed:
                raise FaultyServer(f"two messages of round {number} in one envelope")
            placed[number] = (exchange, message)
        return placed

    def _number_of(self, message: Data) -> int | None:
        """Return the number of the round of a message; the first one of a round says it."""
        context = m.context_of(message)
        for number, client in self._clients.items():
            if client.context == context:
                return number
        if m.kind_of(message) is not self._first.request:
            return None
        return number_of(message, self._config)

    def _enter(self, placed: dict[int, tuple[int, Data]]) -> None:
        """Go on to this exchange, and drop rounds without a message. An error of the caller's changes nothing."""
        exchanges = {exchange for exchange, _ in placed.values()}
        if not exchanges:
            raise FaultyServer("messages of rounds that this client is not in")
        if len(exchanges) > 1:
            raise FaultyServer("messages of different exchanges in one envelope")
        (exchange,) = exchanges
        if exchange < self._exchange:
            raise FaultyServer("an exchange that is over")
        joined: dict[int, Client] = {}
        faults = {} if exchange > self._exchange else self.faults
        for number in placed.keys() - self._clients.keys():  # at most the round that starts here
            try:
                joined[number] = self._join(number)
            except CcesaError as error:
                faults = {number: without_frames(error)} | faults
        failures = {} if exchange > self._exchange else self.failures
        self._exchange, self.faults, self.failures = exchange, faults, failures
        for number in self._clients.keys() - placed.keys():
            self._drop(number)
        self._clients |= joined

    def _join(self, number: int) -> Client:
        """Return the only client of this number; no key exists yet."""
        if number <= self._last_number:
            raise FaultyServer(f"round {number} of this series, after round {self._last_number}")
        config = with_number(self._config, number)
        check_unused(config, self._used)
        client = self._make_client(number)
        if self._used is not None:
            self._used.add(config.round_id)
        self._last_number = number
        return client

    def _answer(self, number: int, message: Data) -> bytes | None:
        """Hand a message to the client of its round; None if that does not answer."""
        if number not in self._clients:
            return None
        client = self._clients[number]
        before = client.failure
        try:
            return client.receive(message)
        except CcesaError as error:
            if isinstance(error, OrderError) and not client.done:
                return None  # asked for the masked vector again, which the transport repeats
            self._drop(number)
            self.faults[number] = without_frames(error)
            return None
        finally:
            if client.failure is not None and before is None:
                self.failures[number] = client.failure

    def _drop(self, number: int) -> None:
        self._clients.pop(number).leave()

    def _end(self) -> None:
        self._over = True
        for number in tuple(self._clients):
            self._drop(number)


#: A helper also destroys keys that another process of it made, of at most this many rounds before the request.
_LOOK_BACK = 16


class SeriesHelper:
    """One helper in a series. It answers each message by the number of its round, in any order.

    Calls must not overlap. After a crash make a new one: the helper's memory prevents second answers.

    Args:
        config: The first round of the series.
        helper: Makes the helper of a round from its configuration, always with the same keys and memory.

    Attributes:
        faults: Why messages of the latest envelope were refused, by the number of their round.

    Raises:
        ConfigError: The configuration cannot be that of a series.
    """

    def __init__(self, config: RoundConfig, helper: Callable[[RoundConfig], Helper]) -> None:
        check_series(config)
        self._config, self._make = config, helper
        self._helpers: dict[int, Helper] = {}
        #: All rounds before this one are over, and their keys are destroyed.
        self._first = config.number
        self._exclusive = OneCallAtATime("helper of a series")
        self.faults: dict[int, CcesaError] = {}

    def receive(self, request: Data) -> bytes:
        """Return the replies to one envelope.

        Args:
            request: Messages of several rounds; an empty envelope ends the series.

        Raises:
            FaultyServer: These bytes are not an envelope of this series.
            OrderError: Calls overlap.
            UsageError: The request is not bytes.
        """
        view = m.view_of(request, "request")
        with self._exclusive:
            try:
                messages = envelope.unpack(view)
            except MalformedMessage as error:
                raise FaultyServer(str(error)) from error
            self.faults = {}
            if not messages:
                self._forget(list(self._helpers))
            numbers = [number_of(message, self._config) for message in messages]  # before anything changes
            replies = [self._answer(*each) for each in zip(numbers, messages, strict=True)]
            return envelope.pack(reply for reply in replies if reply is not None)

    def stop(self) -> None:
        """Leave the series; the keys of its rounds are destroyed."""
        with self._exclusive.to_end():
            self._forget(list(self._helpers))

    def _answer(self, number: int, message: Data) -> bytes | None:
        try:
            helper = self._helper(number)
            if m.kind_of(message) is m.HelperKeysRequest:  # rounds before the one that is being answered are over
                before = range(max(self._first, number - _LOOK_BACK), number - 1)
                self._forget({*before, *(old for old in self._helpers if old < number - 1)})
                self._first = max(self._first, number - 1)
            return helper.receive(message)
        except CcesaError as error:
            self.faults[number] = without_frames(error)
            return None

    def _helper(self, number: int) -> Helper:
        if number not in self._helpers:
            self._helpers[number] = make_party(self._make, with_number(self._config, number), Helper)
        return self._helpers[number]

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._helper(number).leave()
            del self._helpers[number]


def number_of(message: Data, config: RoundConfig) -> int:
    """Return the number of the round that a message says; refuse one of another series."""
    kind = m.kind_of(message)
    if kind is None or "number" not in kind.__struct_fields__:
        raise FaultyServer("a message that says no number of a round")
    try:
        request: Any = m.expect(m.decode(message, m.limit(kind, config)), kind)
        number = int.from_bytes(m.check_size("number", request.number, m.NUMBER_BYTES), "little")
    except MalformedMessage as error:
        raise FaultyServer(str(error)) from error
    if with_number(config, number).context != request.context:
        raise FaultyServer("a message of another series")
    return number
