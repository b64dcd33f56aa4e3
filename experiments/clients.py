"""Many clients that train a network side by side, each with a model of its own.

With 50 images per step one client alone leaves a GPU idle. So all models of a group take each step together:
a convolution is a product of matrices per client, and one call multiplies those of all of them. The slopes
are computed here and not by torch, which would keep more, and elsewhere, than the fast way allows.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.cifar import SIDE
from experiments.sgd import LEARNING_RATE, LONGEST_SLOPE, MOMENTUM, TOGETHER
from experiments.vgg import Images, Network, Tensor

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
    functional: Any
else:
    import torch
    from torch.nn import functional

#: Rows of matrices begin at multiples of so many elements, as the fast kernels ask for.
_ALIGNED = 32


def patches(x: Tensor) -> Tensor:
    """Turn images (number, height, width, channels) into matrices: for every place the nine around it."""
    number, height, width, channels = x.shape
    around = functional.pad(x, (0, 0, 1, 1, 1, 1))
    taps = [around[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return torch.stack(taps, 3).view(number, height * width, 9 * channels)


def folded(slopes: Tensor, height: int, width: int) -> Tensor:
    """The way back: every place adds up its slopes in the patches of the nine around it."""
    parts = slopes.view(slopes.shape[0], height, width, 9, -1)
    total: Tensor = 0.0
    for tap in range(9):
        down, right = tap // 3, tap % 3
        part = functional.pad(parts[:, :, :, tap].float(), (0, 0, right, 2 - right, down, 2 - down))
        total = total + part
    return total[:, 1:-1, 1:-1].to(slopes.dtype)


def unpooled(slope: Tensor, answer: Tensor, winners: Tensor) -> Tensor:
    """The slope before a pooling by two: of every four places the largest has it, if it is above 0."""
    number, height, width, channels = slope.shape
    rows, columns = (torch.arange(2 * size, device=slope.device).view(size, 2) for size in (height, width))
    places = 2 * width * rows[:, :, None, None] + columns
    chosen = (winners[:, :, None, :, None] == places[..., None]) & (answer > 0)[:, :, None, :, None]
    return torch.where(chosen, slope[:, :, None, :, None], 0).view(number, 4 * height * width, channels)


def moved(rows: Tensor, momentum: Tensor, short: Tensor, slopes: Tensor, cut: Tensor) -> None:
    """A step of SGD with momentum for every client, whose slope is shortened by ``cut``."""
    speed = momentum * MOMENTUM + slopes * cut[:, None]
    place = rows - LEARNING_RATE * speed
    momentum.copy_(speed)
    rows.copy_(place)
    short.copy_(place)


class Fused:
    """The four functions above; where there is a GPU each as one kernel, for any number of images."""

    def __init__(self, device: str) -> None:
        self._fuses = device == "cuda"
        if self._fuses:
            torch._dynamo.config.recompile_limit = 64  # noqa: SLF001  # one for each shape of a layer
        self.patches, self.folded = self._kernel(patches), self._kernel(folded)
        self.unpooled, self.moved = self._kernel(unpooled), self._kernel(moved)

    def _kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self._fuses:
            return function
        compiled = torch.compile(function)

        def called(*arrays: Any) -> Any:
            for array in arrays:
                if isinstance(array, torch.Tensor):
                    torch._dynamo.maybe_mark_dynamic(array, 0)  # noqa: SLF001  # it has no other name
            return compiled(*arrays)

        return called


@dataclass(kw_only=True, eq=False)
class Layer:
    """A convolution, with the pooling behind it if there is one, and what it keeps for the way back."""

    weights: slice
    biases: slice
    outer: int
    inner: int
    side: int
    pools: bool
    fused: Fused
    columns: Tensor = None
    winners: Tensor = None
    answer: Tensor = None

    def forward(self, x: Tensor, short: Tensor) -> Tensor:
        """What the next layer sees of ``x``."""
        kernel = short[:, self.weights].unflatten(1, (self.outer, -1)).transpose(1, 2)
        self.columns = self.fused.patches(x.flatten(0, 1)).view(len(short), -1, 9 * self.inner)
        return self._answered(torch.baddbmm(short[:, None, self.biases], self.columns, kernel), len(short))

    def first(self, columns: Tensor, short: Tensor) -> Tensor:
        """The same for images whose patches are there, with a column of ones for the biases behind them."""
        self.columns = columns
        return self._answered(torch.bmm(columns, self._widened(short, columns.shape[2])), len(short))

    def _widened(self, short: Tensor, wide: int) -> Tensor:
        kernel = short[:, self.weights].unflatten(1, (self.outer, -1))
        with_biases = torch.cat([kernel, short[:, self.biases, None]], 2)
        return functional.pad(with_biases, (0, wide - with_biases.shape[2])).transpose(1, 2)

    def _answered(self, y: Tensor, group: int) -> Tensor:
        """The largest of four commutes with the larger of it and 0, so that is taken of fewer numbers."""
        side = self.side
        if self.pools:
            whole = y.view(-1, side, side, self.outer).permute(0, 3, 1, 2)
            y, winners = functional.max_pool2d(whole, 2, return_indices=True)
            self.winners, side = winners.permute(0, 2, 3, 1), side // 2
            y = y.permute(0, 2, 3, 1)
        self.answer = y.relu_().reshape(group, -1, side, side, self.outer)
        return self.answer

    def backward(self, slope: Tensor, short: Tensor, slopes: Tensor) -> Tensor:
        """Write the slopes of kernel and biases; return that of the input."""
        flat = self._unpooled(slope)
        slopes[:, self.biases] = flat.sum(1)
        into = slopes[:, self.weights].unflatten(1, (self.outer, -1))
        torch.bmm(flat.transpose(1, 2), self.columns, out=into)
        kernel = short[:, self.weights].unflatten(1, (self.outer, -1))
        given = torch.bmm(flat, kernel).view(-1, self.side**2, 9 * self.inner)
        return self.fused.folded(given, self.side, self.side).unflatten(0, (len(short), -1))

    def backward_first(self, slope: Tensor, slopes: Tensor) -> None:
        found = torch.bmm(self._unpooled(slope).transpose(1, 2), self.columns)
        slopes[:, self.weights] = found[:, :, : 9 * self.inner].flatten(1)
        slopes[:, self.biases] = found[:, :, 9 * self.inner]

    def _unpooled(self, slope: Tensor) -> Tensor:
        """The slope before pooling, (group, places, channels)."""
        if self.pools:
            around = (slope.flatten(0, 1), self.answer.flatten(0, 1), self.winners)
            slope = self.fused.unpooled(*around)
        else:
            slope = torch.ops.aten.threshold_backward(slope, self.answer, 0)
        return slope.view(len(self.answer), -1, self.outer)


class Clients:
    """Federated averaging: every client starts at a given model, trains by itself, and the mean is taken."""

    def __init__(self, network: Network, images: Images, *, together: int = TOGETHER) -> None:
        self.device, self.network, self._labels = images.x.device, network, images.y
        wide = -(-network.size // _ALIGNED) * _ALIGNED
        shape = (together, wide)
        self._rows, self._momentum = (torch.zeros(shape, device=self.device) for _ in range(2))
        # Products in the shorter type, everything that is added up in 32 bits.
        kind = {"dtype": images.x.dtype, "device": self.device}
        self._short, self._slopes = (torch.zeros(shape, **kind) for _ in range(2))
        self._fused = Fused(self.device.type)
        self._layers, self._last = _layers(network, self._fused)
        self._columns = _first_columns(images.x)

    def each(self, starts: Sequence[Tensor], plans: Tensor, take: Callable[[int, Tensor], None]) -> None:
        """Train client k from ``starts[k]`` over the images that ``plans[k]`` names for each of its steps.

        ``take`` is then called with k and its model, a row that the next client overwrites.
        """
        together, size = len(self._rows), self.network.size
        for begin in range(0, len(plans), together):
            group = range(begin, min(begin + together, len(plans)))
            for place, number in enumerate(group):
                self._rows[place, :size].copy_(starts[number])
            self._train(plans[group.start : group.stop])
            for place, number in enumerate(group):
                take(number, self._rows[place, :size])

    def average(self, start: Tensor, plans: Tensor) -> Tensor:
        """The mean of all clients' models, who start at the same one."""
        total = torch.zeros_like(start)
        self.each([start] * len(plans), plans, lambda _, row: total.add_(row))
        return total.div_(len(plans))

    def _train(self, plans: Tensor) -> None:
        count = len(plans)
        rows, momentum, short, slopes = (
            array[:count] for array in (self._rows, self._momentum, self._short, self._slopes)
        )
        momentum.zero_()
        short.copy_(rows)
        for step in range(plans.shape[1]):
            self._slope(plans[:, step], short, slopes)
            length = torch.linalg.vector_norm(slopes, dim=1, dtype=torch.float32)
            cut = (LONGEST_SLOPE / length).clamp(max=1.0)
            self._fused.moved(rows, momentum, short, slopes, cut)

    def _slope(self, which: Tensor, short: Tensor, slopes: Tensor) -> None:
        """The slope of each client's mean loss over its images."""
        first, *others = self._layers
        x = first.first(self._columns[which].flatten(1, 2), short)
        for layer in others:
            x = layer.forward(x, short)
        slope = self._loss(x.flatten(2), which, short, slopes).view_as(x)
        for layer in reversed(others):
            slope = layer.backward(slope, short, slopes)
        first.backward_first(slope, slopes)

    def _loss(self, x: Tensor, which: Tensor, short: Tensor, slopes: Tensor) -> Tensor:
        """The last layer and the loss: their slopes, and that of the last layer's input."""
        weights, biases = self._last
        kernel = short[:, weights].unflatten(1, (-1, x.shape[2]))
        logits = torch.baddbmm(short[:, None, biases], x, kernel.transpose(1, 2)).float()
        slope = torch.softmax(logits, 2)
        slope.scatter_add_(2, self._labels[which][:, :, None], slope.new_full((*which.shape, 1), -1.0))
        slope = slope.div_(which.shape[1]).to(x.dtype)
        slopes[:, weights] = torch.bmm(slope.transpose(1, 2), x).flatten(1)
        slopes[:, biases] = slope.sum(1)
        return torch.bmm(slope, kernel)


def _layers(network: Network, fused: Fused) -> tuple[list[Layer], tuple[slice, slice]]:
    """Where each layer's arrays lie in a row; the last ones are the classifier's."""
    ends = [0]
    for size in network.sizes:
        ends.append(ends[-1] + size)
    places = [slice(*pair) for pair in itertools.pairwise(ends)]
    made, side = [], SIDE
    for number, (outer, inner, pools) in enumerate(network.convolutions):
        made.append(
            Layer(
                weights=places[2 * number],
                biases=places[2 * number + 1],
                outer=outer,
                inner=inner,
                side=side,
                pools=pools,
                fused=fused,
            )
        )
        side = side // 2 if pools else side
    return made, (places[-2], places[-1])


def _first_columns(x: Tensor) -> Tensor:
    """The patches of all images, which every step needs again, with a column of ones."""
    made = []
    for part in x.permute(0, 2, 3, 1).split(1000):
        filled = functional.pad(patches(part), (0, 1), value=1.0)
        made.append(functional.pad(filled, (0, -filled.shape[2] % _ALIGNED)))
    return torch.cat(made)
