"""Both arms of the experiment: federated averaging over the survivors of real rounds, masked and plain.

An update is rounded to words on the device. The masked arm adds all masks of its client to it, which gives
the vector that the client sends, and adds the vectors up as a server does. The plain arm adds up the words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ccesa.crypto.masks import Mask
from ccesa.words import Vector
from experiments.cifar import Cifar
from experiments.cifar_masked.device import Gpu, Processor, Words, device_for
from experiments.cifar_masked.setup import CLIP, SCALE
from experiments.clients import Clients, whole_batches
from experiments.splits import split
from experiments.vgg import Images, Network, Tensor, accuracy, device_and_type, prepared

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
else:
    import torch


class Desk:
    """The buffers of the front end: one client's vector at a time, and sums of many."""

    def __init__(self, size: int, device: str) -> None:
        self._floats = torch.zeros(size, device=device)
        self.words, self.masked, self.plain_sum, self.masked_sum = (
            torch.zeros(size, dtype=torch.int32, device=device) for _ in range(4)
        )

    def clear(self) -> None:
        self.plain_sum.zero_()
        self.masked_sum.zero_()

    def round_off(self, row: Tensor, start: Tensor) -> None:
        """The update of one client as words."""
        torch.sub(row, start, out=self._floats)
        self._floats.clamp_(-CLIP, CLIP).mul_(SCALE).round_()
        self.words.copy_(self._floats)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums:
    """Of all words and of all masked vectors; and both vectors of one client, the witness."""

    plain: Words
    masked: Words
    witness: tuple[Vector, bytes] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Federation:
    """The network, the images on the device, and who has which of them."""

    network: Network
    clients: Clients
    desk: Desk
    test: Images
    places: Tensor
    masking: Gpu | Processor
    device: str

    def sums(
        self, start: Tensor, members: Sequence[int], masks: Sequence[Sequence[Mask]] | None, witness: int = -1
    ) -> Sums:
        """Train these members from the same model; with ``masks``, mask what each of them sends."""
        desk, keys = self.desk, None if masks is None else self.masking.upload(masks)
        kept: list[tuple[Vector, bytes]] = []

        def take(number: int, row: Tensor) -> None:
            desk.round_off(row, start)
            desk.plain_sum.add_(desk.words)
            if keys is not None:
                self.masking.mask(desk.words, desk.masked, keys[number])
                desk.masked_sum.add_(desk.masked)
                if members[number] == witness:
                    kept.append((host(desk.words).copy(), host(desk.masked).tobytes()))

        desk.clear()
        self.clients.each([start] * len(members), self.places[list(members)], take)
        return Sums(plain=desk.plain_sum.clone(), masked=desk.masked_sum.clone(), witness=kept[0] if kept else None)

    def moved(self, start: Tensor, total: Words, members: int) -> Tensor:
        """The next model, by the sum of so many members' updates."""
        return start + (total.double() / (SCALE * members)).float()

    def accuracy(self, row: Tensor) -> float:
        return accuracy(self.network, row, self.test)

    def words(self, raw: bytes) -> Words:
        return torch.from_numpy(np.frombuffer(raw, np.int32).copy()).to(self.device)


def added(parts: Sequence[Words]) -> Words:
    """One after the other: torch's sum would widen the words."""
    total = parts[0].clone()
    for part in parts[1:]:
        total.add_(part)
    return total


def host(words: Words) -> Vector:
    """The words in this process's memory, unsigned."""
    found: Vector = words.cpu().numpy().view(np.uint32)
    return found


def equip(data: Cifar, clients: int, channels: tuple[int, ...], seed: int, together: int) -> Federation:
    device, dtype = device_and_type()
    network = Network(channels)
    train = prepared(data.train_x, data.train_y, data, device, dtype)
    return Federation(
        network=network,
        clients=Clients(network, train, together=together),
        desk=Desk(network.size, device),
        test=prepared(data.test_x, data.test_y, data, device, dtype),
        places=whole_batches(split(data.train_y, clients, "iid", seed), device),
        masking=device_for(device),
        device=device,
    )
