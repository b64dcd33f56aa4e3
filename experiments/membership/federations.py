"""Federations that are trained side by side: those under attack, and the shadows, all of them at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.clients import Clients
from experiments.membership.masked import VICTIM
from experiments.membership.setup import LEARNT, LEARNT_OF, Crowd, Places
from experiments.sgd import EPOCHS
from experiments.vgg import Images, Network, Tensor, accuracy

if TYPE_CHECKING:  # torch is optional; its types are not needed here
    torch: Any
else:
    import torch


class Federation:
    """Federated averaging over some images: the mean of the last round, and what clients sent for it."""

    def __init__(self, network: Network, members: Places, crowd: Crowd, seed: list[int], device: str) -> None:
        self.crowd, self.device = crowd, device
        self._rng = np.random.default_rng(seed)
        self.own = self._rng.permutation(members).reshape(crowd.clients, -1)
        self.mean = network.new(int(self._rng.integers(2**31)), device)
        self.seen = self._rng.choice(members, min(members.size, LEARNT_OF), replace=False)
        #: By client; a shadow keeps the victim's alone.
        self.sent: dict[int, Tensor] = {VICTIM: torch.zeros_like(self.mean)}
        self.rounds = 0
        self._total = torch.zeros_like(self.mean)

    def keep_all(self) -> None:
        self.sent = {client: torch.zeros_like(self.mean) for client in range(self.crowd.clients)}

    def plans(self) -> Tensor:
        """The epochs of each client, in an order of their own, in batches."""
        steps = [
            np.concatenate([self._rng.permutation(places) for _ in range(EPOCHS)]).reshape(-1, self.crowd.batch)
            for places in self.own
        ]
        self._total.zero_()
        return torch.from_numpy(np.stack(steps)).to(self.device)

    def take(self, client: int, row: Tensor) -> None:
        self._total.add_(row)
        if client in self.sent:
            self.sent[client].copy_(row)

    def end_round(self) -> None:
        self.mean = self._total / self.crowd.clients
        self.rounds += 1


def train(federations: Sequence[Federation], clients: Clients, images: Images, most_rounds: int) -> None:
    """Every federation until it knows its images, or for the most rounds."""
    active = list(federations)
    while active:
        for steps in {_steps(one) for one in active}:
            _round([one for one in active if _steps(one) == steps], clients)
        active = [one for one in active if one.rounds < most_rounds and not _knows(one, clients, images)]


def _steps(federation: Federation) -> tuple[int, int]:
    """What clients who train in one group have in common."""
    return federation.own.shape[1], federation.crowd.batch


def _round(federations: list[Federation], clients: Clients) -> None:
    owners = [(one, client) for one in federations for client in range(one.crowd.clients)]
    plans = torch.cat([one.plans() for one in federations])

    def take(number: int, row: Tensor) -> None:
        federation, client = owners[number]
        federation.take(client, row)

    clients.each([one.mean for one, _ in owners], plans, take)
    for one in federations:
        one.end_round()


def _knows(federation: Federation, clients: Clients, images: Images) -> bool:
    return accuracy(clients.network, federation.mean, images, federation.seen) >= LEARNT
