"""The same training three ways: FedAvg, Flower's SecAgg+, and ours: ``python -m bench.flower.side_by_side``.

The server runs in one process, all nodes in a second one. Messages are Flower's, as protobuf bytes through a
pipe; all nodes have answered when the server asks. FedAvg and ``SecureGrid`` run through ``Strategy.start``,
all rounds in one; SecAgg+ runs as its own workflow and mod of the older API, one call a round. Times are
processor time without training and without turning messages into bytes; the ways take turns, and medians are
shown with the lowest and the highest. A lost node answers with Flower's error for unreachable nodes from some
step of the round on. Writes bench/flower/side_by_side.json and the table in docs/flower.md.
"""

import argparse
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.flower.nodes import NODES, Model, Train, accuracy, new_model, serve, train_digits, train_large

HERE = Path(__file__).parent
ROUNDS = 5
TURNS = 3
LARGE = 1_000_000
WAYS = {"plain": "FedAvg", "secagg+": "Flower's SecAgg+", "ccesa": "FedAvg through `SecureGrid`"}
STEPS = {
    "plain": ["train"],
    "secagg+": ["setup", "share keys", "collect masked vectors", "unmask"],
    "ccesa": ["advertise", "share", "mask", "unmask"],
}
#: Who is timed, and under which name.
PARTIES = {"a node": "node_s", "the server": "server_s"}
_START, _END = "<!-- from bench/flower/side_by_side.py -->", "<!-- end of bench/flower/side_by_side.py -->"


class Wire:
    """A grid: messages become bytes and go to the nodes' process. It counts, and it can lose a node."""

    def __init__(self, way: str, train: Train) -> None:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        self._pipe = ours
        self._process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, way, train))
        self._process.start()
        self.round = 0
        self.lost: tuple[int, int] | None = None  # node and step
        self._asked: dict[int, int] = {}
        self._waiting: dict[str, Any] = {}
        self.sent = self.received = 0  # bytes of all nodes
        self.messages = 0
        self.coding_s = 0.0

    def next_round(self) -> None:
        self.round, self._asked = self.round + 1, {}

    def close(self) -> dict[str, float]:
        self._pipe.send((0, b""))
        found: dict[str, float] = self._pipe.recv()
        self._process.join()
        return found

    def get_node_ids(self) -> list[int]:
        return list(range(1, NODES + 1))

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        for message in messages:
            message.metadata.__dict__["_message_id"] = os.urandom(8).hex()  # as Flower's own grids do
            self._waiting[message.metadata.message_id] = message
        return list(self._waiting)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        """All replies that are asked for, in one list, as from nodes that have answered long ago."""
        return [self._answer(self._waiting.pop(one)) for one in message_ids if one in self._waiting]

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Any) -> Any:
        from flwr.app import Error, Message
        from flwr.common.constant import ErrorCode
        from flwr.common.serde import message_from_proto, message_to_proto
        from flwr.proto.message_pb2 import Message as Proto

        node = message.metadata.dst_node_id
        step = self._asked[node] = self._asked.get(node, -1) + 1
        if self.lost is not None and node == self.lost[0] and step >= self.lost[1]:
            return Message(Error(code=ErrorCode.NODE_UNAVAILABLE, reason="gone"), reply_to=message)
        start, self.messages = time.process_time(), self.messages + 1
        data = message_to_proto(message).SerializeToString()
        self._pipe.send((self.round, data))
        reply = self._pipe.recv_bytes()
        self.received, self.sent = self.received + len(data), self.sent + len(reply)
        answer = message_from_proto(Proto.FromString(reply))
        self.coding_s += time.process_time() - start
        return answer


#: So many rounds that start from a model.
Rounds = Callable[[Model, int], Model | None]


def message_api(wire: Wire, secure: bool) -> Rounds:
    """FedAvg of the Message API."""
    from flwr.app import Array, ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    grid: Any = wire
    if secure:
        from ccesa.flower import SecureGrid

        grid = SecureGrid(wire)

    class Counting(FedAvg):  # type: ignore[misc]
        def configure_train(self, *arguments: Any) -> Any:
            wire.next_round()
            return super().configure_train(*arguments)

    def run(model: Model, rounds: int) -> Model | None:
        arrays = ArrayRecord({str(place): Array(value) for place, value in enumerate(model)})
        strategy = Counting(fraction_evaluate=0.0)
        found = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=rounds).arrays
        return found.to_numpy_ndarrays() if found else None

    return run


def secagg_plus(wire: Wire) -> Rounds:
    """SecAgg+ with as many neighbours and the threshold that our planner takes for so many nodes."""
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.common import Context, RecordDict
    from flwr.server import LegacyContext, ServerConfig, SimpleClientManager
    from flwr.server.client_proxy import ClientProxy
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

    class Proxy(ClientProxy):  # type: ignore[misc]
        get_properties = get_parameters = fit = evaluate = reconnect = None

    manager = SimpleClientManager()
    for number in wire.get_node_ids():
        proxy = Proxy(str(number))
        proxy.node_id = number
        manager.register(proxy)
    strategy = FedAvg(min_fit_clients=NODES, min_available_clients=NODES)
    context = LegacyContext(Context(1, 0, {}, RecordDict(), {}), ServerConfig(ROUNDS), strategy, manager)
    shares, threshold = neighbours()
    workflow = SecAggPlusWorkflow(shares, threshold)

    def run(model: Model, rounds: int) -> Model | None:
        context.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord(model)
        for _ in range(rounds):
            wire.next_round()
            context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: wire.round})
            workflow(wire, context)
        found: Model = context.state.array_records[MAIN_PARAMS_RECORD].to_numpy_ndarrays()
        same = all(np.array_equal(new, old) for new, old in zip(found, model, strict=True))
        return None if same else found

    return run


def neighbours() -> tuple[int, int]:
    """Shares a node makes, and how many of them open a secret."""
    from ccesa.plan.planner import plan_or_complete

    planned = plan_or_complete(NODES, 0.1)
    return int(planned.degree) + 1, planned.t


class Session:
    """One way, with its own nodes."""

    def __init__(self, way: str, train: Train) -> None:
        self.wire = Wire(way, train)
        self.run = secagg_plus(self.wire) if way == "secagg+" else message_api(self.wire, way == "ccesa")


def training(way: str) -> dict[str, Any]:
    """ROUNDS rounds on the digits: accuracy, time and bytes."""
    session, model = Session(way, train_digits), new_model()
    start = time.process_time()
    model = session.run(model, ROUNDS) or model
    server = time.process_time() - start - session.wire.coding_s
    nodes = session.wire.close()
    size = sum(array.size for array in model)
    return {
        "accuracy": accuracy(model),
        "model": [array.tolist() for array in model],
        "parameters": size,
        "messages": session.wire.messages / NODES,
        "server_s": server / ROUNDS,
        "node_s": nodes["mod_s"] / ROUNDS / NODES,
        "sent_per_parameter": session.wire.sent / ROUNDS / NODES / size,
        "received_per_parameter": session.wire.received / ROUNDS / NODES / size,
    }


def large(way: str) -> dict[str, Any]:
    """One round of a large model: what the server's memory grows by, and the bytes."""
    session, model = Session(way, train_large), [np.zeros(LARGE, np.float32)]
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, start = _memory("VmRSS"), time.process_time()
    result = session.run(model, 1)
    grown = _memory("VmHWM") - before
    server = time.process_time() - start - session.wire.coding_s
    nodes = session.wire.close()
    return {
        "right": result is not None and _largest(result, expected(model, train_large, set())) < 1e-3,
        "server_memory_mb": grown,
        "server_s": server,
        "node_s": nodes["mod_s"] / NODES,
        "sent_per_parameter": session.wire.sent / NODES / LARGE,
        "received_per_parameter": session.wire.received / NODES / LARGE,
    }


def losses(way: str) -> dict[str, str]:
    """What becomes of a round when one node is lost at each of its steps."""
    model, found = new_model(), {}
    means = {n: expected(model, train_digits, lost) for n, lost in ((NODES, set()), (NODES - 1, {2}))}
    for place, step in enumerate(STEPS[way]):
        session = Session(way, train_digits)
        session.wire.lost = (3, place)
        result = session.run(model, 1)
        session.wire.close()
        found[step] = _outcome(result, means)
    return found


def _outcome(result: Model | None, means: dict[int, Model]) -> str:
    if result is None:
        return "no new model"
    count, off = min(((count, _largest(result, mean)) for count, mean in means.items()), key=lambda pair: pair[1])
    return f"mean of {count}" if off < 1e-3 else "another model"


def expected(model: Model, train: Train, lost: set[int]) -> Model:
    """The weighted mean over all nodes that are not lost, in the first round."""
    results = [train(model, node, 1) for node in range(NODES) if node not in lost]
    total = sum(examples for _, examples in results)
    mean = [np.zeros(array.shape, np.float64) for array in model]
    for arrays, examples in results:
        for place, array in enumerate(arrays):
            mean[place] += array * (examples / total)
    return [array.astype(np.float32) for array in mean]


def _largest(one: Model, other: Model) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def _memory(name: str) -> float:
    """Megabytes, from the kernel's own account of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1e3


def measure(way: str) -> dict[str, Any]:
    from flwr.supercore.task_identity import TaskIdentity

    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    TaskIdentity.task_id = TaskIdentity.run_id = 1  # as inside a ServerApp
    TaskIdentity.node_id = 0
    return {"large": large(way), "training": training(way), "losses": losses(way)}


def _in_own_process(way: str) -> dict[str, Any]:
    print(f"· {WAYS[way]}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "bench.flower.side_by_side", "--way", way]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603 - ours
    return dict(json.loads(done.stdout))


def table(results: dict[str, Any]) -> str:
    ways = results["ways"]

    def row(name: str, cell: Callable[[dict[str, Any]], str]) -> str:
        return f"| {name} | {' | '.join(cell(ways[way]) for way in WAYS)} |"

    learnt, big = results["parameters"], f"{LARGE:,}"
    lines = [
        f"| | {' | '.join(WAYS.values())} |",
        "|---|" + "---:|" * len(WAYS),
        row(f"accuracy after {ROUNDS} rounds", lambda one: f"{one['training']['accuracy']:.4f}"),
        row("largest difference to FedAvg's model", lambda one: _difference(one["difference"])),
        row(f"messages to a node in {ROUNDS} rounds", lambda one: f"{one['training']['messages']:.0f}"),
        *(
            row(f"{party} in a round, {size} parameters, ms", partial(_milliseconds, part, party))
            for part, size in (("training", f"{learnt:,}"), ("large", big))
            for party in PARTIES
        ),
        row("the server's memory grows by, the same, MB", lambda one: f"{one['large']['server_memory_mb']:.0f}"),
        row(
            f"bytes a node sends for each of {learnt:,} parameters",
            lambda one: f"{one['training']['sent_per_parameter']:.2f}",
        ),
        row(f"bytes a node sends for each of {big}", lambda one: f"{one['large']['sent_per_parameter']:.2f}"),
        row(f"bytes a node receives for each of {big}", lambda one: f"{one['large']['received_per_parameter']:.2f}"),
        row("one node lost", lambda one: "; ".join(f"{k}: {v}" for k, v in one["losses"].items())),
    ]
    return "\n".join([*lines, "", _ratios(ways, learnt), "", _versions(results)])


def _times(part: str, party: str, way: dict[str, Any]) -> list[float]:
    return [1e3 * turn[part][PARTIES[party]] for turn in way["turns"]]


def _milliseconds(part: str, party: str, way: dict[str, Any]) -> str:
    times = _times(part, party, way)
    return f"{median(times):.1f} ({min(times):.1f} to {max(times):.1f})"


def _ratios(ways: dict[str, Any], learnt: int) -> str:
    """How many times as long Flower's SecAgg+ takes as ours, turn by turn."""
    said = []
    for part, size in (("training", learnt), ("large", LARGE)):
        for party in PARTIES:
            both = (_times(part, party, ways[way]) for way in ("secagg+", "ccesa"))
            ratios = [theirs / ours for theirs, ours in zip(*both, strict=True)]
            said.append(f"{party}, {size:,} parameters: {median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})")
    return f"Flower's SecAgg+ over `SecureGrid`, medians of {TURNS} turns: {'; '.join(said)}."


def _difference(value: float) -> str:
    return f"{value:.1e}" if value else "–"


def _versions(results: dict[str, Any]) -> str:
    return "Versions: " + ", ".join(f"{name} {value}" for name, value in results["versions"].items()) + "."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.flower.side_by_side", description=__doc__)
    parser.add_argument("--way", choices=list(WAYS), help="measure one, and print JSON")
    way = parser.parse_args().way
    if way:
        print(json.dumps(measure(way)))
        return
    turns = [{way: _in_own_process(way) for way in WAYS} for _ in range(TURNS)]
    ways = {way: {**turns[0][way], "turns": [_timed(turn[way]) for turn in turns]} for way in WAYS}
    models = {way: [np.array(array) for array in ways[way]["training"].pop("model")] for way in WAYS}
    for way in WAYS:
        ways[way]["difference"] = _largest(models[way], models["plain"])
    results = {
        "nodes": NODES,
        "parameters": ways["plain"]["training"]["parameters"],
        "shares_and_threshold": neighbours(),
        "ways": ways,
        "versions": {
            "python": ".".join(map(str, sys.version_info[:3])),
            **{name: version(name) for name in ("flwr", "ccesa", "numpy", "cryptography")},
        },
    }
    (HERE / "side_by_side.json").write_text(json.dumps(results, indent=1) + "\n")
    _into_page(HERE.parents[1] / "docs" / "flower.md", table(results))
    print(table(results))


def _timed(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {part: {name: found[part][name] for name in PARTIES.values()} for part in ("training", "large")}


def _into_page(page: Path, text: str) -> None:
    before, _, rest = page.read_text().partition(_START)
    _, _, after = rest.partition(_END)
    page.write_text(f"{before}{_START}\n{text}\n{_END}{after}")


if __name__ == "__main__":
    main()
