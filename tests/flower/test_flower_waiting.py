"""How long steps wait: from when their messages are out, for all nodes or for enough of them."""

import pytest

from ccesa.flower import SecureGrid
from ccesa.policy import Policy
from flower_grid import DROP, SLOW, MemoryGrid, lose, make_app, new_model, number
from flower_rounds import STEPS, assert_mean, messages, one_round

NODES = 10
#: Everyone is waited for seven seconds.
NINE_IN_TEN = Policy(enough=0.9, after=7.0, vector_after=7.0)


class SlowToSend(MemoryGrid):
    """Sending the messages of a step takes a while."""

    def __init__(self, clock, seconds: float, **others) -> None:
        super().__init__(make_app(), NODES, **others)
        self._clock, self._seconds = clock, seconds

    def push_messages(self, messages):
        ids = super().push_messages(messages)
        self._clock.sleep(self._seconds)
        return ids


def but(*lost: int) -> list[int]:
    return [node for node in number(NODES) if node not in lost]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_begins_when_its_messages_are_out(step, clock):
    """The slow reply comes 40 s after all messages are out, which takes 100 s."""
    grid = SlowToSend(clock, 100.0, faults=lose(SLOW, step, 1004), delay=140.0)
    assert_mean(one_round(grid, policy=Policy.wait_for_all(60.0)), number(NODES))
    assert clock.now == pytest.approx(4 * 100.0 + 40.0, abs=1.1)


def test_sending_does_not_use_up_the_time_of_the_strategy(clock):
    """As in Flower's own grids, which begin to count when messages are out."""
    grid = SlowToSend(clock, 100.0, faults=lose(SLOW, "mask", 1004), delay=150.0)
    assert_mean(one_round(grid, timeout=90.0), number(NODES))


@pytest.mark.parametrize("step", STEPS)
def test_what_is_ready_when_the_time_is_up_is_taken(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, step, 1004), delay=60.0)
    assert_mean(one_round(grid, policy=Policy.wait_for_all(60.0)), number(NODES))


def test_what_is_ready_is_taken_if_no_time_is_left_at_all(clock):
    """All of the strategy's time went into the first step; nodes answer at once."""
    grid = MemoryGrid(make_app(), NODES)
    assert_mean(one_round(grid, timeout=0.0), number(NODES))


@pytest.mark.parametrize("step", STEPS)
def test_a_step_ends_as_soon_as_all_have_answered(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, step, 1004), delay=3.0)
    assert_mean(one_round(grid, policy=Policy.wait_for_all(600.0)), number(NODES))
    assert clock.now == pytest.approx(3.0, abs=1.1)


@pytest.mark.parametrize("step", STEPS)
def test_enough_nodes_end_a_step_after_a_while(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, step, 1004), delay=500.0)
    reply = one_round(grid, policy=NINE_IN_TEN)
    assert_mean(reply, number(NODES) if step == "unmask" else but(1004))
    assert clock.now == pytest.approx(7.0, abs=0.1)


def test_whoever_answers_in_that_while_is_in(clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, "mask", 1004), delay=6.5)
    assert_mean(one_round(grid, policy=NINE_IN_TEN), number(NODES))
    assert clock.now < 7.5


@pytest.mark.parametrize(("after", "there", "ends"), [(60.0, number(NODES), 55.0), (7.0, but(1006), 50.0)])
def test_a_step_ends_when_the_while_is_over_and_enough_are_there(clock, after, there, ends):
    """Two slow ones of ten: nine are there after 50 s, the last one 5 s later."""

    class Two(MemoryGrid):
        def push_messages(self, some):
            ids = super().push_messages(some)
            for place, (name, (when, reply)) in enumerate(self._ready.items()):
                if self.steps(1001)[-1] == "mask" and place in (3, 5):
                    self._ready[name] = when + (50.0 if place == 3 else 55.0), reply
            return ids

    grid = Two(make_app(), NODES)
    policy = Policy(enough=0.9, vector_after=after)
    assert_mean(one_round(grid, policy=policy, dropout=0.2), there)
    assert clock.now == pytest.approx(ends, abs=1.1)


@pytest.mark.parametrize("step", STEPS[:3])
def test_fewer_than_enough_are_waited_for(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, step, 1004, 1005), delay=500.0)
    policy = Policy(enough=0.9, after=7.0, deadline=60.0, vector_after=7.0, vector_deadline=60.0)
    reply = one_round(grid, policy=policy, dropout=0.4)
    assert_mean(reply, but(1004, 1005))
    assert clock.now == pytest.approx(60.0, abs=0.1)


@pytest.mark.parametrize(("timeout", "ends"), [(10.0, 7.0), (5.0, 4.0)])
def test_the_timeout_of_the_strategy_ends_a_step_before_its_deadline(clock, timeout, ends):
    """The masking step has four parts in five of what is left, and the last one the rest."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(DROP, "mask", 1004))
    assert_mean(one_round(grid, timeout=timeout, policy=NINE_IN_TEN), but(1004))
    assert clock.now == pytest.approx(ends, abs=0.1)


def test_training_has_a_deadline_of_its_own(clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, "mask", 1004), delay=100.0)
    assert_mean(one_round(grid, policy=Policy(vector_after=200.0)), number(NODES))
    assert clock.now == pytest.approx(100.0, abs=1.1)
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, "share", 1004), delay=100.0)
    assert_mean(one_round(grid, policy=Policy(vector_after=200.0)), but(1004))
    assert clock.now == pytest.approx(110.0, abs=1.1)


def test_a_node_that_was_not_waited_for_is_back_in_the_next_round(clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, "mask", 1004), delay=30.0)
    secure = SecureGrid(grid, policy=Policy(enough=0.9, after=1.0, vector_after=1.0))
    for seed, nodes in enumerate([but(1004), number(NODES)]):
        (reply,) = secure.send_and_receive(messages(grid, new_model(seed=seed)))
        assert_mean(reply, nodes, new_model(seed=seed))


def test_a_message_lives_as_long_as_its_step_and_no_day_longer():
    """A node that comes back does not train for a step that is over; nor is a message too old on arrival."""
    grid = MemoryGrid(make_app(), NODES)
    one_round(grid, policy=Policy.wait_for_all(60.0))
    lives = {one.message.metadata.ttl for one in grid.passed if one.to_node}
    assert min(lives) >= 60.0 + 300.0
    assert max(lives) <= 3600.0
