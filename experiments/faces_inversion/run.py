"""The paper's model inversion figure: what a face recogniser's eavesdropper can see of the faces.

Fredrikson's attack on softmax regression: start from a grey image and follow the gradient towards
what the model takes for the person. It is given what an eavesdropper holds of one client: its model (plain
federated averaging) or its masked model, read as numbers by the quantizer's scale (SA, CCESA, the planned
graph; real masks). The last column is the sum that every scheme reveals on purpose.

Over several seeds. Writes results.json, after each seed, and faces_inversion.png. The next call goes on with
the seeds that are missing.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ccesa import words
from ccesa.graphs import Complete, ErdosRenyi, Graph
from ccesa.graphs.thresholds import Fixed, Threshold
from ccesa.protocol import messages as m
from ccesa.simulate import usual_plan
from ccesa.values.fields import WORD_BITS
from ccesa.values.quantize import Quantizer
from experiments import chart, faces, rounds, seeds, softmax
from experiments.arguments import run
from experiments.faces import Faces, Images
from experiments.faces_inversion.picture import draw
from experiments.record import Key
from experiments.seeds import Seeds, spread
from experiments.softmax import Federation, Model

HERE = Path(__file__).parent
#: Largest weight of a model; those here stay far below.
CLIP = softmax.LARGEST_UPDATE
#: The attack: so many steps, none of which moves a pixel by more.
STEPS, STEP = 50, 0.01


@dataclass(frozen=True, kw_only=True)
class Effort:
    seeds: int
    training_rounds: int
    #: Masked rounds of each scheme, with fresh keys.
    repeats: int
    shrink: int


FULL = Effort(seeds=8, training_rounds=10, repeats=5, shrink=1)
QUICK = Effort(seeds=2, training_rounds=2, repeats=1, shrink=4)


def settings(quick: bool) -> dict[str, Any]:
    return asdict(QUICK if quick else FULL) | {
        "steps": STEPS,
        "step": STEP,
        "epochs": softmax.EPOCHS,
        "learning_rate": softmax.RATE,
    }


def invert(model: Model, person: int) -> Images:
    """An image that the model takes for this person: uphill on the odds of the person against all others.

    Confidence and its odds have their maxima at the same images, but a client that knows one face only is
    sure of it even before the first step, and the slope of its confidence vanishes.
    """
    weights, biases = model
    others = np.arange(biases.size) != person
    image = np.full(weights.shape[0], 0.5)
    for _ in range(STEPS):
        guess = np.where(others, image @ weights + biases, -np.inf)
        slope = weights[:, person] - weights @ softmax.softmax(guess)
        image = np.clip(image + STEP * slope / np.abs(slope).max(), 0.0, 1.0)
    return image


def train(data: Federation, count: int) -> tuple[Model, list[Model]]:
    """Plain federated averaging: the last global model, and all clients' models in the round before it."""
    model = softmax.new_model(data)
    local = [model] * data.clients
    for number in range(count):
        local = [softmax.add(model, softmax.update(model, data, client)) for client in range(data.clients)]
        model = [np.mean(part, axis=0) for part in zip(*local, strict=True)]
        print(f"training round {number + 1} of {count}: accuracy {softmax.accuracy(model, data):.2f}", flush=True)
    return model, local


def schemes(clients: int) -> dict[str, tuple[Graph, Threshold]]:
    """n = 40 is too few for a p*; the paper takes p = 0.7 there, and t = 21."""
    t = Fixed(t=clients // 2 + 1)
    made = usual_plan(clients, 0.1)
    return {"SA": (Complete(), t), "CCESA": (ErdosRenyi(p=0.7), t), "planned": (made.graph, made.threshold)}


def overheard(local: list[Model], graph: Graph, threshold: Threshold, seed: list[int]) -> dict[int, Model]:
    """A real round over the clients' models; what an eavesdropper reads in the masked ones."""
    clients = len(local)
    quantizer = Quantizer.for_model(local[0], clients=clients, clip=CLIP)
    config = rounds.configured(seed, clients, quantizer.length, graph, threshold, WORD_BITS)
    heard: dict[int, Model] = {}

    def overhear(client: int, reply: bytes) -> None:
        message = m.decode(reply, len(reply))
        if isinstance(message, m.MaskReply):
            steps, _ = quantizer.fields.split(words.from_bytes(message.vector, WORD_BITS))
            scaled = steps[: quantizer.layout.size].astype(np.float64) * (CLIP / quantizer.levels)
            heard[client] = quantizer.layout.restore(scaled)

    def vector(client: int) -> Any:
        return quantizer.encode(local[client], rng=np.random.default_rng([*seed, client])).vector

    rounds.ran(config, vector, {}, seed, overhear)
    return heard


def _rounds(local: list[Model], graph: Graph, threshold: Threshold, seed: list[int]) -> Iterator[dict[int, Model]]:
    """Yield rounds one after the other: one that is lost before anybody masks is repeated, as in practice."""
    for again in itertools.count():
        yield overheard(local, graph, threshold, [*seed, again])


def scored(images: dict[int, Images], known: Faces) -> dict[str, Any]:
    """Correlation with each mean face, less the mean of all: with the right one, and is that the largest?"""
    means = known.images.mean(axis=1).reshape(known.persons, -1)
    centred = _unit(means - means.mean(axis=0))
    likeness = {person: centred @ _unit(image) for person, image in images.items()}
    right = {person: bool(np.argmax(found) == person) for person, found in likeness.items()}
    return {
        "attacks": len(images),
        "identified": sum(right.values()),
        "similarity": {person: float(found[person]) for person, found in likeness.items()},
        "right": right,
    }


def _unit(rows: Images) -> Images:
    """Each row less its mean, of length 1; an image of one colour has no direction and stays zero."""
    rows = rows - rows.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(length == 0, 1, length))


def summary(scores: list[dict[str, Any]], persons: int) -> dict[str, float]:
    """Over all attacks on one scheme, beside chance."""
    attacks = sum(score["attacks"] for score in scores)
    identified = sum(score["identified"] for score in scores)
    rate = identified / attacks
    similarity = [value for score in scores for value in score["similarity"].values()]
    return {
        "attacks": attacks,
        "identified": identified,
        "rate": rate,
        "chance": 1 / persons,
        "chance_two_sigma": chance_two_sigma(1 / persons, attacks),
        "similarity_mean": float(np.mean(similarity)),
        "similarity_two_sigma": float(2 * np.std(similarity) / math.sqrt(attacks)),
    }


def chance_two_sigma(chance: float, attacks: int) -> float:
    return 2 * math.sqrt(chance * (1 - chance) / attacks)


def attacked(data: Federation, effort: Effort, seed: int) -> Iterator[tuple[str, list[dict[int, Images]]]]:
    """Yield each scheme with the images of its clients, for every round that was overheard."""
    total, local = train(data, effort.training_rounds)
    everyone = range(data.clients)
    yield "federated averaging", [{client: invert(local[client], client) for client in everyone}]
    for name, (graph, threshold) in schemes(data.clients).items():
        heard = (
            next(filter(None, _rounds(local, graph, threshold, [seed, number]))) for number in range(effort.repeats)
        )
        yield name, [{client: invert(model, client) for client, model in one.items()} for one in heard]
    yield "the sum itself", [{client: invert(total, client) for client in everyone}]


def one_seed(data: Federation, known: Faces, effort: Effort, seed: int) -> dict[str, Any]:
    """All schemes with one seed, which divides the photographs and draws all keys."""
    found = {}
    for name, tries in attacked(data, effort, seed):
        found[name] = summary([scored(images, known) for images in tries], data.clients)
        _say(seed, name, found[name])
    return {"schemes": found}


def over_seeds(found: Seeds) -> dict[str, Any]:
    """Return for each scheme all attacks together, beside chance, and the spread over the seeds."""
    every = [seed["schemes"] for seed in found.values()]
    return {"schemes": {name: _over_seeds([scheme[name] for scheme in every]) for name in every[0]}}


def _over_seeds(every: list[dict[str, float]]) -> dict[str, Any]:
    attacks, chance = sum(int(one["attacks"]) for one in every), every[0]["chance"]
    return {
        "attacks": attacks,
        "identified": sum(int(one["identified"]) for one in every),
        "chance": chance,
        "chance_two_sigma": chance_two_sigma(chance, attacks),
        "rate": spread([one["rate"] for one in every]),
        "similarity": spread([one["similarity_mean"] for one in every]),
    }


def _say(seed: int, name: str, found: dict[str, float]) -> None:
    print(
        f"seed {seed}, {name}: {found['identified']} of {found['attacks']} identified "
        f"(chance {found['chance']:.3f}), similarity {found['similarity_mean']:.3f}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = seeds.parse(__doc__, HERE, "small images, two seeds, one masked round per scheme", arguments)
    effort = QUICK if wanted.quick else FULL
    key = Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    known = faces.whole(wanted.data, wanted.quick).smaller(effort.shrink)
    about = {"clients": known.persons, "pixels": known.size[0] * known.size[1]}
    result = seeds.run(
        wanted,
        key,
        effort.seeds,
        lambda seed: one_seed(softmax.federation(known, seed), known, effort, seed),
        lambda found: about | over_seeds(found),
    )
    # Everything comes from the seed: the images of the first one can be made again.
    data = softmax.federation(known, wanted.seed)
    shown = attacked(data, replace(effort, repeats=1), wanted.seed)
    columns = {name: tries[0] for name, tries in shown}
    chart.save(draw(known, data, columns, result), wanted.output / "faces_inversion.png")


if __name__ == "__main__":
    run(main)
