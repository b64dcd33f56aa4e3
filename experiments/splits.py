"""How the images of CIFAR-10 are spread over clients: at random, or by class."""

import numpy as np
from numpy.typing import NDArray

SPLITS = ("iid", "shards")
SHARDS_EACH = 2


def split(labels: NDArray[np.uint8], clients: int, kind: str, seed: int) -> NDArray[np.int64]:
    """For each client the places of its images: drawn at random, or two shards of the images by class."""
    rng = np.random.default_rng([seed, 20, SPLITS.index(kind)])
    each = labels.size // clients // SHARDS_EACH * SHARDS_EACH
    if kind == "iid":
        return rng.permutation(labels.size)[: clients * each].reshape(clients, each)
    size = each // SHARDS_EACH
    shards = np.argsort(labels, kind="stable")[: clients * SHARDS_EACH * size].reshape(-1, size)
    return rng.permutation(shards).reshape(clients, SHARDS_EACH * size)
