"""Rounds under the hybrid agreement, by a setting or a charter: all have *accept*, single ones as well."""

import pytest
from flwr.serverapp import strategy as flower

from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import POST_QUANTUM
from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid
from flower_grid import DROP, MemoryGrid, as_record, lose, make_app, new_model, number
from flower_rounds import NODES, assert_mean, enrol, envelope_of, one_round

ALL_ANSWER = lose(DROP, "")
STEPS = ["advertise", "share", "accept", "mask", "unmask"]


def federation(guard: str, folder, faults=ALL_ANSWER):
    """A grid, and the options of its ``SecureGrid``."""
    if guard == "curious":
        return MemoryGrid(make_app(), NODES, faults=faults), {"post_quantum": True}
    charter, configs = enrol(folder, NODES, agreement=POST_QUANTUM)
    return MemoryGrid(make_app(), NODES, node_configs=configs, faults=faults), {"charter": charter}


def holding(grid) -> list[int]:
    return [node for node in number(NODES) if "ccesa" in grid.state(node)]


@pytest.mark.parametrize("guard", ["curious", "active"])
def test_a_single_round_gives_the_mean_and_leaves_no_keys_behind(guard, tmp_path, said):
    grid, options = federation(guard, tmp_path)
    assert_mean(one_round(grid, **options), number(NODES))
    assert not holding(grid)
    assert any(f"a single round: {5 + (guard == 'active')} exchanges" in line for line in said)


def test_every_round_is_under_the_hybrid_agreement(tmp_path):
    grid, options = federation("curious", tmp_path)
    one_round(grid, **options)
    configs = {envelope_of(one.message)["config"] for one in grid.passed if one.to_node}
    assert {RoundConfig.decode(one).agreement for one in configs} == {POST_QUANTUM}


@pytest.mark.parametrize("step", STEPS)
def test_nodes_that_drop_out_of_a_single_round_are_not_in_its_mean(step, tmp_path):
    grid, options = federation("curious", tmp_path, lose(DROP, step, 1002))
    there = number(NODES) if step == "unmask" else [node for node in number(NODES) if node != 1002]
    assert_mean(one_round(grid, dropout=0.4, **options), there)


def test_a_lost_single_round_leaves_no_keys_behind(tmp_path):
    grid, options = federation("curious", tmp_path, lose(DROP, "mask", *number(NODES)[:4]))
    assert one_round(grid, **options) is None
    assert not holding(grid)


@pytest.mark.parametrize("guard", ["curious", "active"])
def test_a_training_runs_in_a_series(guard, tmp_path, said):
    grid, options = federation(guard, tmp_path)
    result = flower.FedAvg().start(
        grid=SecureGrid(grid, **options), initial_arrays=as_record(new_model()), num_rounds=3
    )
    assert len(result.train_metrics_clientapp) == 3
    assert len(result.evaluate_metrics_clientapp) == 3
    assert not holding(grid)


def test_a_charter_says_it_and_nothing_else_does(tmp_path):
    grid, options = federation("active", tmp_path)
    with pytest.raises(ConfigError, match="leave out post_quantum beside a charter"):
        SecureGrid(grid, post_quantum=True, **options)
