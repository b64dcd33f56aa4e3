"""The kernels that train many clients at a time, against what torch makes of the same numbers."""

import importlib
import sys

import pytest

SIDE, CHANNELS, NUMBER = 4, 8, 3


@pytest.fixture(scope="module")
def both():
    """The plain functions, and the kernels run by Triton's interpreter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")  # before it is imported: its own functions ask, too
        torch = pytest.importorskip("torch")
        pytest.importorskip("triton")
        from experiments.kernels import Plain

        sys.modules.pop("experiments.triton_kernels", None)
        fused = importlib.import_module("experiments.triton_kernels").Fused()
        torch.manual_seed(1)
        yield Plain(), fused
    sys.modules.pop("experiments.triton_kernels", None)


def drawn(*shape):
    import torch

    return torch.randint(-9, 9, shape).float()  # whole numbers: many are equal, and sums are exact


@pytest.mark.parametrize("side", [2, SIDE])
def test_patches_and_their_way_back(both, side):
    plain, fused = both
    x, slopes = drawn(NUMBER, side, side, CHANNELS), drawn(NUMBER, side * side, 9 * CHANNELS)
    assert (plain.patches(x) == fused.patches(x)).all()
    assert (plain.folded(slopes, side) == fused.folded(slopes, side)).all()
    # The way back is the transpose of the way there.
    assert (plain.patches(x) * slopes).sum() == (x * plain.folded(slopes, side)).sum()


def test_pooling_and_its_way_back(both):
    import torch

    y, slope = drawn(NUMBER, 2 * SIDE, 2 * SIDE, CHANNELS), drawn(NUMBER, SIDE, SIDE, CHANNELS)
    leaf = y.permute(0, 3, 1, 2).clone().requires_grad_()
    torch.nn.functional.max_pool2d(leaf, 2).relu().backward(slope.permute(0, 3, 1, 2))
    for functions in both:
        answer, winners = functions.pooled(y.clone())
        assert (answer == torch.nn.functional.max_pool2d(leaf, 2).relu().permute(0, 2, 3, 1)).all()
        assert (functions.unpooled(slope, answer, winners) == leaf.grad.permute(0, 2, 3, 1)).all()


def test_a_step_of_sgd(both):
    import torch

    wide = 5000
    rows, momentum, slopes, cut = drawn(2, wide), drawn(2, wide), drawn(2, wide), torch.tensor([1.0, 0.25])
    ends = []
    for functions in both:
        mine = [rows.clone(), momentum.clone(), torch.zeros(2, wide)]
        functions.moved(*mine, slopes, cut)
        ends.append(mine)
    for one, other in zip(*ends, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
