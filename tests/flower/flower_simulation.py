"""Twenty nodes in Flower's simulation engine; run as a program, with a folder for the results.

Nodes are called by their partition. In every step of the first round one answers with an exception, and one
more stays silent while it should train. In the second round those are not there that missed its set-up, which
came with *mask* and with *unmask* of the first; in the third all are.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from ccesa.flower import SecureGrid, secure_mod
from ccesa.policy import Policy

NODES, LENGTH = 20, 1000
FAILING = {"advertise": 3, "share": 7, "mask": 11, "unmask": 15}
SILENT = 18
STEP_TIMEOUT = 60.0
#: Environment variable with the folder; the engine's workers are other processes.
FOLDER = "SIMULATION_FOLDER"


def update(node: int) -> np.ndarray:
    return np.random.default_rng(node).uniform(-1.0, 1.0, LENGTH).astype(np.float32)


def weight(node: int) -> int:
    return 10 + node


def unreliable(message: Message, context: Context, call_next) -> Message:
    """A mod around ``secure_mod``: the failures of the first round."""
    step = str(message.content.config_records["ccesa"]["step"])
    node = int(context.node_config["partition-id"])
    if node in (FAILING.get(step), SILENT) and first_time(f"{step}-{node}"):
        if node != SILENT:
            raise RuntimeError("this node fails")
        if step == "mask":
            time.sleep(1.5 * STEP_TIMEOUT)
    return call_next(message, context)


def first_time(what: str) -> bool:
    path = Path(os.environ[FOLDER]) / what
    known = path.exists()
    path.touch()
    return not known


client_app = ClientApp(mods=[unreliable, secure_mod])


@client_app.train()
def train(message: Message, context: Context) -> Message:
    node = int(context.node_config["partition-id"])
    model = next(iter(message.content.array_records.values()))["w"].numpy()
    arrays = ArrayRecord({"w": Array(model + update(node))})
    metrics = MetricRecord({"num-examples": weight(node), "node": float(node)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def main(folder: Path) -> None:
    os.environ[FOLDER] = str(folder)
    server_app = ServerApp()

    @server_app.main()
    def run(grid: Grid, context: Context) -> None:
        result = FedAvg(fraction_evaluate=0.0, min_available_nodes=NODES).start(
            grid=SecureGrid(grid, dropout=0.2, max_weight=64, policy=Policy.wait_for_all(STEP_TIMEOUT)),
            initial_arrays=ArrayRecord({"w": Array(np.zeros(LENGTH, np.float32))}),
            num_rounds=3,
        )
        metrics = {key: dict(value) for key, value in result.train_metrics_clientapp.items()}
        (folder / "results.json").write_text(json.dumps({"w": result.arrays["w"].numpy().tolist(), "metrics": metrics}))

    run_simulation(
        server_app,
        client_app,
        num_supernodes=NODES,
        backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2}},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
