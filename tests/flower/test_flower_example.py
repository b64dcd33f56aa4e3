"""examples/flower-quickstart: its apps, driven in memory, learn the same secure as plain."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")
pytest.importorskip("sklearn")

from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import ccesa
from ccesa.agreement.charter import Learning
from flower_rounds import enrol

pytestmark = pytest.mark.flower

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-quickstart"
NODES = 5
CONFIG = {
    "num-server-rounds": 2,
    "local-epochs": 5,
    "learning-rate": 0.2,
    "batch-size": 16,
    "seed": 1,
    "min-nodes": NODES,
    "compare": False,
    "charter": "",
    "deadline": 60.0,
}


class Memory:
    """A grid that hands every message straight to the example's ClientApp."""

    def __init__(self, app, node_configs=None):
        self._app = app
        own = node_configs or {}
        where = {"num-partitions": NODES}
        self._contexts = {
            node: Context(1, node, {**where, "partition-id": node - 1, **own.get(node, {})}, RecordDict(), dict(CONFIG))
            for node in range(1, NODES + 1)
        }
        self._replies = {}
        self.kinds = set()

    def get_node_ids(self):
        return list(self._contexts)

    def push_messages(self, messages):
        ids = []
        for message in messages:
            message_id = f"message {len(ids)} of {len(self._replies)}"
            message.metadata.__dict__["_message_id"] = message_id  # as Flower's own grids do
            copy = Message(RecordDict(dict(message.content)), metadata=message.metadata)
            self._replies[message_id] = self._app(copy, self._contexts[message.metadata.dst_node_id])
            self.kinds |= {frozenset(self._replies[message_id].content)}
            ids.append(message_id)
        return ids

    def pull_messages(self, message_ids):
        return [self._replies.pop(one) for one in set(message_ids) if one in self._replies]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))


@pytest.fixture
def example(monkeypatch):
    """The example's two apps."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name, value in (("_task_id", 1), ("_run_id", 1), ("_node_id", 0)):
        monkeypatch.setattr(TaskIdentity, name, value)
    yield importlib.import_module("digits.client_app"), importlib.import_module("digits.server_app")
    for name in [name for name in sys.modules if name.split(".")[0] == "digits"]:
        del sys.modules[name]


def test_the_example_learns_the_same_both_ways(example):
    client_app, server_app = example
    grid = Memory(client_app.app)
    ways = (server_app.PlainGrid(NODES, CONFIG), server_app.secured(grid, CONFIG))
    plain, secure = (server_app.run(way, CONFIG) for way in ways)
    assert server_app.accuracy(plain) > 0.6
    assert abs(server_app.accuracy(secure) - server_app.accuracy(plain)) < 0.01
    assert server_app.difference(plain, secure) < 1e-2  # training carries differences on


def test_one_round_from_the_same_model_differs_by_what_rounding_explains(example):
    client_app, server_app = example
    grid = Memory(client_app.app)
    start = server_app.run(server_app.PlainGrid(NODES, CONFIG), {**CONFIG, "num-server-rounds": 1}).arrays
    said = server_app.rounding(grid, CONFIG, start)
    found, bound = map(float, re.findall(r"[0-9.]+e?-?[0-9]*", said.replace(";", "")))
    assert 0 < found <= bound * 1.01 + 1e-6  # printed with two digits; float32 on both sides
    assert bound < 1e-4


def test_the_secure_way_sends_nothing_but_the_protocol(example):
    client_app, server_app = example
    grid = Memory(client_app.app)
    server_app.run(server_app.secured(grid, CONFIG), {**CONFIG, "num-server-rounds": 1})
    assert grid.kinds == {frozenset({"ccesa"})}


def test_the_example_under_a_charter(example, tmp_path):
    """As its README says, with the metrics that it names."""
    client_app, server_app = example
    named = re.search(r"^metrics = (\[.*\])$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    learning = Learning(metrics=tuple(json.loads(named[1])))
    charter, configs = enrol(tmp_path, NODES, learning=learning)
    grid = Memory(client_app.app, {node - 1000: config for node, config in configs.items()})
    secure = server_app.secured(grid, {**CONFIG, "charter": str(tmp_path / "charter.toml")})
    result = server_app.run(secure, {**CONFIG, "num-server-rounds": 1})
    assert charter == ccesa.Charter.load(tmp_path / "charter.toml")
    assert set(result.train_metrics_clientapp[1]) == {"train-loss"}
    assert set(result.evaluate_metrics_clientapp[1]) == {"eval-loss", "eval-accuracy"}
    assert grid.kinds == {frozenset({"ccesa"})}


def test_every_example_is_on_one_node_and_none_of_the_tests_is_on_any(example):
    task = importlib.import_module("digits.task")
    parts = [task.load_partition(node, 20) for node in range(20)]
    sizes = [len(part) for part in parts]
    assert sum(sizes) + len(task.load_test_set()) == 1797
    assert (min(sizes), max(sizes)) == (36, 108)
