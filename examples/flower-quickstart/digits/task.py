"""The model, the data and plain PyTorch training: nothing here knows of Flower or of secure aggregation."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

TEST_SHARE = 0.2
SPLIT_SEED = 2024  # the same on all nodes, so that no example is on two of them


class Net(nn.Module):
    """8 x 8 pixels in, ten digits out; 4,810 parameters."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


def load_partition(partition_id: int, num_partitions: int) -> TensorDataset:
    """The examples of one node. Nodes have different numbers of them: the last three times the first."""
    train, _ = _split()
    sizes = np.linspace(1.0, 3.0, num_partitions)
    ends = np.round(np.cumsum(sizes) / sizes.sum() * len(train)).astype(int)
    first = 0 if partition_id == 0 else ends[partition_id - 1]
    return _dataset(train[first : ends[partition_id]])


def load_test_set() -> TensorDataset:
    """A fifth of all examples, which no node has."""
    _, test = _split()
    return _dataset(test)


def train(net: nn.Module, data: TensorDataset, epochs: int, lr: float, batch_size: int, seed: int) -> float:
    """Trains in place and returns the mean loss. The seed fixes the order of the examples."""
    loader = DataLoader(data, batch_size, shuffle=True, generator=torch.Generator().manual_seed(seed))
    optimizer, criterion = torch.optim.SGD(net.parameters(), lr), nn.CrossEntropyLoss()
    losses = []
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(net(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return float(np.mean(losses))


@torch.no_grad()
def test(net: nn.Module, data: TensorDataset) -> tuple[float, float]:
    """Loss and accuracy."""
    images, labels = data.tensors
    scores = net(images)
    accuracy = (scores.argmax(1) == labels).float().mean()
    return nn.functional.cross_entropy(scores, labels).item(), accuracy.item()


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    return load_digits(return_X_y=True)


def _split() -> tuple[np.ndarray, np.ndarray]:
    """Places of the training and of the test examples."""
    count = len(_digits()[1])
    order = np.random.default_rng(SPLIT_SEED).permutation(count)
    return order[int(count * TEST_SHARE) :], order[: int(count * TEST_SHARE)]


def _dataset(places: np.ndarray) -> TensorDataset:
    images, labels = _digits()
    return TensorDataset(torch.tensor(images[places] / 16.0, dtype=torch.float32), torch.tensor(labels[places]))
