"""The messages that a strategy sends, which must be alike, and the one reply that it gets."""

from collections import Counter
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from ccesa.errors import ConfigError, TooFewClients
from ccesa.flower.both.noisy import AnyMean
from ccesa.flower.both.terms import Terms
from ccesa.flower.server.rounds import LEAST_NODES


def check_alike(messages: list[Message]) -> None:
    """Refuse all but one message per node, the same for all: only then is there a mean of changes."""
    node, times = Counter(message.metadata.dst_node_id for message in messages).most_common(1)[0]
    if times > 1:
        raise ConfigError(f"{times} messages to node {node} at once; secure aggregation sends one to each")
    first = messages[0].content
    for message in messages[1:]:
        if message.content is not first and dict(message.content) != dict(first):
            raise ConfigError(
                "the strategy sends different arrays or settings to different nodes; secure aggregation "
                "averages replies to one model, trained in one way"
            )


def mean_reply(asked: Message, terms: Terms, mean: AnyMean) -> Message:
    """Make one reply that stands for all: mean and total weight, under the names that the apps use."""
    arrays, metrics = mean.records
    content: dict[str, Any] = {metrics: MetricRecord({terms.weighted_by: mean.weight, **mean.metrics})}
    if terms.kind == "train":
        content[arrays] = ArrayRecord({name: Array(np.asarray(value)) for name, value in mean.arrays.items()})
    return Message(RecordDict(content), reply_to=asked)


def check_contributors(survivors: int, nothing: int) -> None:
    """Refuse the mean of one node, which is its model, and of two, of which each knows the other's.

    The server has opened the sum by then. A server that lies keeps it; what a node sends to it is never more.
    """
    if survivors - nothing < LEAST_NODES:
        raise TooFewClients(
            f"{nothing} of {survivors} nodes contributed nothing, and the mean of fewer than {LEAST_NODES} "
            "tells too much; their logs say why"
        )
