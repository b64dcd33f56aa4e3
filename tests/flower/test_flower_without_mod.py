"""Apps in which somebody forgot ``secure_mod``: one error, or one line, that says what to do."""

import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as flower

from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid, secure_mod
from flower_grid import ERROR, MemoryGrid, as_record, lose, make_app, new_model, number, step_of
from flower_rounds import NODES, assert_mean, enrol, messages, one_round


def plain_app() -> ClientApp:
    """Looks for its model, as apps do: there is none in the first message."""
    return make_app(outer=[])


def modest_app() -> ClientApp:
    """Does not look for a model, and answers."""
    app = ClientApp()

    @app.train()
    def on_train(message: Message, context: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=message)

    return app


def app_with_mod_on(*nodes: int) -> ClientApp:
    def mod(message: Message, context: Context, call_next) -> Message:
        if context.node_id not in nodes:
            return call_next(message, context)
        return secure_mod(message, context, call_next)

    return make_app(outer=[mod])


def start(grid, **others):
    strategy = flower.FedAvg(**others)
    return strategy.start(grid=grid, initial_arrays=as_record(new_model()), num_rounds=3)


@pytest.mark.parametrize("app", [plain_app, modest_app])
def test_no_node_with_the_mod_is_one_error_after_the_first_step(app, said):
    grid = MemoryGrid(app(), NODES)
    with pytest.raises(ConfigError, match=r"no node has secure_mod.*ClientApp\(mods=\[secure_mod\]\)"):
        start(SecureGrid(grid))
    assert all(grid.steps(node) == ["advertise"] for node in number(NODES))
    assert not any("KeyError" in line or "secure_mod" in line for line in said)


def test_no_node_with_the_mod_under_active(tmp_path):
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(plain_app(), NODES, node_configs=configs)
    with pytest.raises(ConfigError, match="no node has secure_mod"):
        start(SecureGrid(grid, charter=charter))
    assert all(grid.steps(node) == ["introduce"] for node in number(NODES))


def test_a_few_nodes_that_are_not_there_do_not_hide_it():
    grid = MemoryGrid(plain_app(), NODES, faults=lose(ERROR, "advertise", 1001, 1002))
    with pytest.raises(ConfigError, match="no node has secure_mod: 4 nodes"):
        one_round(grid)


def test_nodes_that_are_not_there_say_nothing_about_the_mod():
    """One node answers without it, the others do not answer: that is a lost round."""
    grid = MemoryGrid(plain_app(), NODES, faults=lose(ERROR, "advertise", *list(number(NODES))[1:]))
    assert one_round(grid) is None


@pytest.mark.parametrize("guard", ["curious", "active"])
def test_some_nodes_without_the_mod_are_one_line(guard, tmp_path, said):
    charter, configs = enrol(tmp_path, NODES)
    active = {"charter": charter} if guard == "active" else {}
    app = app_with_mod_on(1001, 1003, 1004, 1006)
    grid = MemoryGrid(app, NODES, node_configs=configs if active else {})
    reply = one_round(grid, **active)
    assert_mean(reply, [node for node in number(NODES) if node not in (1002, 1005)])
    (line,) = [line for line in said if "secure_mod" in line]
    assert "2 nodes (1002, 1005) answered without secure_mod: add it to the ClientApp" in line
    assert sum("KeyError" in line or "StopIteration" in line for line in said) <= 1


def test_the_mod_on_train_alone_is_an_error_when_it_comes_to_evaluation():
    app = make_app(outer=[], train_mods=[secure_mod])
    with pytest.raises(ConfigError, match=r"secure_mod.*@app\.evaluate.*secure_evaluate=False"):
        start(SecureGrid(MemoryGrid(app, NODES)))
    assert [kind for kind, _ in app.calls].count("train") == NODES


def test_an_app_that_fails_later_is_no_app_without_the_mod():
    """All nodes answered in the first round; in the second a mod outside ``secure_mod`` raises."""
    times = {}

    def failing(message: Message, context: Context, call_next) -> Message:
        times[context.node_id] = times.get(context.node_id, 0) + 1
        if times[context.node_id] == 6:
            raise RuntimeError("no memory")
        return call_next(message, context)

    grid = MemoryGrid(make_app(outer=[failing, secure_mod]), NODES)
    result = start(SecureGrid(grid), fraction_evaluate=0.0)
    assert set(result.train_metrics_clientapp) == {1, 3}


def test_an_exception_after_the_first_step_says_nothing_about_the_mod(said):
    """The node answered before. It may hold keys, as the mod was not called, and is told to forget them."""

    def failing(message: Message, context: Context, call_next) -> Message:
        if context.node_id == 1003 and step_of(message) == "mask":
            raise RuntimeError("no memory")
        return call_next(message, context)

    grid = MemoryGrid(make_app(outer=[failing, secure_mod]), NODES)
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1003])
    assert not any("secure_mod" in line for line in said)
    assert sum("node 1003" in line and "no memory" in line for line in said) == 1
    assert "ccesa" not in grid.state(1003)


def test_a_few_nodes_with_the_mod_are_too_few_for_a_round_and_no_error(said):
    assert one_round(MemoryGrid(app_with_mod_on(1001), NODES)) is None
    (line,) = [line for line in said if "nodes is lost" in line]
    assert "5 nodes (1002, 1003, 1004, 1005, 1006) without secure_mod" in line


def test_nodes_that_refuse_have_the_mod():
    configs = {node: {"ccesa-floor-clients": 100} for node in number(NODES)}
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    assert list(SecureGrid(grid).send_and_receive(messages(grid, new_model()))) == []
