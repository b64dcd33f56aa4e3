"""A round with helpers on a hostile network, and a model that says what must come of it.

As in ``adversary``: ``AssistedWorld`` has real members, helpers and a real server, and everything that was ever on the
wire. What happens to it is a list of actions, each a name and a few integers that are read modulo what there is to
choose from. Messages are lost, repeated, reordered, delayed and altered. Members, helpers and the server are killed and
go on from their disks. Time passes.

What the model expects:

- A member sends one vector in a round. A helper shows one key in a round while that has not expired, and answers one
  question, about members that sent exactly that, of whom there are enough.
- What a helper or the server refuses changes nothing, but for a key that has expired.
- There is a sum, and it is the plain one over the reported survivors, or a failure by name. It is never ``CorruptSum``:
  what is altered on its way is refused where it arrives.
- Nobody is accused while no key has expired: whoever is left out has not been heard.
- A task has one sum: where a helper has answered, the same task in the next round of the series gets none.
"""

import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from adversary import Action, fingerprint
from adversary_seeds import shortest
from adversary_tampering import TAMPERINGS
from assisted_rounds import DAY, NOW, TASK, Clock, Home, federation
from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.errors import (
    CcesaError,
    CorruptSum,
    FaultyClient,
    FaultyServer,
    HelpersMissing,
    OrderError,
    RoundFailed,
    TaskSpent,
)
from ccesa.memory import ANSWER, QUESTION
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import KEY_MARGIN, Helper
from ccesa.protocol.client import Client
from ccesa.protocol.log import RoundLog
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from ccesa.protocol.submission import Record, ciphertext_digest
from ccesa.simulate import Enrolment
from ccesa.simulate.enrolment import new_client, new_helper, new_server
from rounds import inputs, read

LENGTH = 3


@dataclass(frozen=True, kw_only=True)
class AssistedSetup:
    """One configuration to play, as plain values."""

    members: int
    helpers: int
    least: int
    bits: int
    generator: str
    agreement: str
    seed: int

    @property
    def clients(self) -> int:
        """All parties, for what alters messages."""
        return self.members + self.helpers

    @property
    def federation(self) -> Enrolment:
        agreed = {"bits": self.bits, "generator": self.generator, "agreement": self.agreement}
        return _federation(self.members, self.helpers, min_survivors=self.least, **agreed)

    def config(self, number: int = 0) -> RoundConfig:
        series_id = self.seed.to_bytes(32, "little")
        return self.federation.charter.config(length=LENGTH, series_id=series_id, number=number)


@lru_cache
def _federation(members: int, helpers: int, **agreed) -> Enrolment:
    return federation(members, helpers, **agreed)


def setup_from(choose: Callable[[list], object], seed: int, agreements: tuple[str, ...] = ("x25519",)) -> AssistedSetup:
    """Return a configuration; ``choose`` picks one of a list."""
    members = choose([3, 4, 5, 6])
    return AssistedSetup(
        members=members,
        helpers=choose([2, 2, 3, 4]),
        least=choose(list(range(2, members))),
        bits=choose([8, 16, 32, 64]),
        generator=choose(["aes128-ctr", "chacha20"]),
        agreement=choose(list(agreements)),
        seed=seed,
    )


@lru_cache
def foreign_messages(setup: AssistedSetup) -> tuple[bytes, ...]:
    """Everything that went over the wire in the round before, and in one about another task."""
    seen: list[bytes] = []
    for number, task in ((7, bytes(32)[1:] + b"\1"), (8, TASK)):
        world = AssistedWorld(setup, number=number, task=task, foreign=())
        world.end()
        seen += world.log
    return tuple(seen)


class AssistedWorld:
    """A round in play; what the model asserts of a party is asserted where a message reaches it."""

    def __init__(
        self,
        setup: AssistedSetup,
        folder: Path | None = None,
        *,
        number: int = 0,
        task: bytes = TASK,
        foreign: tuple[bytes, ...] | None = None,
    ) -> None:
        self.setup, self.task, self.folder = setup, task, folder
        self.config, self.clock = setup.config(number), Clock(NOW)
        self.vectors = dict(enumerate(inputs(self.config, setup.seed)))
        self.homes = {one: Home(folder and folder / f"helper-{one}") for one in self.config.helper_ids}
        self.memories = {i: Home(folder and folder / f"member-{i}").memory for i in range(setup.members)}
        self.members = {i: self._new_member(i) for i in range(setup.members)}
        self.helpers = {one: self._new_helper(one) for one in self.config.helper_ids}
        self.counts: Counter[str] = Counter()
        #: What the network holds, by party: requests to it, and replies of it.
        self.to_party: dict[int, list[bytes]] = defaultdict(list)
        self.to_server: dict[int, list[bytes]] = defaultdict(list)
        self.log: list[bytes] = list(foreign_messages(_small(setup)) if foreign is None else foreign)
        #: What each party has said, by the kind of message; what the server has asked each party.
        self.emitted: dict[tuple[int, type], set[bytes]] = defaultdict(set)
        self.asked: dict[int, set[bytes]] = defaultdict(set)
        self.expired = False  # a key, perhaps; or clocks are too far apart
        self.complete = True  # nothing was lost, refused or killed so far
        self._log = self._open_log()
        self.server = self._new_server()
        self.requests = dict(self.server.open())
        self._post(self.requests)

    # Actions: each takes any integers

    def deliver(self, who: int, which: int, *_: int) -> None:
        """Any request to a party that the network holds reaches it, perhaps once more."""
        party = self._party(who)
        if self.to_party[party]:
            self.ask(party, self.to_party[party][which % len(self.to_party[party])])

    def send(self, who: int, which: int, *_: int) -> None:
        """Any reply of a party that the network holds reaches the server, perhaps once more."""
        party = self._party(who)
        if self.to_server[party]:
            self.hand_over(party, self.to_server[party][which % len(self.to_server[party])])

    def everyone(self, order: int, gone: int, *_: int) -> None:
        """All who are awaited get the last request, in any order, and the server their answer; some are gone."""
        waiting = [] if self.server.finished else sorted(self.server.waiting)
        random.Random(order).shuffle(waiting)
        for party in waiting:
            if gone >> party & 1:
                self.complete = False
                continue
            self._exchange(party, self.requests[party])

    def confirm(self, again: int, gone: int, *_: int) -> None:
        """Helpers are asked about what has come; some are gone. A lost request is asked for again, or not."""
        if self.server.finished:
            return
        requests = dict(self.server.ask_helpers(bool(again % 2)))
        self._post(requests)
        for helper, request in requests.items():
            if gone >> helper & 1:
                self.complete = False
            else:
                self._exchange(helper, request)

    def close(self, *_: int) -> None:
        """The server closes the step with whoever has answered."""
        if self.server.finished:
            return
        self.complete &= not (self.server.waiting or self.server.held)
        try:
            self.requests = dict(self.server.close())
        except RoundFailed:
            self.requests = {}
        assert bool(self.requests) != self.server.finished
        self._post(self.requests)

    def tamper_request(self, who: int, how: int, x: int, y: int) -> None:
        party = self._party(who)
        if self.to_party[party]:
            self.ask(party, self._tampered(self.to_party[party][-1], how, x, y))

    def tamper_reply(self, who: int, how: int, x: int, y: int) -> None:
        """A reply is altered on its way; the right one may follow, or never does."""
        party = self._party(who)
        self.deliver(who, -1)
        if self.to_server[party]:
            self.hand_over(party, self._tampered(self.to_server[party][-1], how, x, y))

    def replay_to_party(self, who: int, which: int, *_: int) -> None:
        self.ask(self._party(who), self.log[which % len(self.log)])

    def replay_to_server(self, who: int, which: int, *_: int) -> None:
        self.hand_over(self._party(who), self.log[which % len(self.log)])

    def swap(self, who: int, other: int, direction: int, *_: int) -> None:
        """What is for one, or from one, goes under the name of another."""
        one, other = self._party(who), self._party(other)
        if direction % 2 and self.to_party[other]:
            self.ask(one, self.to_party[other][-1])
        elif self.to_server[other]:
            self.hand_over(one, self.to_server[other][-1])

    def kill(self, who: int, *_: int) -> None:
        """A member's or helper's process dies; another one goes on with what is on its disk."""
        party = self._party(who)
        self.counts["killed"] += 1
        if party in self.helpers:
            self.helpers[party] = self._new_helper(party)
        else:
            self.complete = False
            self.members[party] = self._new_member(party)

    def kill_server(self, *_: int) -> None:
        """The server's process dies; another one repeats the log, and asks the same."""
        if self._log is None or self.server.finished:
            return
        state = self._server_state()
        self._log.close()
        self._log = self._open_log()
        self.server = self._new_server()
        again = dict(self.server.replay())
        assert again == self.requests, "the server asks otherwise after a restart"
        assert self._server_state() == state, "the server is another one after a restart"
        self.counts["server restarted"] += 1

    def pass_time(self, hours: int, *_: int) -> None:
        """Hours pass, or a whole week, and helpers may look for keys that have expired."""
        self.clock.now += 8 * DAY if hours % 7 == 0 else 3600 * (hours % 24)
        self.expired = self.expired or self.clock.now > NOW + KEY_MARGIN
        for home in self.homes.values() if hours % 2 else ():
            home.keys.sweep(self.clock.now)

    def do(self, action: Action) -> None:
        name, *numbers = action
        getattr(self, name)(*numbers)

    # The parties, with what the model asserts of each

    def _party(self, who: int) -> int:
        return who % self.setup.clients

    def _new_member(self, i: int) -> Client:
        options = {"task": self.task, "tasks": self.memories[i], "now": self.clock.now, "threads": 1}
        return new_client(self.config, i, self.vectors[i], self.setup.federation, **options)

    def _new_helper(self, helper: int) -> Helper:
        home, place = self.homes[helper], helper - self.config.clients
        options = {"memory": home.memory, "keys": home.keys, "clock": self.clock, "threads": 1}
        return new_helper(self.config, place, self.setup.federation, **options)

    def _open_log(self) -> RoundLog | None:
        if self.folder is None:
            return None
        return RoundLog(self.folder / "log", counter=self.folder / "counter")

    def _new_server(self) -> Server:
        return new_server(self.config, self.setup.federation, task=self.task, log=self._log, now=self.clock.now)

    def _post(self, requests: dict[int, bytes]) -> None:
        for party, request in requests.items():
            self.to_party[party].append(request)
            self.asked[party].add(request)
            self.log.append(request)

    def _exchange(self, party: int, request: bytes) -> None:
        reply = self.ask(party, request)
        if reply is not None:
            self.hand_over(party, reply)

    def ask(self, party: int, data: bytes) -> bytes | None:
        """Hand a request to a party; None if it refuses."""
        genuine = data in self.asked[party]
        reply = self._ask_helper(party, data) if party in self.helpers else self._ask_member(party, data)
        if reply is None:
            if genuine:
                self.complete = False
            self.counts["refused by a party"] += 1
            return None
        assert genuine or party in self.helpers or not self._is_another_key(data)
        self._note(party, data, reply)
        return reply

    def _ask_member(self, party: int, data: bytes) -> bytes | None:
        try:
            return self.members[party].receive(data)
        except OrderError:
            return None  # it has sent its vector, or has left
        except (FaultyServer, TaskSpent):
            assert self.members[party].done or data in self.asked[party]
            return None

    def _ask_helper(self, party: int, data: bytes) -> bytes | None:
        before = self._kept_by(party)
        try:
            reply = self.helpers[party].receive(data)
        except (FaultyServer, TaskSpent):
            gone = self.expired and self._kept_by(party) == (None, *before[1:])
            assert gone or self._kept_by(party) == before, "a refused request changed a helper"
            return None
        message = read(data)
        if isinstance(message, m.UnmaskSumRequest):
            self._check_question(party, message)
        else:
            assert self._kept_by(party)[1:] == before[1:], "an answer that uses nothing up"
        return reply

    def _kept_by(self, helper: int) -> tuple[object, frozenset[object], frozenset[object]]:
        """What is on the disk of a helper: its key of the round, and its memory."""
        home = self.homes[helper]
        memory = home.memory
        return home.keys.get(self.config.context), *(frozenset(memory.entries(kind)) for kind in (QUESTION, ANSWER))

    def _check_question(self, helper: int, message: m.UnmaskSumRequest) -> None:
        """A helper answers about enough members, and about what they sent."""
        config, place = self.config, helper - self.config.clients
        members = m.unpack_ids("members", message.members, config.clients).tolist()
        assert len(members) >= config.min_survivors
        records = m.items("records", message.records, len(members), len(message.records) // max(1, len(members)))
        for member, record in zip(members, records, strict=True):
            said = [self._record(reply, place) for reply in self.emitted[member, m.BoxedMaskReply]]
            assert record in said, "an answer about what a member did not send"
        kept = self._kept_by(helper)
        assert not kept[0].secret, "a key is left after its answer"
        assert (len(kept[1]), len(kept[2])) == (1, 1)

    def _record(self, reply: bytes, place: int) -> bytes:
        sent = read(reply)
        digests = b"".join(map(ciphertext_digest, m.each_helper(sent, "ciphertexts", self.config)))
        made = Record(key=sent.key, boxes=sent.boxes, digests=digests, tag=sent.tag, signature=sent.signature)
        return made.pack()

    def _is_another_key(self, data: bytes) -> bool:
        """Whether a request shows a member other keys than the server did, which it must not take."""
        request = read(data)
        known = [read(one) for one in self.asked[request.client]]
        shown = [(one.keys, one.not_after) for one in known if isinstance(one, m.MaskForHelpersRequest)]
        return isinstance(request, m.MaskForHelpersRequest) and (request.keys, request.not_after) not in shown

    def _note(self, party: int, data: bytes, reply: bytes) -> None:
        message = read(reply)
        assert (message.context, message.client) == (self.config.context, party)
        said = self.emitted[party, type(message)]
        said.add(reply)
        if not isinstance(message, m.ConfirmBoxesReply):
            once = isinstance(message, m.BoxedMaskReply | m.UnmaskSumReply)
            assert len(said) == 1 or (self.expired and not once), "two answers of one kind in a round"
        self.to_server[party].append(reply)
        self.log.append(reply)

    def hand_over(self, party: int, data: bytes) -> None:
        """Hand a reply to the server."""
        before = self._server_state()
        genuine = any(data in said for (who, _), said in self.emitted.items() if who == party)
        if self.server.finished:
            with pytest.raises(OrderError, match="over"):
                self.server.receive(party, data)
            return
        step, taken = self.server.step, self.server.taken
        try:
            self.server.receive(party, data)
        except FaultyClient as refusal:
            blamed = refusal.client
        else:
            blamed = None
        if blamed is not None:
            assert blamed == party
            assert self._server_state() == before, "a refused message changed the server"
            due = genuine and isinstance(read(data), step.reply) and party in self.server.waiting
            assert self.expired or not due, "an honest reply was refused"
            self.counts["refused by the server"] += 1
            return
        if self.server.taken == taken:
            assert self._server_state() == before, "a repeated message changed the server"
            self.counts["repeated"] += 1
            return
        assert genuine, "the server has taken what nobody said"

    def _server_state(self) -> object:
        server = self.server
        kept = {who: None if one is None else bytes(one.signature) for who, one in server._kept.items()}
        return fingerprint(
            [server._place, server._expected, server._state, server._answered, kept, frozenset(server._accusations)]
        )

    def _tampered(self, data: bytes, how: int, x: int, y: int) -> bytes:
        return TAMPERINGS[how % len(TAMPERINGS)](data, x, y, self)

    # The end

    def end(self) -> None:
        """Let the round go on undisturbed, until it is over."""
        while not self.server.finished:
            self.everyone(0, 0)
            self.confirm(1, 0)
            self.close()

    def check(self) -> None:
        """Assert what must be true of a round that is over."""
        server, answered = self.server, self._helpers_that_answered()
        if server.failure is not None:
            assert not self.complete, "an undisturbed round was lost"
            assert not isinstance(server.failure, CorruptSum)
            self.counts[type(server.failure).__name__] += 1
            evidence = server.failure.evidence
        else:
            found = server.result()
            assert len(found.survivors) >= self.config.min_survivors
            assert np.array_equal(found.vector, self._plain(found.survivors)), "not the sum over the survivors"
            assert not self.complete or len(found.survivors) == self.setup.members
            assert answered == set(self.helpers)
            self.counts["sums"] += 1
            evidence = found.evidence
        assert self.expired or not evidence.accusations, "somebody is accused who did nothing"
        self._repeat_task(answered)
        if self._log is not None:
            self._log.close()

    def _plain(self, group: Iterable[int]) -> np.ndarray:
        total = words.zeros(LENGTH, self.setup.bits)
        for member in group:
            total += self.vectors[member]
        return total

    def _helpers_that_answered(self) -> set[int]:
        return {one for one in self.helpers if any(True for _ in self.homes[one].memory.entries(ANSWER))}

    def _repeat_task(self, answered: set[int]) -> None:
        """The same task in the next round of the series has a sum only if no helper has answered about it."""
        again = self.setup.config(self.config.number + 1)
        federated, clock = self.setup.federation, {"clock": self.clock}
        parties: dict[int, Client | Helper] = {
            helper: new_helper(again, place, federated, memory=home.memory, keys=home.keys, **clock)
            for place, (helper, home) in enumerate(self.homes.items())
        }
        for i, memory in self.memories.items():
            options = {"task": self.task, "tasks": memory, "now": self.clock.now}
            parties[i] = new_client(again, i, self.vectors[i], federated, **options)
        try:
            server = new_server(again, federated, task=self.task, now=self.clock.now)
            found = run_round(server, _whoever_answers(parties))
        except HelpersMissing as failure:
            missing, found = set(failure.helpers), None
        if found is None:
            assert missing == answered, "a helper refuses a task that it has not answered about"
            return
        assert not answered, "two sums of one task"
        assert np.array_equal(found.vector, self._plain(found.survivors))
        self.counts["repeated in the next round"] += 1


def _whoever_answers(parties: dict[int, Client | Helper]):
    def carry(step, requests):
        for party, request in requests.items():
            try:
                ((_, reply),) = in_memory(parties)(step, {party: request})
            except CcesaError:
                continue
            yield party, reply

    return carry


def _small(setup: AssistedSetup) -> AssistedSetup:
    """The same people; all rounds with them have the same foreign messages."""
    return AssistedSetup(**{name: getattr(setup, name) for name in setup.__dataclass_fields__} | {"seed": 0})


#: Some come more often, because they get further.
MISCHIEF = (
    "deliver",
    "send",
    "confirm",
    "tamper_request",
    "tamper_request",
    "tamper_reply",
    "tamper_reply",
    "replay_to_party",
    "replay_to_server",
    "swap",
    "kill",
    "kill_server",
)


def drawn(seed: int, agreements: tuple[str, ...] = ("x25519",)) -> tuple[AssistedSetup, list[Action]]:
    """A configuration and what happens in it; some rounds see much mischief, some see only dropouts."""
    source = random.Random(seed)
    setup = setup_from(source.choice, seed, agreements)
    mischief, drops = source.choice([0, 0.5, 1, 3]), source.choice([0, 0.03, 0.15])
    kinds = MISCHIEF if source.random() < 0.8 else (*MISCHIEF, "pass_time")

    def some() -> list[Action]:
        made: list[Action] = []
        while source.random() < mischief / (1 + mischief):
            made.append((source.choice(kinds), *(source.randrange(2**16) for _ in range(4))))
        return made

    def gone() -> int:
        return sum((source.random() < drops) << i for i in range(setup.clients))

    actions: list[Action] = []
    for _ in range(3):
        actions += [*some(), ("everyone", source.randrange(2**16), gone(), 0, 0)]
        for _ in range(source.choice([0, 1, 1, 1, 1, 2])):
            actions += [*some(), ("confirm", source.randrange(2), gone(), 0, 0)]
        actions += [*some(), ("close", 0, 0, 0, 0)]
    return setup, actions


def play(setup: AssistedSetup, actions: Iterable[Action], folder: Path | None = None) -> Counter[str]:
    """One round from beginning to end, with disks in a folder; raises what went wrong."""
    with tempfile.TemporaryDirectory(dir=folder) if folder else nullcontext() as disks:
        world = AssistedWorld(setup, disks and Path(disks))
        for action in actions:
            world.do(action)
        world.end()
        world.check()
    return world.counts


def play_seed(seed: int, folder: Path | None = None, agreements: tuple[str, ...] = ("x25519",)) -> Counter[str]:
    """The round of this seed; a failing one is reduced to what it takes, which can be pasted into a test."""
    setup, actions = drawn(seed, agreements)
    try:
        return play(setup, actions, folder)
    except Exception as error:
        actions = shortest(actions, lambda fewer: _fails(setup, fewer, folder))
        raise AssertionError(f"seed {seed}, {error!r}:\nplay({setup!r},\n     {actions!r})") from error


def _fails(setup: AssistedSetup, actions: list[Action], folder: Path | None) -> bool:
    try:
        play(setup, actions, folder)
    except Exception:
        return True
    return False
