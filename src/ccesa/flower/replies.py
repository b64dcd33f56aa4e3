"""What the app of this node replied, as one vector. Nothing of it leaves the node in any other form."""

from logging import WARNING

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.common import log

from ccesa.errors import VectorError, quoted, shown
from ccesa.flower import names, slots
from ccesa.flower.average import RECORDS, Said
from ccesa.flower.models import Arrays, model_of
from ccesa.flower.report import Once
from ccesa.flower.slots import Metrics
from ccesa.flower.terms import Terms
from ccesa.words import Vector

_once = Once()


def packed(reply: Message | None, model: Arrays, terms: Terms) -> Vector:
    """Raises where the reply cannot be used; what was cut off is said in the log of this node."""
    said = _said(reply, terms)
    vector, clipped = terms.pack(model, said)
    if clipped:
        log(WARNING, "secure aggregation: %d values were clipped at %g", clipped, terms.clip)
    if said.weight > terms.max_weight:
        log(
            WARNING,
            "secure aggregation: %r is above %g and counts as that",
            terms.weighted_by,
            terms.max_weight,
        )
    return vector


def _said(reply: Message | None, terms: Terms) -> Said:
    if reply is None:
        raise VectorError("the app gave no reply")
    if reply.has_error():
        raise VectorError(f"the app answered with an error: {shown(reply.error.reason)}")
    metrics = _metrics(reply.content)
    weight = metrics.pop(terms.weighted_by, None)
    if weight is None or isinstance(weight, list):
        raise VectorError(f"the reply has no number {terms.weighted_by!r} in its metrics to weight it by")
    return Said(
        arrays=model_of(reply.content) if terms.kind == "train" else {},
        metrics=_with_slots(metrics, terms),
        weight=float(weight),
        records=_record_names(reply.content),
    )


def _metrics(content: RecordDict) -> Metrics:
    return {
        name: list(value) if isinstance(value, list) else value
        for record in content.values()
        if isinstance(record, MetricRecord)
        for name, value in record.items()
    }


def _with_slots(metrics: Metrics, terms: Terms) -> Metrics:
    """Those for which there are slots, and room for the name; the rest is left out, and said once."""
    if terms.metrics is not None:
        return _of_charter(metrics, terms.metrics)
    kept: Metrics = {}
    for name, value in sorted(metrics.items()):
        named = slots.schema({**kept, name: value})
        if len(named) <= terms.slots and names.fit(named, terms.name_room):
            kept[name] = value
        else:
            _once.say(f"no slot for metric {quoted(name)}; SecureGrid takes more metric_slots")
    return kept


def _of_charter(metrics: Metrics, agreed: list[str]) -> Metrics:
    """Those that the charter names; no other leaves the node."""
    kept = {name: value for name, value in metrics.items() if slots.signed(name) in agreed}
    for name in metrics.keys() - kept.keys():
        _once.say(f"metric {quoted(name)} is not in the charter and stays on this node")
    return kept


def _record_names(content: RecordDict) -> tuple[str, str]:
    """Of arrays and of metrics, as the app calls them."""
    arrays = [name for name, one in content.items() if isinstance(one, ArrayRecord)]
    metrics = [name for name, one in content.items() if isinstance(one, MetricRecord)]
    return (arrays or RECORDS[:1])[0], (metrics or RECORDS[1:])[0]
