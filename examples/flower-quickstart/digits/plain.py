"""Plain FedAvg to compare with: the same training of the same partitions, all in this process.

Nodes with ``secure_mod`` answer nothing in clear, so it cannot be asked of them. Here it can be computed,
because the data of this example are public.
"""

from collections.abc import Iterable

from flwr.app import Context, Message, RecordDict

from digits.client_app import evaluate_round, train_round


class PlainGrid:
    """As much of Flower's grid as a strategy needs, with the functions of the ClientApp behind it."""

    def __init__(self, nodes: int, config: dict) -> None:
        self._contexts = {
            node: Context(0, node, {"partition-id": node, "num-partitions": nodes}, RecordDict(), config)
            for node in range(nodes)
        }

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return [self._answer(message) for message in messages]

    def _answer(self, message: Message) -> Message:
        function = train_round if message.metadata.message_type == "train" else evaluate_round
        return function(message, self._contexts[message.metadata.dst_node_id])
