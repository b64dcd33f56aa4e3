"""Rounds on a hostile network against the model of ``adversary``: by hypothesis, and ten thousand seeds.

``make test-adversarial`` runs the seeds; ADVERSARIAL_ROUNDS says how many. A failing one names its seed and
the few actions that it takes, to be pasted into a test here.
"""

import os
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import adversary
from adversary import Setup, World, setup_from
from adversary_seeds import drawn, play, play_seed, shortest
from adversary_tampering import TAMPERINGS, flip_in_field, rewrite_vector
from attacks.relaxed import relaxed
from ccesa.errors import OrderError
from ccesa.graphs import Complete
from ccesa.graphs.thresholds import Majority
from ccesa.protocol import summing
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server

ROUNDS = int(os.environ.get("ADVERSARIAL_ROUNDS", "10000"))
CHUNKS = 50

numbers = st.integers(0, 2**16 - 1)
people = st.integers(0, 8)
tamperings = st.integers(0, len(TAMPERINGS) - 1)


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    return setup_from(lambda options: draw(st.sampled_from(options)), draw(numbers))


class HostileNetwork(RuleBasedStateMachine):
    """One round; hypothesis is the network, and looks for the shortest story that breaks the model."""

    @initialize(setup=setups())
    def begin(self, setup):
        self.world = World(setup)

    @precondition(lambda self: not self.world.server.finished)
    @rule(order=numbers, gone=st.sets(people, max_size=2))
    def next_step(self, order, gone):
        self.world.everyone(order, sum(1 << who for who in gone))
        self.world.close()

    @precondition(lambda self: not self.world.server.finished)
    @rule(order=numbers, gone=st.sets(people, max_size=4))
    def some_answer(self, order, gone):
        self.world.everyone(order, sum(1 << who for who in gone))

    @precondition(lambda self: len(self.world.server.waiting) <= self.world.setup.clients // 2)
    @rule()
    def close(self):
        self.world.close()

    @rule(who=people)
    def deliver(self, who):
        self.world.deliver(who)

    @rule(who=people)
    def send(self, who):
        self.world.send(who)

    @rule(who=people, how=tamperings, x=numbers, y=numbers)
    def tamper_request(self, who, how, x, y):
        self.world.tamper_request(who, how, x, y)

    @rule(who=people, how=tamperings, x=numbers, y=numbers)
    def tamper_reply(self, who, how, x, y):
        self.world.tamper_reply(who, how, x, y)

    @rule(who=people, which=numbers)
    def replay_to_client(self, who, which):
        self.world.replay_to_client(who, which)

    @rule(who=people, which=numbers)
    def replay_to_server(self, who, which):
        self.world.replay_to_server(who, which)

    @rule(who=people, other=people, to_client=st.booleans())
    def swap(self, who, other, to_client):
        self.world.swap(who, other, to_client)

    @rule(who=people, remembers=st.booleans())
    def restart(self, who, remembers):
        self.world.restart(who, remembers)

    @rule(who=people)
    def hop(self, who):
        self.world.hop(who)

    def teardown(self):
        if hasattr(self, "world"):
            self.world.end()
            self.world.check()


TestHostileNetwork = HostileNetwork.TestCase
TestHostileNetwork.settings = settings(max_examples=100, stateful_step_count=25)


def test_seeded_rounds():
    assert_varied(sum((play_seed(seed) for seed in range(120)), Counter()))


@pytest.mark.adversarial
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_seeded_rounds(chunk):
    seeds = range(1000 + chunk * ROUNDS // CHUNKS, 1000 + (chunk + 1) * ROUNDS // CHUNKS)
    counts = sum((play_seed(seed) for seed in seeds), Counter())
    if len(seeds) >= 120:
        assert_varied(counts)


def assert_varied(counts: Counter[str]) -> None:
    """Rounds that all fail, or never see anything bad, would test nothing."""
    assert counts["sums"] > 30
    for what in (
        "refused",
        "aborts",
        "repeated",
        "complaints",
        "accusations",
        "tampered replies taken",
        "TooFewClients",
        "Unreliable",
    ):
        assert counts[what] > 0, what


# The model itself: it notices what it is there for

PLAIN = Setup(
    guard="curious",
    clients=5,
    graph=Complete(),
    threshold=Majority(),
    bits=16,
    generator="aes128-ctr",
    accept=False,
    seed=7,
)


def test_a_round_without_mischief_gives_the_whole_sum():
    assert +play(PLAIN, []) == {"sums": 1}


class CountsTwice(Server):
    """A repeated vector is added again."""

    def _receive(self, client, reply):
        repeated = self.step.name == "mask" and client in self._answered
        super()._receive(client, reply)
        if repeated:
            self._state.total[:] += 1


class TakesBeforeItChecks(Server):
    """A refused vector leaves its mark."""

    def _receive(self, client, reply):
        self._last = reply
        super()._receive(client, reply)


def vector_of_any_but_one(round, client, reply):
    return summing.check_vector(round, client, reply) if client else None


class LosesOne(Server):
    """Client 0 is a survivor, and its vector is not in the sum."""

    _receive = relaxed(Server._receive, check_vector=vector_of_any_but_one)


SEND_AGAIN = [("everyone", 0, 0, 0, 0), ("close", 0, 0, 0, 0)] * 2 + [("everyone", 0, 0, 0, 0), ("send", 1, 0, 0, 0)]


@pytest.mark.parametrize(
    ("server", "actions", "text"),
    [
        (CountsTwice, SEND_AGAIN, "a repeated message changed the server"),
        (TakesBeforeItChecks, [("replay_to_server", 0, 0, 0, 0)], "a refused message changed the server"),
        (LosesOne, [], "not the sum over the survivors"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_model_notices_a_faulty_server(monkeypatch, server, actions, text):
    monkeypatch.setattr(adversary, "new_server", lambda config, federation: server(config))
    with pytest.raises(AssertionError, match=text):
        play(PLAIN, actions)


class SpeaksAfterAbort(Client):
    """It repeats its last reply although it has aborted."""

    def receive(self, request):
        try:
            self.said = super().receive(request)
        except OrderError:
            return self.said
        return self.said


class ReleasesTwice(Client):
    """A second, different unmask request is answered as well."""

    def _advance(self, state, fingerprint, reply):
        kept, step = self._state, self._steps[self._place]
        data = super()._advance(state, fingerprint, reply)
        if step.name == "unmask":
            self._state = kept
        return data


TO_UNMASK = [("everyone", 0, 0, 0, 0), ("close", 0, 0, 0, 0)] * 3
DELIVER = ("deliver", 0, 0, 0, 0)
DROP_ONE = next(place for place, how in enumerate(TAMPERINGS) if how.__name__ == "_drop_one")


@pytest.mark.parametrize(
    ("client", "actions"),
    [
        (SpeaksAfterAbort, [DELIVER, ("replay_to_client", 0, 0, 0, 0), DELIVER]),
        (ReleasesTwice, [*TO_UNMASK, DELIVER, ("tamper_request", 0, DROP_ONE, 3, 0)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_model_notices_a_faulty_client(monkeypatch, client, actions):
    def player(config, who, vector, source, used_rounds):
        return client(config, who, vector, floor=adversary.FLOOR, random=source, used_rounds=used_rounds)

    play(PLAIN, actions)
    monkeypatch.setattr(adversary, "player", player)
    with pytest.raises(AssertionError):
        play(PLAIN, actions)


def test_a_failing_story_is_cut_down_to_what_it_takes():
    actions = drawn(3)[1] + [("restart", 1, 1, 0, 0)] + drawn(4)[1] + [("swap", 2, 2, 2, 2)]
    needed = {("restart", 1, 1, 0, 0), ("swap", 2, 2, 2, 2)}
    assert set(shortest(actions, lambda some: needed <= set(some))) == needed


@pytest.mark.parametrize(("guard", "changed"), [("curious", 1), ("active", 0)])
def test_who_replaces_a_masked_vector_and_its_digest_changes_the_sum_unless_it_is_signed(guard, changed):
    """The limit that the model states: under ``curious`` the transport has to protect the vector."""
    rewrite = TAMPERINGS.index(rewrite_vector)
    setup = setup_from(lambda options: guard if guard in options else options[0], 3)
    counts = play(setup, [*TO_UNMASK[:4], ("tamper_reply", 0, rewrite, 0, 3)])
    assert (counts["vectors changed"], counts["refused"], counts["sums"]) == (changed, 1 - changed, 1)


@pytest.mark.parametrize("guard", ["curious", "active"])
def test_a_masked_vector_that_changes_on_its_way_is_refused(guard):
    flip = TAMPERINGS.index(flip_in_field)
    setup = setup_from(lambda options: guard if guard in options else options[0], 3)
    counts = play(setup, [*TO_UNMASK[:4], ("tamper_reply", 0, flip, 0, 3)])
    assert (counts["vectors changed"], counts["refused"], counts["sums"]) == (0, 1, 1)
