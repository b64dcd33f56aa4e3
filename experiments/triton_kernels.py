"""The kernels for a GPU. Channels are a power of two, as VGG-11's are, and lie behind each other."""

from typing import TYPE_CHECKING, Any

from experiments.kernels import Plain
from experiments.sgd import LEARNING_RATE, MOMENTUM
from experiments.vgg import Tensor

if TYPE_CHECKING:  # torch and triton are optional; their types are not needed here
    torch: Any
    triton: Any
    tl: Any
else:
    import torch
    import triton
    import triton.language as tl

#: Numbers that a program holds at a time.
_TILE = 4096


@triton.jit
def _patches(x, out, places, side: tl.constexpr, channels: tl.constexpr, block: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    channel = tl.arange(0, channels)[None, :]
    row, column = (place // side) % side, place % side
    for tap in tl.static_range(9):
        down, right = row + (tap // 3 - 1), column + (tap % 3 - 1)
        inside = (down >= 0) & (down < side) & (right >= 0) & (right < side) & (place < places)
        source = (place + (tap // 3 - 1) * side + (tap % 3 - 1))[:, None] * channels + channel
        found = tl.load(x + source, mask=inside[:, None], other=0.0)
        target = place[:, None] * (9 * channels) + tap * channels + channel
        tl.store(out + target, found, mask=(place < places)[:, None])


@triton.jit
def _folded(slopes, out, places, side: tl.constexpr, channels: tl.constexpr, block: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    channel = tl.arange(0, channels)[None, :]
    row, column = (place // side) % side, place % side
    total = tl.zeros((block, channels), tl.float32)
    for tap in tl.static_range(9):
        up, left = row - (tap // 3 - 1), column - (tap % 3 - 1)
        inside = (up >= 0) & (up < side) & (left >= 0) & (left < side) & (place < places)
        patch = (place - (tap // 3 - 1) * side - (tap % 3 - 1))[:, None]
        source = patch * (9 * channels) + tap * channels + channel
        total += tl.load(slopes + source, mask=inside[:, None], other=0.0).to(tl.float32)
    tl.store(out + place[:, None] * channels + channel, total, mask=(place < places)[:, None])


@triton.jit
def _corner(place, side: tl.constexpr):
    """The first of the four places that one place stands for after pooling."""
    column, above = place % side, place // side
    return above * (4 * side) + 2 * column


@triton.jit
def _pooled(y, out, winners, places, side: tl.constexpr, channels: tl.constexpr, block: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    channel, inside = tl.arange(0, channels)[None, :], (place < places)[:, None]
    corner = _corner(place, side)[:, None]
    best = tl.load(y + corner * channels + channel, mask=inside, other=0.0)
    winner = tl.zeros((block, channels), tl.int8)
    for k in tl.static_range(1, 4):
        other = corner + (k // 2) * (2 * side) + k % 2
        found = tl.load(y + other * channels + channel, mask=inside, other=0.0)
        winner = tl.where(found > best, k, winner).to(tl.int8)
        best = tl.where(found > best, found, best)
    target = place[:, None] * channels + channel
    tl.store(out + target, tl.where(best > 0, best, 0.0), mask=inside)
    tl.store(winners + target, winner, mask=inside)


@triton.jit
def _unpooled(slope, answer, winners, out, places, side: tl.constexpr, channels: tl.constexpr, block: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    channel, inside = tl.arange(0, channels)[None, :], (place < places)[:, None]
    source, corner = place[:, None] * channels + channel, _corner(place, side)[:, None]
    alive = tl.load(answer + source, mask=inside, other=0.0) > 0
    given = tl.where(alive, tl.load(slope + source, mask=inside, other=0.0), 0.0)
    winner = tl.load(winners + source, mask=inside, other=0)
    for k in tl.static_range(4):
        target = corner + (k // 2) * (2 * side) + k % 2
        tl.store(out + target * channels + channel, tl.where(winner == k, given, 0.0), mask=inside)


@triton.jit
def _moved(rows, momentum, short, slopes, cut, wide, rate, inertia, block: tl.constexpr):
    client, within = tl.program_id(1).to(tl.int64), tl.program_id(0) * block + tl.arange(0, block)
    place, inside = client * wide + within, within < wide
    slope = tl.load(slopes + place, mask=inside).to(tl.float32) * tl.load(cut + client)
    speed = tl.load(momentum + place, mask=inside) * inertia + slope
    model = tl.load(rows + place, mask=inside) - rate * speed
    tl.store(momentum + place, speed, mask=inside)
    tl.store(rows + place, model, mask=inside)
    tl.store(short + place, model, mask=inside)


class Fused(Plain):
    """Each of the functions as one kernel."""

    def patches(self, x: Tensor) -> Tensor:
        number, side, _, channels = x.shape
        out = torch.empty((number, side * side, 9 * channels), dtype=x.dtype, device=x.device)
        _run(_patches, number * side * side, side, channels, x.contiguous(), out)
        return out

    def folded(self, slopes: Tensor, side: int) -> Tensor:
        channels = slopes.shape[-1] // 9
        out = torch.empty(
            (slopes.numel() // (side * side * 9 * channels), side, side, channels),
            dtype=slopes.dtype,
            device=slopes.device,
        )
        _run(_folded, out.numel() // channels, side, channels, slopes.contiguous(), out)
        return out

    def pooled(self, y: Tensor) -> tuple[Tensor, Tensor]:
        number, side, channels = y.shape[0], y.shape[1] // 2, y.shape[3]
        shape = (number, side, side, channels)
        out = torch.empty(shape, dtype=y.dtype, device=y.device)
        winners = torch.empty(shape, dtype=torch.int8, device=y.device)
        _run(_pooled, number * side * side, side, channels, y.contiguous(), out, winners)
        return out, winners

    def unpooled(self, slope: Tensor, answer: Tensor, winners: Tensor) -> Tensor:
        number, side, _, channels = slope.shape
        shape = (number, 2 * side, 2 * side, channels)
        out = torch.empty(shape, dtype=slope.dtype, device=slope.device)
        _run(_unpooled, number * side * side, side, channels, slope.contiguous(), answer, winners, out)
        return out

    def moved(self, rows: Tensor, momentum: Tensor, short: Tensor, slopes: Tensor, cut: Tensor) -> None:
        count, wide = rows.shape
        grid = (triton.cdiv(wide, _TILE), count)
        _moved[grid](rows, momentum, short, slopes, cut, wide, LEARNING_RATE, MOMENTUM, block=_TILE, num_warps=8)


def _run(kernel: Any, places: int, side: int, channels: int, *arrays: Tensor) -> None:
    """For so many places, each with its channels."""
    block = max(1, _TILE // channels)
    kernel[(triton.cdiv(places, block),)](*arrays, places, side=side, channels=channels, block=block, num_warps=8)
