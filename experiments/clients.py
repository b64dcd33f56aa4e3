"""Many clients that train a network side by side, each with a model of its own.

With 50 images per step one client alone leaves a GPU idle. So all models of a group take each step together:
a convolution is a product of matrices per client, and one call multiplies those of all of them. The slopes
are computed here and not by torch, which would keep more, and elsewhere, than the fast way allows.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.cifar import SIDE
from experiments.kernels import Plain, fastest
from experiments.sgd import EPOCHS, LONGEST_SLOPE, TOGETHER
from experiments.vgg import Images, Network, Tensor

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
    functional: Any
else:
    import torch
    from torch.nn import functional

#: Rows of matrices begin at multiples of so many elements, as the fast kernels ask for.
_ALIGNED = 32


@dataclass(kw_only=True, eq=False)
class Layer:
    """A convolution, with the pooling behind it if there is one, and what it keeps for the way back."""

    weights: slice
    biases: slice
    outer: int
    inner: int
    side: int
    pools: bool
    kernels: Plain
    columns: Tensor = None
    winners: Tensor = None
    answer: Tensor = None

    def forward(self, x: Tensor, short: Tensor) -> Tensor:
        """What the next layer sees of ``x``."""
        kernel = short[:, self.weights].unflatten(1, (self.outer, -1)).transpose(1, 2)
        self.columns = self.kernels.patches(x.flatten(0, 1)).view(len(short), -1, 9 * self.inner)
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
        whole = y.view(-1, self.side, self.side, self.outer)
        if self.pools:
            seen, self.winners = self.kernels.pooled(whole)
        else:
            seen = whole.relu_()
        self.answer = seen.unflatten(0, (group, -1))
        return self.answer

    def backward(self, slope: Tensor, short: Tensor, slopes: Tensor) -> Tensor:
        """Write the slopes of kernel and biases; return that of the input."""
        flat = self._unpooled(slope)
        slopes[:, self.biases] = flat.sum(1)
        into = slopes[:, self.weights].unflatten(1, (self.outer, -1))
        torch.bmm(flat.transpose(1, 2), self.columns, out=into)
        kernel = short[:, self.weights].unflatten(1, (self.outer, -1))
        given = torch.bmm(flat, kernel).view(-1, self.side**2, 9 * self.inner)
        return self.kernels.folded(given, self.side).unflatten(0, (len(short), -1))

    def backward_first(self, slope: Tensor, slopes: Tensor) -> None:
        found = torch.bmm(self._unpooled(slope).transpose(1, 2), self.columns)
        slopes[:, self.weights] = found[:, :, : 9 * self.inner].flatten(1)
        slopes[:, self.biases] = found[:, :, 9 * self.inner]

    def _unpooled(self, slope: Tensor) -> Tensor:
        """The slope before pooling, (group, places, channels)."""
        if self.pools:
            around = (slope.flatten(0, 1), self.answer.flatten(0, 1), self.winners)
            slope = self.kernels.unpooled(*around)
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
        self._kernels = fastest(self.device.type)
        self._layers, self._last = _layers(network, self._kernels)
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
            self._kernels.moved(rows, momentum, short, slopes, cut)

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


def whole_batches(members: NDArray[np.int64], device: str) -> Tensor:
    """The steps of clients who take all their images at once: one for each epoch."""
    return torch.from_numpy(members).to(device)[:, None, :].expand(-1, EPOCHS, -1)


def _layers(network: Network, kernels: Plain) -> tuple[list[Layer], tuple[slice, slice]]:
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
                kernels=kernels,
            )
        )
        side = side // 2 if pools else side
    return made, (places[-2], places[-1])


def _first_columns(x: Tensor) -> Tensor:
    """The patches of all images, which every step needs again, with a column of ones."""
    made = []
    for part in x.permute(0, 2, 3, 1).split(1000):
        filled = functional.pad(Plain().patches(part), (0, 1), value=1.0)
        made.append(functional.pad(filled, (0, -filled.shape[2] % _ALIGNED)))
    return torch.cat(made)
