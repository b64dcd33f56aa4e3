"""Models of torch in, the mean as torch's tensors out: what a training loop has at hand, as it is."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ccesa
from ccesa.errors import VectorError
from strategies import seeds

torch = pytest.importorskip("torch")

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
WHOLE = [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64]


def network(seed: int) -> "torch.nn.Module":
    """Weights, running means, and a counter of batches, which is a whole number without dimensions."""
    torch.manual_seed(seed)
    made = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    for _ in range(10):
        made(torch.randn(5, 4))
    return made


def test_the_mean_of_state_dicts_can_be_loaded():
    networks = [network(i) for i in range(5)]
    mean = ccesa.aggregate([one.state_dict() for one in networks]).mean
    fresh = network(9)
    fresh.load_state_dict(mean)
    for name, value in fresh.state_dict().items():
        all_of = torch.stack([one.state_dict()[name].double() for one in networks])
        assert torch.allclose(value.double(), all_of.mean(dim=0), atol=1e-5)
        assert mean[name].dtype == value.dtype
    assert fresh.state_dict()["1.num_batches_tracked"] == 10


@settings(max_examples=30)
@given(st.sampled_from(FLOATS), st.lists(st.integers(0, 4), max_size=3), st.booleans(), seeds)
def test_every_type_of_real_numbers_comes_back_as_it_was(dtype, shape, named, seed):
    rng = torch.Generator().manual_seed(seed % 2**31)
    tensors = [torch.rand(shape, generator=rng, dtype=torch.float64).to(dtype) for _ in range(4)]
    found = ccesa.aggregate([{"w": one} if named else [one] for one in tensors]).mean
    (mean,) = found.values() if named else found
    due = torch.stack([one.double() for one in tensors]).mean(dim=0)
    assert (mean.dtype, mean.shape, mean.device) == (dtype, tensors[0].shape, tensors[0].device)
    assert torch.allclose(mean.double(), due, rtol=torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_whole_numbers_are_rounded_not_cut_off(dtype):
    models = [[torch.tensor([i, 7, 100 + i % 2], dtype=dtype)] for i in (1, 2, 3, 5)]
    (mean,) = ccesa.aggregate(models).mean
    assert mean.dtype == dtype
    assert mean.tolist() == [3, 7, 101]


def test_a_mean_beyond_its_type_stays_at_the_end_of_it():
    models = [[torch.tensor([2**63 - 1]), torch.tensor([3.3e38]).bfloat16()]] * 3
    whole, real = ccesa.aggregate(models, bits=8).mean
    assert whole.item() > 2**62
    assert math.isfinite(real.item())


def test_parameters_are_taken_without_their_gradient():
    parameters = [dict(network(i).named_parameters()) for i in range(4)]
    assert all(one.requires_grad for one in parameters[0].values())
    mean = ccesa.aggregate(parameters).mean
    assert not any(one.requires_grad for one in mean.values())
    due = sum(one["0.bias"] for one in parameters).detach() / 4
    assert torch.allclose(mean["0.bias"], due, atol=1e-6)


def test_the_memory_order_of_a_tensor_does_not_matter():
    straight = torch.arange(12.0).reshape(3, 4)
    turned = straight.T.contiguous().T
    quantizer = ccesa.Quantizer.for_model([straight], clients=3, clip=12.0, rounding="nearest")
    assert np.array_equal(quantizer.encode([straight]).vector, quantizer.encode([turned]).vector)


def test_arrays_and_tensors_of_one_layout_meet_in_one_sum():
    """A server without torch adds up what clients with it send, and each side decodes into its own form."""
    ours = ccesa.Quantizer.for_model({"w": np.zeros(3, np.float32)}, clients=3, clip=1.0)
    theirs = ccesa.Quantizer.for_model({"w": torch.zeros(3)}, clients=3, clip=1.0)
    total = ours.encode({"w": np.full(3, 0.5)}).vector + theirs.encode({"w": torch.full((3,), 0.25)}).vector
    assert isinstance(ours.decode(total).arrays["w"], np.ndarray)
    assert torch.allclose(theirs.decode(total).arrays["w"], torch.full((3,), 0.375))


def test_a_quantizer_for_tensors_travels_between_processes():
    one = ccesa.Quantizer.for_model({"w": torch.zeros(2).bfloat16()}, clients=3, clip=1.0)
    other = pickle.loads(pickle.dumps(one))  # noqa: S301 - made here
    assert other.decode(one.encode({"w": torch.ones(2)}).vector).arrays["w"].dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.ones(2, dtype=torch.bool), "array 'w' has type torch.bool; expected real numbers"),
        (torch.ones(2, dtype=torch.complex64), "array 'w' has type torch.complex64; expected real numbers"),
        (torch.ones(2).to(torch.float8_e5m2), "array 'w' has type torch.float8_e5m2; expected real numbers"),
        (torch.ones(2).to_sparse(), "array 'w' has .*sparse_coo.*expected a dense one"),
        (torch.ones(2, device="meta"), "array 'w' has .* on meta; expected a dense one"),
        (torch.tensor([1.0, math.nan]), "array 'w' contains NaN or infinity"),
        (torch.tensor([1.0, math.inf]).bfloat16(), "array 'w' contains NaN or infinity"),
    ],
    ids=["bool", "complex", "float8", "sparse", "meta", "nan", "inf"],
)
def test_what_cannot_be_added_is_refused_in_one_line(value, says):
    with pytest.raises(VectorError, match=says) as error:
        ccesa.aggregate([{"w": value}] * 4)
    assert "\n" not in str(error.value)


def test_a_model_may_be_one_tensor():
    assert torch.equal(ccesa.aggregate([torch.ones(3)] * 4).mean, torch.ones(3))
    with pytest.raises(VectorError, match="list or a dict of arrays, not Tensor"):
        ccesa.Quantizer.for_model(torch.ones(3), clients=4, clip=1.0)
