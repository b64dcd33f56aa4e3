"""What clients who train side by side do beside products of matrices: moving numbers, and a step of SGD.

Each in two ways: by torch, which reads like its definition, and on a GPU as one kernel, which touches memory
once. A test runs both on the same numbers, the kernels by Triton's interpreter.
"""

from typing import TYPE_CHECKING, Any

from experiments.sgd import LEARNING_RATE, MOMENTUM
from experiments.vgg import Tensor

if TYPE_CHECKING:  # torch and triton are optional; their types are not needed here
    torch: Any
    functional: Any
else:
    import torch
    from torch.nn import functional


class Plain:
    """By torch, on any device."""

    def patches(self, x: Tensor) -> Tensor:
        """Images (number, height, width, channels) as matrices: for every place the nine around it."""
        number, height, width, channels = x.shape
        around = functional.pad(x, (0, 0, 1, 1, 1, 1))
        taps = [around[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
        return torch.stack(taps, 3).view(number, height * width, 9 * channels)

    def folded(self, slopes: Tensor, side: int) -> Tensor:
        """The way back: every place adds up its slopes in the patches of the nine around it."""
        parts = slopes.view(-1, side, side, 9, slopes.shape[-1] // 9)
        total: Tensor = 0.0
        for tap in range(9):
            down, right = tap // 3, tap % 3
            edges = (0, 0, right, 2 - right, down, 2 - down)
            total = total + functional.pad(parts[:, :, :, tap].float(), edges)
        return total[:, 1:-1, 1:-1].to(slopes.dtype)

    def pooled(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Of every four places the largest number, or 0 if that is larger; and which of them has it."""
        number, height, width, channels = y.shape
        fours = y.view(number, height // 2, 2, width // 2, 2, channels).transpose(2, 3)
        best, winners = fours.reshape(number, height // 2, width // 2, 4, channels).max(3)
        return best.relu_(), winners.to(torch.int8)

    def unpooled(self, slope: Tensor, answer: Tensor, winners: Tensor) -> Tensor:
        """The slope before pooling: the winner has it, if it was above 0."""
        number, height, width, channels = slope.shape
        alive = torch.where(answer > 0, slope, 0)
        fours = torch.zeros((number, height, width, 4, channels), dtype=slope.dtype, device=slope.device)
        fours.scatter_(3, winners.long()[:, :, :, None], alive[:, :, :, None])
        apart = fours.view(number, height, width, 2, 2, channels).transpose(2, 3)
        return apart.reshape(number, 2 * height, 2 * width, channels)

    def moved(self, rows: Tensor, momentum: Tensor, short: Tensor, slopes: Tensor, cut: Tensor) -> None:
        """A step of SGD with momentum for every client, whose slope is shortened by ``cut``."""
        momentum.mul_(MOMENTUM).add_(slopes * cut[:, None])
        rows.add_(momentum, alpha=-LEARNING_RATE)
        short.copy_(rows)


def fastest(device: str) -> Plain:
    """The kernels where there is a GPU."""
    if device != "cuda":
        return Plain()
    from experiments.triton_kernels import Fused

    return Fused()
