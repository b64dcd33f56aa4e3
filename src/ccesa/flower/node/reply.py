"""What the app of this node replied, as one vector. Nothing of it leaves the node in any other form."""

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from ccesa.errors import VectorError, quoted, shown
from ccesa.flower.both import log, metrics
from ccesa.flower.both.metrics import Metrics
from ccesa.flower.both.model import model_of
from ccesa.flower.both.noisy import AnyPacking, NoisyPacking
from ccesa.flower.both.packing import RECORDS, Packing, Reply
from ccesa.words import Vector


def packed(message: Message | None, packing: AnyPacking) -> Vector:
    """Return the vector; raise where the reply cannot be used. What is cut off is in the log of this node."""
    content = _content(message)
    if isinstance(packing, NoisyPacking):
        return _noisy(content, packing)
    reply, terms = _read(content, packing), packing.terms
    vector, clipped = packing.pack(reply)
    if clipped:
        log.warn(f"{clipped} values were clipped at {terms.clip:g}")
    if reply.weight > terms.max_weight:
        log.warn(f"{terms.weighted_by!r} is above {terms.max_weight:g} and counts as that")
    return vector


def _noisy(content: RecordDict, packing: NoisyPacking) -> Vector:
    terms, found = packing.terms, _metrics(content)
    trains, named = terms.kind == "train", {slot[1:] for slot in terms.metrics or ()}
    for name in sorted(found):
        if trains or name not in named:
            log.info_once(f"metric {quoted(name)} of a {terms.kind} round stays on this node")
    arrays = model_of(content) if trains else {}
    vector, clipped = packing.pack(Reply(arrays=arrays, metrics=found, weight=1.0))
    if clipped:
        log.info(f"what this node adds is cut down to the norm {packing.mechanism.norm:g}")
    return vector


def _content(message: Message | None) -> RecordDict:
    if message is None:
        raise VectorError("the app gave no reply")
    if message.has_error():
        raise VectorError(f"the app answered with an error: {shown(message.error.reason)}")
    return message.content


def _read(content: RecordDict, packing: Packing) -> Reply:
    terms, found = packing.terms, _metrics(content)
    weight = found.pop(terms.weighted_by, None)
    if weight is None or isinstance(weight, list):
        raise VectorError(f"the reply has no number {terms.weighted_by!r} in its metrics to weight it by")
    return Reply(
        arrays=model_of(content) if terms.kind == "train" else {},
        metrics=_with_slots(found, packing),
        weight=float(weight),
        records=(_name(content, ArrayRecord, RECORDS[0]), _name(content, MetricRecord, RECORDS[1])),
    )


def _metrics(content: RecordDict) -> Metrics:
    return {
        name: list(value) if isinstance(value, list) else value
        for record in content.values()
        if isinstance(record, MetricRecord)
        for name, value in record.items()
    }


def _with_slots(found: Metrics, packing: Packing) -> Metrics:
    """Return those for which there are slots, and room for the name; say once what is left out."""
    terms, names, kept = packing.terms, packing.metric_names, Metrics()
    for name, value in sorted(found.items()):
        if terms.metrics is not None or names is None:
            fits = name in {slot[1:] for slot in terms.metrics or ()}
            why = f"metric {quoted(name)} is not in the charter and stays on this node"
        else:
            slots = metrics.slots_of({**kept, name: value})
            fits = len(slots) <= terms.metric_slots and names.fit(slots)
            why = f"no slot for metric {quoted(name)}; SecureGrid takes more metric_slots"
        if fits:
            kept[name] = value
        else:
            log.info_once(why)
    return kept


def _name(content: RecordDict, record: type, default: str) -> str:
    """Return what the app calls its record of this type."""
    return next((name for name, one in content.items() if isinstance(one, record)), default)
