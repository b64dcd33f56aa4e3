"""A series on a hostile network, and a model that says what must come of it.

``SeriesWorld`` holds real clients, a real series and everything that was ever on the wire. Actions take any
integers, read modulo what there is to choose from. The network loses, repeats, reorders, replays, moves and
mixes what is in envelopes; clients sleep, die and come back with their memory; some seal garbage.

What the model asserts, wherever a message reaches a party and at the end:

- Whatever happens, a client says one thing of each kind per round: one bundle of keys, one vector, one set of
  shares. A second, different one would be a second state of one number.
- What is refused as a whole changes nothing.
- Every sum is the plain one over its survivors, each of whom sent a vector for that round.
- Once the mischief ends, the next round that starts has everyone in it: nothing lasts.
- When the series is over no client holds a secret.
"""

import random
from collections import Counter, defaultdict

import msgspec
import numpy as np
import pytest

from ccesa.errors import ConfigError, FaultyClient, FaultyServer, OrderError
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.series import Ended
from ccesa.simulate.enrolment import NOTHING
from series_rounds import SeriesPlay, opened

#: Under ``active``: so many colluders around anyone are planned for.
AROUND = msgspec.structs.replace(NOTHING, around=1)


def crooked(client: Client, accuses: bool) -> Client:
    """Make a client seal garbage for all neighbours, or accuse all of them."""
    honest = client._answer

    def answer(request):
        state, reply = honest(request)
        if isinstance(reply, m.ShareReply) and not accuses:
            reply = msgspec.structs.replace(reply, sealed=bytes(len(reply.sealed)))
        elif isinstance(reply, m.AcceptReply) and accuses:
            reply = msgspec.structs.replace(reply, accused=m.pack_ids(np.array(state.near.neighbours)))
        return state, reply

    client._answer = answer
    return client


class SeriesWorld(SeriesPlay):
    """A series in play; ``requests`` lie open, and the network decides what becomes of them."""

    def __init__(self, guard: str, clients: int, rounds: int) -> None:
        agreed = {"certificate": AROUND} if guard == "active" else {}
        self.crooked: dict[tuple[int, int], bool] = {}
        self.liars: dict[int, bool] = {}
        self.memories: dict[int, set[bytes]] = defaultdict(set)
        self.resumed: set[bytes] = set()
        super().__init__(guard, clients, rounds, **agreed)
        self.clients = {i: self.client(i, used_rounds=self.memories[i]) for i in range(clients)}
        self.log: list[tuple[int, bytes]] = []
        self.latest: dict[int, bytes] = {}
        self.answered: dict[int, bytes] = {}
        #: What each client said, by its id, the context and the kind of message.
        self.said: dict[tuple[int, bytes, type[m.Message]], bytes] = {}
        #: Who was told something that no honest server says, or has lost its memory.
        self.disturbed: set[int] = set()
        self.started: dict[int, tuple[int, frozenset[int]]] = {}
        self.exchange_number = self.last_mischief = -1
        self.ended: list[Ended] = []
        self.counts: Counter[str] = Counter()
        self.open_next()

    def party(self, i, config, **options):
        made = super().party(i, config, **options)
        liar = self.crooked.get((i, config.number))
        return made if liar is None else crooked(made, liar)

    # Actions

    def everyone(self, order: int, gone: int, lost: int) -> None:
        """All who are asked hear of it and answer, in any order; some do not hear, some are not heard."""
        asked = sorted(self.requests)
        random.Random(order).shuffle(asked)
        for who in asked:
            if gone >> who & 1:
                self.mischief()
                continue
            self.deliver(who)
            if lost >> who & 1:
                self.mischief()
            else:
                self.send(who)

    def close(self) -> None:
        """The exchange closes with whoever has answered, and the next one opens."""
        if self.series.finished:
            return
        for one in self.series.close():
            self.ended.append(one)
            self.check(one)
            self.check_senders(one)
            self.counts["sums" if one.aggregate else type(one.failure).__name__] += 1
        if not self.series.finished:
            self.open_next()

    def deliver(self, who: int) -> None:
        """The envelope that is due reaches a client, perhaps once more."""
        who %= len(self.clients)
        if who in self.requests:
            self.ask(who, self.requests[who], due=True)

    def send(self, who: int) -> None:
        """A client's last reply reaches the server, perhaps once more."""
        who %= len(self.clients)
        if who in self.latest:
            self.hand_over(who, self.latest[who])

    def replay_to_client(self, who: int, which: int) -> None:
        """What was for this client or from it costs it nothing; what was for another may cost it a round."""
        self.mischief()
        who %= len(self.clients)
        owner, data = self.log[which % len(self.log)]
        if owner != who:
            self.disturbed.add(who)
        self.ask(who, data)

    def replay_to_server(self, who: int, which: int) -> None:
        """Whatever a client says in vain, it may count as its answer: the first one is kept."""
        self.mischief()
        self.hand_over(who % len(self.clients), self.log[which % len(self.log)][1])

    def mix(self, who: int, which: int, part: int) -> None:
        """An envelope of some messages that are due, and one that was sent some time ago to somebody."""
        self.mischief()
        who %= len(self.clients)
        due = opened(self.requests.get(who, b""))
        kept = [one for place, one in enumerate(due) if part >> place & 1]
        other = opened(self.log[which % len(self.log)][1])
        self.disturbed.add(who)
        if kept or other:
            self.ask(who, envelope.pack((kept + other[:1])[: envelope.MOST]))

    def swap(self, who: int, other: int) -> None:
        """A client gets what is for another."""
        self.mischief()
        who, other = who % len(self.clients), other % len(self.clients)
        self.disturbed.add(who)
        if other in self.requests:
            self.ask(who, self.requests[other])

    def hop(self, who: int) -> None:
        """A client sleeps, and goes on in another object, but not in two."""
        who %= len(self.clients)
        asleep, self.clients[who] = self.clients[who], self.client(who, used_rounds=self.memories[who])
        saved = asleep.suspend()
        self.clients[who].resume(saved, self.resumed)
        with pytest.raises(OrderError):
            asleep.receive(self.log[-1][1])
        with pytest.raises(OrderError, match="resumed before"):
            self.client(who).resume(saved, self.resumed)

    def restart(self, who: int) -> None:
        """A client's process dies with its secrets; a new one has the memory of the numbers."""
        self.mischief()
        who %= len(self.clients)
        self.disturbed.add(who)
        self.clients[who].stop()
        self.clients[who] = self.client(who, used_rounds=self.memories[who])

    def prepare(self, who: int) -> None:
        self.clients[who % len(self.clients)].prepare()

    def membership(self, members: int) -> None:
        """Others are asked from the next round on."""
        self.series.members = {i for i in self.clients if members >> i & 1}

    def lie(self, who: int, accuses: int) -> None:
        """A client seals garbage, or accuses everyone, in the round that starts next."""
        self.liars = {who % len(self.clients): bool(accuses % 2)}

    def end(self) -> None:
        """Play honestly to the end; then nothing is left, and the last rounds have everyone."""
        self.series.members, self.liars = set(self.clients), {}
        while not self.series.finished:
            self.everyone(0, 0, 0)
            self.close()
        liars = {number for _, number in self.crooked}
        for number, (exchange, members) in self.started.items():
            if exchange > self.last_mischief and number not in liars and len(members) > 3:
                found = next(one for one in self.ended if one.number == number)
                assert found.aggregate is not None, f"round {number} was lost: {found.failure}"
                assert set(found.aggregate.survivors) == members, number
                self.counts["undisturbed"] += 1
        self.stop()

    def stop(self) -> None:
        """The series ends, wherever it is."""
        for who, request in self.series.stop().items():
            self.clients[who].receive(request)
        assert not any(client.rounds for client in self.clients.values()), "secrets are left"

    # What the model knows

    def mischief(self) -> None:
        self.last_mischief = self.exchange_number

    def open_next(self) -> None:
        number = self.series._number
        for who, accuses in self.liars.items():
            self.crooked[who, number] = accuses
        members = frozenset(self.series.members)
        self.open()
        self.exchange_number += 1
        if self.series._number > number:
            self.started[number] = (self.exchange_number, members)
            self.liars = {}
        self.log += self.requests.items()

    def ask(self, who: int, request: bytes, due: bool = False) -> None:
        client = self.clients[who]
        before = (client.rounds, client._exchange, client._last_number)
        try:
            reply = client.receive(request)
        except FaultyServer:
            self.counts["refused"] += 1
            assert not due or who in self.disturbed or not client.rounds, "an honest exchange was refused"
            assert (client.rounds, client._exchange, client._last_number) == before
            return
        if client.faults:
            self.counts["faults"] += 1
            kinds = {type(fault) for fault in client.faults.values()}
            assert who in self.disturbed, f"left a round for {client.faults}"
            assert kinds <= {FaultyServer, ConfigError}
        for one in opened(reply):
            key = (who, m.context_of(one), m.kind_of(one))
            assert self.said.setdefault(key, one) == one, "two answers of one kind in one round"
        assert len(client.rounds) <= envelope.MOST
        if reply and self.answered.get(who) != request:  # a repeat lacks the vector: the transport has that
            self.latest[who], self.answered[who] = reply, request
            self.log.append((who, reply))

    def hand_over(self, who: int, reply: bytes) -> None:
        try:
            self.series.receive(who, reply)
        except FaultyClient:
            self.counts["refused replies"] += 1
        except OrderError:
            assert self.series.finished

    def check_senders(self, ended: Ended) -> None:
        if ended.aggregate is not None:
            context = msgspec.structs.replace(self.config, number=ended.number).context
            sent = {who for who, of, kind in self.said if of == context and m.has_vector(kind)}
            assert set(ended.aggregate.survivors) <= sent
