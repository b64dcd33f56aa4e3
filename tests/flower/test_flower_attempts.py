"""A model that nodes are asked about again: in one series, once with shares, and then a step aside of it."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import strategy as flower
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ccesa.agreement.config import RoundConfig
from ccesa.errors import AttemptsSpent
from ccesa.flower import SecureGrid
from ccesa.flower.both.terms import ReplyTerms
from ccesa.flower.server.series import Attempts
from ccesa.policy import Policy
from ccesa.values.fields import ASIDE, step_aside
from flower_grid import (
    ERROR,
    SILENT,
    MemoryGrid,
    all_say,
    as_model,
    as_record,
    lose,
    make_app,
    mean,
    model_in,
    new_model,
    number,
)
from flower_noise import changed, enrol_with_noise, large_model, mechanism
from flower_rounds import NODES, assert_mean, enrol, envelope_of, messages

MOST = [*number(NODES)][2:]
ROUNDS = 4
Model = tuple[bytes, ...]


class Sampling(flower.FedAvg):
    """Asks given nodes in each round."""

    def __init__(self, *sampled, **others) -> None:
        super().__init__(**{"fraction_evaluate": 0.0, **others})
        self._sampled = sampled

    def configure_train(self, server_round, arrays, config, grid):
        some = super().configure_train(server_round, arrays, config, grid)
        nodes = self._sampled[server_round - 1] if self._sampled else grid.get_node_ids()
        return [one for one in some if one.metadata.dst_node_id in nodes]


def start(grid, strategy=None, rounds: int = ROUNDS, **options):
    return (strategy or Sampling()).start(
        grid=SecureGrid(grid, **options), initial_arrays=as_record(new_model()), num_rounds=rounds
    )


def asked(grid, step: str = "mask") -> list[tuple[RoundConfig, Model]]:
    """Rounds in which node 1004 was asked for a vector, and the models that went with it."""
    return [(RoundConfig.decode(envelope_of(one)["config"]), content_of(one)) for one in sent(grid, step)]


def sent(grid, step: str = "mask") -> list[Message]:
    return [one.message for one in grid.passed if one.to_node and (one.step, one.node) == (step, 1004)]


def content_of(message: Message) -> Model:
    records = message.content.array_records
    return tuple(value.tobytes() for value in model_in(message).values()) if records else ()


def plain(rounds: int, model=None) -> dict[str, np.ndarray]:
    """The model after so many rounds over all nodes, in the clear."""
    found = model or new_model()
    for _ in range(rounds):
        found = {name: value.astype(np.float32) for name, value in mean(found, number(NODES)).items()}
    return found


def distance(found, expected) -> float:
    return max(np.abs(found[name] - expected[name]).max() for name in expected)


# One series, whose numbers go up


@pytest.mark.parametrize("again", [MOST, [*number(NODES)][1:]], ids=["all others", "one less"])
def test_other_nodes_are_asked_about_a_model_in_the_same_series(again, said):
    """The round with all nodes is lost when some vectors are there; nobody has released anything."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "mask", *MOST, times=(0,)))
    sampled = [number(NODES), again, again, number(NODES)]
    result = start(grid, Sampling(*sampled), dropout=0.2)
    assert set(result.train_metrics_clientapp) == {2, 3, 4}
    (lost, first), (second, model), (third, _) = asked(grid)[:3]
    assert model == first
    assert (second.series_id, second.clients) == (lost.series_id, len(again))
    assert second.number > lost.number
    assert third.series_id == second.series_id
    assert not any("aside" in line for line in said)
    assert not any("series, and stays with it" in line for line in said)


@pytest.mark.parametrize("options", [{}, {"post_quantum": True}], ids=["curious", "accept"])
def test_single_rounds_about_one_model_are_one_series(options):
    """Two rounds are lost when the vectors have left, and the third is well: nodes allow three of them."""
    own = {"ccesa-attempts": 3}
    grid = MemoryGrid(make_app(), NODES, node_configs=all_say(NODES, own))
    grid.faults = lambda step, node, count: ERROR if step == "mask" and count < 2 and node > 1002 else None
    secure = SecureGrid(grid, retries=2, **options)
    (reply,) = secure.send_and_receive(messages(grid, new_model()))
    assert_mean(reply, number(NODES))
    places = [(config.series_id, config.number) for config, _ in asked(grid)]
    assert [place for _, place in places] == [0, 1, 2]
    assert len({series for series, _ in places}) == 1
    secure.send_and_receive(messages(grid, new_model(seed=6)))
    assert asked(grid)[-1][0].series_id != places[0][0]


def test_a_series_goes_on_where_a_single_round_was_lost(said):
    """In a loop of one's own the first round is a single one, and the same again begins a series."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "mask", *MOST))
    secure = SecureGrid(grid)
    assert not secure.send_and_receive(messages(grid, new_model()))
    for seed in (5, 6, 7):
        (reply,) = secure.send_and_receive(messages(grid, new_model(seed=seed)))
        assert_mean(reply, number(NODES), new_model(seed=seed))
    secure.stop()
    configs = [config for config, _ in asked(grid)]
    assert [config.accept for config in configs] == [False, True, True, True]
    assert len({config.series_id for config in configs}) == 1
    assert [line for line in said if "of a series" in line][-1].endswith("round 3 of a series: 2 exchanges")


def test_a_model_that_no_vector_has_left_for_begins_a_series_of_its_own():
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "share", *MOST))
    secure = SecureGrid(grid, retries=1)
    (reply,) = secure.send_and_receive(messages(grid, new_model()))
    assert_mean(reply, number(NODES))
    first, second = (config for config, _ in asked(grid, "share"))
    assert first.series_id != second.series_id


# A step aside


@pytest.mark.parametrize("retries", [0, 1])
def test_training_goes_on_a_step_aside_of_a_model_whose_shares_were_asked_for(retries, said):
    """It ends near where it had ended without the loss."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "unmask", *MOST, times=(1,)))
    result = start(grid, retries=retries)
    done = ROUNDS if retries else ROUNDS - 1
    assert len(result.train_metrics_clientapp) == done
    away = distance(as_model(result.arrays), plain(done))
    assert 2e-5 < away <= 4e-3
    (line,) = [line for line in said if "a small random step aside" in line]
    assert "no value moves by more than 0.1% of itself" in line
    models = [model for _, model in asked(grid)]
    assert len({*models}) == len(models) == ROUNDS + bool(retries)
    assert not any("no longer contributes to this model" in line for line in said)


def test_a_charter_that_allows_two_releases_needs_no_step_aside(tmp_path, said):
    charter, configs = enrol(tmp_path, NODES, attempts=2, releases=2)
    faults = lose(ERROR, "unmask", *MOST, times=(1, 2))
    grid = MemoryGrid(make_app(), NODES, node_configs=configs, faults=faults)
    result = start(grid, rounds=5, charter=charter)
    assert set(result.train_metrics_clientapp) == {1, 4, 5}
    models = [content_of(one) for one in sent(grid)]
    assert models[1] == models[2] != models[3]
    assert sum("aside" in line for line in said) == 1
    assert distance(as_model(result.arrays), plain(3)) <= 4e-3


def test_with_noise_under_a_charter_nothing_but_attempts_and_ledgers_is_a_limit(tmp_path, said):
    """Every vector is charged, and two sums that differ by one node tell no more than was promised."""
    charter, configs = enrol_with_noise(tmp_path, mechanism())
    faults = lose(ERROR, "unmask", *MOST, times=(0,))
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs, faults=faults)
    secure = SecureGrid(grid, charter=charter, retries=1)
    assert len(secure.send_and_receive(messages(grid, large_model()))) == 1
    first, second = (content_of(one) for one in sent(grid))
    assert first == second
    assert not any("aside" in line for line in said)


def test_where_attempts_are_used_up_training_goes_on_aside(said):
    """Vectors have left twice, as often as nodes allow; the third round hears so."""
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda step, node, count: SILENT if step == "mask" and count < 2 and node > 1002 else None
    result = start(grid, rounds=5, policy=Policy.wait_for_all(1.0))
    assert set(result.train_metrics_clientapp) == {4, 5}
    assert sum("aside" in line for line in said) == 1
    assert distance(as_model(result.arrays), plain(2)) <= 4e-3


def test_a_model_of_whole_numbers_cannot_step_aside():
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "unmask", *MOST))
    whole = {"batches": np.arange(6, dtype=np.int64)}
    secure = SecureGrid(grid)
    assert not secure.send_and_receive(messages(grid, whole))
    with pytest.raises(AttemptsSpent, match="no number in it can move a little: start again from"):
        secure.send_and_receive(messages(grid, whole))


def test_after_a_round_that_went_well_nothing_steps_aside(said):
    """A second sum over nearly the same, with other nodes, is what nodes guard against."""
    grid = MemoryGrid(make_app(), NODES)
    secure = SecureGrid(grid, retries=3)
    assert len(secure.send_and_receive(messages(grid, new_model()))) == 1
    with pytest.raises(AttemptsSpent):
        secure.send_and_receive(messages(grid, new_model())[1:])
    assert not any("aside" in line for line in said)


REALS = st.sampled_from([np.float16, np.float32, np.float64])


@given(
    REALS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, max_dims=3, max_side=5))),
    st.integers(1, 3),
)
def test_a_step_aside_is_small_and_the_same_each_time(value, aside):
    first, again = (step_aside({"w": value}, np.random.default_rng(aside))["w"] for _ in range(2))
    assert first.tobytes() == again.tobytes()
    assert (first.dtype, first.shape) == (value.dtype, value.shape)
    finite = np.isfinite(value)
    assert np.array_equal(np.isfinite(first), finite)
    assert np.array_equal(first[~finite], value[~finite], equal_nan=True)
    moved = np.abs(np.subtract(first[finite], value[finite], dtype=np.float64))
    scale = np.abs(value[finite].astype(np.float64)) if value.any() else np.ones(finite.sum())
    with np.errstate(over="ignore"):  # the largest float has no next one
        spacing = np.spacing(np.abs(value[finite])).astype(np.float64)
    assert (moved <= ASIDE * scale + np.where(np.isfinite(spacing), spacing, np.inf)).all()
    if value.any():
        assert np.array_equal(np.sign(first[finite]), np.sign(value[finite]))


def test_each_step_aside_is_another_model():
    """Settings that change from round to round do not change it; a counter that became a float stays."""
    model = {**new_model(), "batches": np.float32([100.5])}
    terms = ReplyTerms(message_type="train", clients=3, counters=["batches"])
    attempts, seen = Attempts(1), set()
    for place in range(4):
        given_ = RecordDict({"arrays": as_record(model), "config": ConfigRecord({"server-round": place})})
        attempts.enter(terms, [Message(given_, 1, "train")])
        if place:
            attempts._close()
        asked_ = [attempts.messages([Message(given_, 1, "train")], terms)[0].content for _ in range(2)]
        assert terms.counted_task(asked_[0]) == terms.counted_task(asked_[1])
        assert asked_[0]["config"]["server-round"] == place
        assert asked_[0]["arrays"]["batches"].numpy() == 100.5
        seen.add(terms.counted_task(asked_[0]))
    assert len(seen) == 4


# Evaluations


class Evaluating(Sampling):
    def __init__(self, *sampled, **others) -> None:
        super().__init__(*sampled, **{"fraction_evaluate": 1.0, **others})


def test_an_evaluation_of_the_same_model_is_answered_by_the_last_one(said):
    """The second train round is lost, so the model is evaluated again: nodes would refuse."""
    app = make_app()
    grid = MemoryGrid(app, NODES)
    trainings = {"count": 0}

    def faults(step: str, node: int, count: int) -> str | None:
        message = next(one.message for one in reversed(grid.passed) if one.to_node)
        if message.metadata.message_type != "train" or step != "unmask":
            return None
        trainings["count"] += node == 1001
        return ERROR if trainings["count"] == 2 and node > 1002 else None

    grid.faults = faults
    result = start(grid, Evaluating())
    found = result.evaluate_metrics_clientapp
    assert set(found) == {1, 2, 3, 4}
    assert dict(found[1]) == dict(found[2]) != dict(found[3])
    assert app.calls.count(("evaluate", 1001)) == 3
    assert sum("have evaluated this model before: the strategy gets their mean again" in line for line in said) == 1
    assert not any("no longer contributes to this model" in line for line in said)


def evaluations(grid, nodes, **settings) -> list[Message]:
    content = RecordDict({"arrays": as_record(new_model()), "config": ConfigRecord(settings)})
    return [Message(content, node, "evaluate") for node in nodes]


def test_another_question_is_asked():
    """Other nodes may answer; the same ones, with other settings, refuse, and the evaluation is left out."""
    app = make_app()
    grid = MemoryGrid(app, 2 * NODES)
    secure, every = SecureGrid(grid), [*number(2 * NODES)]
    first, second = every[:NODES], every[NODES:]
    means = [
        list(secure.send_and_receive(evaluations(grid, nodes, **settings)))
        for nodes, settings in [
            (first, {"server-round": 1, "batch": 8}),
            (first, {"server-round": 2, "batch": 8}),
            (second, {"server-round": 2, "batch": 8}),
            (first, {"server-round": 2, "batch": 9}),
        ]
    ]
    assert [len(replies) for replies in means] == [1, 1, 1, 0]
    found = [dict(replies[0].content["metrics"]) for replies in means[:3]]
    assert found[0] == found[1] != found[2]
    assert len(app.calls) == 2 * NODES


def test_an_evaluation_that_was_lost_with_its_shares_is_left_out(said):
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "unmask", *MOST))
    secure = SecureGrid(grid, retries=2)
    for place in (1, 2):
        assert not secure.send_and_receive(evaluations(grid, number(NODES), **{"server-round": place}))
    assert grid.steps(1001).count("mask") == 1
    assert sum("the evaluation is left out" in line for line in said) == 2
