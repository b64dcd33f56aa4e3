"""What server and nodes agree on besides the round's configuration: how a reply becomes one vector."""

import math

import msgspec
from flwr.app import RecordDict

from ccesa import labels, wire
from ccesa.agreement.charter import Charter, Learning
from ccesa.errors import ConfigError, quoted
from ccesa.flower.both import metrics
from ccesa.flower.both.envelope import kind_of
from ccesa.flower.both.model import array_parts, content_parts
from ccesa.privacy.mechanism import Mechanism
from ccesa.values.fields import WORD_BITS, Fields

#: What holds where nobody says otherwise.
DEFAULTS = Learning()
#: Differences of counters (in batch norm layers) are larger than those of weights.
COUNTER_CLIP = float(2**14)
_MAX_BYTES = 1 << 20


class Terms(msgspec.Struct, frozen=True, kw_only=True, tag="ccesa-flower-2", forbid_unknown_fields=True):
    """How replies to one type of message become vectors.

    Under ``curious`` they are settings of ``SecureGrid`` and travel with every request, and a node has limits
    for them. Under a charter server and nodes derive them, each from its own copy, and nothing travels.
    """

    #: In full: an app can have a function for ``train.probe`` beside the one for ``train``.
    message_type: str
    clients: int
    clip: float = DEFAULTS.clip
    metric_clip: float = DEFAULTS.metric_clip
    #: Bits of a field; with the number of clients it says how every number lies in the words.
    field_bits: int = DEFAULTS.field_bits
    #: A power of two: then whole numbers of examples, up to 2^24 of them, travel as they are.
    max_weight: float = DEFAULTS.max_weight
    weighted_by: str = DEFAULTS.weighted_by
    metric_slots: int = msgspec.field(name="slots", default=16)
    #: The slots by name, see ``metrics``; None: a node fills them with what it has, and the names travel too.
    metrics: list[str] | None = None
    #: Names of arrays that were integers once; their mean is a float, which strategies send on.
    counters: list[str] = []
    #: The noise in every vector; left out where there is none. With it ``clip``, the weight and the fields
    #: above mean nothing: every node counts one.
    privacy: Mechanism | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_message_type(self.message_type)
        if self.clients < 1 or self.metric_slots < 0:
            raise ConfigError(f"terms for {self.clients} clients and {self.metric_slots} metrics")
        if self.metrics is not None and not (
            len(self.metrics) == self.metric_slots and metrics.are_slots(self.metrics)
        ):
            raise ConfigError(f"{len(self.metrics)} names that are not names of {self.metric_slots} slots")
        for name in ("clip", "metric_clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a positive number, not {getattr(self, name)!r}")

    @classmethod
    def under(cls, charter: Charter, message_type: str) -> "Terms":
        """Return what this charter gives for messages of this type; ConfigError where it has none."""
        agreed = learning_of(charter)
        if message_type not in agreed.message_types:
            raise ConfigError(
                f"a message of type {quoted(message_type)}, the charter has {list(agreed.message_types)}"
            )
        slots = metrics.slots_of(dict.fromkeys({*agreed.metrics} - {agreed.weighted_by}, 0.0))
        return cls(
            message_type=message_type,
            clients=len(charter.members),
            clip=agreed.clip,
            metric_clip=agreed.metric_clip,
            field_bits=agreed.field_bits,
            max_weight=power_of_two(agreed.max_weight),
            weighted_by=agreed.weighted_by,
            metric_slots=len(slots),
            metrics=slots,
            counters=sorted(agreed.counters),
            privacy=charter.privacy,
        )

    @property
    def mechanism(self) -> Mechanism | None:
        """The noise in every vector; None where there is none."""
        return self.privacy if isinstance(self.privacy, Mechanism) else None

    @property
    def fields(self) -> Fields:
        """How numbers lie in words; ConfigError where the sums of so many clients do not fit."""
        return Fields(self.field_bits, self.clients) if self.mechanism is None else self.mechanism.fields

    @property
    def bits(self) -> int:
        """Bits of a word."""
        return WORD_BITS

    @property
    def kind(self) -> str:
        """``train`` or ``evaluate``."""
        return kind_of(self.message_type)

    def encode(self) -> bytes:
        return wire.encode(self)

    @staticmethod
    def decode(data: bytes) -> "Terms":
        return wire.decode(_DECODER, data, _MAX_BYTES, "terms")

    def round_task(self, content: RecordDict) -> bytes:
        """Return the digest of what the nodes are asked to work on, as the mask request names it.

        A node computes it from what it got, and refuses where the two differ.

        The settings for training are part of it. A server could otherwise switch off the training of all
        nodes but one, and the sum would be that one's change. So is the message's full type, for the same
        reason: it says which function of the app is called.
        """
        return labels.digest(labels.FLOWER_TASK, self.encode(), *content_parts(content))

    def counted_task(self, content: RecordDict) -> bytes:
        """Return the digest by which a node counts its contributions: the model, and what is done with it.

        Nothing else is in it, so that no setting, bound or number of a round makes another task of the same
        model.
        """
        message_type = self.message_type.encode()
        return labels.digest(labels.FLOWER_COUNTED_TASK, message_type, *array_parts(content))


_DECODER = msgspec.msgpack.Decoder(Terms)


def learning_of(charter: Charter) -> Learning:
    """Return what the charter says about learning; ConfigError where it says nothing."""
    if charter.learning is None:
        raise ConfigError(
            f"the charter with serial {charter.serial} has no [learning] table, and says nothing about "
            "messages, weights and bounds: plan one with `ccesa plan --charter ... --learning`"
        )
    return charter.learning


def power_of_two(max_weight: float) -> float:
    """Round up to a power of two, as it is in terms."""
    if not 0 < max_weight <= 2.0**1000:
        raise ConfigError(f"max_weight must be a positive number of at most 2^1000, not {max_weight!r}")
    return 2.0 ** math.ceil(math.log2(max_weight))


def check_message_type(message_type: str) -> None:
    """Refuse messages that neither train nor evaluate."""
    if kind_of(message_type) not in ("train", "evaluate"):
        raise ConfigError(f"secure aggregation has no messages of type {message_type!r}")
