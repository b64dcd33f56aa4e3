"""Hubs without threads, sockets or a clock: what happens between two calls of the store is chosen.

A hub can be killed there, its store can be away, or all other hubs can go on for half a minute before it.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ccesa.errors import CcesaError
from ccesa.helper_keys import ProcessKeys
from ccesa.logfile import OpeningCounter
from ccesa.memory import ProcessMemory
from ccesa.policy import Policy
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.series_client import SeriesClient, SeriesHelper
from ccesa.service.coordinator import Questions
from ccesa.service.desk import Receipt, Taken, View
from ccesa.service.errors import Unavailable
from ccesa.service.federation import Federation
from ccesa.service.forms import Words
from ccesa.service.hub.agenda import Presence
from ccesa.service.hub.engine import Engine, Handed
from ccesa.service.hub.replica import decode_config, masked_in
from ccesa.service.meters import Meters
from ccesa.service.store import Store, audit, open_store
from ccesa.service.tasks import task_digest
from ccesa.simulate.enrolment import new_client
from rounds import charter, charter_of, configure, federation_of, identity

CLIENTS, WORDS = 6, 4
#: Longer than a lease, and than a hub lives that gives no sign of life.
LONG = 20.0


class Killed(BaseException):
    """Raised in the middle of something, as a kill -9 would end it."""


#: Under the guard ``assisted``: a member that helps, and two that only help.
HELPERS = (identity(0), identity(100), identity(101))


def federation(guard: str = "curious", rounds: int = 2, **policy: float) -> Federation:
    agreed: dict[str, Any] = {"config": configure(CLIENTS, bits=32, min_survivors=3)}
    if guard == "active":
        agreed = {"charter": charter(CLIENTS, bits=32, min_survivors=3)}
    elif guard == "assisted":
        agreed = {"charter": charter(CLIENTS, bits=32, min_survivors=3, helpers=HELPERS)}
    waits = {"after": 3, "deadline": 6, "vector_after": 3, "vector_deadline": 6, "gather": 3, "absent": 60}
    return Federation(name="a test", rounds=rounds, form=Words(words=WORDS), policy=Policy(**waits | policy), **agreed)


def vector(client: int, task: bytes) -> np.ndarray:
    return np.random.default_rng([client, *task]).integers(0, 2**32, WORDS, dtype=np.uint32)


class Fragile:
    """A store at one of whose next calls something happens, before or after it is made."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._calls, self._after, self._happens = 0, False, lambda: None

    def at(self, calls: int, after: bool, happens: Callable[[], None]) -> None:
        """Let something happen at the call after so many."""
        self._calls, self._after, self._happens = calls + 1, after, happens

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.store, name)

        def call(*args: Any, **options: Any) -> Any:
            self._calls -= 1
            due = self._calls == 0
            if due and not self._after:
                self._happens()
            found = method(*args, **options)
            if due and self._after:
                self._happens()
            return found

        return call


class Recorded(Questions):
    """A coordinator that remembers which results it was told."""

    def __init__(self) -> None:
        super().__init__("test")
        self.told: list[int] = []

    def result(self, result) -> dict[str, float]:
        self.told.append(result.question)
        return {"survivors": len(result.survivors)}


class Hub:
    """One hub; ``turn`` is what its thread does again and again."""

    def __init__(self, world: "World", name: str, counter: OpeningCounter | None) -> None:
        self.world, self.view = world, None
        made = world.federation
        self.store = store = Fragile(open_store(world.url))
        self.presence = presence = Presence(made, store, lambda: world.now)
        self.coordinator = Recorded()
        self.engine = Engine(
            made,
            store,
            self.coordinator,
            presence=presence,
            publish=self._publish,
            meters=Meters(),
            name=name,
            counter=counter,
        )

    def _publish(self, view: View, status: object) -> None:
        self.view, self.status = view, status
        self.world.saw(view)

    def turn(self, *batch: Handed) -> None:
        for client in self.world.here:
            self.presence.hear(client)
        self.engine._turn(list(batch))


class World:
    """Hubs on one database, and clients that ask and answer any of them; ``counters`` is a folder."""

    def __init__(self, url: str, made: Federation, seed: int, hubs: int = 2, counters: Path | None = None) -> None:
        self.counters, self._counting = counters, dict[int, OpeningCounter]()
        self.url, self.federation, self.random, self.now = url, made, random.Random(seed), 1000.0
        self.lives = Counter()
        #: Clients that are there: heard from, and answering.
        self.here = {*range(CLIENTS), *made.helper_ids}
        #: Every request that any hub has shown, by series, exchange and client.
        self.requests: dict[tuple[int, int, int], bytes] = {}
        #: Clients that were told that their vector has come, by series and exchange.
        self.acknowledged: dict[tuple[int, int], set[int]] = {}
        self.receipts: Counter[str] = Counter()
        self._parties: dict[tuple[int, int], SeriesClient] = {}
        #: What sites remember, and why they refused rounds.
        self.memories = {client: ProcessMemory() for client in self.here}
        self.keys = {helper: ProcessKeys() for helper in made.helper_ids}
        self._helping: dict[tuple[int, int], SeriesHelper] = {}
        self.refused: list[CcesaError] = []
        self._used: dict[int, set[bytes]] = {client: set() for client in range(CLIENTS)}
        #: What a client has sent last, and whether that is settled.
        self._sent: dict[int, tuple[tuple[int, int], bytes]] = {}
        self.settled: set[tuple[int, int, int]] = set()
        self.hubs = [self.hub(place) for place in range(hubs)]

    def hub(self, place: int) -> Hub:
        self.lives[place] += 1
        if self.counters is not None:
            self._let_go(place)
            self._counting[place] = OpeningCounter(self.counters / f"{place}.counter")
        return Hub(self, f"hub{place}.{self.lives[place]}", self._counting.get(place))

    def _let_go(self, place: int) -> None:
        if place in self._counting:
            self._counting.pop(place).close()

    def saw(self, view: View) -> None:
        """All hubs ask the same of everyone, down to the byte."""
        for client in view.requests:
            request = view.requests[client]
            assert self.requests.setdefault((view.series, view.exchange, client), request) == request

    # What clients do

    def reply(self, client: int, view: View) -> bytes | None:
        """What a client sends at a view; None where it has nothing to say."""
        place = (view.series, view.exchange)
        if client in self.keys:
            return self.help(client, view)
        latest, reply = self._sent.get(client, ((0, -1), b""))
        if client not in view.requests or place < latest or (*place, client) in self.settled:
            return None
        if place > latest:
            reply = self._answer(client, view)
            self._sent[client] = (place, reply)
        return reply

    def help(self, helper: int, view: View) -> bytes | None:
        """What a helper sends at a view: it may be asked more than once in an exchange."""
        place = (view.series, view.exchange)
        request = view.beside.get(helper) or view.requests.get(helper)
        if request is None or (helper not in view.beside and (*place, helper) in self.settled):
            return None
        config = decode_config(self.federation, view.config)
        if (helper, view.series) not in self._helping:
            self._helping[helper, view.series] = SeriesHelper(config, lambda config: self._helper(helper, config))
        party = self._helping[helper, view.series]
        reply = party.receive(request)
        self.refused += party.faults.values()
        return reply

    def _helper(self, helper: int, config: Any) -> Helper:
        options = {"memory": self.memories[helper], "keys": self.keys[helper]}
        return Helper(config, HELPERS[helper - CLIENTS], charter_of(config), **options)

    def _answer(self, client: int, view: View) -> bytes:
        config = decode_config(self.federation, view.config)
        key = (client, view.series)
        if key not in self._parties:
            self._parties[key] = SeriesClient(
                config, lambda config: self._party(client, config), used_rounds=self._used[client]
            )
        self._task = view.task or bytes(32)
        try:
            reply = self._parties[key].receive(view.requests[client])
        except CcesaError:
            return b""
        self.refused += self._parties[key].faults.values()
        return reply

    def _party(self, client: int, config: Any) -> Any:
        def work() -> np.ndarray:
            return vector(client, self._task)

        memory = self.memories[client]
        return new_client(config, client, work, federation_of(config), task=lambda: self._task, tasks=memory)

    def restart(self, client: int) -> None:
        """A client that is killed and started again has its memory of used rounds, and no keys."""
        self._parties = {key: party for key, party in self._parties.items() if key[0] != client}
        self._helping = {key: party for key, party in self._helping.items() if key[0] != client}

    def batch(self, clients: list[int]) -> list[Handed]:
        """What these clients have to say to whatever some hub shows them."""
        made = []
        for client in clients:
            view = self.random.choice(self.hubs).view
            reply = None if view is None else self.reply(client, view)
            if view is not None and reply is not None:
                made.append(self.handed(client, view, reply))
        return made

    def handed(self, client: int, view: View, reply: bytes) -> Handed:
        place = (view.series, view.exchange)

        def done(receipt: Receipt) -> None:
            self.receipts[receipt.taken.value] += 1
            if receipt.taken is Taken.SAVED and has_vector(reply) and client < CLIENTS:
                self.acknowledged.setdefault(place, set()).add(client)
            if receipt.taken is not Taken.AGAIN:
                self.settled.add((*place, client))

        return Handed(client=client, series=place[0], exchange=place[1], reply=reply, done=done)

    # What happens

    def go_on(self, place: int, chance: float = 0.5) -> None:
        """A hub has a turn, in which some clients come to it; it dies if it is killed in it."""
        clients = [one for one in sorted(self.here) if self.random.random() < chance]
        self.now += self.random.uniform(0.01, 0.5)
        hub = self.hubs[place]
        try:
            hub.turn(*self.batch(clients))
        except Killed:
            hub.store.store.close()
            self.hubs[place] = self.hub(place)
        hub.store.at(-1, False, lambda: None)

    def trouble(self, place: int) -> None:
        """Let something go wrong at one of the next calls of a hub's store."""
        others = [one for one in range(len(self.hubs)) if one != place]

        def die() -> None:
            raise Killed

        def away() -> None:
            raise Unavailable("away")

        def stand_still() -> None:
            """All others go on, for longer than a lease."""
            for _ in range(self.random.choice([1, 8, 40])):
                self.now += LONG / 20
                self.go_on(self.random.choice(others))

        kinds = [die, away, stand_still] if others else [die, away]
        happens = self.random.choice(kinds)
        self.hubs[place].store.at(self.random.randrange(25), self.random.random() < 0.5, happens)

    def run(self, troubles: int, most: int = 3000) -> None:
        """Go on until the federation is over, with so many troubles on the way."""
        for _ in range(most):
            place = self.random.randrange(len(self.hubs))
            if troubles and self.random.random() < 0.3:
                troubles -= 1
                self.trouble(place)
            if self.random.random() < 0.01:
                self.restart(self.random.choice(sorted(self.memories)))
            self.go_on(place)
            if not troubles and all(hub.view and hub.view.state == "over" for hub in self.hubs):
                return
        raise AssertionError(f"not over: {[hub.status for hub in self.hubs]}")

    def close(self) -> None:
        for place, hub in enumerate(self.hubs):
            hub.store.store.close()
            self._let_go(place)


def check(world: World) -> list[Any]:
    """Sums are exact, whoever was acknowledged is in them, and all that happened is written down once."""
    made, store = world.federation, open_store(world.url)
    rows = store.rounds(totals=True)
    sums = [row for row in rows if row.outcome == "sum"]
    for row in sums:
        expected = sum(vector(client, row.task) for client in row.survivors)
        assert np.array_equal(np.frombuffer(row.total, np.uint32), expected)
        assert row.task == task_digest(store.task_of(row.question))
        (masking,) = (
            one.exchange
            for one in store.exchanges(row.series)
            if one.question is not None and masked_in(made, one.exchange) == row.number
        )
        assert world.acknowledged.get((row.series, masking), set()) <= set(row.survivors)
    asked = Counter(row.question for row in rows if row.question is not None)
    assert max(asked.values(), default=0) <= made.agreement.attempts
    assert len({row.question for row in sums}) == len(sums)
    assert all(row.reason for row in rows if row.outcome != "sum")
    check_asked(store, made, rows)
    entries = list(store.audit_rows())
    audit.verify(entries)
    told = [msgspec.json.decode(entry.body) for entry in entries if entry.kind == "round"]
    assert sorted((one["series"], one["number"]) for one in told) == [(row.series, row.number) for row in rows]
    for hub in world.hubs:
        assert len(set(hub.coordinator.told)) == len(hub.coordinator.told)
    store.close()
    return rows


def check_asked(store: Store, made: Federation, rows: list[Any]) -> None:
    """Every round that asked for vectors is over by name: with a sum, or as lost."""
    over = {(row.series, row.number): row for row in rows}
    newest = store.series()
    for series in range(1, newest.series + 1 if newest else 1):
        for exchange in store.exchanges(series):
            if exchange.question is not None:
                row = over[series, masked_in(made, exchange.exchange)]
                assert row.question in (exchange.question, None)


def has_vector(reply: bytes) -> bool:
    return any(m.has_vector(m.kind_of(message)) for message in envelope.unpack(reply))


def copied(reply: bytes, client: int) -> bytes:
    """The first message of a reply, as if another client had said it."""
    message = m.decode(envelope.unpack(reply)[0], 1 << 20)
    return envelope.pack([msgspec.structs.replace(message, client=client).encode()])
