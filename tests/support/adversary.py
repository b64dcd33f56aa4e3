"""A round on a hostile network, and a model that says what must come of it.

``World`` holds real clients, a real server and everything that was ever on the wire. What happens to it is a
list of actions, each a name and a few integers that are read modulo what there is to choose from, so that any
part of a list is a list again: hypothesis and the seeded driver below both shrink it that way. After every
action the model's invariants are asserted, and at the end the sum.

What the model expects of a sum:

- Under ``curious`` a masked vector is not authenticated end to end: it carries its digest, which notices
  what an accident changes. Whoever replaces vector and digest on their way changes the sum, by exactly the
  difference, and nothing tells. The transport has to authenticate clients to the server; the model adds the
  difference. Under ``active`` the digest is signed, and there is no difference.
- Nothing else that is changed, replayed, moved or restarted alters a sum, under either guard. There is none,
  or it is the plain sum over the reported survivors plus those differences. Keys, commitments and mask flags
  that were changed on their way, in either direction, are noticed by those who seal with them, and cost a
  complaint or an accusation; another list of dropped neighbours is another digest in the mask reply.
- Of every pair that a round gives as evidence, something that belongs to one of the two was changed.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache

import numpy as np
import pytest

from adversary_tampering import TAMPERINGS
from attacks.hostile import HostileRound
from ccesa import words
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.errors import ConfigError, FaultyClient, FaultyNeighbour, FaultyServer, OrderError, RoundFailed
from ccesa.graphs import Complete, ErdosRenyi, Graph, Harary
from ccesa.graphs.thresholds import Fixed, Linear, Majority, Threshold
from ccesa.guards import GUARDS, guard_named
from ccesa.protocol import messages as m
from ccesa.protocol.active_client import Confirmed
from ccesa.protocol.client import Client
from ccesa.protocol.client_states import Holding
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server_states import ReleasedShares
from ccesa.protocol.steps import steps_of
from ccesa.simulate.enrolment import new_client, new_server
from rounds import accused_in, charter, federation_of, inputs, read
from strategies import randomness

Action = tuple[str, int, int, int, int]

#: Low, so that no client refuses what an honest server sends after many have dropped out.
FLOOR = Floor(clients=2, degree=1, mask_degree=0)
VECTORS = (m.MaskReply, m.SignedMaskReply)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One configuration to play, as plain values."""

    guard: str
    clients: int
    graph: Graph
    threshold: Threshold
    bits: int
    generator: str
    accept: bool
    seed: int

    def config(self, series_id: bytes = b"") -> RoundConfig:
        series_id = series_id or self.seed.to_bytes(32, "little")
        left = {"length": 3, "series_id": series_id, "accept": self.accept}
        agreed = {
            "bits": self.bits,
            "graph": self.graph,
            "threshold": self.threshold,
            "generator": self.generator,
            "min_survivors": 2,
        }
        if guard_named(self.guard).chartered:
            return charter(self.clients, **agreed).config(**left)
        return RoundConfig(clients=self.clients, **left, **agreed)


def graphs(guard: str, clients: int) -> list[Graph]:
    circles = [degree for degree in (2, 4, 6) if degree < clients]
    plain = [Complete(), ErdosRenyi(p=0.8), *(Harary(degree=degree) for degree in circles)]
    if guard_named(guard).chartered:
        return plain
    nested = [Complete(mask_p=0.7), Complete(mask_degree=2), ErdosRenyi(p=0.9, mask_p=0.6)]
    return plain + nested + [Harary(degree=degree, mask_degree=2) for degree in circles[1:]]


def thresholds(graph: Graph, clients: int) -> list[Threshold]:
    degree = int(graph.mean_degree(clients))
    return [Majority(), Linear(slope=400, base=2), Fixed(t=(degree + 1) // 2 + 1), Fixed(t=degree)]


def setup_from(choose: Callable[[list], object], seed: int) -> Setup:
    """``choose`` picks one of a list; a threshold that the graph does not allow becomes the majority."""
    guard, clients = choose([name for name, guard in GUARDS.items() if guard.has_graph]), choose([4, 5, 6, 7, 8, 9])
    graph = choose(graphs(guard, clients))
    rest = {"bits": choose([8, 16, 32, 64]), "generator": choose(["aes128-ctr", "chacha20"]), "seed": seed}
    rest["accept"] = choose([False, True])
    threshold = choose(thresholds(graph, clients))
    setup = Setup(guard=guard, clients=clients, graph=graph, threshold=threshold, **rest)
    try:
        setup.config()
    except ConfigError:
        return replace(setup, threshold=Majority())
    return setup


@lru_cache
def foreign_messages(guard: str, clients: int, accept: bool) -> tuple[bytes, ...]:
    """Everything that went over the wire in another round of the same people."""
    setup = Setup(
        guard=guard,
        clients=clients,
        graph=Complete(),
        threshold=Majority(),
        bits=32,
        generator="aes128-ctr",
        accept=accept,
        seed=0,
    )
    config, seen = setup.config(b"\xee" * 32), []
    players = {i: player(config, i, inputs(config)[i], randomness(i), set()) for i in range(clients)}
    carry = in_memory(players, lambda step, client: step.name == "mask" and client == 6)

    def watched(step, requests):
        seen.extend(requests.values())
        for client, reply in carry(step, requests):
            seen.append(reply)
            yield client, reply

    run_round(new_server(config, federation_of(config)), watched)
    return tuple(seen)


def player(config: RoundConfig, who: int, vector, source, used_rounds) -> Client:
    floor = {} if guard_named(config.guard).chartered else {"floor": FLOOR}
    return new_client(config, who, vector, federation_of(config), random=source, used_rounds=used_rounds, **floor)


@dataclass
class Actor:
    """What the model knows of one client object."""

    answers: dict[bytes, bytes] = field(default_factory=dict)
    aborted: bool = False


def fingerprint(value: object) -> object:
    """The state of a server, by value, as far as it can change."""
    if isinstance(value, np.ndarray | memoryview):
        return value.tobytes()
    if isinstance(value, dict):
        return tuple((key, fingerprint(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(fingerprint, value))
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, bytes | int | str | frozenset | None):
        return value
    if is_dataclass(value) and not isinstance(value, type):  # but not what it has computed from itself
        return tuple(fingerprint(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, ReleasedShares):
        return value._elements.tobytes()
    return id(value)


class World(HostileRound):
    """A round in play; what the model asserts of either side is asserted where a message reaches it."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.config = setup, setup.config()
        self.vectors = dict(enumerate(inputs(self.config, setup.seed)))
        self.memories: dict[int, set[bytes]] = {i: set() for i in range(setup.clients)}
        self.resumed: dict[int, set[bytes]] = defaultdict(set)
        self.made: Counter[int] = Counter()
        clients = {i: self._new_client(i) for i in range(setup.clients)}
        super().__init__(new_server(self.config, federation_of(self.config)), clients, self.vectors)
        #: None where a client's process has died for good.
        self.actors: dict[int, Actor | None] = {i: Actor() for i in clients}
        self.asked: dict[int, set[bytes]] = defaultdict(set)
        self.latest: dict[int, bytes] = {}  # each client's last reply
        self.log = list(foreign_messages(setup.guard, setup.clients, setup.accept))
        self.emitted: dict[int, list[bytes]] = defaultdict(list)
        self.accepted: dict[str, dict[int, bytes]] = defaultdict(dict)
        self.touched: set[int] = set()  # of whom anything was changed, on any way
        self.clean = True  # nothing but drops, repetitions and disorder so far
        self.complete = True  # and not even a drop
        self.released: dict[int, dict[str, set[int]]] = defaultdict(lambda: {"b": set(), "s": set()})
        self.least: dict[int, int] = {}
        self.closes = 0
        self.counts: Counter[str] = Counter()
        self._note_requests()

    # Actions: each takes any integers

    def deliver(self, who: int, *_: int) -> None:
        """The request that is due reaches a client (perhaps once more)."""
        who %= self.setup.clients
        if who in self.requests:
            self.ask(who, self.requests[who])

    def send(self, who: int, *_: int) -> None:
        """A client's last reply reaches the server (perhaps once more)."""
        who %= self.setup.clients
        if who in self.latest:
            self.hand_over(who, self.latest[who])

    def everyone(self, order: int, gone: int, *_: int) -> None:
        """All who have not answered yet do so, in any order; some are gone."""
        waiting = [] if self.server.finished else sorted(self.server.waiting)
        random.Random(order).shuffle(waiting)
        for who in waiting:
            if gone >> who & 1:
                continue
            self.deliver(who)
            self.send(who)

    def close(self, *_: int) -> None:
        """The server closes the step with whoever has answered."""
        if self.server.finished:
            return
        self.closes += 1
        self.complete &= not self.server.waiting
        try:
            super().close()
        except RoundFailed:
            self.requests = {}
        assert bool(self.requests) != self.server.finished
        self._note_requests()
        assert self.closes <= len(steps_of(self.setup))

    def tamper_request(self, who: int, how: int, x: int, y: int) -> None:
        who %= self.setup.clients
        if who in self.requests:
            self.ask(who, self._tampered(self.requests[who], how, x, y))

    def tamper_reply(self, who: int, how: int, x: int, y: int) -> None:
        """A client's reply is changed on the way; the right one may follow, or never does."""
        who %= self.setup.clients
        if who in self.requests and not self._has_answered(who):
            self.deliver(who)
        if who in self.latest:
            self.hand_over(who, self._tampered(self.latest[who], how, x, y))

    def replay_to_client(self, who: int, which: int, *_: int) -> None:
        self.ask(who % self.setup.clients, self.log[which % len(self.log)])

    def replay_to_server(self, who: int, which: int, *_: int) -> None:
        self.hand_over(who % self.setup.clients, self.log[which % len(self.log)])

    def swap(self, who: int, other: int, direction: int, *_: int) -> None:
        """What is for one, or from one, goes under the name of another."""
        who, other = who % self.setup.clients, other % self.setup.clients
        if direction % 2 and other in self.requests:
            self.ask(who, self.requests[other])
        elif other in self.latest:
            self.hand_over(who, self.latest[other])

    def restart(self, who: int, remembers: int, *_: int) -> None:
        """A client's process dies; a new one with the same input takes its place, if it may."""
        who %= self.setup.clients
        self.complete = False
        if remembers % 2:
            with pytest.raises(ConfigError, match="has had a round of this number"):
                self._new_client(who)
            self.actors[who] = None
            return
        self.clean = False
        self.touched.add(who)
        self.clients[who], self.actors[who] = self._unused_client(who), Actor()

    def hop(self, who: int, *_: int) -> None:
        """A client is suspended and goes on in another object, as if nothing had happened; in one only."""
        who %= self.setup.clients
        if self.actors[who] is not None:
            asleep, self.clients[who] = self.clients[who], self._unused_client(who)
            state = asleep.suspend()
            self.clients[who].resume(state, self.resumed[who])
            with pytest.raises(OrderError):
                asleep.receive(self.log[-1])
            with pytest.raises(OrderError, match="resumed before"):  # else one client could answer twice
                self._unused_client(who).resume(state, self.resumed[who])

    def do(self, action: Action) -> None:
        name, *numbers = action
        getattr(self, name)(*numbers)

    def _unused_client(self, who: int) -> Client:
        self.memories[who] = set()
        return self._new_client(who)

    # The two sides, with what the model asserts of each

    def _new_client(self, who: int) -> Client:
        self.made[who] += 1
        source = randomness(self.setup.seed * 1000 + who * 100 + self.made[who])
        return player(self.config, who, self.vectors[who], source, self.memories[who])

    def ask(self, who: int, data: bytes) -> bytes | None:
        actor = self.actors[who]
        if actor is None:
            return None
        client, state = self.clients[who], self.clients[who]._state
        genuine = data in self.asked[who]
        due = data == self.requests.get(who)
        try:
            reply = super().ask(who, data)
        except OrderError:
            # Over, or the masked vector a second time: nothing has changed.
            assert actor.aborted or isinstance(read(actor.answers[data]), VECTORS)
            assert client._state is state
            return None
        except FaultyNeighbour:
            # It has complained, and may be asked for that complaint once more, but for nothing else.
            assert accused_in(client._last_reply) == set(client.fault.clients)
            assert client._state is state
            return None
        except FaultyServer:
            assert not actor.aborted, "an aborted client takes no notice of anything"
            honest = due and self.clean and data not in actor.answers
            assert not honest, "an honest request was refused"
            actor.aborted = True
            self.complete = False
            self.counts["aborts"] += 1
            assert client.done
            assert vars(client._state) == {}
            return None
        assert not actor.aborted, "an aborted client spoke"
        if data in actor.answers:
            assert actor.answers[data] == reply, "two answers to one request"
            self.counts["repeated"] += 1
        else:
            self._note_reply(who, actor, state, data, reply, genuine)
        self.latest[who] = reply
        return reply

    def _note_reply(self, who, actor, state, data, reply, genuine) -> None:
        actor.answers[data] = reply
        self.emitted[who].append(reply)
        self.log.append(reply)
        if not genuine:
            self.clean = self.complete = False
            self.touched.add(who)
            self.counts["fooled"] += 1
        if isinstance(read(reply), m.Accusing) and accused_in(reply):
            assert not self.clean, "an accusation although nothing was changed"
            self.counts["complaints" if isinstance(read(reply), m.Complaint) else "accusations"] += 1
        held = self.clients[who]._state
        if hasattr(held, "threshold"):
            self.least[who] = min(held.threshold, self.least.get(who, held.threshold))
        if isinstance(read(reply), m.UnmaskReply):
            self._note_released(who, state, read(data))
        for kinds in ((m.AcceptReply,), (*VECTORS, m.Complaint), (m.UnmaskReply,)):
            assert len({r for r in self.emitted[who] if isinstance(read(r), kinds)}) <= 1

    def _note_released(self, who: int, state: Holding, request: m.Message) -> None:
        """Whose b and whose s this client has just given a share of."""
        if isinstance(state, Confirmed):
            holding = state.near.members.tolist()
            survivors = m.unpack_set("V3", state.v3, self.setup.clients)
            dropped = {i for i in holding if not survivors[i]}
        else:
            holding = state.near.members.tolist()
            dropped = set(m.unpack_ids("dropped", request.dropped, self.setup.clients).tolist())
        for dealer in holding:
            self.released[dealer]["s" if dealer in dropped else "b"].add(who)

    def hand_over(self, who: int, data: bytes) -> None:
        server = self.server
        before = self._server_state()
        genuine = data in self.emitted[who]
        if server.finished:
            with pytest.raises(OrderError, match="over"):
                server.receive(who, data)
            assert self._server_state() == before
            return
        step, first = server.step.name, who in server.waiting
        try:
            super().hand_over(who, data)
        except FaultyClient as refusal:
            blamed = refusal.client
        else:
            blamed = None
        if blamed is not None:
            assert blamed == who
            assert self._server_state() == before, "a refused message changed the server"
            due = first and genuine and isinstance(read(data), server.step.replies)
            assert not (due and self.clean), "an honest reply was refused"
            self.counts["refused"] += 1
            return
        if not first:
            assert self._known_by(self.accepted[step][who]) == self._known_by(data)
            assert self._server_state() == before, "a repeated message changed the server"
            return
        self.accepted[step][who] = data
        if not genuine:
            self.clean = self.complete = False
            self.touched.add(who)
            self.counts["tampered replies taken"] += 1

    def _known_by(self, data: bytes) -> bytes:
        """A vector is known by its tag or digest, everything else by all its bytes."""
        message = read(data)
        return getattr(message, message.fingerprint.name) if isinstance(message, VECTORS) else data

    def _server_state(self) -> object:
        return fingerprint(vars(self.server))

    def _note_requests(self) -> None:
        for who, request in self.requests.items():
            self.asked[who].add(request)
            self.log.append(request)

    def _has_answered(self, who: int) -> bool:
        actor = self.actors[who]
        return actor is None or self.requests[who] in actor.answers

    def _tampered(self, data: bytes, how: int, x: int, y: int) -> bytes:
        return TAMPERINGS[how % len(TAMPERINGS)](data, x, y, self)

    # The end

    def end(self) -> None:
        """Whatever is left goes on without an adversary; the round is over after so many steps."""
        for _ in steps_of(self.setup):
            self.everyone(0, 0)
            self.close()
        assert self.server.finished
        for who, actor in self.actors.items():
            if actor is not None and actor.aborted:
                for request in sorted(self.asked[who]):
                    self.ask(who, request)

    def check(self) -> None:
        self._check_releases()
        self._check_evidence()
        if self.server.failure is not None:
            self.counts[type(self.server.failure).__name__] += 1
            assert not (self.complete and self._can_finish()), "a round that nothing happened to has failed"
            return
        aggregate = self.server.result()
        survivors = set(aggregate.survivors)
        masked = self.accepted["mask"]
        assert survivors == {i for i in masked if isinstance(read(masked[i]), VECTORS)}
        assert len(survivors) >= self.config.min_survivors
        self.counts["sums"] += 1
        if self.complete and self._can_finish():
            assert survivors == set(range(self.setup.clients))
        self._check_sum(aggregate.vector, survivors)
        self.counts["corrected"] += bool(aggregate.evidence.wrong_shares)

    def _check_evidence(self) -> None:
        """Nobody is blamed but with somebody of whom something was changed; all accusations are there."""
        evidence = (self.server.failure or self.server.result()).evidence
        for pair in evidence.pairs(liars=len(self.touched)):
            assert pair & self.touched, f"{set(pair)} are blamed, and nobody touched either"
        assert evidence.accusations == {
            (i, accused)
            for step in ("accept", "mask")
            for i, data in self.accepted[step].items()
            if isinstance(read(data), m.Accusing)
            for accused in accused_in(data)
        }

    def _check_sum(self, found: np.ndarray, survivors: set[int]) -> None:
        expected = words.zeros(self.config.length, self.config.bits)
        for who in survivors:
            sent = [read(reply) for reply in self.emitted[who] if isinstance(read(reply), VECTORS)]
            taken = read(self.accepted["mask"][who])
            assert sent, "a vector was taken that its client never sent"
            expected = expected + self.vectors[who]
            if taken.vector != sent[0].vector:
                assert not guard_named(self.setup.guard).chartered, "another vector under the same receipt"
                self.counts["vectors changed"] += 1
                expected = expected + self._words(taken.vector) - self._words(sent[0].vector)
        assert np.array_equal(found, expected), "not the sum over the survivors"

    def _words(self, data: bytes) -> np.ndarray:
        return words.from_bytes(data, self.config.bits)

    def _check_releases(self) -> None:
        """No client's two secrets can both be opened, and whose pair masks can has released nothing."""
        for dealer, kinds in self.released.items():
            least = self.least[dealer]
            assert min(len(kinds["b"]), len(kinds["s"])) < least, "both secrets of one client can be opened"
            if self.setup.guard == "active" and len(kinds["s"]) >= least:
                assert not any(dealer in of["b"] | of["s"] for of in self.released.values())

    def _can_finish(self) -> bool:
        """Where everyone answers: circles and complete graphs always do, random edges may fall apart."""
        graph = self.setup.graph
        return not isinstance(graph, ErdosRenyi) and not getattr(graph, "mask_p", None)
