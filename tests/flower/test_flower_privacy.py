"""Rounds with noise through Flower: what strategies get, what stays on the nodes, and when it ends."""

import math

import numpy as np
import pytest
from flwr.serverapp import strategy as flower
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import BudgetSpent, ConfigError
from ccesa.flower import SecureGrid
from ccesa.flower.both import packing as packing_side
from ccesa.flower.both.packing import NoisyPacking, Reply, packing_for
from ccesa.flower.both.terms import ReplyTerms
from ccesa.flower.server.rounds import NoisyRounds, Releases
from ccesa.privacy import DifferentialPrivacy, NoisyQuantizer, choose_mechanism
from ccesa.privacy.mechanism import total
from ccesa.privacy.quantizer import around_zero
from flower_grid import DROP, ERROR, MemoryGrid, as_model, as_record, lose, make_app, model_in, new_model, number
from flower_noise import DEMAND, SIZE, changed, enrol_with_noise, large_model, mechanism, plain_mean, residue
from flower_rounds import NODES, messages, one_round


def measure(node, model) -> dict:
    return {"num-examples": 3, "accuracy": 0.5 + node % 10 / 100, "secret": 1.0}


# What a strategy gets


def test_a_whole_training_with_evaluations(said):
    grid = MemoryGrid(make_app(changed, measure), NODES)
    secure = SecureGrid(grid, privacy=DEMAND, metrics=["accuracy"], metric_clip=1.0)
    result = flower.FedAvg().start(grid=secure, initial_arrays=as_record(large_model(np.float32)), num_rounds=2)
    once = plain_mean(large_model(), number(NODES))
    twice = {name: 2 * value - large_model()[name] for name, value in once.items()}
    noise = math.sqrt(2) * secure.noise  # of both rounds
    assert residue(as_model(result.arrays), twice) == pytest.approx(noise, rel=0.06)
    assert as_model(result.arrays)["w"].dtype == np.float32
    for metrics in result.evaluate_metrics_clientapp.values():
        assert set(metrics) == {"accuracy"}
        assert abs(metrics["accuracy"] - 0.535) < 6 * secure.noise
    assert [dict(one) for one in result.train_metrics_clientapp.values()] == [{}, {}]
    assert secure.error_bound is None
    assert any("evaluate, 6 of 6 nodes in the sum" in line and "every metric" in line for line in said)
    assert grid.steps(1001).count("advertise") < 4  # rounds are in series


@pytest.mark.parametrize("step", [None, "mask", "unmask"])
def test_the_error_of_the_mean_is_the_noise_of_the_mechanism(step):
    faults = lose(ERROR, step, 1004) if step else lambda *what: None
    grid = MemoryGrid(make_app(changed), NODES, faults=faults)
    secure, model = SecureGrid(grid, privacy=DEMAND), large_model()
    (reply,) = secure.send_and_receive(messages(grid, model))
    survivors = [node for node in number(NODES) if (step, node) != ("mask", 1004)]
    noise = mechanism().noise(len(survivors)) / len(survivors)
    assert secure.noise == pytest.approx(noise)
    assert residue(model_in(reply), plain_mean(model, survivors)) == pytest.approx(noise, rel=0.06)
    assert dict(reply.content["metrics"]) == {"num-examples": len(survivors)}


#: So little noise that a change shows: nothing that anyone should ask for.
WEAK = DifferentialPrivacy(epsilon=50.0, delta=0.1, rounds=3, norm=1.0)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("times", [0.5, 1e9])
def test_the_mean_moves_by_what_nodes_add_and_no_further_than_the_norm(times, rounds, said):
    """In single rounds and in a series, whose rounds are rotated each in its own way."""
    direction = np.random.default_rng(5).normal(size=(64, 64))
    direction /= np.linalg.norm(direction)

    def train(node, model):
        return {"w": model["w"] + times * direction}, {}

    grid = MemoryGrid(make_app(train), NODES)
    secure = SecureGrid(grid, privacy=WEAK)
    result = flower.FedAvg(fraction_evaluate=0.0).start(
        grid=secure, initial_arrays=as_record(large_model()), num_rounds=rounds
    )
    shift = np.sum((as_model(result.arrays)["w"] - large_model()["w"]) * direction)
    noise = secure.noise * math.sqrt(rounds)
    assert noise < 0.1
    assert shift == pytest.approx(rounds * min(times, 1.0), abs=6 * noise + 0.01)
    assert sum("is clipped to the norm 1" in line for line in said) == (NODES * rounds if times > 1 else 0)


def test_whole_numbers_stay_as_they_were_sent():
    """Also in the next round: what training made of them is not released at all."""

    def train(node, model):
        arrays, metrics = changed(node, {"w": model["w"]})
        return {**arrays, "batches": model["batches"] + 7}, metrics

    model = {**large_model(), "batches": np.array(12)}
    grid = MemoryGrid(make_app(train), NODES)
    secure = SecureGrid(grid, privacy=DEMAND)
    for _ in range(2):
        (reply,) = secure.send_and_receive(messages(grid, model))
        model = model_in(reply)
        assert model["batches"] == 12
        assert model["batches"].dtype == np.int64


@pytest.mark.parametrize("given", [{}, {"collusion": 0.1}, {"post_quantum": True}])
def test_rounds_insist_on_as_many_survivors_as_the_noise_counts_on(given):
    """With colluders they have the step accept: nobody else chooses whose noise is missing."""
    grid, model = MemoryGrid(make_app(changed), NODES), large_model()
    secure = SecureGrid(grid, privacy=DEMAND, **given)
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert (grid.steps(1001)[2] == "accept") == bool(given)
    assert residue(model_in(reply), plain_mean(model, number(NODES))) == pytest.approx(secure.noise, rel=0.06)
    # One more than it may be: the sum is not opened.
    grid = MemoryGrid(make_app(changed), NODES, faults=lose(ERROR, "mask", 1001, 1002))
    assert one_round(grid, model, privacy=DEMAND, **given) is None
    assert "unmask" not in grid.steps(1003)


# What stays on the nodes


def broken(node, model):
    if node == 1001:
        raise ValueError("no examples")
    arrays, metrics = changed(node, model)
    return ({"w": arrays["w"] * math.nan} if node == 1002 else arrays), metrics


def test_nodes_with_nothing_to_send_add_noise_like_all_others(said):
    """S32: neither an error nor a count says that there are such nodes, or which."""
    grid = MemoryGrid(make_app(broken), NODES)
    secure, model = SecureGrid(grid, privacy=DEMAND), large_model()
    (reply,) = secure.send_and_receive(messages(grid, model))
    zero = lambda node, model: (model if node < 1003 else changed(node, model)[0], {})  # noqa: E731
    expected = plain_mean(model, number(NODES), zero)
    assert residue(model_in(reply), expected) == pytest.approx(secure.noise, rel=0.06)
    assert not any(one.message.has_error() for one in grid.passed)
    sizes = {(one.step, len(one.message.content["ccesa"]["reply"])) for one in grid.passed if not one.to_node}
    assert len(sizes) == 4
    assert sum("contributes nothing" in line for line in said) == 2  # on the nodes
    assert not any("contributed nothing" in line for line in said)


FIXED = bytes(range(16))


@pytest.fixture
def fixed_noise(monkeypatch):
    encode = NoisyQuantizer.encode
    monkeypatch.setattr(
        NoisyQuantizer, "encode", lambda self, arrays, context: encode(self, arrays, context, lambda size: FIXED)
    )
    monkeypatch.setattr(packing_side, "around_zero", lambda noise: around_zero(noise, lambda size: FIXED))


def packing(kind: str = "train", **others) -> NoisyPacking:
    noise = mechanism(36 if kind == "train" else 2)
    terms = ReplyTerms(message_type=kind, clients=NODES, privacy=noise, **others)
    return packing_for(terms, new_model(), bytes(32))


def test_nothing_but_the_arrays_is_in_a_vector(fixed_noise):
    arrays, _ = changed(1001, new_model())
    plain, clipped = packing().pack(Reply(arrays=arrays, metrics={}, weight=1.0))
    assert clipped == 0
    for metrics, weight, records in (
        ({"loss": 3.0}, 1.0, ("a", "b")),
        ({"loss": math.nan, "per-class": [1.0]}, 1e9, ("secret", "names")),
    ):
        reply = Reply(arrays=arrays, metrics=metrics, weight=weight, records=records)
        np.testing.assert_array_equal(packing().pack(reply)[0], plain)
    other = {name: value + 0.1 for name, value in arrays.items()}
    assert (packing().pack(Reply(arrays=other, metrics={}, weight=1.0))[0] != plain).any()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [0.5], None])
def test_a_metric_that_is_no_number_counts_as_zero(value, fixed_noise):
    given = {"metric_slots": 1, "metrics": ["=accuracy"], "metric_clip": 1.0}
    found = {} if value is None else {"accuracy": value}
    vector, _ = packing("evaluate", **given).pack(Reply(arrays={}, metrics=found, weight=1.0))
    np.testing.assert_array_equal(vector, packing("evaluate", **given).nothing())


def test_metrics_beyond_their_bound_are_at_the_bound(fixed_noise):
    """And take nothing away from the others."""
    given = {"metric_slots": 2, "metrics": ["=f1", "=loss"], "metric_clip": 2.0}
    vectors = [
        packing("evaluate", **given).pack(Reply(arrays={}, metrics={"loss": loss, "f1": 0.5}, weight=1.0))
        for loss in (2.0, 1e300, -1e300)
    ]
    assert [clipped for _, clipped in vectors] == [0, 0, 0]
    assert vectors[0][0].tolist() == vectors[1][0].tolist() != vectors[2][0].tolist()


def test_several_metrics_come_back():
    def several(node, model):
        return {"num-examples": 1, "f1": 0.25, "loss": -1.5}

    grid = MemoryGrid(make_app(changed, several), NODES)
    reply = one_round(grid, kind="evaluate", privacy=WEAK, metrics=["loss", "f1"], metric_clip=2.0)
    found = dict(reply.content["metrics"])
    assert found == pytest.approx({"num-examples": NODES, "f1": 0.25, "loss": -1.5}, abs=0.8)
    assert abs(found["f1"] - found["loss"]) > 0.5


@pytest.mark.parametrize("counters", [[], ["steps"]])
def test_an_array_of_whole_numbers_is_left_out_whether_it_is_named_or_not(counters):
    terms = ReplyTerms(message_type="train", clients=NODES, privacy=mechanism(36), counters=counters)
    assert packing_for(terms, {**new_model(), "steps": np.array([7])}).length == mechanism(36).length


def test_evaluations_without_named_metrics_are_not_sent(said):
    grid = MemoryGrid(make_app(changed), NODES)
    result = flower.FedAvg().start(
        grid=SecureGrid(grid, privacy=DEMAND), initial_arrays=as_record(large_model()), num_rounds=2
    )
    assert result.evaluate_metrics_clientapp == {}
    assert grid.app.calls.count(("evaluate", 1001)) == 0
    assert sum("no evaluate messages are sent: with noise" in line for line in said) == 1
    assert sum("metric 'loss' of a train round stays on this node" in line for line in said) == 1


def test_an_evaluation_with_metrics_that_are_not_named_is_refused_by_the_packing():
    for slots in (
        {"metric_slots": 0, "metrics": []},
        {"metric_slots": 3, "metrics": ["=a", "=b", "=c"]},
        {"metric_slots": 1, "metrics": ["+a"]},
        {"metric_slots": 1},
    ):
        with pytest.raises(ConfigError, match="an evaluation with noise releases 1 to 2 named numbers"):
            _ = packing("evaluate", **slots).length


# When it ends


def test_no_node_is_asked_for_more_vectors_than_the_noise_is_made_for():
    grid = MemoryGrid(make_app(changed, measure), NODES)
    secure = SecureGrid(grid, privacy=DEMAND, metrics=["accuracy"], metric_clip=1.0)
    model = large_model()
    for kind in ("train", "evaluate", "train", "evaluate"):
        (reply,) = secure.send_and_receive(messages(grid, model, kind))
        model = model_in(reply) if kind == "train" else model
    asked = len(grid.passed)
    with pytest.raises(BudgetSpent, match=r"6 nodes \(1001, .*another vector.*made for 4 of them"):
        secure.send_and_receive(messages(grid, model))
    assert grid.app.calls.count(("train", 1001)) == 2
    assert {one.step for one in grid.passed[asked:]} <= {"forget"}


def test_vectors_of_lost_rounds_count_and_rounds_lost_before_do_not():
    """S36. All others are lost in the first two rounds, before and after the vectors have left."""
    demand = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=2, norm=1.0)
    grid = MemoryGrid(make_app(changed), NODES)
    secure = SecureGrid(grid, privacy=demand)
    for step in ("share", "unmask"):
        grid.faults = lose(DROP, step, *range(1003, 1007), times=range(9))
        assert list(secure.send_and_receive(messages(grid, large_model()), timeout=60)) == []
    grid.faults = lambda *what: None
    (reply,) = secure.send_and_receive(messages(grid, large_model()))
    with pytest.raises(BudgetSpent, match="6 nodes"):
        secure.send_and_receive(messages(grid, model_in(reply)))


def test_a_node_that_was_asked_less_often_can_still_be_asked():
    demand = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=1, norm=1.0)
    grid = MemoryGrid(make_app(changed), 2 * NODES + 1)
    secure, every = SecureGrid(grid, privacy=demand), messages(grid, large_model())
    for some in (every[:NODES], every[NODES : 2 * NODES]):
        assert len(list(secure.send_and_receive(some))) == 1
    with pytest.raises(BudgetSpent, match=r"^5 nodes \(1008, 1009, 1010, 1011, 1012\) cannot be asked"):
        secure.send_and_receive(every[-NODES:])


def test_too_few_nodes_are_an_error_at_first_and_later_a_lost_round():
    grid = MemoryGrid(make_app(changed), NODES)
    secure, every = SecureGrid(grid, privacy=DEMAND), messages(grid, large_model())
    with pytest.raises(ConfigError, match="3 clients"):
        secure.send_and_receive(every[:2])
    assert len(list(secure.send_and_receive(every))) == 1
    for few in (2, 3):
        assert list(secure.send_and_receive(every[:few])) == []


def test_a_training_that_is_too_long_is_refused_before_anything_leaves():
    grid = MemoryGrid(make_app(changed), NODES)
    with pytest.raises(ConfigError, match="a training of 5 rounds needs more than the noise is made for, 4 vectors"):
        flower.FedAvg().start(
            grid=SecureGrid(grid, privacy=DEMAND), initial_arrays=as_record(large_model()), num_rounds=5
        )
    assert grid.passed == []


def test_a_training_that_may_be_too_long_is_said(said):
    grid = MemoryGrid(make_app(changed, measure), NODES)
    secure = SecureGrid(grid, privacy=DEMAND, metrics=["accuracy"], metric_clip=1.0)
    with pytest.raises(BudgetSpent):
        flower.FedAvg().start(grid=secure, initial_arrays=as_record(large_model()), num_rounds=3)
    assert sum("a training of 3 rounds with evaluations needs more" in line for line in said) == 1


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(3, 40), st.sampled_from([1, 36, 4096])), min_size=1, max_size=8),
    st.floats(-60.0, -20.0),
    st.sampled_from([1e-6, 1e-3]),
)
def test_rounds_of_different_sizes_keep_the_demand_together(rounds, fails, delta):
    """However many nodes each round has, and however likely it is that its graph fails."""
    demand = DifferentialPrivacy(epsilon=3.0, delta=delta, rounds=len(rounds), norm=1.0)
    releases, every = Releases(demand), []
    for place, (nodes, dimension) in enumerate(rounds):
        fail = fails - place if 2.0**fails * len(rounds) < delta / 2 else -60.0
        noise = choose_mechanism(demand, clients=nodes, honest=nodes - 1, dimension=dimension, fails=fail)
        releases.check([1, 2], noise)
        releases.add([1], noise)
        every.append(noise.release)
    assert total(every).epsilon(demand.delta) <= demand.epsilon
    with pytest.raises(BudgetSpent, match="node 1 cannot be asked"):
        releases.check([1, 2], noise)


def test_noise_that_was_made_for_fewer_rounds_is_spent_sooner():
    """It is added up what vectors spend; their number alone says nothing."""
    noise = mechanism(36, rounds=1)
    releases = Releases(DEMAND)
    releases.check([1], noise)
    releases.add([1], noise)
    with pytest.raises(BudgetSpent, match="node 1 cannot be asked"):
        releases.check([1], noise)


def test_rounds_are_counted_also_where_rounding_leaves_room_for_one_more():
    demand = DifferentialPrivacy(epsilon=3.0, delta=1e-6, rounds=5000, norm=1.0)
    releases, noise = Releases(demand), choose_mechanism(demand, clients=10, honest=9, dimension=36)
    assert noise.rounds * noise.release.mu2 < (1 - 1 / 5000) * 5000 / noise.curator**2
    for _ in range(demand.rounds):
        releases.add([1], noise)
    with pytest.raises(BudgetSpent, match="made for 5000 of them"):
        releases.check([1], noise)


# What is refused on the server


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"weighted_by": "num-examples"}, "^leave out weighted_by beside privacy: every node counts one"),
        ({"clip": 2.0, "bits": 8}, "^leave out clip, bits beside privacy"),
        (
            {"max_weight": 64, "precision": 0.1, "metric_slots": 2},
            "^leave out precision, max_weight, metric_slots beside",
        ),
        ({"metrics": ["accuracy"]}, "metrics and metric_clip go together"),
        ({"metric_clip": 1.0}, "metrics and metric_clip go together"),
        ({"secure_evaluate": False}, "metrics would be sent without noise"),
        ({"privacy": 3.0}, "privacy: expected DifferentialPrivacy, got float"),
        ({"dropout": 1.0}, "dropout"),
        ({"metrics": "accuracy", "metric_clip": 1.0}, "metrics must be a list of names, not 'accuracy'"),
        ({"metrics": [""], "metric_clip": 1.0}, "metrics must be a list of names"),
        ({"metrics": ["accuracy"], "metric_clip": 0.0}, "metric_clip must be a positive number"),
    ],
)
def test_settings_that_do_not_go_with_privacy(given, reason):
    with pytest.raises(ConfigError, match=reason):
        SecureGrid(MemoryGrid(make_app(), NODES), **{"privacy": DEMAND, **given})


def test_a_server_that_lies_needs_a_charter():
    lies = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=4, norm=1.0, against="lies")
    with pytest.raises(ConfigError, match="a server that lies needs a charter"):
        SecureGrid(MemoryGrid(make_app(), NODES), privacy=lies)


@pytest.mark.parametrize("given", [{"metrics": ["loss"]}, {"reliability_bits": 7}])
def test_settings_that_go_with_privacy_only(given):
    with pytest.raises(ConfigError, match=f"^{next(iter(given))} need privacy"):
        SecureGrid(MemoryGrid(make_app(), NODES), **given)


def test_the_weight_is_no_metric():
    secure = SecureGrid(MemoryGrid(make_app(), NODES), privacy=DEMAND, metrics=["num-examples"], metric_clip=1.0)
    with pytest.raises(
        ConfigError, match="metric 'num-examples' cannot be released, because the strategy weights by it"
    ):
        secure.send_and_receive(messages(MemoryGrid(make_app(), NODES), new_model(), "evaluate"))


def test_a_model_without_real_numbers_is_refused():
    grid = MemoryGrid(make_app(changed), NODES)
    with pytest.raises(ConfigError, match="length"):
        one_round(grid, {"batches": np.array([1, 2])}, privacy=DEMAND)
    assert grid.passed == []


def test_more_lost_rounds_need_less_noise():
    usual, often = (
        NoisyRounds(privacy=DEMAND, reliability_bits=bits).terms("train", 30, new_model(), None).mechanism
        for bits in (None, 3)
    )
    assert often.noise(30) < 0.9 * usual.noise(30)


# Under a charter


def test_a_training_under_a_charter(tmp_path):
    noise = mechanism()
    charter, configs = enrol_with_noise(tmp_path, noise)
    grid = MemoryGrid(make_app(changed, measure), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    result = flower.FedAvg().start(grid=secure, initial_arrays=as_record(large_model()), num_rounds=2)
    once = plain_mean(large_model(), number(NODES))
    twice = {name: 2 * value - large_model()[name] for name, value in once.items()}
    expected = math.sqrt(2) * noise.noise(NODES) / NODES
    assert residue(as_model(result.arrays), twice) == pytest.approx(expected, rel=0.06)
    for metrics in result.evaluate_metrics_clientapp.values():
        assert abs(metrics["accuracy"] - 0.535) < 6 * noise.noise(NODES) / NODES
    with pytest.raises(BudgetSpent, match="made for 4 of them"):
        secure.send_and_receive(messages(grid, as_model(result.arrays)))


@pytest.mark.parametrize("given", [{"privacy": DEMAND}, {"metrics": ["loss"]}, {"reliability_bits": 3}])
def test_a_charter_says_all_about_noise(given, tmp_path):
    charter, _ = enrol_with_noise(tmp_path, mechanism())
    with pytest.raises(ConfigError, match=f"^leave out {next(iter(given))} beside a charter"):
        SecureGrid(MemoryGrid(make_app(), NODES), charter=charter, **given)


def test_a_model_of_another_size_needs_another_charter(tmp_path):
    charter, configs = enrol_with_noise(tmp_path, mechanism(SIZE + 1))
    grid = MemoryGrid(make_app(changed), NODES, node_configs=configs)
    with pytest.raises(ConfigError, match="the model has 4096 parameters, but the noise is made for 4097"):
        one_round(grid, large_model(), charter=charter)
    assert grid.passed == []
