"""Series on a hostile network, against the model of ``series_adversary``: by hypothesis, and by seeds."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ccesa.protocol.series_client import SeriesClient
from series_adversary import SeriesWorld
from series_rounds import GUARDS

numbers = st.integers(0, 2**16 - 1)
people = st.integers(0, 8)


class HostileSeries(RuleBasedStateMachine):
    """One series; hypothesis is the network, and looks for the shortest story that breaks the model."""

    @initialize(guard=st.sampled_from(GUARDS), clients=st.integers(5, 8), rounds=st.integers(1, 5))
    def begin(self, guard, clients, rounds):
        self.world = SeriesWorld(guard, clients, rounds)

    running = precondition(lambda self: not self.world.series.finished)

    @running
    @rule(order=numbers, gone=st.sets(people, max_size=1), lost=st.sets(people, max_size=1))
    def next_exchange(self, order, gone, lost):
        self.world.everyone(order, sum(1 << who for who in gone), sum(1 << who for who in lost))
        self.world.close()

    @running
    @rule(who=people)
    def deliver(self, who):
        self.world.deliver(who)

    @running
    @rule(who=people)
    def send(self, who):
        self.world.send(who)

    @running
    @rule(who=people, which=numbers)
    def replay_to_client(self, who, which):
        self.world.replay_to_client(who, which)

    @running
    @rule(who=people, which=numbers)
    def replay_to_server(self, who, which):
        self.world.replay_to_server(who, which)

    @running
    @rule(who=people, which=numbers, part=st.integers(0, 7))
    def mix(self, who, which, part):
        self.world.mix(who, which, part)

    @running
    @rule(who=people, other=people)
    def swap(self, who, other):
        self.world.swap(who, other)

    @rule(who=people)
    def hop(self, who):
        self.world.hop(who)

    @rule(who=people)
    def restart(self, who):
        self.world.restart(who)

    @rule(who=people)
    def prepare(self, who):
        self.world.prepare(who)

    @running
    @rule(members=st.integers(0, 255))
    def membership(self, members):
        self.world.membership(members)

    @running
    @rule(who=people, accuses=st.integers(0, 1))
    def lie(self, who, accuses):
        self.world.lie(who, accuses)

    def teardown(self):
        if hasattr(self, "world"):
            self.world.end()


TestHostileSeries = HostileSeries.TestCase
TestHostileSeries.settings = settings(max_examples=40, stateful_step_count=20)


def play_seed(guard: str, seed: int) -> Counter[str]:
    """Up to twelve rounds in which now and then something goes wrong."""
    source = random.Random(seed)
    world = SeriesWorld(guard, source.randint(6, 9), source.randint(1, 12))

    def some() -> int:
        return source.randrange(2**16)

    def few(chance: float) -> int:
        return sum(1 << who for who in world.clients if source.random() < chance)

    rare = {
        "mix": lambda: world.mix(some(), some(), some()),
        "swap": lambda: world.swap(some(), some()),
        "restart": lambda: world.restart(some()),
        "lie": lambda: world.lie(some(), some()),
        "membership": lambda: world.membership(some() | some()),
        "replay_to_server": lambda: world.replay_to_server(some(), some()),
    }
    common = {
        "replay_to_client": lambda: world.replay_to_client(some(), some()),
        "hop": lambda: world.hop(some()),
        "prepare": lambda: world.prepare(some()),
        "deliver": lambda: world.deliver(some()),
        "send": lambda: world.send(some()),
    }
    while not world.series.finished:
        for actions, chance in ((rare, 0.05), (common, 0.2)):
            for act in actions.values():
                if source.random() < chance:
                    act()
        world.everyone(some(), few(0.02), few(0.02))
        world.close()
    world.end()
    return world.counts


@pytest.mark.parametrize("guard", GUARDS)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_series_with_dropouts_joins_bad_dealers_and_a_bad_network_give_plain_sums(guard, seed):
    play_seed(guard, seed)


@pytest.mark.parametrize("guard", GUARDS)
def test_seeded_series_are_varied(guard):
    """Series that all fail, or never see anything bad, would test nothing."""
    counts = sum((play_seed(guard, seed) for seed in range(12)), Counter())
    assert counts["sums"] > 30
    for what in ("refused", "refused replies", "faults"):
        assert counts[what] > 0, what


@pytest.mark.adversarial
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("chunk", range(10))
def test_many_seeded_series(guard, chunk):
    for seed in range(1000 + 30 * chunk, 1030 + 30 * chunk):
        play_seed(guard, seed)


def test_a_series_without_mischief_gives_every_sum():
    for guard in GUARDS:
        world = SeriesWorld(guard, 6, 5)
        world.end()
        assert +world.counts == {"sums": 5, "undisturbed": 5}


# The model itself: it notices what it is there for


class Forgetful(SeriesClient):
    """Joins a number as often as it is asked to."""

    def _join(self, number):
        self._last_number, self._used = number - 1, None
        return super()._join(number)


class Patient(SeriesClient):
    """Keeps its secrets when the series ends."""

    def _end(self):
        self._over = True


def forgets(world: SeriesWorld) -> None:
    world.deliver(0)
    world.restart(0)
    world.deliver(0)


def is_stopped(world: SeriesWorld) -> None:
    world.everyone(0, 0, 0)
    world.stop()


@pytest.mark.parametrize(
    ("kind", "story", "text"),
    [(Forgetful, forgets, "two answers of one kind"), (Patient, is_stopped, "secrets are left")],
    ids=["forgetful", "patient"],
)
def test_the_model_notices_a_faulty_client(monkeypatch, kind, story, text):
    def client(self, i, **options):
        return kind(self.config, lambda config: self.party(i, config), **options)

    monkeypatch.setattr(SeriesWorld, "client", client)
    world = SeriesWorld("curious", 6, 2)
    with pytest.raises(AssertionError, match=text):
        story(world)
