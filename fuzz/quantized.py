"""Sums that the quantizer decodes: refused, or a finite mean of the layout that was agreed on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccesa import words
from ccesa.errors import VectorError
from ccesa.values.fields import WORD_BITS
from ccesa.values.quantize import Quantizer

ARRAYS: dict[str, NDArray[Any]] = {
    "weights": np.zeros((2, 2), np.float32),
    "half": np.zeros(1, np.float16),
    "count": np.zeros(2, np.int64),
    "empty": np.zeros((0, 3)),
}
QUANTIZERS = [
    Quantizer.for_model(ARRAYS, clients=clients, clip=clip, field_bits=bits, max_weight=weight)
    for bits, clients, clip, weight in (
        *((8, 3, 1.0, 1.0), (18, 1000, 2.0, 1.0), (16, 100, 1e300, 5.0)),
        *((32, 50, 1.0, 1.0), (64, 9, 1e-300, 1e6)),
    )
]


def one(data: bytes) -> None:
    if not data:
        return
    quantizer = QUANTIZERS[data[0] % len(QUANTIZERS)]
    body = data[1 : 1 + (len(data) - 1) // 8 * 8]
    try:
        mean = quantizer.decode(words.from_bytes(body, WORD_BITS))
    except VectorError:
        return
    if not 0 < mean.weight <= quantizer.clients * quantizer.max_weight * (1 + 1e-9):
        raise AssertionError("a weight that the clients cannot have")
    if not isinstance(mean.arrays, dict):
        raise AssertionError("another layout")
    for name, array in mean.arrays.items():
        kind = ARRAYS[name].dtype
        due = kind if kind.kind == "f" else np.float64  # the mean of whole numbers is none
        if array.shape != ARRAYS[name].shape or array.dtype != due:
            raise AssertionError("another layout")
        if not np.isfinite(array).all():
            raise AssertionError("a mean that is not finite")
