"""The kernels that train many clients at a time, against what torch makes of the same numbers.

tests/experiments/test_experiments_kernels.py runs this file in a process of its own: Triton asks only once,
when it is imported, whether it is to interpret what it would otherwise compile for a GPU.
"""

import pytest
import torch
from experiments.kernels import Plain
from experiments.triton_kernels import Fused

SIDE, CHANNELS, NUMBER = 4, 8, 3


@pytest.fixture(scope="module")
def both():
    """The plain functions, and the kernels."""
    torch.manual_seed(1)
    return Plain(), Fused()


#: As on a processor, and as the experiments ran on a GPU.
TYPES = pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)


def drawn(*shape, kind=torch.float32):
    return torch.randint(-9, 9, shape).to(kind)  # whole numbers: many are equal, and sums are exact


@TYPES
@pytest.mark.parametrize("side", [2, SIDE])
def test_patches_and_their_way_back(both, side, kind):
    plain, fused = both
    x = drawn(NUMBER, side, side, CHANNELS, kind=kind)
    slopes = drawn(NUMBER, side * side, 9 * CHANNELS, kind=kind)
    assert (plain.patches(x) == fused.patches(x)).all()
    assert (plain.folded(slopes, side) == fused.folded(slopes, side)).all()
    # The way back is the transpose of the way there.
    there, back = plain.patches(x).float() * slopes.float(), x.float() * plain.folded(slopes, side).float()
    assert there.sum() == back.sum()


def test_pooling_and_its_way_back(both):
    """In 32 bits alone: the interpreter compares negative numbers of 16 bits by their bits."""
    y, slope = drawn(NUMBER, 2 * SIDE, 2 * SIDE, CHANNELS), drawn(NUMBER, SIDE, SIDE, CHANNELS)
    leaf = y.permute(0, 3, 1, 2).clone().requires_grad_()
    torch.nn.functional.max_pool2d(leaf, 2).relu().backward(slope.permute(0, 3, 1, 2))
    for functions in both:
        answer, winners = functions.pooled(y.clone())
        assert (answer == torch.nn.functional.max_pool2d(leaf, 2).relu().permute(0, 2, 3, 1)).all()
        assert (functions.unpooled(slope, answer, winners) == leaf.grad.permute(0, 2, 3, 1)).all()


@TYPES
def test_a_step_of_sgd(both, kind):
    wide = 5000
    rows, momentum, slopes = drawn(2, wide), drawn(2, wide), drawn(2, wide, kind=kind)
    cut = torch.tensor([1.0, 0.25])
    ends = []
    for functions in both:
        mine = [rows.clone(), momentum.clone(), torch.zeros(2, wide, dtype=kind)]
        functions.moved(*mine, slopes, cut)
        ends.append(mine)
    for one, other in zip(*ends, strict=True):
        # The interpreter cuts off what a GPU rounds, in the last of the 8 bits of a bfloat16.
        assert torch.allclose(one.float(), other.float(), atol=1e-6, rtol=torch.finfo(one.dtype).eps)
