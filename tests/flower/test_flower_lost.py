"""A training in which no round went well does not end as if all had."""

import pytest
from flwr.app import Message
from flwr.serverapp import strategy as flower

from ccesa.errors import RoundsLost
from ccesa.flower import SecureGrid
from ccesa.flower.server import strategy as calling
from flower_grid import ERROR, MemoryGrid, as_record, make_app, new_model, number
from flower_rounds import NODES, messages

#: In a series a round begins with *mask*, if it was set up before.
EVERY = ["advertise", "share", "accept", "mask", "unmask", "forget"]


class Train(flower.FedAvg):
    """Remembers how far it came."""

    def __init__(self, **others) -> None:
        super().__init__(**{"fraction_evaluate": 0.0, **others})
        self.rounds: list[int] = []

    def aggregate_train(self, server_round, replies):
        self.rounds.append(server_round)
        return super().aggregate_train(server_round, replies)


def losing(*lost: int, kind: str = "train") -> MemoryGrid:
    """A grid in which the rounds with these numbers, counted by messages of this kind, are lost."""
    grid = MemoryGrid(make_app(), NODES)
    begun, before = dict.fromkeys(number(NODES), 0), dict.fromkeys(number(NODES), EVERY[-1])

    def faults(step: str, node: int, count: int) -> str | None:
        message = next(one.message for one in reversed(grid.passed) if one.to_node)
        if message.metadata.message_type != kind:
            return None
        begun[node] += EVERY.index(step) <= EVERY.index(before[node])
        before[node] = step
        return ERROR if begun[node] in lost and step in ("share", "mask") else None

    grid.faults = faults
    return grid


def start(strategy, grid, rounds: int = 3, **options):
    return strategy.start(grid=SecureGrid(grid, **options), initial_arrays=as_record(new_model()), num_rounds=rounds)


@pytest.mark.parametrize("rounds", [1, 3])
def test_all_rounds_lost_is_an_error_in_the_last_one_that_says_why(rounds, said):
    strategy = Train()
    with pytest.raises(RoundsLost, match=rf"all train rounds .*{rounds} x step share: 0 answered.*unavailable"):
        start(strategy, losing(1, 2, 3), rounds)
    assert strategy.rounds == list(range(1, rounds))
    assert sum("the train round with 6 nodes is lost" in line for line in said) == rounds


@pytest.mark.parametrize("well", [1, 2, 3])
def test_one_round_that_went_well_is_enough(well):
    result = start(Train(), losing(*({1, 2, 3} - {well})))
    assert set(result.train_metrics_clientapp) == {well}


def test_lost_evaluations_are_no_reason_to_throw_a_model_away():
    result = start(Train(fraction_evaluate=1.0), losing(1, 2, 3, kind="evaluate"))
    assert set(result.train_metrics_clientapp) == {1, 2, 3}
    assert not result.evaluate_metrics_clientapp


def test_evaluations_that_went_well_are_no_training():
    """Of a model that nobody has trained."""
    with pytest.raises(RoundsLost, match="all train rounds"):
        start(Train(fraction_evaluate=1.0), losing(1, 2, 3))


def test_where_nothing_is_trained_evaluations_count():
    with pytest.raises(RoundsLost, match="all evaluate rounds"):
        start(Train(fraction_train=0.0, fraction_evaluate=1.0), losing(1, 2, 3, kind="evaluate"))
    result = start(Train(fraction_train=0.0, fraction_evaluate=1.0), losing(1, 2, kind="evaluate"))
    assert set(result.evaluate_metrics_clientapp) == {3}


def test_a_grid_that_is_used_again_begins_anew():
    """The first training goes well, the second is lost, also if both are of one round."""
    secure = SecureGrid(losing(2))
    arrays = as_record(new_model(seed=6))
    Train().start(grid=secure, initial_arrays=as_record(new_model()), num_rounds=1)
    with pytest.raises(RoundsLost):
        Train().start(grid=secure, initial_arrays=arrays, num_rounds=1)
    Train().start(grid=secure, initial_arrays=arrays, num_rounds=1)


class Wrapped(Train):
    """A user's own start around Flower's, and a question to the nodes before each round."""

    def start(self, *arguments, **others):
        return super().start(*arguments, **others)

    def configure_train(self, server_round, arrays, config, grid):
        some = list(super().configure_train(server_round, arrays, config, grid))
        list(grid.send_and_receive([Message(one.content, one.metadata.dst_node_id, "query") for one in some]))
        return some


def test_other_messages_do_not_end_a_training():
    result = start(Wrapped(), losing(1, 2))
    assert set(result.train_metrics_clientapp) == {3}
    with pytest.raises(RoundsLost):
        start(Wrapped(), losing(1, 2, 3))


class Pausing(Train):
    """Trains in no round but the first."""

    def configure_train(self, server_round, arrays, config, grid):
        return super().configure_train(server_round, arrays, config, grid) if server_round == 1 else []


def test_a_last_round_without_training_is_the_last_round():
    with pytest.raises(RoundsLost, match="all train rounds"):
        start(Pausing(), losing(1))


def test_too_many_lost_rounds_in_a_row_end_the_training_if_asked_for():
    strategy = Train()
    with pytest.raises(RoundsLost, match=r"the last 2 train round\(s\) are lost \(give_up_after = 2\)"):
        start(strategy, losing(1, 3, 4), rounds=10, give_up_after=2)
    assert strategy.rounds == [1, 2, 3]
    assert len(start(Train(), losing(1, 3, 5), rounds=6, give_up_after=2).train_metrics_clientapp) == 3


def test_a_loop_of_ones_own_sees_no_reply_and_can_be_ended():
    grid = losing(1, 2)
    secure = SecureGrid(grid, give_up_after=2)
    assert calling.find_start() is None
    assert list(secure.send_and_receive(messages(grid, new_model()))) == []
    with pytest.raises(RoundsLost, match="the last 2"):
        secure.send_and_receive(messages(grid, new_model()))


def test_where_a_strategy_stands_is_read_from_flower_itself():
    """If this fails, Flower's variables have other names, and lost trainings would go unnoticed."""
    seen = []

    class Look(Train):
        def configure_train(self, server_round, arrays, config, grid):
            seen.append(calling.find_start())
            return super().configure_train(server_round, arrays, config, grid)

    result = Look().start(
        grid=SecureGrid(losing()),
        initial_arrays=as_record(new_model()),
        num_rounds=2,
        evaluate_fn=lambda server_round, arrays: seen.append(calling.find_start()),
    )
    assert [(one.current, one.last) for one in seen] == [(0, 2), (1, 2), (1, 2), (2, 2), (2, 2)]
    assert all(one.result is result for one in seen)
