"""Contributions become vectors and sums become results; what is of another form is refused."""

import base64

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from ccesa import ConfigError, DifferentialPrivacy, MalformedMessage, VectorError, words
from ccesa.agreement.agreement import TRUST
from ccesa.privacy.mechanism import choose_mechanism
from ccesa.service.forms import Arrays, Words, form_of
from ccesa.service.tasks import pack_arrays, task_digest, unpack_arrays
from rounds import charter

TYPES = arrays_of.floating_dtypes(endianness="<") | arrays_of.integer_dtypes(endianness="<")
SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=3, max_side=4)
MODELS = st.dictionaries(st.text(max_size=5), arrays_of.arrays(TYPES, SHAPES), max_size=4)


@given(MODELS)
def test_arrays_travel_as_they_are(model):
    payload = pack_arrays(model)
    found = unpack_arrays(payload)
    assert list(found) == list(model)
    for name, array in model.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
    assert pack_arrays(found) == payload
    assert len(task_digest(payload)) == 32


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(payload):
    try:
        found = unpack_arrays(payload)
    except MalformedMessage:
        return
    assert isinstance(found, dict)


@pytest.mark.parametrize(
    "packed",
    [
        [["a", "<f4", [2], b"1234"]],
        [["a", "<f4", [-1], b""]],
        [["a", "|O", [1], b"12345678"]],
        [["a", "<f4", [1], b"1234"], ["a", "<f4", [1], b"1234"]],
        [["a", "<f4", [2**62, 4], b""]],
        [["a", "<f4", [0, 2**62, 2**62], b""]],
        [["a", "<f4", [0, 2**64 - 1], b""]],
        [["a", "<f4", [1] * 65, b"1234"]],
        [["a", "<f4", [2**63] * 100_000, b""]],
        [[str(i), "<f4", [0], b""] for i in range(2**16 + 1)],
    ],
    ids=range(10),
)
def test_arrays_that_are_at_odds_with_themselves_are_refused(packed):
    with pytest.raises(MalformedMessage):
        unpack_arrays(msgspec.msgpack.encode(packed))


def test_what_has_no_numbers_or_too_many_dimensions_is_not_packed():
    with pytest.raises(VectorError):
        pack_arrays({"a": np.array(["x"])})
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # before, numpy itself made none
        with pytest.raises(VectorError):
            pack_arrays({"a": np.zeros([1] * 33)})
    with pytest.raises(VectorError):
        pack_arrays(dict.fromkeys(map(str, range(2**16 + 1)), np.zeros(1)))


def test_words_are_taken_as_they_are():
    form = Words(words=3, bits=16)
    vector = form.vector(np.array([1, 2, 3], np.uint16), b"task", b"")
    assert vector.tolist() == [1, 2, 3]
    assert form.length(b"task") == 3
    assert form.argument(b"task") == b"task"
    published = form.for_json(form.value(vector, 2, b"", b""))
    assert base64.b64decode(published["words"]) == vector.tobytes()
    assert form.in_words(vector) == "1 2 3"
    assert Words(words=20).in_words(np.arange(20)).endswith(" 15 ... (20 words)")
    for wrong in ([1, 2], np.array([1, 2, 3], np.uint32), "abc", None):
        with pytest.raises(VectorError):
            form.vector(wrong, b"", b"")
    with pytest.raises(ConfigError):
        Words(words=0)


HIDDEN = np.ma.array([1, 2, 3], mask=[0, 1, 0], dtype=np.uint32)


@pytest.mark.parametrize("hidden", [HIDDEN, [1, HIDDEN[1], 3], [HIDDEN]])
def test_what_a_mask_hides_does_not_leave(hidden):
    """numpy would drop the mask without a word."""
    with pytest.raises(VectorError, match="masked array"):
        Words(words=3).vector(hidden, b"", b"")
    form, payload = Arrays(clients=3, clip=4.0), pack_arrays({"a": np.zeros(3)})
    with pytest.raises(VectorError, match="array 'a' has a mask"):
        form.vector({"a": hidden}, payload, b"")
    assert form.vector({"a": HIDDEN.filled(0)}, payload, b"").size


def test_arrays_become_a_weighted_mean():
    form = Arrays(clients=4, clip=2.0, max_weight=8.0)
    payload = pack_arrays({"w": np.zeros((2, 2), np.float32)})
    total = words.zeros(form.length(payload), 64)
    for value, weight in ((1.0, 2.0), (-1.0, 6.0)):
        words.add(total, form.vector(({"w": np.full((2, 2), value)}, weight), payload, b"").data)
    mean = form.value(total, 2, payload, b"")
    assert mean.weight == 8.0
    assert np.allclose(mean.arrays["w"], -0.5, atol=1e-6)
    assert form.for_json(mean)["weight"] == 8.0
    assert form.in_words(mean) == "w: (2, 2), norm 1\nweight: 8"
    with pytest.raises(VectorError, match="dict of arrays"):
        form.vector([1, 2], payload, b"")
    with pytest.raises(VectorError):
        form.vector({"other": np.zeros(1)}, payload, b"")


def test_arrays_with_noise_count_one_each():
    demand = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=1, norm=1.0)
    mechanism = choose_mechanism(demand, clients=10, honest=8, dimension=16)
    form = Arrays(clients=10, privacy=mechanism)
    payload, context = pack_arrays({"w": np.zeros(16)}), bytes(32)
    total = words.zeros(form.length(payload), 64)
    for _ in range(10):
        words.add(total, form.vector({"w": np.full(16, 0.1)}, payload, context).data)
    mean = form.value(total, 10, payload, context)
    assert mean.weight == 10
    assert np.abs(mean.arrays["w"] - 0.1).max() < 1.0


def test_a_charter_decides_the_form():
    plain = charter(6)
    form = form_of(plain, {"type": "words", "words": 9})
    assert isinstance(form, Words)
    assert (form.words, form.bits) == (9, plain.bits)
    with pytest.raises(ConfigError, match="plain words"):
        form_of(plain, {"type": "arrays", "clients": 6})
    for wrong in (None, {}, {"type": "words"}, {"type": "words", "words": 1, "more": 2}, 7):
        with pytest.raises(ConfigError, match="not a form"):
            form_of(TRUST, wrong)


def test_noise_travels_as_json():
    """A certificate that never fails has no number in JSON."""
    demand = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=1, norm=1.0)
    form = Arrays(clients=10, privacy=choose_mechanism(demand, clients=10, honest=8, dimension=16))
    assert form_of(TRUST, msgspec.json.decode(msgspec.json.encode(form))) == form
