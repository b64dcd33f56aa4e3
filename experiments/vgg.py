"""VGG-11 without batch normalisation for CIFAR-10: its shape, its images, and what it answers.

A model is one row of 9,225,610 floats; the network reads its arrays out of that row.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.cifar import CLASSES, SIDE, Cifar

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
    functional: Any
else:
    import torch
    from torch.nn import functional

#: A tensor.
Tensor = Any
#: Images that are classified at a time.
_AT_ONCE = 2500


class Network:
    """The shape of a model, where its arrays lie in the row, and what it computes."""

    def __init__(self, channels: Sequence[int]) -> None:
        self.layers = tuple(channels)
        if SIDE >> self.layers.count(0) != 1:
            raise ValueError("pooling has to end at one pixel")
        sizes = [size for size in self.layers if size]
        before = [3, *sizes[:-1]]
        shapes: list[tuple[int, ...]] = []
        for out, inner in zip(sizes, before, strict=True):
            shapes += [(out, inner, 3, 3), (out,)]
        pooled = [after == 0 for size, after in zip(self.layers, [*self.layers[1:], 1], strict=True) if size]
        #: Of each convolution the channels behind and before it, and whether pooling follows.
        self.convolutions = list(zip(sizes, before, pooled, strict=True))
        self.shapes = [*shapes, (CLASSES, sizes[-1]), (CLASSES,)]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)

    def arrays(self, row: Tensor) -> list[Tensor]:
        """Views of the row; kernels lie with their channels last, as the GPU likes them."""
        views, first = [], 0
        for shape, size in zip(self.shapes, self.sizes, strict=True):
            part = row[first : first + size]
            first += size
            if len(shape) == 4:
                views.append(part.view(shape[0], 3, 3, shape[1]).permute(0, 3, 1, 2))
            else:
                views.append(part.view(shape))
        return views

    def new(self, seed: int, device: str) -> Tensor:
        """He's initialisation, between the inner and the outer size of each layer.

        Without normalisation so deep a network starts to learn only if the signals neither vanish forwards
        nor explode backwards.
        """
        rng = np.random.default_rng([seed, 10])
        row = torch.zeros(self.size)
        for array, shape in zip(self.arrays(row), self.shapes, strict=True):
            wide = sum(shape[:2])
            spread = {4: math.sqrt(4.0 / (9 * wide)), 2: math.sqrt(1.0 / shape[-1]), 1: 0.0}[len(shape)]
            array.copy_(torch.from_numpy(rng.normal(0.0, spread, shape).astype(np.float32)))
        return row.to(device)

    def logits(self, arrays: Sequence[Tensor], x: Tensor) -> Tensor:
        waiting: Iterator[Tensor] = iter(arrays)
        for size in self.layers:
            if size:
                x = functional.relu(functional.conv2d(x, next(waiting), next(waiting), padding=1))
            else:
                x = functional.max_pool2d(x, 2)
        return functional.linear(x.flatten(1), next(waiting), next(waiting))


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """On the device: images with mean 0 and spread 1 in each colour, channels last, and their classes."""

    x: Tensor
    y: Tensor


def prepared(x: NDArray[np.uint8], y: NDArray[np.uint8], like: Cifar, device: str, dtype: Any) -> Images:
    """Normalised as the training images ``like``."""
    seen = like.train_x[:: max(1, like.train_x.shape[0] // 5000)].astype(np.float32)
    mean, spread = seen.mean(axis=(0, 1, 2)), seen.std(axis=(0, 1, 2))
    raw = torch.from_numpy(np.ascontiguousarray(x)).to(device).permute(0, 3, 1, 2)
    whole = torch.empty(raw.shape, dtype=dtype, device=device, memory_format=torch.channels_last)
    centre = torch.from_numpy(mean).to(device).view(1, 3, 1, 1)
    scale = torch.from_numpy(1.0 / spread).to(device).view(1, 3, 1, 1)
    for first in range(0, raw.shape[0], _AT_ONCE):
        part = raw[first : first + _AT_ONCE].float()
        whole[first : first + _AT_ONCE] = ((part - centre) * scale).to(dtype)
    return Images(x=whole, y=torch.from_numpy(y.astype(np.int64)).to(device))


def predictions(network: Network, row: Tensor, images: Images, which: NDArray[np.int64] | None = None) -> Tensor:
    """log of the class probabilities of these images, in full precision."""
    arrays = network.arrays(row.float())
    order = torch.arange(images.y.shape[0]) if which is None else torch.from_numpy(which)
    found = []
    with torch.no_grad():
        for part in order.to(images.y.device).split(_AT_ONCE):
            logits = network.logits(arrays, images.x[part].float())
            found.append(torch.log_softmax(logits.double(), 1))
    return torch.cat(found)


def accuracy(network: Network, row: Tensor, images: Images, which: NDArray[np.int64] | None = None) -> float:
    labels = images.y if which is None else images.y[torch.from_numpy(which).to(images.y.device)]
    right = predictions(network, row, images, which).argmax(1) == labels
    return float(right.double().mean())


def device_and_type() -> tuple[str, Any]:
    """The GPU with 16-bit products if there is one, else the processor in full."""
    if not torch.cuda.is_available():
        torch.set_num_threads(1)  # the quick run's arrays are small
        return "cpu", torch.float32
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    return "cuda", torch.bfloat16


def name_of(device: str) -> str:
    kind = torch.cuda.get_device_name() if device == "cuda" else "processor"
    return f"{kind}, torch {torch.__version__}"
