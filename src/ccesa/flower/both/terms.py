"""Terms say how a model and its metrics become one vector. Server and nodes agree on them.

Metrics are whole numbers in digits, so that large and small values keep their precision. A metric v of a
client with weight w (in units of the quantizer) becomes round((v / clip + 1) · w · 2^30). The sum of these,
divided by the sum of the weights, gives back the weighted mean.

A metric takes one slot for each of its numbers. The name of a slot is a sign and the metric's name: ``=loss``
is a number, and each ``+per-class`` is one number of a list.
"""

import hashlib
import itertools
import math
from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np
from flwr.app import ArrayRecord, RecordDict
from numpy.typing import NDArray

from ccesa import labels, wire
from ccesa.agreement.charter import Charter, Learning
from ccesa.errors import ConfigError, VectorError, quoted
from ccesa.flower.both.envelope import kind_of
from ccesa.privacy.mechanism import Mechanism
from ccesa.values.fields import Digits, Fields, Row
from ccesa.values.quantize import WEIGHT_UNITS

Arrays = dict[str, NDArray[Any]]
Metrics = dict[str, float | list[float]]

DEFAULTS = Learning()
#: The bound on the change of a counter (in batch norm layers), which is larger than that of a weight.
COUNTER_CLIP = float(2**14)
#: Of metrics.
SCALE = 1 << 30
_NUMBER, _OF_LIST = "=", "+"


def model_of(content: RecordDict) -> Arrays:
    """Return the arrays of a message, which may have one ArrayRecord."""
    records: list[ArrayRecord] = [record for record in content.values() if isinstance(record, ArrayRecord)]
    if len(records) > 1:
        raise ConfigError(f"a message has {len(records)} ArrayRecords; secure aggregation takes one")
    arrays = {name: array.numpy() for record in records for name, array in record.items()}
    for name, value in arrays.items():
        if value.dtype.kind not in "fiub":
            raise ConfigError(f"array {name!r} has type {value.dtype}; secure aggregation takes real numbers")
    return arrays


def counters_of(model: Arrays) -> set[str]:
    """Return the names of the arrays that are whole numbers."""
    return {name for name, value in model.items() if value.dtype.kind != "f"}


def real_numbers(model: Arrays, counters: Collection[str]) -> Arrays:
    """Return the arrays of real numbers, without those that were counters once."""
    left_out = counters_of(model) | {*counters}
    return {name: value for name, value in model.items() if name not in left_out}


def differences(model: Arrays, reply: Arrays) -> Arrays:
    """Return what training added to the model."""
    if set(reply) != set(model):
        raise VectorError(f"the reply has arrays {list(reply)}, the model has {list(model)}")
    for name, value in reply.items():
        if value.shape != model[name].shape:
            raise VectorError(f"array {name!r} has shape {value.shape}, the model's has {model[name].shape}")
    return {name: np.subtract(reply[name], model[name], dtype=np.float64) for name in model}


def move(value: NDArray[Any], difference: NDArray[np.float64]) -> NDArray[Any]:
    """Return the array moved by the mean difference, in its own type; a mean of counters is a float."""
    moved = np.add(value, difference, dtype=np.float64)
    return moved.astype(value.dtype) if value.dtype.kind == "f" else moved


def content_parts(content: RecordDict) -> list[bytes]:
    """Return every record with its name, in an order that does not depend on the transport."""
    parts: list[bytes] = []
    for name, record in sorted(content.items()):
        parts += [name.encode(), type(record).__name__.encode()]
        if isinstance(record, ArrayRecord):
            parts += _record_parts(record)
        else:
            parts.append(msgspec.msgpack.encode(sorted(record.items())))
    return parts


def _record_parts(record: ArrayRecord) -> list[bytes]:
    parts: list[bytes] = []
    for name, array in record.items():
        value = array.numpy()
        head = f"{name}\0{value.dtype.str}\0{value.shape}".encode()
        parts += [head, hashlib.sha256(np.ravel(value).view(np.uint8).data).digest()]
    return parts


# Metrics


def metric_digits(fields: Fields) -> Digits:
    """Return the form of one metric of one client."""
    return Digits(fields=fields, largest=2 * WEIGHT_UNITS * SCALE)


def encode_metrics(values: list[float], units: int, clip: float, form: Digits) -> Row:
    """Return the digits of one client's values, which lie within ``clip``."""
    return form.encode(round((value / clip + 1.0) * units * SCALE) for value in values)


def decode_metrics(sums: Row, units: int, clip: float, form: Digits) -> NDArray[np.float64]:
    """Return the weighted mean of each value, from the sum over clients with ``units`` of weight."""
    return np.array([(total / (units * SCALE) - 1.0) * clip for total in form.decode(sums)])


def slots_of(metrics: Metrics) -> list[str]:
    """Return the names of the slots that these metrics fill, in order."""
    return [
        (_OF_LIST if isinstance(value, list) else _NUMBER) + name
        for name, value in sorted(metrics.items())
        for _ in (value if isinstance(value, list) else [value])
    ]


def are_slots(slots: list[str]) -> bool:
    """Return whether metrics can have these slots: in order, each name once."""
    rows = [(slot, len(list(row))) for slot, row in itertools.groupby(slots)]
    names = [slot[1:] for slot, _ in rows]
    signs = all(slot[:1] == _OF_LIST or (slot[:1] == _NUMBER and width == 1) for slot, width in rows)
    return signs and names == sorted(set(names))


def pick_metrics(slots: list[str], metrics: Metrics) -> list[float]:
    """Return the values for these slots; NaN for a metric that is missing or has another type."""
    values: list[float] = []
    for slot, row in itertools.groupby(slots):
        value, width = metrics.get(slot[1:], math.nan), len(list(row))
        numbers = value if isinstance(value, list) else [value]
        fits = isinstance(value, list) == slot.startswith(_OF_LIST) and len(numbers) == width
        values += [float(number) for number in numbers] if fits else [math.nan] * width
    return values


def restore_metrics(slots: list[str], values: NDArray[Any]) -> Metrics:
    """Return the metrics that have these values in their slots."""
    restored: Metrics = {}
    for slot, row in itertools.groupby(zip(slots, values.tolist(), strict=False), key=lambda pair: pair[0]):
        numbers = [value for _, value in row]
        restored[slot[1:]] = numbers if slot.startswith(_OF_LIST) else numbers[0]
    return restored


class ReplyTerms(msgspec.Struct, frozen=True, kw_only=True, tag="ccesa-flower-2", forbid_unknown_fields=True):
    """How replies to one type of message become vectors.

    Under ``curious`` they are settings of ``SecureGrid`` and travel with every request. A node has limits for them.
    Under a charter server and nodes derive them, each from its own copy.
    """

    #: In full: an app can have one function for ``train`` and one for ``train.probe``.
    message_type: str
    clients: int
    clip: float = DEFAULTS.clip
    metric_clip: float = DEFAULTS.metric_clip
    field_bits: int = DEFAULTS.field_bits
    #: A power of two, so that whole numbers of up to 2^24 examples are not rounded.
    max_weight: float = DEFAULTS.max_weight
    weighted_by: str = DEFAULTS.weighted_by
    metric_slots: int = msgspec.field(name="slots", default=16)
    #: The names of the slots; None: a node fills them with the metrics that it has, and sends their names.
    metrics: list[str] | None = None
    #: Names of arrays that were integers once: their mean is a float, and strategies send it on.
    counters: list[str] = []
    #: The noise in every vector, if there is noise. With it ``clip``, the weight and the fields above do not
    #: count: every node counts one.
    privacy: Mechanism | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_message_type(self.message_type)
        if self.clients < 1 or self.metric_slots < 0:
            raise ConfigError(f"terms cannot have {self.clients} clients and {self.metric_slots} metrics")
        if self.metrics is not None and not (len(self.metrics) == self.metric_slots and are_slots(self.metrics)):
            raise ConfigError(f"{len(self.metrics)} names cannot name {self.metric_slots} slots")
        for name in ("clip", "metric_clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a positive number, not {getattr(self, name)!r}")

    @classmethod
    def under(cls, charter: Charter, message_type: str) -> "ReplyTerms":
        """Return the terms of this charter for messages of this type; ConfigError if it has no such messages."""
        agreed = learning_of(charter)
        if message_type not in agreed.message_types:
            allowed = list(agreed.message_types)
            raise ConfigError(f"the charter has no messages of type {quoted(message_type)}, only of {allowed}")
        slots = slots_of(dict.fromkeys({*agreed.metrics} - {agreed.weighted_by}, 0.0))
        return cls(
            **{name: getattr(agreed, name) for name in ("clip", "metric_clip", "field_bits", "weighted_by")},
            message_type=message_type,
            clients=len(charter.members),
            max_weight=power_of_two(agreed.max_weight),
            metric_slots=len(slots),
            metrics=slots,
            counters=sorted(agreed.counters),
            privacy=charter.privacy,
        )

    @property
    def mechanism(self) -> Mechanism | None:
        """The noise in every vector; None without noise."""
        return self.privacy if isinstance(self.privacy, Mechanism) else None

    @property
    def fields(self) -> Fields:
        """The layout of numbers in words; ConfigError if the sums of all clients do not fit."""
        return Fields(self.field_bits, self.clients) if self.mechanism is None else self.mechanism.fields

    @property
    def kind(self) -> str:
        """``train`` or ``evaluate``."""
        return kind_of(self.message_type)

    @property
    def named_metrics(self) -> set[str]:
        return {slot[1:] for slot in self.metrics or ()}

    def encode(self) -> bytes:
        return wire.encode(self)

    @staticmethod
    def decode(data: bytes) -> "ReplyTerms":
        return wire.decode(_DECODER, data, 1 << 20, "terms")

    def round_task(self, content: RecordDict) -> bytes:
        """Return the digest of the nodes' task, as the mask request names it.

        A node computes it from its message, and refuses if the two differ. The digest covers the settings for
        training and the message's full type, which selects a function of the app. Otherwise a server could
        switch off the training of all nodes but one, and the sum would be the change of that node.
        """
        return labels.digest(labels.FLOWER_TASK, self.encode(), *content_parts(content))

    def counted_task(self, content: RecordDict) -> bytes:
        """Return the digest by which a node counts contributions: of model and message type, without settings."""
        records = [record for record in content.values() if isinstance(record, ArrayRecord)]
        parts = [part for record in records for part in _record_parts(record)]
        return labels.digest(labels.FLOWER_COUNTED_TASK, self.message_type.encode(), *parts)


_DECODER = msgspec.msgpack.Decoder(ReplyTerms)


def learning_of(charter: Charter) -> Learning:
    """Return the charter's table about learning; ConfigError if it has none."""
    if charter.learning is None:
        raise ConfigError(f"charter {charter.serial} has no [learning] table: use ccesa plan --charter ... --learning")
    return charter.learning


def power_of_two(max_weight: float) -> float:
    """Round ``max_weight`` up to a power of two."""
    if not 0 < max_weight <= 2.0**1000:
        raise ConfigError(f"max_weight must be a positive number of at most 2^1000, not {max_weight!r}")
    return 2.0 ** math.ceil(math.log2(max_weight))


def check_message_type(message_type: str) -> None:
    """Refuse all messages but train and evaluate."""
    if kind_of(message_type) not in ("train", "evaluate"):
        raise ConfigError(f"secure aggregation has no messages of type {message_type!r}")
