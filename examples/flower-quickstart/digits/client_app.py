"""What a node does. The only line that is not plain Flower is the one with ``secure_mod``."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ccesa.flower import secure_mod
from digits.task import Net, load_partition, test, train

torch.set_num_threads(1)  # the model is small, and in a simulation many nodes share a machine

app = ClientApp(mods=[secure_mod])  # before: ClientApp()


@app.train()
def train_round(message: Message, context: Context) -> Message:
    config, partition = context.run_config, int(context.node_config["partition-id"])
    net, data = _model(message), _data(context)
    server_round = int(message.content["config"]["server-round"])
    loss = train(
        net,
        data,
        epochs=int(config["local-epochs"]),
        lr=float(config["learning-rate"]),
        batch_size=int(config["batch-size"]),
        seed=int(config["seed"]) * 1_000_000 + server_round * 1_000 + partition,
    )
    return _reply(message, {"train-loss": loss, "num-examples": len(data)}, net)


@app.evaluate()
def evaluate_round(message: Message, context: Context) -> Message:
    data = _data(context)
    loss, accuracy = test(_model(message), data)
    return _reply(message, {"eval-loss": loss, "eval-accuracy": accuracy, "num-examples": len(data)})


def _model(message: Message) -> Net:
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return net


def _data(context: Context):
    where = context.node_config  # a simulation sets it; on real nodes: flower-supernode --node-config
    return load_partition(int(where["partition-id"]), int(where["num-partitions"]))


def _reply(message: Message, metrics: dict[str, float], net: Net | None = None) -> Message:
    content = RecordDict({"metrics": MetricRecord(metrics)})
    if net is not None:
        content["arrays"] = ArrayRecord(net.state_dict())
    return Message(content, reply_to=message)
