"""What the server does. The only line that is not plain Flower is the one with ``SecureGrid``."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result

import ccesa
from ccesa.flower import Policy, SecureGrid
from digits.plain import PlainGrid
from digits.task import Net, load_test_set, test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    secure = run(secured(grid, config), config)
    print(f"secure aggregation: accuracy {accuracy(secure):.4f} after {config['num-server-rounds']} rounds")
    if config["compare"]:
        plain = run(PlainGrid(count(grid), config), config)
        print(f"plain FedAvg: accuracy {accuracy(plain):.4f} after {config['num-server-rounds']} rounds")
        print(f"largest difference between the two models: {difference(secure, plain):.2g}")
        print(rounding(grid, config, plain.arrays))


def run(grid: Grid | PlainGrid, config: dict, arrays: ArrayRecord | None = None) -> Result:
    """Federated averaging: all nodes train in every round."""
    torch.manual_seed(int(config["seed"]))
    strategy = FedAvg(
        min_train_nodes=int(config["min-nodes"]),
        min_evaluate_nodes=int(config["min-nodes"]),
        min_available_nodes=int(config["min-nodes"]),
    )
    return strategy.start(
        grid=grid,
        initial_arrays=arrays or ArrayRecord(Net().state_dict()),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=evaluate,
    )


def secured(grid: Grid, config: dict) -> SecureGrid:
    """The grid through which the strategy sees means only."""
    deadline = float(config["deadline"])
    policy = Policy.wait_for_all(deadline) if deadline else None
    if not config["charter"]:
        return SecureGrid(grid, policy=policy)  # before: grid
    charter = ccesa.Charter.load(str(config["charter"]))
    return SecureGrid(grid, charter=charter, policy=policy)


def count(grid: Grid) -> int:
    return len(list(grid.get_node_ids()))


def rounding(grid: Grid, config: dict, arrays: ArrayRecord) -> str:
    """One more round both ways from the same model: what is between them then is rounding, and bounded."""
    once, secure = {**config, "num-server-rounds": 1}, secured(grid, config)
    ways = (PlainGrid(count(grid), config), secure)
    found = difference(*(run(way, once, arrays) for way in ways))
    return f"after one round from the same model: {found:.2g}; rounding explains up to {secure.error_bound:.2g}"


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """On the test set, which is the server's own."""
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, correct = test(net, load_test_set())
    return MetricRecord({"loss": loss, "accuracy": correct})


def accuracy(result: Result) -> float:
    return float(result.evaluate_metrics_serverapp[max(result.evaluate_metrics_serverapp)]["accuracy"])


def difference(one: Result, other: Result) -> float:
    """Between two final models, the largest over all parameters."""
    ours, theirs = one.arrays.to_torch_state_dict(), other.arrays.to_torch_state_dict()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
