"""A client's part of a noisy sum: how far it can change the sum, what noise is in it, and what is refused."""

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError, VectorError
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer, choose_mechanism
from ccesa.privacy.quantizer import rotate, square, unrotate
from ccesa.protocol.client import Client
from ccesa.protocol.log import RoundLog
from ccesa.protocol.server import Server
from ccesa.values.fields import Layout
from ccesa.values.quantize import Quantized
from rounds import configure
from strategies import randomness, seeds

CONTEXT = bytes(range(32))
CLIENTS, HONEST = 20, 16
contexts = st.binary(min_size=32, max_size=32)
dimensions = st.sampled_from([1, 2, 7, 64, 100])


@cache
def mechanism(dimension: int = 64, *, clients: int = CLIENTS, honest: int = HONEST, **asked) -> Mechanism:
    demand = DifferentialPrivacy(**{"epsilon": 4.0, "delta": 1e-6, "rounds": 3, "norm": 2.0, **asked})
    return choose_mechanism(demand, clients=clients, honest=honest, dimension=dimension, fails=-40.0)


def quantizer(dimension: int = 64, **asked) -> NoisyQuantizer:
    return NoisyQuantizer.for_model([np.zeros(dimension)], mechanism(dimension, **asked))


def on_grid(made: NoisyQuantizer, values: np.ndarray, context: bytes = CONTEXT) -> tuple[np.ndarray, bool]:
    """What a client's vector is before noise, in steps of the fine grid."""
    return made._on_grid(np.array(values, np.float64), context)


def drawn(made: NoisyQuantizer, encoded: Quantized) -> np.ndarray:
    """The numbers that lie in one client's fields."""
    numbers, left = made.mechanism.fields.split(encoded.vector)
    assert not left
    return numbers[: made.mechanism.dimension]


def nothing(count: int) -> bytes:
    raise LookupError("randomness was asked for")


# How far a client can change the sum


@st.composite
def models(draw, dimension: int) -> np.ndarray:
    """Any floats, of any size, and the same size for many of them."""
    finite = st.floats(allow_nan=False, allow_infinity=False)
    near = st.floats(-4, 4, allow_subnormal=True)
    each = st.lists(draw(st.sampled_from([finite, near])), min_size=dimension, max_size=dimension)
    values = np.array(draw(each | near.map(lambda one: [one] * dimension)))
    factor = draw(st.sampled_from([1.0, 5e-324, 1e-160, 1e160, 1e308]))
    with np.errstate(over="ignore"):
        return np.nan_to_num(values * factor, posinf=1.7e308, neginf=-1.7e308)


@given(st.data(), dimensions, contexts, st.sampled_from([1e-90, 2.0, 1e90]))
def test_no_vector_whatsoever_is_longer_than_the_bound(data, dimension, context, norm):
    made = quantizer(dimension, norm=norm)
    fine, _ = on_grid(made, data.draw(models(dimension)), context)
    assert sum(one * one for one in fine.tolist()) <= made.mechanism.bound**2


@given(st.integers(0, 300), st.floats(-1e-6, 1e-6), st.sampled_from([16, 64, 100, 1024]), contexts, st.booleans())
def test_nor_one_that_is_rounded_up_wherever_that_can_be(whole, off, dimension, context, together):
    """Chosen so that the rotation puts almost all coordinates beside a half step, and the rest into one."""
    made = quantizer(dimension)
    bound = made.mechanism.bound
    aim = np.full(dimension, whole + 0.5 + off)
    if together:
        aim[0] += math.sqrt(max(bound**2 - square(np.rint(aim).astype(np.int64)), 0))
    model = unrotate(aim, context) * (made.mechanism.norm / bound)
    fine, _ = on_grid(made, model, context)
    assert sum(one * one for one in fine.tolist()) <= bound**2


def test_rounding_up_everywhere_would_have_been_too_long():
    """The same vector, rounded once, is longer than the bound; what leaves is not much shorter."""
    made = quantizer(1024)
    mechanism = made.mechanism
    aim = np.full(1024, math.floor(mechanism.bound / 40) + 0.501)
    aim[0] = math.sqrt(mechanism.bound**2 - 1024 / 12 - float(aim[1:] @ aim[1:]))
    assert square(np.rint(aim).astype(np.int64)) > mechanism.bound**2
    for fine in (
        made._shortened(aim.copy()),
        on_grid(made, unrotate(aim, CONTEXT) * (mechanism.norm / mechanism.bound))[0],
    ):
        assert 0.97 * mechanism.bound**2 < square(fine) <= mechanism.bound**2


@pytest.mark.parametrize("dimension", [1, 2, 7, 64, 1000, 2**14])
def test_hardly_anything_is_lost_by_shortening(dimension):
    """Rounding moves a norm by about a step; a clipped vector is neither cut to much less nor to nothing."""
    made, rng = quantizer(dimension), np.random.default_rng(dimension)
    for _ in range(200 if dimension < 2000 else 20):
        fine, clipped = on_grid(made, rng.normal(size=dimension) + 1e3)
        assert clipped
        assert square(fine) >= (0.99 * made.mechanism.bound) ** 2


def test_what_cannot_be_made_short_enough_is_zero():
    """A vector is not shortened for ever, and never sent as it is."""
    assert not quantizer()._shortened(Stubborn(64)).any()


class Stubborn(np.ndarray):
    """Floats that stay as they are when they are made smaller, as rounding might have it."""

    def __new__(cls, size):
        return np.full(size, 1e6).view(cls)

    def __imul__(self, factor):
        return self


@given(st.lists(st.integers(-(2**31), 2**31), max_size=50))
def test_squares_are_exact(numbers):
    assert square(np.array(numbers, np.int64)) == sum(one * one for one in numbers)


def test_squares_of_many_large_numbers_are_exact():
    assert square(np.full(1000, 2**31, np.int64)) == 1000 * 2**62


@given(st.floats(0.01, 0.99), seeds)
def test_a_vector_within_the_norm_is_not_clipped(part, seed):
    made, rng = quantizer(), np.random.default_rng(seed)
    values = rng.normal(size=64)
    values *= part * made.mechanism.norm / np.linalg.norm(values)
    fine, clipped = on_grid(made, values)
    assert not clipped
    steps = made.mechanism.norm / made.mechanism.bound
    assert np.abs(unrotate(fine * steps, CONTEXT) - values).max() <= 0.5 * steps * math.sqrt(64)


@given(st.floats(1.01, 1e300), seeds)
def test_a_longer_one_points_the_same_way_and_says_so(times, seed):
    made, rng = quantizer(), np.random.default_rng(seed)
    values = rng.normal(size=64)
    values *= made.mechanism.norm / np.linalg.norm(values)
    fine, clipped = on_grid(made, values * times)
    assert clipped
    assert np.abs(unrotate(fine * (made.mechanism.norm / made.mechanism.bound), CONTEXT) - values).max() < 0.05
    assert made.encode([values * times], CONTEXT).clipped == 1
    assert made.encode([values / 2], CONTEXT).clipped == 0


# What noise is in it


def test_zero_has_noise_and_is_not_the_packed_zero():
    made = quantizer()
    plain = made.mechanism.fields.pack(np.zeros(64, np.int64))
    both = [made.encode([np.zeros(64)], CONTEXT).vector for _ in range(2)]
    for one, other in pairwise([plain, *both, plain]):
        assert (one != other).mean() > 0.8  # the last word has one number only


def test_two_encodings_of_one_model_differ_by_the_noise_of_two():
    made = quantizer(4096)
    values = [np.full(4096, made.mechanism.norm / 64)]
    one, other = (drawn(made, made.encode(values, CONTEXT, randomness(seed))) for seed in (1, 2))
    assert np.var(one - other) == pytest.approx(2 * float(made.mechanism.s2), rel=0.1)


@pytest.mark.parametrize("times", [0.0, 0.7, 30.0])
def test_the_noise_has_the_variance_that_the_mechanism_says(times):
    """Around the value itself on the fine grid: rounding and noise are one step."""
    made = quantizer(2**14)
    values = np.random.default_rng(3).normal(size=2**14)
    values *= times * made.mechanism.norm / np.linalg.norm(values)
    fine, _ = on_grid(made, values)
    noise = drawn(made, made.encode([values], CONTEXT, randomness(4))) - fine / 2.0**made.mechanism.grid_bits
    s2 = float(made.mechanism.s2)
    assert abs(noise.mean()) < 4 * math.sqrt(s2 / 2**14)
    assert np.mean(noise**2) == pytest.approx(s2, rel=4 * math.sqrt(2 / 2**14))


@settings(max_examples=25)
@given(seeds, st.integers(1, CLIENTS), st.sampled_from([7, 64, 100, 500]), contexts)
def test_sums_decode_to_the_mean(seed, survivors, dimension, context):
    """Within seven standard deviations, coordinate by coordinate."""
    made, rng = quantizer(dimension), np.random.default_rng(seed)
    models = rng.normal(size=(survivors, dimension))
    models *= 0.9 * made.mechanism.norm / np.linalg.norm(models, axis=1, keepdims=True)
    total = sum(made.encode([one], context, randomness(seed + place)).vector for place, one in enumerate(models))
    mean = made.decode(total, survivors, context)
    deviation = made.mechanism.noise(survivors) / survivors
    assert mean.weight == survivors
    assert np.abs(mean.arrays[0] - models.mean(axis=0)).max() < 7 * deviation


def test_the_mean_is_not_biased():
    """Over 400 rounds the error of a coordinate is one twentieth of that of one round."""
    made, rounds = quantizer(), 400
    values = np.linspace(-1, 1, 64)
    values *= 0.9 * made.mechanism.norm / np.linalg.norm(values)
    errors = np.array(
        [
            made.decode(
                made.encode([values], bytes([k % 7] * 32), randomness(k)).vector, 1, bytes([k % 7] * 32)
            ).arrays[0]
            - values
            for k in range(rounds)
        ]
    )
    deviation = made.mechanism.noise(1)
    assert np.abs(errors.mean(axis=0)).max() < 4.5 * deviation / math.sqrt(rounds)
    assert errors.std() == pytest.approx(deviation, rel=0.03)


@pytest.mark.parametrize("dimension", [256, 2**14])
def test_fields_hold_four_and_a_half_standard_deviations(dimension):
    """Worst case: all clients have the same vector, of full norm. What wraps is rare, and a small error."""
    made = quantizer(dimension, clients=50, honest=40)
    noise = made.mechanism
    values = np.random.default_rng(8).normal(size=dimension)
    values *= noise.norm / np.linalg.norm(values)
    fine, _ = on_grid(made, values)
    half = 2.0 ** (noise.field_bits - 1)
    centres = 50 * np.sqrt(np.mean((fine / 2.0**noise.grid_bits) ** 2))
    assert half >= 4.5 * math.hypot(math.sqrt(50 * float(noise.s2)), 0.99 * centres)
    total, numbers = np.zeros(noise.length, np.uint64), np.zeros(dimension)
    for place in range(50):
        encoded = made.encode([values], CONTEXT, randomness(place))
        total += encoded.vector
        numbers += drawn(made, encoded)
    wraps = (numbers < -half) | (numbers >= half)
    assert wraps.sum() <= 1  # 7e-6 is expected at most
    error = made.decode(total, 50, CONTEXT).arrays[0] - values
    assert error.std() < 1.1 * noise.noise(50) / 50


def test_a_wrap_is_no_error():
    made = quantizer()
    numbers = np.zeros(64, np.int64)
    numbers[5] = 2 ** (made.mechanism.field_bits - 1)
    mean = made.decode(made.mechanism.fields.pack(numbers), 1, CONTEXT).arrays[0]
    found = rotate(mean, CONTEXT) / made.mechanism.step
    assert found[5] == pytest.approx(-(2.0 ** (made.mechanism.field_bits - 1)))


# What is refused, before anything leaves


@pytest.mark.parametrize(
    ("model", "match"),
    [
        ([np.full(64, np.nan)], "NaN or infinity"),
        ([np.array([np.inf] + [0.0] * 63)], "NaN or infinity"),
        ([np.array([-np.inf] + [0.0] * 63)], "NaN or infinity"),
        ([np.zeros(63)], "have shapes"),
        ([np.zeros((64, 1))], "have shapes"),
        ([np.zeros(64), np.zeros(0)], "have shapes"),
        ([np.zeros(64, complex)], "expected real numbers"),
        ({"w": np.zeros(64)}, "are called"),
        (None, "a model is a list or a dict"),
    ],
)
def test_other_models_are_refused_before_randomness_is_drawn(model, match):
    with pytest.raises(VectorError, match=match):
        quantizer().encode(model, CONTEXT, nothing)


@pytest.mark.parametrize("size", [1, 63, 65])
def test_a_model_of_another_size_is_refused(size):
    with pytest.raises(ConfigError, match=f"the model has {size} parameters, but the noise is made for 64"):
        NoisyQuantizer.for_model([np.zeros(size)], mechanism(64))


def test_a_demand_is_not_yet_a_mechanism():
    with pytest.raises(ConfigError, match=r"plan\(..., privacy=...\).mechanism is one"):
        NoisyQuantizer(layout=Layout.of([np.zeros(64)]), mechanism=mechanism(64).demand)


@pytest.mark.parametrize("survivors", [0, -1, 1.5, "3"])
def test_a_sum_of_nobody_has_no_mean(survivors):
    made = quantizer()
    with pytest.raises((VectorError, ConfigError)):
        made.decode(np.zeros(made.length, np.uint64), survivors, CONTEXT)


@pytest.mark.parametrize("change", [lambda v: v[:-1], lambda v: np.append(v, v[:1]), lambda v: v.astype("u4")])
def test_other_sums_are_refused(change):
    made = quantizer()
    with pytest.raises(VectorError):
        made.decode(change(np.zeros(made.length, np.uint64)), 3, CONTEXT)


# Models of every form


def test_a_model_stays_as_it_was():
    values = np.linspace(-9, 9, 64)
    kept = values.copy()
    quantizer().encode([values], CONTEXT)
    assert np.array_equal(values, kept)


def test_dicts_and_types_come_back():
    made = NoisyQuantizer.for_model({"w": np.zeros((8, 4), np.float32), "b": np.zeros(32, np.float16)}, mechanism(64))
    given = {"b": np.full(32, 0.1, np.float16), "w": np.full((8, 4), 0.1, np.float32)}
    total = sum(made.encode(given, CONTEXT, randomness(k)).vector for k in range(CLIENTS))
    mean = made.decode(total, CLIENTS, CONTEXT).arrays
    assert {name: (one.shape, one.dtype) for name, one in mean.items()} == {
        "w": ((8, 4), np.dtype(np.float32)),
        "b": ((32,), np.dtype(np.float16)),
    }
    deviation = made.mechanism.noise(CLIENTS) / CLIENTS
    assert abs(float(mean["w"].mean()) - 0.1) < 5 * deviation / math.sqrt(32)


def test_tensors_come_back():
    torch = pytest.importorskip("torch")
    made = NoisyQuantizer.for_model({"w": torch.zeros(8, 8)}, mechanism(64))
    given = {"w": torch.full((8, 8), 0.1, requires_grad=True)}
    mean = made.decode(made.encode(given, CONTEXT).vector, 1, CONTEXT).arrays["w"]
    assert isinstance(mean, torch.Tensor)
    assert (mean.shape, mean.dtype) == ((8, 8), torch.float32)


# Noise is nowhere but in the vector


class Recording:
    """Randomness that remembers what it gave."""

    def __init__(self, seed: int) -> None:
        self._source, self.given = randomness(seed), []

    def __call__(self, count: int) -> bytes:
        self.given.append(self._source(count))
        return self.given[-1]


@pytest.mark.parametrize("accept", [False, True])
def test_neither_its_key_nor_the_noise_is_in_a_state_or_log(accept, tmp_path):
    made = quantizer(400)
    config = configure(5, length=made.length, bits=64, accept=accept)
    sources = [Recording(place) for place in range(5)]
    made_by = {}

    def vector(client):
        values = np.full(400, 0.01)
        made_by[client] = made.encode([values], config.context, sources[client])
        return made_by[client].vector

    log = RoundLog(tmp_path / "log", counter=tmp_path / "counter")
    server = Server(config, log=log)
    clients = [Client(config, i, lambda i=i: vector(i)) for i in range(5)]
    requests, kept = server.open(), []
    while requests:
        for i, request in requests.items():
            reply = clients[i].receive(request)
            data = clients[i].suspend()
            clients[i] = Client(config, i, lambda i=i: vector(i))
            clients[i].resume(data)
            server.receive(i, reply)
            kept += [data, reply]
        requests = server.close()
    log.close()
    fine, _ = on_grid(made, np.full(400, 0.01), config.context)
    everything = b"".join([*kept, (tmp_path / "log").read_bytes()])
    for source, encoded in zip(sources, made_by.values(), strict=True):
        (key,) = source.given
        assert len(key) == 16
        assert key not in everything
        numbers = drawn(made, encoded)
        noise = numbers - np.rint(fine / 2.0**made.mechanism.grid_bits).astype(np.int64)
        for secret in (encoded.vector, numbers, noise, numbers.astype(np.int16), fine):
            data = secret.tobytes()
            # Windows that are long enough for noise: a few zeros in a row are everywhere.
            assert all(data[at : at + 96] not in everything for at in range(0, len(data) - 96, 8))
    assert np.array_equal(server.result().vector, sum(one.vector for one in made_by.values()))


def test_every_call_asks_for_a_key_of_its_own():
    made, source = quantizer(), Recording(0)
    for _ in range(3):
        made.encode([np.zeros(64)], CONTEXT, source)
    assert len(set(source.given)) == len(source.given) == 3


# The whole of it against the definition


@settings(max_examples=15)
@given(seeds, contexts)
def test_a_draw_is_centred_at_the_fine_value(seed, context):
    """Exactly: the mean over many draws of one centre is the centre, as a fraction of the fine grid."""
    made = quantizer(7)
    values = np.random.default_rng(seed).normal(size=7)
    fine, _ = on_grid(made, values, context)
    source = randomness(seed)
    draws = np.array([drawn(made, made.encode([values], context, source)) for _ in range(300)])
    centres = np.array([float(Fraction(int(one), 2**made.mechanism.grid_bits)) for one in fine])
    assert np.abs(draws.mean(axis=0) - centres).max() < 5.5 * made.mechanism.deviation / math.sqrt(300)
