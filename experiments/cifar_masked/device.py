"""Where masks are added: on the GPU, or, in a quick run, by the processor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ccesa.crypto import masks
from ccesa.crypto.kernels import cuda
from ccesa.crypto.masks import Mask
from ccesa.words import dtype
from experiments.cifar_masked.setup import BITS, GENERATOR

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
else:
    import torch

#: A tensor of 32-bit words.
Words = Any


class _Stream:
    """A stream of torch, as other libraries take it; older versions of torch do not offer it so."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._place


class Gpu:
    """Masks on CUDA, on torch's current stream."""

    #: The kernel that the server takes masks off with.
    kernel = "cuda"

    def upload(self, vectors: Sequence[Sequence[Mask]]) -> list[Any]:
        return list(cuda.upload(vectors))

    def mask(self, source: Words, target: Words, masks: Any) -> None:
        import cupy

        with cupy.cuda.Stream.from_external(_Stream(torch.cuda.current_stream().cuda_stream)):
            cuda.add(target, masks, source=source)


class Processor:
    """Masks as the protocol makes them everywhere."""

    kernel = None

    def upload(self, vectors: Sequence[Sequence[Mask]]) -> list[Any]:
        return list(vectors)

    def mask(self, source: Words, target: Words, masks_of_it: Any) -> None:
        target.copy_(source)
        masks.add_masks(target.numpy().view(dtype(BITS)), masks_of_it, GENERATOR)


def device_for(name: str) -> Gpu | Processor:
    return Gpu() if name == "cuda" else Processor()
