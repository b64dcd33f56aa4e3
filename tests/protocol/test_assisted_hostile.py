"""Rounds with helpers on a hostile network against the model of ``assisted_adversary``: by hypothesis, and by seeds.

``make test-adversarial`` plays 2,000 of them with disks; ADVERSARIAL_ROUNDS says how many. A failing one names its seed
and the few actions that it takes, to be pasted into a test here.
"""

import os
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import assisted_adversary
from adversary_tampering import TAMPERINGS, flip_in_field
from assisted_adversary import AssistedSetup, AssistedWorld, play, play_seed, setup_from
from attacks.helper_boxes import Careless, Credulous, Unsigned
from attacks.helper_questions import ForgetsTasks, Obliging
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.server import Server

ROUNDS = int(os.environ.get("ADVERSARIAL_ROUNDS", "10000")) // 5
CHUNKS = 20
BOTH = ("x25519", "x25519-mlkem768")

numbers = st.integers(0, 2**16 - 1)
people = st.integers(0, 9)
tamperings = st.integers(0, len(TAMPERINGS) - 1)


class HostileHelpers(RuleBasedStateMachine):
    """One round; hypothesis is the network, and looks for the shortest story that breaks the model."""

    @initialize(data=st.data(), seed=numbers)
    def begin(self, data, seed):
        self.world = AssistedWorld(setup_from(lambda options: data.draw(st.sampled_from(options)), seed))

    running = precondition(lambda self: not self.world.server.finished)

    @running
    @rule(order=numbers, gone=st.sets(people, max_size=2), again=st.integers(0, 1))
    def next_step(self, order, gone, again):
        gone = sum(1 << who for who in gone)
        self.world.everyone(order, gone)
        self.world.confirm(again, gone)
        self.world.close()

    @running
    @rule(order=numbers, gone=st.sets(people, max_size=5))
    def some_answer(self, order, gone):
        self.world.everyone(order, sum(1 << who for who in gone))

    @running
    @rule(again=st.integers(0, 1), gone=st.sets(people, max_size=2))
    def confirm(self, again, gone):
        self.world.confirm(again, sum(1 << who for who in gone))

    @rule(who=people, which=numbers)
    def deliver(self, who, which):
        self.world.deliver(who, which)

    @rule(who=people, which=numbers)
    def send(self, who, which):
        self.world.send(who, which)

    @rule(who=people, how=tamperings, x=numbers, y=numbers)
    def tamper_request(self, who, how, x, y):
        self.world.tamper_request(who, how, x, y)

    @rule(who=people, how=tamperings, x=numbers, y=numbers)
    def tamper_reply(self, who, how, x, y):
        self.world.tamper_reply(who, how, x, y)

    @rule(who=people, which=numbers)
    def replay_to_party(self, who, which):
        self.world.replay_to_party(who, which)

    @rule(who=people, which=numbers)
    def replay_to_server(self, who, which):
        self.world.replay_to_server(who, which)

    @rule(who=people, other=people, to_party=st.integers(0, 1))
    def swap(self, who, other, to_party):
        self.world.swap(who, other, to_party)

    @rule(who=people)
    def kill(self, who):
        self.world.kill(who)

    @rule(hours=st.integers(0, 40))
    def pass_time(self, hours):
        self.world.pass_time(hours)

    def teardown(self):
        if hasattr(self, "world"):
            self.world.end()
            self.world.check()


TestHostileHelpers = HostileHelpers.TestCase
TestHostileHelpers.settings = settings(max_examples=40, stateful_step_count=20)


def test_seeded_rounds():
    """In memory: no disks, and the server is never restarted."""
    assert_varied(sum((play_seed(seed) for seed in range(150)), Counter()))


def test_seeded_rounds_with_disks(tmp_path):
    counts = sum((play_seed(seed, tmp_path) for seed in range(150, 162)), Counter())
    assert counts["server restarted"] > 1
    assert counts["sums"] > 1


@pytest.mark.needs("ml-kem")
def test_seeded_rounds_with_two_agreements():
    assert sum((play_seed(seed, agreements=BOTH) for seed in range(200, 230)), Counter())["sums"] > 5


@pytest.mark.adversarial
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_seeded_rounds(chunk, tmp_path):
    seeds = range(1000 + chunk * ROUNDS // CHUNKS, 1000 + (chunk + 1) * ROUNDS // CHUNKS)
    counts = sum((play_seed(seed, tmp_path) for seed in seeds), Counter())
    if len(seeds) >= 100:
        assert_varied(counts)
        assert counts["server restarted"] > 10


def assert_varied(counts: Counter[str]) -> None:
    """Rounds that all fail, or never see anything bad, would test nothing."""
    assert counts["sums"] > 20
    for what in (
        "refused by a party",
        "refused by the server",
        "repeated",
        "killed",
        "TooFewClients",
        "HelpersMissing",
    ):
        assert counts[what] > 0, what
    assert counts["repeated in the next round"] > 3


# The model itself: it notices what it is there for

PLAIN = AssistedSetup(members=4, helpers=2, least=3, bits=16, generator="aes128-ctr", agreement="x25519", seed=7)
DELIVER = ("deliver", 0, -1, 0, 0)
EVERYONE, CONFIRM, CLOSE = (("everyone", 0, 0, 0, 0), ("confirm", 0, 0, 0, 0), ("close", 0, 0, 0, 0))
TO_UNMASK = [EVERYONE, CLOSE, EVERYONE, CONFIRM, CLOSE]


def test_a_round_without_mischief_gives_the_whole_sum():
    assert +play(PLAIN, []) == {"sums": 1}


def test_a_round_that_is_lost_before_its_question_is_repeated():
    gone = ("everyone", 0, 0b11, 0, 0)
    assert +play(PLAIN, [EVERYONE, CLOSE, gone, CONFIRM, CLOSE]) == {
        "TooFewClients": 1,
        "repeated in the next round": 1,
    }


def with_server(monkeypatch, kind: type[Server]) -> None:
    monkeypatch.setattr(
        assisted_adversary, "new_server", lambda config, federation, **more: kind(config, federation.charter, **more)
    )


def with_helpers(monkeypatch, kind: type[Helper]) -> None:
    def made(config, place, federation, **options):
        return kind(config, federation.helpers[place], federation.charter, **options)

    monkeypatch.setattr(assisted_adversary, "new_helper", made)


class TakesBeforeItChecks(Server):
    """A refused message leaves its mark."""

    def _receive(self, client, reply, **more):
        self._accusations = self._accusations | {client}
        return super()._receive(client, reply, **more)


class LosesOne(Server):
    """Member 0 is a survivor, and its vector is not in the sum."""

    def close(self):
        if self.step.name == "mask":
            self._state.total[:] += 1
        return super().close()


@pytest.mark.parametrize(
    ("server", "actions", "text"),
    [
        (LosesOne, [], "CorruptSum|undisturbed"),
        (TakesBeforeItChecks, [("replay_to_server", 0, 0, 0, 0)], "a refused message changed the server"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_model_notices_a_faulty_server(monkeypatch, server, actions, text):
    with_server(monkeypatch, server)
    with pytest.raises(AssertionError, match=text):
        play(PLAIN, actions)


def test_the_model_notices_a_wrong_sum_that_the_server_does_not(monkeypatch):
    with_server(monkeypatch, Credulous)
    with_helpers(monkeypatch, Careless)
    with pytest.raises(AssertionError, match="not the sum over the survivors"):
        play(PLAIN, [])


#: The request of the step unmask to the first helper, with one bit changed in the tag that the first member signed.
ANOTHER_TAG = ("tamper_request", 4, TAMPERINGS.index(flip_in_field), 4, 8 * 64)


@pytest.mark.parametrize(
    ("helper", "actions", "text"),
    [
        (Obliging, [], "a key is left after its answer"),
        (ForgetsTasks, [], "two sums of one task"),
        (Unsigned, [*TO_UNMASK, ANOTHER_TAG], "an answer about what a member did not send"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_model_notices_a_faulty_helper(monkeypatch, helper, actions, text):
    play(PLAIN, actions)
    with_helpers(monkeypatch, helper)
    with pytest.raises(AssertionError, match=text):
        play(PLAIN, actions)


def test_the_model_notices_a_member_without_a_memory(monkeypatch):
    actions = [EVERYONE, CLOSE, DELIVER, ("kill", 0, 0, 0, 0), DELIVER]
    play(PLAIN, actions)
    made = assisted_adversary.new_client
    monkeypatch.setattr(assisted_adversary, "new_client", lambda *given, **more: made(*given, **more | {"tasks": None}))
    with pytest.raises(AssertionError, match="two answers of one kind in a round"):
        play(PLAIN, actions)


def test_a_failing_story_is_cut_down_to_what_it_takes(monkeypatch):
    with_helpers(monkeypatch, Unsigned)
    noise = [("kill", 1, 0, 0, 0), ("swap", 1, 2, 0, 0)]
    monkeypatch.setattr(assisted_adversary, "drawn", lambda *_: (PLAIN, [*noise, *TO_UNMASK, *noise, ANOTHER_TAG]))
    with pytest.raises(AssertionError) as failed:
        play_seed(0)
    assert "kill" not in str(failed.value)
    assert str(ANOTHER_TAG) in str(failed.value)
