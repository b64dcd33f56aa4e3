"""The nodes of ``bench.flower.side_by_side``: a process that answers Flower messages, byte for byte."""

import importlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

Model = list[NDArray[np.float32]]
Train = Callable[[Model, int, int], tuple[Model, int]]  # model, node, round -> new model, examples

NODES = 20
HIDDEN, EPOCHS, BATCH, RATE = 128, 5, 16, 0.2


def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(1).permutation(len(found.target))
    return (found.data[order] / 16.0).astype(np.float32), found.target[order]


def test_size(count: int) -> int:
    return count // 5


def new_model() -> Model:
    rng = np.random.default_rng(2)
    shapes = [(64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,)]
    scales = [0.125, 0.0, HIDDEN**-0.5, 0.0]
    return [(rng.normal(size=s) * k).astype(np.float32) for s, k in zip(shapes, scales, strict=True)]


def accuracy(model: Model) -> float:
    """On the fifth of the examples that no node has."""
    images, labels = digits()
    held = test_size(len(labels))
    return float(np.mean(_scores(model, images[:held])[1].argmax(1) == labels[:held]))


def _scores(model: Model, images: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    hidden = np.maximum(images @ model[0] + model[1], 0)
    return hidden, hidden @ model[2] + model[3]


def train_digits(model: Model, node: int, round: int) -> tuple[Model, int]:
    """Stochastic gradient descent; the same for the same node and round, whichever way it is aggregated."""
    images, labels = digits()
    places = np.array_split(np.arange(test_size(len(labels)), len(labels)), NODES)[node]
    model, rng = [array.copy() for array in model], np.random.default_rng([node, round])
    for _ in range(EPOCHS):
        for batch in np.array_split(rng.permutation(places), max(len(places) // BATCH, 1)):
            _descend(model, images[batch], labels[batch])
    return model, len(places)


def _descend(model: Model, images: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
    hidden, scores = _scores(model, images)
    slope = np.exp(scores - scores.max(1, keepdims=True))
    slope /= slope.sum(1, keepdims=True)
    slope[np.arange(len(labels)), labels] -= 1
    slope /= len(labels)
    back = (slope @ model[2].T) * (hidden > 0)
    for array, change in zip(model, (images.T @ back, back.sum(0), hidden.T @ slope, slope.sum(0)), strict=True):
        array -= np.float32(RATE) * change


def train_large(model: Model, node: int, round: int) -> tuple[Model, int]:
    """No learning, only a model of the right size that changed a little."""
    return [array + np.float32((node + 1) / 100) for array in model], node + 1


@dataclass
class Nodes:
    """All nodes, each with its own context."""

    way: str
    train: Train
    contexts: dict[int, Any] = field(default_factory=dict)
    training_s: float = 0.0
    mod_s: float = 0.0

    def answer(self, data: bytes, round: int) -> bytes:
        from flwr.app import Error, Message
        from flwr.common.constant import ErrorCode
        from flwr.common.serde import message_from_proto, message_to_proto
        from flwr.proto.message_pb2 import Message as Proto

        message = message_from_proto(Proto.FromString(data))
        number = message.metadata.dst_node_id - 1
        start, before = time.process_time(), self.training_s
        try:
            reply = self._mod()(message, self._context(number), self._app(number, round))
        except Exception as error:  # a node of Flower answers with it
            reply = Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=repr(error)), reply_to=message)
        self.mod_s += time.process_time() - start - (self.training_s - before)
        return message_to_proto(reply).SerializeToString()

    def _mod(self) -> Callable[..., Any]:
        if self.way == "secagg+":
            return importlib.import_module("flwr.client.mod.secure_aggregation.secaggplus_mod").secaggplus_mod
        if self.way == "ccesa":
            from ccesa.flower import secure_mod

            return secure_mod
        return lambda message, context, app: app(message, context)

    def _context(self, number: int) -> Any:
        from flwr.app import Context, RecordDict

        if number not in self.contexts:
            self.contexts[number] = Context(1, number + 1, {}, RecordDict(), {})
        return self.contexts[number]

    def _app(self, number: int, round: int) -> Callable[[Any, Any], Any]:
        return lambda message, _: (self._legacy if self.way == "secagg+" else self._new)(message, number, round)

    def _new(self, message: Any, number: int, round: int) -> Any:
        """An app of the Message API."""
        from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

        arrays, examples = self._trained(message.content["arrays"].to_numpy_ndarrays(), number, round)
        names = list(message.content["arrays"])
        content = {
            "arrays": ArrayRecord({name: Array(value) for name, value in zip(names, arrays, strict=True)}),
            "metrics": MetricRecord({"num-examples": examples}),
        }
        return Message(RecordDict(content), reply_to=message)

    def _legacy(self, message: Any, number: int, round: int) -> Any:
        """A client of the older API, which SecAgg+ is for."""
        from flwr.common import Code, FitRes, Message, Status, ndarrays_to_parameters, parameters_to_ndarrays
        from flwr.compat.common import recorddict_compat as compat

        asked = compat.recorddict_to_fitins(message.content, keep_input=True)
        arrays, examples = self._trained(parameters_to_ndarrays(asked.parameters), number, round)
        result = FitRes(Status(code=Code.OK, message=""), ndarrays_to_parameters(arrays), examples, {})
        return Message(compat.fitres_to_recorddict(result, False), reply_to=message)

    def _trained(self, model: Model, number: int, round: int) -> tuple[Model, int]:
        start = time.process_time()
        result = self.train(model, number, round)
        self.training_s += time.process_time() - start
        return result


def serve(connection: Connection, way: str, train: Train) -> None:
    """Answers until there is an empty request; then says how long the nodes took."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    nodes = Nodes(way, train)
    while True:
        round, data = connection.recv()
        if not data:
            connection.send({"mod_s": nodes.mod_s, "training_s": nodes.training_s})
            return
        connection.send_bytes(nodes.answer(data, round))
