"""Three tasks on the same faces: who is a client, what it sends, and what an attacker makes of the sum.

- ``persons``: as in the paper, a client is a person, and every person is a class of their own. The published
  model is to know each client from all others.
- ``photographs``: a client is one photograph, so that seven clients have a class in common.
- ``upright``: a client is a person, and the model is to tell which way up a photograph is, also for persons
  whom it has never seen. It needs what all clients have in common, and nothing that one of them has alone.

Every task is one round of training that begins with a model of zeros.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from experiments import softmax
from experiments.faces import Faces, Images
from experiments.faces_inversion.run import invert
from experiments.privacy.published import Floats, clipped
from experiments.softmax import Federation, Model

#: The L2 norm of what a client sends. Nearly all vectors here are longer and are clipped to it.
NORM = 0.5
#: Of ten persons three are in the federation, and one is not.
_OUTSIDE = 0.25


@dataclass(frozen=True, eq=False)
class Persons:
    """The paper's task, with the local training of the reproduction."""

    known: Faces
    data: Federation

    @cached_property
    def sent(self) -> Floats:
        model = softmax.new_model(self.data)
        rows = [flat(softmax.update(model, self.data, client)) for client in range(self.data.clients)]
        return clipped(np.stack(rows), NORM)

    def model(self, total: Floats) -> Model:
        weights, biases = np.split(total / self.data.clients, [-self.data.clients])
        return [weights.reshape(-1, self.data.clients), biases]

    def accuracy(self, total: Floats) -> float:
        return softmax.accuracy(self.model(total), self.data)

    def images(self, total: Floats) -> dict[int, Images]:
        return inverted(self.model(total))


@dataclass(frozen=True, eq=False)
class Photographs:
    """One step of softmax regression on a single photograph per client, less the mean face of outsiders."""

    known: Faces
    data: Federation
    #: The mean of photographs of persons outside the federation, which are public.
    mean: Images

    @cached_property
    def sent(self) -> Floats:
        persons = self.data.clients
        pixels = self.data.train - self.mean
        wanted = np.eye(persons) - 1 / persons
        steps = pixels[:, :, :, None] * wanted[:, None, None, :]
        return clipped(steps.reshape(persons * pixels.shape[1], -1), NORM)

    def model(self, total: Floats) -> Model:
        weights = total.reshape(self.mean.size, self.data.clients) / len(self.sent)
        return [weights, -self.mean @ weights]

    def accuracy(self, total: Floats) -> float:
        return softmax.accuracy(self.model(total), self.data)

    def images(self, total: Floats) -> dict[int, Images]:
        return inverted(self.model(total))


@dataclass(frozen=True, eq=False)
class Upright:
    """One step of logistic regression on photographs as they are and upside down."""

    #: What a client's photographs have that is not there upside down; of outsiders as well.
    known: Faces
    clients: NDArray[np.int64]
    outside: NDArray[np.int64]

    @cached_property
    def sent(self) -> Floats:
        gradients = self.known.images[self.clients].mean(axis=1) / 4
        return clipped(gradients.reshape(len(self.clients), -1), NORM)

    def accuracy(self, total: Floats) -> float:
        """Return how many photographs of outsiders are told from the same upside down."""
        shots = self.known.images[self.outside].reshape(-1, total.size)
        return float(np.mean(shots @ total > 0))


def persons(faces: Faces, seed: int) -> Persons:
    return Persons(faces, softmax.federation(faces, seed))


def photographs(faces: Faces, seed: int) -> Photographs:
    inside, outside = parted(faces, [seed, 1])
    some = Faces(faces.images[inside])
    mean = faces.images[outside].mean(axis=(0, 1)).ravel()
    return Photographs(some, softmax.federation(some, seed), mean)


def upright(faces: Faces, seed: list[int]) -> Upright:
    inside, outside = parted(faces, seed)
    return Upright(Faces(faces.images - faces.images[:, :, ::-1]), inside, outside)


def parted(faces: Faces, seed: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw who is in the federation; the others' photographs are public."""
    order = np.random.default_rng(seed).permutation(faces.persons)
    outside, inside = np.split(order, [round(_OUTSIDE * faces.persons)])
    return inside, outside


def flat(model: Model) -> Floats:
    return np.concatenate([part.ravel() for part in model])


def inverted(model: Model) -> dict[int, Images]:
    """Return what the reproduction's attack makes of a model, for each person that it knows."""
    return {person: invert(model, person) for person in range(model[1].size)}
