import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccesa import words
from ccesa.errors import ConfigError, VectorError
from ccesa.values.fields import WORD_BITS, Digits, Fields, Layout
from ccesa.values.quantize import WEIGHT_UNITS, Quantizer
from strategies import seeds

#: Every type here represents it, so that rounding to the type never leads out of the clipping range.
CLIP = 100.0
FLOATS = ["f2", "f4", "f8", ">f4"]
INTS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
layouts = st.lists(st.tuples(shapes, st.sampled_from(FLOATS + INTS)), min_size=1, max_size=5)
roundings = st.sampled_from(["stochastic", "nearest"])
units = st.integers(0, WEIGHT_UNITS)
#: Bits of a field: one to eight of them in a word, with bits to spare and without.
bits = st.sampled_from([8, 10, 12, 16, 18, 21, 31, 32, 33, 64])


def array(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    low = 0.0 if np.dtype(dtype).kind == "u" else -CLIP
    return np.asarray(rng.uniform(low, CLIP, shape)).astype(dtype)


def model(layout, rng: np.random.Generator, named: bool = False):
    arrays = [array(shape, dtype, rng) for shape, dtype in layout]
    return {f"layer {k}": value for k, value in enumerate(arrays)} if named else arrays


def values_of(arrays) -> list[np.ndarray]:
    return list(arrays.values()) if isinstance(arrays, dict) else arrays


def summed(vectors) -> np.ndarray:
    return np.sum(vectors, axis=0, dtype=vectors[0].dtype)


def one_value(value: float = 0.0) -> list[np.ndarray]:
    return [np.array([value])]


def most_levels(width: int, clients: int) -> int:
    return min((2 ** (width - 1) - 1) // clients, 2**52)


def signed(total: np.ndarray, quantizer: Quantizer) -> list[int]:
    return quantizer.fields.unpack(total, quantizer.count)[: quantizer.layout.size].tolist()


def rounding_of(dtype: np.dtype, values: np.ndarray) -> np.ndarray:
    """How far the type itself may round a value away."""
    return np.abs(np.spacing(np.abs(values).astype(dtype.newbyteorder("=")))).astype(np.float64)


# The mean


@given(layouts, bits, st.integers(1, 12), roundings, st.booleans(), seeds)
def test_the_mean_is_within_the_error_bound(layout, width, clients, rounding, named, seed):
    rng = np.random.default_rng(seed)
    models = [model(layout, rng, named) for _ in range(clients)]
    quantizer = Quantizer.for_model(models[0], clients=clients, clip=CLIP, field_bits=width, rounding=rounding)
    encoded = [quantizer.encode(arrays, rng=rng) for arrays in models]
    assert not any(one.clipped for one in encoded)
    mean = quantizer.decode(summed([one.vector for one in encoded]))
    assert mean.weight == clients
    assert isinstance(mean.arrays, dict) == named
    for place, found in enumerate(values_of(mean.arrays)):
        all_of = np.array([values_of(arrays)[place] for arrays in models], np.float64)
        due = all_of.mean(axis=0)
        given_as = values_of(models[0])[place].dtype
        assert found.dtype == (given_as if given_as.kind == "f" else np.float64)
        assert found.shape == due.shape
        slack = quantizer.error_bound + rounding_of(found.dtype, due) + 1e-12 * CLIP
        assert np.all(np.abs(found.astype(np.float64) - due) <= slack)


@given(layouts, st.booleans(), seeds)
def test_names_and_order_survive(layout, named, seed):
    arrays = model(layout, np.random.default_rng(seed), named)
    quantizer = Quantizer.for_model(arrays, clients=1, clip=CLIP, field_bits=64)
    found = quantizer.decode(quantizer.encode(arrays).vector).arrays
    if named:
        assert list(found) == list(arrays)
    for one, other in zip(values_of(found), values_of(arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@given(seeds)
def test_the_memory_order_of_an_array_does_not_matter(seed):
    straight = np.random.default_rng(seed).uniform(-CLIP, CLIP, (3, 4))
    quantizer = Quantizer.for_model([straight], clients=3, clip=CLIP, rounding="nearest")
    due = quantizer.encode([straight]).vector
    assert np.array_equal(quantizer.encode([np.asfortranarray(straight)]).vector, due)
    assert np.array_equal(quantizer.encode([np.repeat(straight, 2, axis=1)[:, ::2]]).vector, due)


@given(st.lists(units, min_size=1, max_size=12), bits, roundings, st.floats(1e-3, 1e6), seeds)
def test_the_weighted_mean_is_that_of_numpy(weights, width, rounding, max_weight, seed):
    assume(sum(weights) > 0)
    rng, clients = np.random.default_rng(seed), len(weights)
    values = rng.uniform(-CLIP, CLIP, (clients, 7))
    quantizer = Quantizer.for_model(
        [values[0]], clients=clients, clip=CLIP, field_bits=width, rounding=rounding, max_weight=max_weight
    )
    encoded = [
        quantizer.encode([value], weight=max_weight * weight / WEIGHT_UNITS, rng=rng).vector
        for value, weight in zip(values, weights, strict=True)
    ]
    mean = quantizer.decode(summed(encoded))
    total = sum(weights) / WEIGHT_UNITS
    assert mean.weight == pytest.approx(total * max_weight, rel=1e-12)
    slack = quantizer.error_bound * clients / total + 1e-12 * CLIP * (1 + clients / total)
    assert np.all(np.abs(mean.arrays[0] - np.average(values, axis=0, weights=weights)) <= slack)


@given(bits, st.floats(-CLIP, CLIP))
def test_a_client_of_weight_zero_contributes_nothing(width, value):
    quantizer = Quantizer.for_model(one_value(), clients=3, clip=CLIP, field_bits=width)
    assert not quantizer.encode(one_value(value), weight=0.0).vector.any()


@given(bits)
def test_weights_that_sum_to_zero_have_no_mean(width):
    quantizer = Quantizer.for_model(one_value(), clients=3, clip=CLIP, field_bits=width)
    with pytest.raises(VectorError, match="weights sum to zero"):
        quantizer.decode(words.zeros(quantizer.length, WORD_BITS))


# Rounding


@pytest.mark.parametrize("value", [-0.99, -0.3, -1e-3, 0.0, 0.01, 0.5, 0.77])
def test_stochastic_rounding_is_unbiased_and_goes_to_the_two_nearest_steps(value):
    count, arrays = 40_000, [np.full(40_000, value)]
    quantizer = Quantizer.for_model(arrays, clients=1, clip=1.0, field_bits=3)
    steps = np.array(signed(quantizer.encode(arrays, rng=np.random.default_rng(5)).vector, quantizer))
    assert set(steps.tolist()) <= {math.floor(3 * value), math.ceil(3 * value)}
    assert abs(steps.mean() - 3 * value) <= 5 * 0.5 / math.sqrt(count)


@given(st.integers(1, 127), st.floats(-1, 1))
def test_nearest_rounding_is_off_by_half_a_step_at_most(clients, value):
    quantizer = Quantizer.for_model(one_value(), clients=clients, clip=1.0, field_bits=8, rounding="nearest")
    levels = quantizer.levels
    assert levels == 127 // clients
    (step,) = signed(quantizer.encode(one_value(value)).vector, quantizer)
    assert abs(step - levels * value) <= 0.5 + 1e-12
    assert quantizer.error_bound == pytest.approx(0.5 / levels)


@given(seeds)
def test_a_seeded_generator_repeats_the_rounding_and_none_does_not(seed):
    arrays = [np.full(200, 0.5)]
    quantizer = Quantizer.for_model(arrays, clients=1, clip=1.0, field_bits=3)
    one, other = (quantizer.encode(arrays, rng=np.random.default_rng(seed)).vector for _ in range(2))
    assert np.array_equal(one, other)
    assert not np.array_equal(quantizer.encode(arrays).vector, quantizer.encode(arrays).vector)


# Clipping


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0.1, 1e5), roundings)
def test_clipped_values_are_counted_and_cut_to_the_bound(values, clip, rounding):
    arrays = [np.array(values)]
    quantizer = Quantizer.for_model(arrays, clients=1, clip=clip, field_bits=64, rounding=rounding)
    encoded = quantizer.encode(arrays)
    assert encoded.clipped == sum(abs(value) > clip for value in values)
    (found,) = quantizer.decode(encoded.vector).arrays
    np.testing.assert_allclose(found, np.clip(values, -clip, clip), rtol=0, atol=1e-12 * clip)


@given(st.booleans(), seeds)
def test_each_array_has_its_own_clip(named, seed):
    rng, bounds = np.random.default_rng(seed), [0.5, 3.0, 100.0]
    arrays = [rng.uniform(-2 * bound, 2 * bound, (2, 3)) for bound in bounds]
    clip = bounds
    if named:
        arrays, clip = dict(zip("abc", arrays, strict=True)), {"c": 100.0, "a": 0.5, "b": 3.0}
    quantizer = Quantizer.for_model(arrays, clients=3, clip=clip)
    encoded = quantizer.encode(arrays)
    found = values_of(quantizer.decode(encoded.vector).arrays)
    outside = [np.abs(one) > bound for one, bound in zip(values_of(arrays), bounds, strict=True)]
    assert encoded.clipped == sum(int(flags.sum()) for flags in outside)
    for one, due, bound in zip(found, values_of(arrays), bounds, strict=True):
        np.testing.assert_allclose(one, np.clip(due, -bound, bound), rtol=0, atol=bound / quantizer.levels)


@pytest.mark.parametrize(
    ("named", "clip", "text"),
    [
        (False, [1.0], "one number, or one for each array"),
        (False, [1.0, 1.0, 1.0], "one number, or one for each array"),
        (False, {"a": 1.0, "b": 1.0}, "in the form of the arrays"),
        (True, [1.0, 1.0], "in the form of the arrays"),
        (True, {"a": 1.0}, "one for each array"),
        (True, {"a": 1.0, "c": 1.0}, "no bound for 'b'"),
        (False, 0.0, "positive number, not 0.0"),
        (False, -1.0, "positive number, not -1.0"),
        (False, math.inf, "positive number, not inf"),
        (False, [1.0, math.nan], "positive number, not nan"),
        (True, {"a": 1.0, "b": 0.0}, "positive number, not 0.0"),
    ],
)
def test_clips_that_do_not_fit_are_refused(named, clip, text):
    arrays = {"a": np.ones(2), "b": np.ones(3)} if named else [np.ones(2), np.ones(3)]
    with pytest.raises(ConfigError, match=text):
        Quantizer.for_model(arrays, clients=3, clip=clip)


# Overflow


@given(bits, roundings, st.integers(1, 100), st.sampled_from([1, -1]))
def test_extreme_inputs_of_all_clients_sum_exactly(width, rounding, clients, sign):
    most = most_levels(width, clients)
    quantizer = Quantizer.for_model(one_value(), clients=clients, clip=CLIP, field_bits=width, rounding=rounding)
    assert quantizer.levels == most
    total = summed([quantizer.encode(one_value(sign * CLIP)).vector for _ in range(clients)])
    assert signed(total, quantizer) == [sign * clients * most]
    assert quantizer.decode(total).arrays[0] == pytest.approx(sign * CLIP, rel=1e-12)


@given(bits, st.data())
def test_one_step_more_than_all_clients_have_is_refused(width, data):
    clients = data.draw(st.integers(1, 2 ** (width - 1) - 1))
    quantizer = Quantizer.for_model(one_value(), clients=clients, clip=CLIP, field_bits=width)
    row, _ = quantizer.row(one_value())
    for sign in (1, -1):
        row[0] = sign * clients * quantizer.levels
        assert quantizer.decode(quantizer.fields.pack(row)).arrays[0] is not None
        row[:1] += sign  # which may wrap around, to the other end
        with pytest.raises(VectorError, match=f"{clients} clients cannot have"):
            quantizer.decode(quantizer.fields.pack(row))


@given(bits, st.integers(0, 1000))
def test_more_clients_than_a_field_can_add_are_refused(width, excess):
    most = 2 ** (width - 1) - 1
    with pytest.raises(ConfigError, match=f"at most {most} clients fit, or take more bits"):
        Quantizer.for_model(one_value(), clients=most + 1 + excess, clip=CLIP, field_bits=width)


def test_eight_bits_do_not_serve_two_hundred_clients():
    with pytest.raises(ConfigError, match="8 bits overflow with 200 clients; at most 127 clients fit"):
        Quantizer.for_model(one_value(), clients=200, clip=CLIP, field_bits=8)


# Bits of a value, or a precision


@given(st.integers(2, 30), st.integers(1, 2**20))
def test_a_field_has_the_bits_of_a_value_and_no_more_than_all_clients_need(value_bits, clients):
    quantizer = Quantizer.for_model(one_value(), clients=clients, clip=CLIP, bits=value_bits)
    assert quantizer.bits == value_bits
    assert quantizer.levels >= 2 ** (value_bits - 1) - 1
    assert quantizer.field_bits <= value_bits + math.ceil(math.log2(clients))
    if quantizer.field_bits > 2:
        assert most_levels(quantizer.field_bits - 1, clients) < 2 ** (value_bits - 1) - 1


def test_eight_bits_of_a_thousand_clients_are_three_to_a_word():
    quantizer = Quantizer.for_model([np.zeros(3_000_000)], clients=1000, clip=1.0, bits=8)
    assert (quantizer.bits, quantizer.field_bits, quantizer.fields.per_word) == (8, 18, 3)
    assert 8 * quantizer.length / 3_000_000 < 2.67
    assert str(quantizer.fields.in_words) == (
        "values of 8 bits in fields of 18 bits, 3 per 64-bit word: 2.67 bytes per value"
    )


@given(st.floats(1e-9, 1e3), st.floats(1e-3, 1e3), st.integers(1, 1000), roundings, seeds)
def test_a_precision_is_kept_by_the_narrowest_fields(precision, clip, clients, rounding, seed):
    options = {"clients": clients, "clip": [clip / 3, clip], "rounding": rounding}
    arrays = [np.zeros(2), np.zeros(1)]
    quantizer = Quantizer.for_model(arrays, precision=precision, **options)
    assert quantizer.error_bound <= precision * (1 + 1e-9)
    if quantizer.field_bits > 2 and most_levels(quantizer.field_bits - 1, clients) >= 1:
        coarser = Quantizer.for_model(arrays, field_bits=quantizer.field_bits - 1, **options)
        assert coarser.error_bound > precision
    rng = np.random.default_rng(seed)
    model = [rng.uniform(-clip / 3, clip / 3, 2), rng.uniform(-clip, clip, 1)]
    mean = quantizer.decode(quantizer.encode(model, rng=rng).vector)
    for found, due in zip(mean.arrays, model, strict=True):
        assert np.all(np.abs(found - due) <= precision * clients * (1 + 1e-9))


@given(st.integers(1, 2**31 - 1))
def test_by_default_a_value_has_all_the_levels_of_thirty_two_bits(clients):
    quantizer = Quantizer.for_model([np.zeros(10)], clients=clients, clip=1.0)
    assert quantizer.levels == (2**31 - 1) // clients
    assert (quantizer.field_bits, quantizer.fields.bytes_each) == (32, 4)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bits": 1}, "a value has 2 to 53 bits, not 1"),
        ({"bits": 54}, "a value has 2 to 53 bits, not 54"),
        ({"bits": 8.0}, "a value has 2 to 53 bits, not 8.0"),
        ({"bits": True}, "a value has 2 to 53 bits, not True"),
        ({"bits": 53, "clients": 2**12}, "overflow with 4096 clients; values of 52 bits fit"),
        ({"precision": 0.0}, "precision must be a positive number, not 0.0"),
        ({"precision": -1e-4}, "precision must be a positive number"),
        ({"precision": math.nan}, "not nan"),
        ({"precision": math.inf}, "not inf"),
        ({"precision": "1e-4"}, "precision must be a positive number"),
        ({"precision": True}, "precision must be a positive number"),
        ({"precision": 1e-15, "clip": 1.0}, "finer than float64 is for values up to 1"),
        ({"precision": 1e-14, "clip": 1.0, "clients": 10**6}, "levels overflow with 1000000 clients"),
        ({"bits": 8, "precision": 1e-4}, "give one of them"),
        ({"bits": 8, "field_bits": 18}, "give one of the three"),
        ({"precision": 1e-4, "field_bits": 18}, "give one of the three"),
    ],
)
def test_bits_and_precisions_that_cannot_be_are_refused(options, text):
    with pytest.raises(ConfigError, match=text):
        Quantizer.for_model(one_value(), **{"clients": 3, "clip": CLIP, **options})


def test_a_precision_without_arrays_is_kept_by_anything():
    assert Quantizer.for_model([], clients=3, clip=1.0, precision=1e-4).error_bound == 0.0


# Weights as digits


@given(bits, units.filter(bool), st.data())
def test_digits_of_a_weight_never_overflow_and_sum_exactly(width, weight, data):
    clients = data.draw(st.integers(1, 2 ** (width - 1) - 1))
    digits = Digits(fields=Fields(width, clients), largest=WEIGHT_UNITS)
    sums = digits.encode([weight]) * clients
    assert 0 <= sums.min() <= sums.max() < 2 ** (width - 1)
    assert digits.decode(sums) == [weight * clients]
    quantizer = Quantizer.for_model([], clients=clients, clip=CLIP, field_bits=width)
    assert quantizer.fields.unpack(quantizer.fields.pack(sums), quantizer.count).tolist() == sums.tolist()
    assert quantizer.mean(sums).weight == pytest.approx(weight * clients / WEIGHT_UNITS, rel=1e-12)


@given(bits, st.integers(1, 100), st.data())
def test_digits_that_no_clients_have_are_refused(width, clients, data):
    digits = Digits(fields=Fields(width, clients), largest=WEIGHT_UNITS)
    most = digits.encode([WEIGHT_UNITS]) * clients
    assert digits.decode(most) == [clients * WEIGHT_UNITS]
    for sign in (1, -1):  # one unit more than all have, and less than nothing
        row = most.copy() if sign > 0 else np.zeros_like(most)
        row[:1] += sign  # which may wrap around, to the other end
        with pytest.raises(VectorError, match=f"more in the sum than {clients} clients can have"):
            digits.decode(row)


@settings(max_examples=40)
@given(bits, st.lists(units, min_size=1, max_size=127).filter(any), st.integers(0, 20))
def test_sums_of_many_weights_are_exact(width, weights, absent):
    clients = min(len(weights) + absent, 127)
    quantizer = Quantizer.for_model(one_value(), clients=clients, clip=CLIP, field_bits=width)
    encoded = [quantizer.encode(one_value(), weight=weight / WEIGHT_UNITS).vector for weight in weights]
    assert quantizer.decode(summed(encoded)).weight == sum(weights) / WEIGHT_UNITS


@given(bits, layouts, st.integers(1, 127), seeds)
def test_the_length_counts_values_and_digits(width, layout, clients, seed):
    arrays = model(layout, np.random.default_rng(seed))
    quantizer = Quantizer.for_model(arrays, clients=clients, clip=CLIP, field_bits=width)
    vector = quantizer.encode(arrays).vector
    assert words.check(vector, quantizer.length, WORD_BITS) is vector
    assert quantizer.count > sum(value.size for value in arrays) == quantizer.layout.size
    assert (quantizer.length - 1) * (64 // width) < quantizer.count <= quantizer.length * (64 // width)


# Refused inputs


@given(st.floats().filter(lambda weight: not 0 <= weight <= 2.0))
def test_weights_outside_the_range_are_refused(weight):
    quantizer = Quantizer.for_model(one_value(), clients=3, clip=CLIP, max_weight=2.0)
    with pytest.raises(VectorError, match=r"must lie in 0..2, the Quantizer's max_weight"):
        quantizer.encode(one_value(), weight=weight)


@given(st.sampled_from([math.nan, math.inf, -math.inf]), st.sampled_from(FLOATS), st.booleans(), st.data())
def test_nan_and_infinity_are_refused_by_the_name_of_their_array(bad, dtype, named, data):
    arrays = [np.zeros(3, dtype), np.zeros((2, 2), dtype), np.zeros((), dtype)]
    quantizer = Quantizer.for_model(dict(zip("abc", arrays, strict=True)) if named else arrays, clients=3, clip=CLIP)
    place = data.draw(st.integers(0, 2))
    arrays[place].flat[data.draw(st.integers(0, arrays[place].size - 1))] = bad
    called = repr("abc"[place]) if named else str(place)
    with pytest.raises(VectorError, match=f"array {called} contains NaN or infinity"):
        quantizer.encode(dict(zip("abc", arrays, strict=True)) if named else arrays)


@pytest.mark.parametrize("dtype", ["?", "c8", "c16", "O", "U3", "S3", "M8[s]", "m8[s]"])
def test_what_is_no_real_number_is_refused_by_its_type(dtype):
    quantizer = Quantizer.for_model({"w": np.zeros(2)}, clients=3, clip=CLIP)
    strange = {"w": np.zeros(2, dtype)}
    with pytest.raises(VectorError, match=r"array 'w' has type .*; expected real numbers"):
        Layout.of(strange)
    with pytest.raises(VectorError, match=r"array 'w' has type .*; expected real numbers"):
        quantizer.encode(strange)


@pytest.mark.parametrize("ragged", [[[1.0], [1.0, 2.0]], [np.zeros(2), np.zeros(3)]])
def test_rows_of_different_lengths_are_no_array(ragged):
    with pytest.raises(VectorError, match="array 1 has no regular shape"):
        Quantizer.for_model([np.zeros(2), ragged], clients=3, clip=CLIP)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"a": np.zeros(2)}, "are called"),
        ({"a": np.zeros(2), "b": np.zeros((2, 3)), "c": np.zeros(1)}, "are called"),
        ({"a": np.zeros(2), "x": np.zeros((2, 3))}, r"are called \('a', 'x'\), expected \('a', 'b'\)"),
        ([np.zeros(2), np.zeros((2, 3))], "are called None"),
        ({"a": np.zeros(2), "b": np.zeros((3, 2))}, "have shapes"),
        ({"a": np.zeros((2, 1)), "b": np.zeros((2, 3))}, "have shapes"),
        ({"a": np.zeros(3), "b": np.zeros((2, 3))}, "have shapes"),
    ],
)
def test_arrays_of_another_layout_are_refused(arrays, text):
    quantizer = Quantizer.for_model({"a": np.zeros(2), "b": np.zeros((2, 3))}, clients=3, clip=CLIP)
    with pytest.raises(VectorError, match=text):
        quantizer.encode(arrays)


@given(bits, st.sampled_from(words.BITS), st.integers(0, 8))
def test_only_sums_of_this_quantizer_are_decoded(width, found, length):
    quantizer = Quantizer.for_model(one_value(), clients=3, clip=CLIP, field_bits=width)
    assume(found != WORD_BITS or length != quantizer.length)
    with pytest.raises(VectorError, match="expected"):
        quantizer.decode(np.ones(length, words.dtype(found)))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"field_bits": 1}, "a field has 2 to 64 bits, not 1"),
        ({"field_bits": 65}, "a field has 2 to 64 bits, not 65"),
        ({"clients": 0}, "clients must be at least 1, not 0"),
        ({"max_weight": 0.0}, "max_weight must be a positive number, not 0.0"),
        ({"max_weight": -1.0}, "max_weight must be a positive number"),
        ({"max_weight": math.inf}, "not inf"),
        ({"max_weight": math.nan}, "not nan"),
        ({"rounding": "up"}, "rounding must be stochastic or nearest, not 'up'"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, text):
    with pytest.raises(ConfigError, match=text):
        Quantizer.for_model(one_value(), **{"clients": 3, "clip": CLIP, **options})


def test_values_stay_out_of_the_repr():
    quantizer = Quantizer.for_model(one_value(), clients=3, clip=CLIP)
    encoded = quantizer.encode(one_value(77.0))
    assert repr(encoded) == "Quantized(clipped=0)"
    assert repr(quantizer.decode(encoded.vector)) == "Mean(weight=1.0)"


def test_a_mean_beyond_its_type_stays_at_the_end_of_it():
    """A coarse step can push the mean outside; infinity would be the worse answer."""
    arrays = [np.array([65504], np.float16)]
    quantizer = Quantizer.for_model(arrays, clients=40, clip=1e5, field_bits=8, rounding="nearest")
    (mean,) = quantizer.decode(quantizer.encode(arrays).vector).arrays
    assert mean.dtype == np.float16
    assert np.isfinite(mean).all()
    assert abs(float(mean[0]) - 65504) <= quantizer.error_bound


@pytest.mark.parametrize("clip", [5e-324, 1e-310, 1e-300, 1e300, 1e308, np.finfo(np.float64).max])
@pytest.mark.parametrize("sign", [-1, 1])
def test_bounds_at_the_ends_of_floats_keep_the_error_bound(clip, sign):
    """Neither is the sum of all clients' bounds made on the way, nor a single step."""
    quantizer = Quantizer.for_model([np.zeros(1)], clients=10, clip=clip, field_bits=64)
    one = quantizer.encode([np.array([sign * clip])]).vector
    mean = quantizer.decode(one * np.uint64(10)).arrays[0]
    assert abs(float(mean[0]) - sign * clip) <= quantizer.error_bound


def test_the_order_of_names_says_nothing():
    quantizer = Quantizer.for_model({"a": np.zeros(2), "b": np.zeros(3)}, clients=3, clip=CLIP)
    found = quantizer.encode({"b": np.ones(3), "a": np.zeros(2)}, rng=np.random.default_rng(1)).vector
    assert np.array_equal(
        found, quantizer.encode({"a": np.zeros(2), "b": np.ones(3)}, rng=np.random.default_rng(1)).vector
    )


def test_a_model_without_arrays_has_a_weight_all_the_same():
    quantizer = Quantizer.for_model([], clients=3, clip=1.0)
    mean = quantizer.decode(quantizer.encode([]).vector)
    assert (mean.arrays, mean.weight) == ([], 1.0)


def test_a_value_far_beyond_the_clip_is_clipped_quietly():
    quantizer = Quantizer.for_model([np.ones(1)], clients=1, clip=1e-10)
    assert quantizer.encode([np.array([1e300])]).clipped == 1


@pytest.mark.parametrize(
    "options", [{"clients": 2.5}, {"clients": True}, {"clip": True}, {"field_bits": 32.0}, {"max_weight": "1"}]
)
def test_settings_of_the_wrong_type_are_refused(options):
    with pytest.raises(ConfigError):
        Quantizer.for_model([np.ones(1)], **{"clients": 3, "clip": 1.0, **options})


def test_weights_of_the_wrong_type_are_refused():
    with pytest.raises(VectorError, match="weight"):
        Quantizer.for_model([np.ones(1)], clients=3, clip=1.0).encode([np.ones(1)], weight="1")


def test_numpy_numbers_are_numbers():
    quantizer = Quantizer.for_model([np.ones(1)], clients=3, clip=np.float32(1))
    assert quantizer.encode([np.ones(1)], weight=np.float64(0.5)).clipped == 0
