"""Connected components decide about ``Disconnected``, so an answer that joins too much would fail open.

scipy finds them. Its releases 1.11.1 and 1.11.2 find none where indices have 64 bits: they print an error,
ignore it and return what they started with, which reads as one component. So indices have 32 bits here, every
answer is checked to be one, and the first question is asked only after a known graph was answered rightly.
It is imported where it is used: a server has it tried before it opens a round, a client needs none of it.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError

Labels = NDArray[np.int32]
_MOST = np.iinfo(np.int32).max


def components(size: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> Labels:
    """Number the component of each node of 0..size - 1, from 0; edge k joins ``one[k]`` and ``other[k]``.

    Raises ConfigError where 32 bits cannot number the nodes or the edges, and where scipy gives no answer.
    """
    check_scipy()
    return _labels(size, one, other)


def _labels(size: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> Labels:
    """Ask scipy, and check that it gave an answer."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if max(size, one.size) > _MOST:
        raise ConfigError(
            f"{size} clients with {one.size} edges; connectivity is checked up to {_MOST} of each"
        )
    ends = one.astype(np.int32), other.astype(np.int32)
    matrix = coo_array((np.ones(one.size, np.int8), ends), shape=(size, size))
    count, labels = connected_components(matrix, directed=False)
    if size and not (labels.min() == 0 and labels.max() == count - 1):
        raise ConfigError(_broken(f"{count} components of {size} nodes"))
    return labels


def _broken(found: str) -> str:
    import scipy

    return (
        f"the installed scipy {scipy.__version__} cannot tell whether masks are connected: it found {found}; "
        "install another version, pip install 'scipy>=1.11.3'"
    )


@cache
def check_scipy() -> None:
    """Load scipy and try it on two triangles and a node alone, in 64-bit indices as graphs have them, once.

    Raises ConfigError where its answer is wrong.
    """
    one, other = np.array([0, 2, 4, 1, 3, 5]), np.array([2, 4, 0, 3, 5, 1])
    labels = _labels(7, one, other).tolist()
    first, second, alone = labels[0], labels[1], labels[6]
    if len({first, second, alone}) != 3 or labels != [first, second] * 3 + [alone]:
        raise ConfigError(_broken(f"{labels} for two triangles and a node alone"))
