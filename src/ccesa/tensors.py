"""Tensors of torch, read as arrays and made from them.

torch is optional and is not imported here: whoever holds a tensor has imported it.
"""

import sys
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import VectorError

_REAL = {"float16", "bfloat16", "float32", "float64"}
_WHOLE = {"uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}


class Tensor(Protocol):
    """As much of ``torch.Tensor`` as tells a type checker that it is no array."""

    def detach(self) -> Any:
        """The same values without their gradient."""


def is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_array(tensor: Any) -> NDArray[np.float64]:
    """The values of a tensor on any device, with or without a gradient, in any type of real numbers."""
    return tensor.detach().cpu().to(sys.modules["torch"].float64).numpy()


@dataclass(frozen=True)
class TensorType:
    """What a tensor has besides its values: ``torch.dtype`` and ``torch.device``."""

    dtype: Any
    device: Any

    @classmethod
    def of(cls, tensor: Any) -> "TensorType":
        """Refuses what has no real numbers to read, such as sparse tensors and those on ``meta``."""
        if tensor.layout is not sys.modules["torch"].strided or tensor.is_meta:
            raise VectorError(
                f"a tensor with layout {tensor.layout} on {tensor.device}; expected a dense one"
            )
        if str(tensor.dtype).removeprefix("torch.") not in _REAL | _WHOLE:
            raise VectorError(f"type {tensor.dtype}; expected real numbers")
        return cls(tensor.dtype, tensor.device)

    def restore(self, values: NDArray[np.float64]) -> Any:
        """A tensor of this type. Whole numbers are rounded: ``load_state_dict`` would cut 9.999… off to 9."""
        torch = sys.modules["torch"]
        if self.dtype.is_floating_point:
            whole, ends = values, torch.finfo(self.dtype)
        else:
            whole, ends = np.rint(values), torch.iinfo(self.dtype)
        kept = np.clip(whole, float(ends.min), _at_most(ends.max))
        return torch.from_numpy(kept).to(self.dtype).to(self.device)


def _at_most(largest: float) -> float:
    """The largest float64 that is not above this number; that of 2^63 - 1 would be 2^63."""
    nearest = float(largest)
    return nearest if nearest <= largest else float(np.nextafter(nearest, 0.0))
