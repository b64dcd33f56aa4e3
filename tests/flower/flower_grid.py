"""A Flower federation in one process, around a real ClientApp, with a hand on every message.

Messages and node states go through Flower's own serialisation, as between processes. ``faults`` decides what
happens to a message; all bytes that pass are recorded.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from flwr.common.serde import context_from_proto, context_to_proto
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from ccesa.flower import secure_mod
from ccesa.flower.server import exchange as server_side

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

#: What can happen to a message.
DROP = "drop"  # the node never sees it
SILENT = "silent"  # the node works on it, its reply is lost
ERROR = "error"  # the transport answers that the node is not there
SLOW = "slow"  # the reply comes after ``delay`` seconds
LATE = "late"  # the reply comes when the messages of the next step have been sent
UNSENT = "unsent"  # the grid could not send it, and gives no id
RESTART = "restart"  # the node has lost its state when the message comes

#: Of step, node and how many messages of this step the node got before: what happens, or None.
Faults = Callable[[str, int, int], str | None]


@dataclass(frozen=True)
class Passed:
    """One message on its way."""

    step: str
    node: int
    to_node: bool
    message: Message = field(repr=False)
    data: bytes = field(repr=False)


class Clock:
    """Stands for the module ``time``: waiting takes no time, and working neither."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class MemoryGrid(Grid):
    """Nodes 1001, 1002, …; work is done while messages are pushed, replies wait until they are pulled."""

    def __init__(
        self,
        app: ClientApp,
        nodes: int,
        *,
        faults: Faults = lambda step, node, count: None,
        node_configs: Mapping[int, dict] | None = None,
        delay: float = 0.0,
        strays: bool = False,
    ) -> None:
        self.app, self.faults, self.delay = app, faults, delay
        self.strays = strays  # pull gives out late replies to earlier messages, too
        configs = node_configs or {}
        self.contexts = {node: new_context(node, configs.get(node, {})) for node in number(nodes)}
        self.passed: list[Passed] = []
        self.most_pulled = 0
        self.tamper: Callable[[Message], None] = lambda message: None
        self._seen: dict[tuple[str, int], int] = {}
        self._ready: dict[str, tuple[float, Message]] = {}
        self._late: dict[str, tuple[float, Message]] = {}

    run = None

    def set_run(self, run) -> None:
        pass

    def create_message(self, *arguments, **others) -> Message:
        return Message(*arguments, **others)

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        for message in messages:  # like Flower's own grid, which goes through them twice
            self.tamper(message)
        late, self._late = self._late, {}
        ids = [self._deliver(message) for message in messages]
        self._ready |= late
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        self.most_pulled = max(self.most_pulled, len(list(message_ids)))
        now, asked = server_side.time.monotonic(), set(message_ids)
        due = [one for one, (when, _) in self._ready.items() if when <= now and (self.strays or one in asked)]
        return [self._ready.pop(one)[1] for one in due]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))

    def steps(self, node: int) -> list[str]:
        """Of the messages that were sent to this node."""
        return [one.step for one in self.passed if one.to_node and one.node == node]

    def replies(self, step: str) -> list[Message]:
        return [one.message for one in self.passed if one.step == step and not one.to_node]

    def state(self, node: int) -> RecordDict:
        return self.contexts[node].state

    def _deliver(self, message: Message) -> str:
        node, step = message.metadata.dst_node_id, step_of(message)
        message.metadata.__dict__["_message_id"] = name = message.object_id
        arrived = self._transfer(message, step, node, to_node=True)
        count = self._seen[step, node] = self._seen.get((step, node), -1) + 1
        fault = self.faults(step, node, count)
        if fault == UNSENT:
            return ""
        if fault == ERROR:
            gone = Message(Error(code=5, reason="Node unavailable"), reply_to=arrived)
            self._ready[name] = 0.0, gone
        elif fault != DROP:
            if fault == RESTART:
                self.contexts[node].state = RecordDict()
            reply = self._transfer(self._work(arrived, node), step, node, to_node=False)
            when = server_side.time.monotonic() + (self.delay if fault == SLOW else 0.0)
            if fault != SILENT:
                (self._late if fault == LATE else self._ready)[name] = when, reply
        return name

    def _work(self, message: Message, node: int) -> Message:
        """As Flower's own runner: an exception's text goes into the reply; the state is stored anyway."""
        context = self.contexts[node]
        try:
            reply = self.app(message, context)
        except Exception as error:
            reply = Message(Error(code=2, reason=f"{type(error)}:<'{error}'>"), reply_to=message)
        self.contexts[node] = context_from_proto(context_to_proto(context))
        return reply

    def _transfer(self, message: Message, step: str, node: int, *, to_node: bool) -> Message:
        contents = {name: one.deflate() for name, one in get_all_nested_objects(message).items()}
        self.passed.append(Passed(step, node, to_node, message, b"".join(contents.values())))
        arrived = inflate_object_from_contents(message.object_id, contents)
        arrived.metadata.__dict__["_message_id"] = message.object_id
        return arrived


def number(nodes: int) -> range:
    return range(1001, 1001 + nodes)


def all_say(nodes: int, config: dict) -> dict[int, dict]:
    """The same configuration of every node."""
    return {node: dict(config) for node in number(nodes)}


def new_context(node: int, config: dict) -> Context:
    return Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})


def step_of(message: Message) -> str:
    """The step of the protocol; the type of a plain message."""
    record = message.content.config_records.get("ccesa")
    return str(record["step"]) if record is not None else message.metadata.message_type


def lose(fault: str, step: str, *nodes: int, times: Iterable[int] = (0,)) -> Faults:
    """This happens to these nodes in this step, at these of its occurrences."""
    when = set(times)
    return lambda at, node, count: fault if at == step and node in nodes and count in when else None


Train = Callable[[int, dict[str, np.ndarray]], tuple[dict[str, np.ndarray], dict]]
Evaluate = Callable[[int, dict[str, np.ndarray]], dict]


def weight_of(node: int) -> int:
    return 100 + node % 7 * 13


def trained(node: int, model: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict]:
    """What a node makes of a model: its own change, one batch in the counters, its own weight and metrics."""
    rng = np.random.default_rng(node)
    new = {
        name: np.asarray(value + rng.uniform(-0.5, 0.5, value.shape), value.dtype)
        if value.dtype.kind == "f" and not name.startswith("batches")
        else np.asarray(np.rint(value) + node % 100 + 5, np.int64)
        for name, value in model.items()
    }
    return new, {"num-examples": weight_of(node), "loss": node / 7.0, "per-class": [node * 0.25, -1.5]}


def evaluated(node: int, model: Mapping[str, np.ndarray]) -> dict:
    return {"num-examples": weight_of(node), "accuracy": (node % 10) / 10, "loss": float(model["w"].sum())}


def make_app(
    train: Train = trained,
    evaluate: Evaluate = evaluated,
    mods: Iterable[Mod] = (),
    outer: Iterable[Mod] = (secure_mod,),
    train_mods: list[Mod] | None = None,
    evaluate_mods: list[Mod] | None = None,
) -> ClientApp:
    """``app.calls`` has the kind and the node of every call of the app itself."""
    app = ClientApp(mods=[*outer, *mods])
    app.calls = []

    @app.train(mods=train_mods)
    def on_train(message: Message, context: Context) -> Message:
        app.calls.append(("train", context.node_id))
        arrays, metrics = train(context.node_id, model_in(message))
        record = ArrayRecord({name: Array(value) for name, value in arrays.items()})
        content = {"arrays": record, "metrics": MetricRecord(metrics)}
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate(mods=evaluate_mods)
    def on_evaluate(message: Message, context: Context) -> Message:
        app.calls.append(("evaluate", context.node_id))
        metrics = evaluate(context.node_id, model_in(message))
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    @app.query()
    def on_query(message: Message, context: Context) -> Message:
        app.calls.append(("query", context.node_id))
        return Message(RecordDict({"metrics": MetricRecord({"node": context.node_id})}), reply_to=message)

    return app


def model_in(message: Message) -> dict[str, np.ndarray]:
    record = next(iter(message.content.array_records.values()))
    return {name: array.numpy() for name, array in record.items()}


def new_model(dtype=np.float32, seed: int = 5) -> dict[str, np.ndarray]:
    """Nodes work on a model once: a second round needs another seed."""
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=(8, 4)).astype(dtype), "b": rng.normal(size=4).astype(dtype)}


def as_record(model: Mapping[str, np.ndarray]) -> ArrayRecord:
    return ArrayRecord({name: Array(value) for name, value in model.items()})


def as_model(record: ArrayRecord) -> dict[str, np.ndarray]:
    return {name: array.numpy() for name, array in record.items()}


def mean(model: Mapping[str, np.ndarray], nodes: Iterable[int], train: Train = trained) -> dict:
    """The weighted mean of what these nodes make of the model, computed in the clear."""
    results = [train(node, model) for node in nodes]
    weights = np.array([metrics["num-examples"] for _, metrics in results], np.float64)
    return {
        name: np.average([new[name].astype(np.float64) for new, _ in results], axis=0, weights=weights)
        for name in model
    }


def probing() -> ClientApp:
    """An app with a second function, which learns nothing: a server could send all nodes there but one."""
    app = make_app()

    @app.train("probe")
    def on_probe(message: Message, context: Context) -> Message:
        app.calls.append(("train.probe", context.node_id))
        content = {"arrays": as_record(model_in(message)), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    return app
