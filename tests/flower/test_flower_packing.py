"""Replies to vectors and back: the sum of packed replies is their weighted mean, within the stated error."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from ccesa import words
from ccesa.errors import ConfigError, MalformedMessage, VectorError
from ccesa.flower.both import terms as metric_slots
from ccesa.flower.both.packing import Packing, Reply
from ccesa.flower.both.terms import COUNTER_CLIP, ReplyTerms
from ccesa.values.fields import WORD_BITS, Fields

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def make_terms(**others) -> ReplyTerms:
    given = {
        "message_type": "train",
        "clients": 5,
        "clip": 2.0,
        "metric_clip": 1e6,
        "field_bits": 32,
        "max_weight": 65536.0,
        "weighted_by": "num-examples",
        "metric_slots": 8,
    }
    return ReplyTerms(**{**given, **others})


@st.composite
def cases(draw):
    """ReplyTerms, a model, and the replies of some of the clients."""
    clients = draw(st.integers(3, 60))
    clip = draw(st.sampled_from([0.01, 1.0, 2.0, 50.0]))
    metric_clip = draw(st.sampled_from([1.0, 100.0, 1e6]))
    shapes = draw(st.lists(st.sampled_from([(), (1,), (3,), (2, 3), (0,)]), max_size=4))
    counters = draw(st.lists(st.booleans(), min_size=len(shapes), max_size=len(shapes)))
    metrics = draw(st.dictionaries(NAMES, st.integers(0, 3), max_size=3))  # 0: a number, else a list's length
    named = draw(st.booleans())
    spare = 0 if named else draw(st.integers(0, 2))
    terms = make_terms(
        message_type=draw(st.sampled_from(["train", "evaluate", "train.more"])),
        clients=clients,
        clip=clip,
        metric_clip=metric_clip,
        field_bits=draw(st.sampled_from([8, 12, 16, 18, 21, 32, 64])),
        max_weight=2.0 ** draw(st.integers(0, 24)),
        metric_slots=sum(max(width, 1) for width in metrics.values()) + spare,
        metrics=metric_slots.slots_of(measured(metrics, 1.0, np.random.default_rng(0))) if named else None,
        counters=[f"a{place}" for place, counter in enumerate(counters) if counter],
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    model = {
        f"a{place}": rng.integers(-1000, 1000, shape) if counter else rng.normal(size=shape)
        for place, (shape, counter) in enumerate(zip(shapes, counters, strict=True))
    }
    model = {name: np.asarray(value) for name, value in model.items()}
    weights = rng.integers(1, int(terms.max_weight) + 1, draw(st.integers(1, clients)))
    replies = [
        Reply(
            arrays=reply(terms, model, rng),
            metrics=measured(metrics, metric_clip, rng),
            weight=int(weight),
            records=("weights", "numbers"),
        )
        for weight in weights
    ]
    silent = draw(st.integers(0, clients - len(replies)))
    return terms, model, replies, silent


def reply(terms: ReplyTerms, model, rng):
    return {
        name: value + rng.integers(-(2**14), 2**14 + 1, value.shape)
        if value.dtype.kind == "i"
        else value + rng.uniform(-terms.clip, terms.clip, value.shape) * (1 - 1e-9)
        for name, value in model.items()
    }


def measured(metrics, clip, rng):
    return {
        name: rng.uniform(-clip, clip, width).tolist() if width else float(rng.uniform(-clip, clip))
        for name, width in metrics.items()
    }


def total(terms: ReplyTerms, model, replies, silent: int = 0):
    """The sum over all who replied, and so many who had nothing to send."""
    packed = [Packing(terms, model).pack(reply) for reply in replies]
    assert all(clipped == 0 for _, clipped in packed)
    result = words.zeros(Packing(terms, model).length, WORD_BITS)
    for vector in [*(vector for vector, _ in packed), *[Packing(terms, model).nothing()] * silent]:
        assert vector.size == result.size
        result = result + vector
    return result


@given(cases())
def test_the_sum_is_the_weighted_mean(case):
    terms, model, replies, silent = case
    average = Packing(terms, model).unpack(total(terms, model, replies, silent), len(replies) + silent)
    weights = np.array([reply.weight for reply in replies], np.float64)
    assert average.weight == weights.sum()
    assert (average.nothing, average.alike, average.records) == (silent, True, ("weights", "numbers"))
    if terms.kind == "evaluate":
        assert average.arrays == {}
    for name, found in average.arrays.items():
        expected = np.average([reply.arrays[name] for reply in replies], axis=0, weights=weights)
        error = average.counter_error if name in terms.counters else average.error
        assert np.all(np.abs(found - expected) <= error + 1e-12), name
        assert error <= average.bound
    assert average.metrics.keys() == replies[0].metrics.keys()
    for name, found in average.metrics.items():
        expected = np.average([reply.metrics[name] for reply in replies], axis=0, weights=weights)
        np.testing.assert_allclose(found, expected, rtol=0, atol=average.error)
        assert isinstance(found, list) == isinstance(replies[0].metrics[name], list)


@given(cases())
def test_rounding_is_small_where_fields_are_wide(case):
    terms, model, replies, _ = case
    if terms.field_bits == 64 and terms.kind == "train":
        average = Packing(terms, model).unpack(total(terms, model, replies), len(replies))
        assert average.counter_error <= COUNTER_CLIP * len(replies) * terms.clients * 2**-26


@given(
    st.lists(st.floats(-1e6, 1e6), max_size=6),
    st.integers(0, 2**24),
    st.integers(1, 10_000),
    st.sampled_from([16, 18, 32, 64]),
)
def test_metrics_of_one_client_come_back(values, units, clients, bits):
    form = metric_slots.metric_digits(Fields(bits, clients))
    vector = metric_slots.encode_metrics(values, units, 1e6, form)
    assert vector.size == len(values) * len(form.places)
    if units:
        found = metric_slots.decode_metrics(vector, units, 1e6, form)
        np.testing.assert_allclose(found, values, rtol=0, atol=1e6 / metric_slots.SCALE / units + 2e-9)


@given(st.integers(1, 10_000), st.sampled_from([16, 18, 32, 64]))
def test_digits_of_all_clients_together_stay_in_their_fields(clients, bits):
    form = metric_slots.metric_digits(Fields(bits, clients))
    largest = metric_slots.encode_metrics([1e6] * 2, 2**24, 1e6, form)
    assert int(largest.max()) * clients < 2 ** (bits - 1)
    assert metric_slots.decode_metrics(largest * clients, 2**24 * clients, 1e6, form) == pytest.approx([1e6] * 2)


@given(st.dictionaries(NAMES, st.one_of(st.floats(-1, 1), st.lists(st.floats(-1, 1), min_size=1, max_size=3))))
def test_names_come_back_whatever_they_are(metrics):
    signed = metric_slots.slots_of(metrics)
    assert metric_slots.are_slots(signed)
    assert metric_slots.restore_metrics(signed, np.array(metric_slots.pick_metrics(signed, metrics))) == metrics


@pytest.mark.parametrize(
    "signed", [["loss"], [""], ["=b", "=a"], ["=a", "=a"], ["=a", "+a"], ["+a", "=b", "+a"], ["-a"]]
)
def test_what_is_no_schema(signed):
    assert not metric_slots.are_slots(signed)
    with pytest.raises(ConfigError, match="cannot name"):
        make_terms(metrics=signed, metric_slots=len(signed))


def test_a_node_without_a_metric_that_the_terms_name():
    """It counts as one that is no number: that metric is left out, and nothing else."""
    terms = make_terms(metrics=["=accuracy", "=loss", "+per-class", "+per-class"], metric_slots=4)
    model = {"w": np.zeros(4)}
    full = {"accuracy": 0.5, "loss": 1.0, "per-class": [1.0, 2.0], "more": 7.0}
    others = [{}, {"loss": 3.0, "accuracy": [0.5]}, {"loss": 3.0, "accuracy": 0.5, "per-class": [1.0]}]
    for metrics, usable in zip(others, ([], ["loss"], ["accuracy", "loss"]), strict=True):
        replies = [Reply(arrays=model, metrics=one, weight=2.0) for one in (full, metrics)]
        average = Packing(terms, model).unpack(total(terms, model, replies), 2)
        assert list(average.metrics) == usable
        assert sorted([*average.metrics, *average.unusable]) == ["accuracy", "loss", "per-class"]
    assert average.metrics == pytest.approx({"accuracy": 0.5, "loss": 2.0}, abs=1e-6)


def test_clipped_values_are_counted():
    model = {"w": np.zeros(4)}
    reply = Reply(arrays={"w": np.array([3.0, -9.0, 1.0, 2.0])}, metrics={}, weight=65536)
    vector, clipped = Packing(make_terms(), model).pack(reply)
    assert clipped == 2
    average = Packing(make_terms(clients=5), model).unpack(vector, 1)
    np.testing.assert_allclose(average.arrays["w"], [2.0, -2.0, 1.0, 2.0], atol=1e-7)
    assert (average.clipped, average.clipped_values) == (1, 2)


@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=40, max_size=40), min_size=1, max_size=20),
    st.sampled_from([8, 16, 32]),
    st.integers(0, 3),
)
def test_the_sum_says_how_many_values_were_clipped_on_how_many_nodes(rows, bits, silent):
    model = {"w": np.zeros(40)}
    packing = Packing(make_terms(clients=len(rows) + silent + 2, field_bits=bits), model)
    replies = [Reply(arrays={"w": np.array(row)}, metrics={}, weight=1.0) for row in rows]
    vectors = [*(packing.pack(reply)[0] for reply in replies), *[packing.nothing()] * silent]
    average = packing.unpack(sum(vectors), len(vectors))
    beyond = [sum(abs(value) > 2.0 for value in row) for row in rows]
    assert (average.clipped, average.clipped_values) == (sum(map(bool, beyond)), sum(beyond))
    assert average.nothing == silent


@pytest.mark.parametrize("weight", [-1, -1e-300, float("nan"), float("inf"), -float("inf")])
def test_there_is_no_reply_with_such_a_weight(weight):
    model = {"w": np.zeros(4)}
    with pytest.raises(VectorError, match="must be 0 or greater"):
        Packing(make_terms(), model).pack(Reply(arrays=model, metrics={}, weight=weight))


@given(st.one_of(st.sampled_from([0.0, -0.0]), st.floats(0, 1e300)), st.integers(-40, 60))
def test_everybody_counts_one_unit_at_least(weight, exponent):
    """Neither a huge bound nor nodes without examples leave the largest weight alone in the sum."""
    model = {"w": np.zeros(1)}
    terms = make_terms(max_weight=2.0**exponent)
    vector, _ = Packing(terms, model).pack(Reply(arrays=model, metrics={}, weight=weight))
    unit = terms.max_weight / 2**24
    found = Packing(terms, model).unpack(vector, 1).weight
    assert found >= unit
    assert found == pytest.approx(min(weight, terms.max_weight), abs=unit)


def test_nothing_from_anybody_is_no_mean():
    model = {"w": np.zeros(4)}
    terms = make_terms()
    with pytest.raises(VectorError, match="no mean: 2 of 2 nodes contributed nothing"):
        Packing(terms, model).unpack(Packing(terms, model).nothing() * 2, 2)


def test_nothing_is_nothing_but_one_count():
    """There is nothing in it that was computed from the node's data."""
    vector = Packing(make_terms(), {"w": np.zeros(4)}).nothing()
    assert np.flatnonzero(vector).tolist() == [vector.size - 1]


@pytest.mark.parametrize("field_bits", [12, 18, 32])
def test_sums_that_no_nodes_can_have_are_refused(field_bits):
    """In each part of the vector; the round is lost, and nothing strange is handed on."""
    terms, model = make_terms(field_bits=field_bits), {"w": np.zeros(4)}
    packing, fields = Packing(terms, model), terms.fields
    vector, _ = packing.pack(Reply(arrays=model, metrics={"loss": 1.0}, weight=65536))
    count = fields.per_word * vector.size
    row, _ = fields.split(vector)
    last = int(np.flatnonzero(row)[-1])
    assert packing.unpack(vector, 1).metrics.keys() == {"loss"}
    changes = {"a value": (0, 5 * fields.most + 1), "weight": (4, -1), "a metric": (last, 5 * fields.most + 1)}
    for place, number in changes.values():
        strange = row.copy()
        strange[place] = number
        with pytest.raises(VectorError, match="clients can"):
            packing.unpack(fields.pack(strange), 1)
    spare = row.copy()
    spare[count - fields.per_word :] += 6  # of five nodes, six are said to have nothing
    with pytest.raises(VectorError):
        packing.unpack(fields.pack(spare), 5)


def test_terms_that_are_too_long_or_none():
    for data in (b"", b"\x80", make_terms().encode()[:-1], bytes(2**20 + 1)):
        with pytest.raises(MalformedMessage):
            ReplyTerms.decode(data)
    many = make_terms(counters=[f"layer{i}.num_batches_tracked" for i in range(5000)])
    assert ReplyTerms.decode(many.encode()) == many


def test_terms_have_one_encoding():
    terms = make_terms()
    assert ReplyTerms.decode(terms.encode()) == terms


def content(number: float = 0.0, name: str = "arrays", **settings) -> RecordDict:
    arrays = ArrayRecord({"b": Array(np.full(3, number, np.float32))})
    return RecordDict({name: arrays, "config": ConfigRecord({"lr": 0.1, "round": 1, **settings})})


OTHER_TASKS = {
    "terms": (make_terms(clip=1.0), content()),
    "the full message type": (make_terms(message_type="train.probe"), content()),
    "arrays": (make_terms(), content(1.0)),
    "their name": (make_terms(), content(name="weights")),
    "a setting": (make_terms(), content(lr=0.2)),
    "its type": (make_terms(), content(round=1.0)),
    "one more": (make_terms(), content(more=b"")),
}


@pytest.mark.parametrize("name", OTHER_TASKS)
def test_whatever_changes_training_is_another_task(name):
    terms, changed = OTHER_TASKS[name]
    assert terms.round_task(changed) != make_terms().round_task(content())


def test_a_task_does_not_depend_on_the_order_of_records():
    backwards = RecordDict(dict(reversed(content().items())))
    assert make_terms().round_task(backwards) == make_terms().round_task(content())


OTHER_COUNTED = {
    "arrays": (make_terms(), content(1.0)),
    "the full message type": (make_terms(message_type="train.probe"), content()),
    "evaluation": (make_terms(message_type="evaluate"), content()),
}
SAME_COUNTED = {
    "terms": (make_terms(clip=1.0, metric_clip=1.0, counters=["b"]), content()),
    "a setting": (make_terms(), content(lr=0.2)),
    "the round's number": (make_terms(), content(**{"server-round": 7})),
    "the record's name": (make_terms(), content(name="weights")),
}


@pytest.mark.parametrize("name", OTHER_COUNTED)
def test_another_model_is_other_counted_task(name):
    terms, changed = OTHER_COUNTED[name]
    assert terms.counted_task(changed) != make_terms().counted_task(content())


@pytest.mark.parametrize("name", SAME_COUNTED)
def test_nothing_else_makes_other_counted_task(name):
    terms, changed = SAME_COUNTED[name]
    assert terms.counted_task(changed) == make_terms().counted_task(content())
