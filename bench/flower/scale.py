"""A secure round in Flower with many nodes: does it complete, and how much memory does the server need?

``python -m bench.flower.scale`` measures 50 and 200 nodes with a million parameters, each in a process of its
own, and prints JSON. The nodes, real ClientApps with a state each, live together in a second process, so that
what is measured is the server's memory alone: SecureGrid, the protocol's server, and the replies it holds.
"""

import argparse
import json
import logging
import multiprocessing
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from ccesa.flower import SecureGrid, secure_mod
from ccesa.flower.both.envelope import KEY

LENGTH = 1_000_000
NODES = (50, 200)
#: One node in so many does not answer in the masking step.
LOST = 20
_MIB = 1 << 20


def weight(node: int) -> int:
    return 10 + node % 90


def change(node: int) -> float:
    """The same for all parameters: the mean is known without a second million."""
    return (node % 101 - 50) / 100


def serve(pipe: Connection) -> None:
    """The process of all nodes: requests in, replies out, until None comes."""
    _identify()
    app = ClientApp(mods=[secure_mod])
    model = ArrayRecord({"w": Array(np.zeros(LENGTH, np.float32))})
    contexts: dict[int, Any] = {}

    @app.train()  # type: ignore[untyped-decorator]  # flwr is not typed for us
    def train(message: Any, context: Any) -> Any:
        values = np.full(LENGTH, change(context.node_id), np.float32)
        metrics = MetricRecord({"num-examples": weight(context.node_id)})
        content = RecordDict({"arrays": ArrayRecord({"w": Array(values)}), "metrics": metrics})
        return Message(content, reply_to=message)

    while (request := pipe.recv()) is not None:
        node, fields = request
        if node not in contexts:
            contexts[node] = Context(1, node, {}, RecordDict(), {})
        content = RecordDict({KEY: ConfigRecord(fields)})
        if fields["step"] == "mask":
            content["arrays"] = model
        reply = app(Message(content, node, "train"), contexts[node])
        pipe.send(dict(reply.content.config_records[KEY]))


class PipeGrid(Grid):  # type: ignore[misc]  # flwr is not typed for us
    """A grid whose nodes are at the other end of a pipe; they work when their reply is asked for."""

    run = None

    def __init__(self, pipe: Connection, nodes: int) -> None:
        self._pipe, self._nodes = pipe, nodes
        self._waiting: dict[str, Any] = {}
        self._sent = 0

    def set_run(self, run: Any) -> None:
        pass

    def create_message(self, *arguments: Any, **others: Any) -> Any:
        return Message(*arguments, **others)

    def get_node_ids(self) -> list[int]:
        return list(range(1, self._nodes + 1))

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        return [self._push(message) for message in messages]

    def _push(self, message: Any) -> str:
        self._sent += 1
        message.metadata.__dict__["_message_id"] = name = str(self._sent)
        self._waiting[name] = message
        return name

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        asked = [self._waiting.pop(name, None) for name in message_ids]
        return [self._ask(message) for message in asked if message is not None]

    def _ask(self, message: Any) -> Any:
        node, fields = message.metadata.dst_node_id, dict(message.content.config_records[KEY])
        if fields["step"] == "mask" and node % LOST == 0:
            return Message(Error(code=5, reason="node unavailable"), reply_to=message)
        self._pipe.send((node, fields))
        return Message(RecordDict({KEY: ConfigRecord(self._pipe.recv())}), reply_to=message)

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
        return self.pull_messages(self.push_messages(messages))


def measure(nodes: int) -> dict[str, Any]:
    """One round in this process, with the nodes in another."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    worker.start()
    _identify()
    secure = SecureGrid(PipeGrid(ours, nodes), dropout=0.1)
    content = RecordDict({"arrays": ArrayRecord({"w": Array(np.zeros(LENGTH, np.float32))})})
    before, start = _peak(), time.perf_counter()
    replies = list(secure.send_and_receive([Message(content, node, "train") for node in range(1, nodes + 1)]))
    took, after = time.perf_counter() - start, _peak()
    ours.send(None)
    worker.join()
    survivors = [node for node in range(1, nodes + 1) if node % LOST]
    return {
        "nodes": nodes,
        "parameters": LENGTH,
        "survivors": len(survivors),
        "error": _error(replies[0], survivors),
        "seconds": round(took, 1),
        "server_peak_mib": round(after / _MIB, 1),
        "server_growth_mib": round((after - before) / _MIB, 1),
    }


def _error(reply: Any, survivors: list[int]) -> float:
    expected = np.average([change(node) for node in survivors], weights=[weight(node) for node in survivors])
    found = reply.content["arrays"]["w"].numpy()
    return float(np.abs(found - expected).max())


def _identify() -> None:
    """As inside of a ServerApp or ClientApp."""
    TaskIdentity.run_id = TaskIdentity.task_id = 1
    TaskIdentity.node_id = 0  # none of the nodes: many share this process


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, help="one measurement, in this process")
    chosen = parser.parse_args().nodes
    if chosen is not None:
        print(json.dumps(measure(chosen)))
        return
    rows = []
    for nodes in NODES:
        command = [sys.executable, "-m", "bench.flower.scale", "--nodes", str(nodes)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own command
        rows.append(json.loads(done.stdout))
    fewest, most = rows[0], rows[-1]
    growth = (most["server_growth_mib"] - fewest["server_growth_mib"]) * 1024
    print(json.dumps({"rounds": rows, "kib_per_node": round(growth / (most["nodes"] - fewest["nodes"]), 1)}))


if __name__ == "__main__":
    main()
