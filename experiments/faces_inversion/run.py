"""The paper's model inversion figure: what a face recogniser's eavesdropper can see of the faces.

Fredrikson's attack on softmax regression: start from a grey image and follow the gradient towards
what the model takes for the person. It is given what an eavesdropper holds of one client: its model (plain
federated averaging) or its masked model, read as numbers by the quantizer's scale (SA, CCESA, the planned
graph; real masks). The last column is the sum that every scheme reveals on purpose. Writes results.json and
faces_inversion.png.
"""

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ccesa import words
from ccesa.fields import WORD_BITS
from ccesa.graphs import Complete, ErdosRenyi, Graph
from ccesa.protocol import messages as m
from ccesa.quantize import Quantizer
from ccesa.simulate import usual_plan
from ccesa.thresholds import Fixed, Threshold
from experiments import faces, rounds, softmax
from experiments.arguments import parse, run
from experiments.faces import Faces, Images
from experiments.record import Key, save
from experiments.softmax import Federation, Model

HERE = Path(__file__).parent
#: Largest weight of a model; those here stay far below.
CLIP = softmax.LARGEST_UPDATE
#: The attack: so many steps, none of which moves a pixel by more.
STEPS, STEP = 50, 0.01
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Effort:
    training_rounds: int
    #: Masked rounds of each scheme, with fresh keys.
    repeats: int
    shrink: int


FULL = Effort(training_rounds=10, repeats=5, shrink=1)
QUICK = Effort(training_rounds=2, repeats=1, shrink=4)


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
        print(
            f"training round {number + 1} of {count}: accuracy {softmax.accuracy(model, data):.2f}",
            flush=True,
        )
    return model, local


def schemes(clients: int) -> dict[str, tuple[Graph, Threshold]]:
    """n = 40 is too few for a p*; the paper takes p = 0.7 there, and t = 21."""
    t = Fixed(t=clients // 2 + 1)
    made = usual_plan(clients, 0.1)
    return {
        "SA": (Complete(), t),
        "CCESA": (ErdosRenyi(p=0.7), t),
        "planned": (made.graph, made.threshold),
    }


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


def _rounds(
    local: list[Model], graph: Graph, threshold: Threshold, seed: list[int]
) -> Iterator[dict[int, Model]]:
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
        "chance_two_sigma": 2 * math.sqrt((1 - 1 / persons) / persons / attacks),
        "similarity_mean": float(np.mean(similarity)),
        "similarity_two_sigma": float(2 * np.std(similarity) / math.sqrt(attacks)),
    }


def picture(
    known: Faces, columns: dict[str, dict[int, Images]], scores: dict[str, dict[str, float]]
) -> Figure:
    everywhere = set.intersection(*(set(images) for images in columns.values()))
    people = sorted(everywhere)[:: max(1, len(everywhere) // SHOWN)][:SHOWN]
    figure = Figure(figsize=(2 * len(columns) + 2, 2.2 * len(people) + 1.2), layout="constrained")
    panels = figure.subplots(len(people), len(columns) + 1, squeeze=False)
    for row, person in zip(panels, people, strict=True):
        shown = [known.images[person].mean(axis=0), *(images[person] for images in columns.values())]
        for panel, image in zip(row, shown, strict=True):
            panel.imshow(image.reshape(known.size), cmap="gray")
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(f"person {person + 1}")
    panels[0][0].set_title("mean of the\nphotographs", fontsize=9)
    for panel, name in zip(panels[0][1:], columns, strict=True):
        found = scores[name]
        counts = f"{found['identified']} of {found['attacks']} identified"
        panel.set_title(f"{name}\n{counts}: {found['rate']:.1%}", fontsize=8)
    figure.suptitle(
        f"model inversion from what an eavesdropper holds; by chance {1 / known.persons:.1%} are identified",
        fontsize=11,
    )
    return figure


def attack(
    data: Federation, known: Faces, effort: Effort, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All schemes: their scores, and the images of their first round."""
    total, local = train(data, effort.training_rounds)
    everyone = range(data.clients)
    columns = {"federated averaging": {i: invert(local[i], i) for i in everyone}}
    scores = {"federated averaging": summary([scored(columns["federated averaging"], known)], data.clients)}
    _say("federated averaging", scores)
    for name, (graph, threshold) in schemes(data.clients).items():
        found = []
        for number in range(effort.repeats):
            heard = next(filter(None, _rounds(local, graph, threshold, [seed, number])))
            images = {client: invert(model, client) for client, model in heard.items()}
            columns.setdefault(name, images)
            found.append(scored(images, known))
        scores[name] = summary(found, data.clients)
        _say(name, scores)
    columns["the sum itself"] = {i: invert(total, i) for i in everyone}
    scores["the sum itself"] = summary([scored(columns["the sum itself"], known)], data.clients)
    _say("the sum itself", scores)
    return scores, columns


def _say(name: str, scores: dict[str, dict[str, float]]) -> None:
    found = scores[name]
    print(
        f"{name}: {found['identified']} of {found['attacks']} identified (chance {found['chance']:.3f}), "
        f"similarity {found['similarity_mean']:.3f} ± {found['similarity_two_sigma']:.3f}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "small images, one masked round a scheme", arguments)
    started, key = time.time(), Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    effort = QUICK if wanted.quick else FULL
    known = faces.whole(wanted.data, wanted.quick).smaller(effort.shrink)
    data = softmax.federation(known, wanted.seed)
    scores, columns = attack(data, known, effort, wanted.seed)
    picture(known, columns, scores).savefig(wanted.output / "faces_inversion.png", dpi=150)
    result = {"clients": data.clients, "pixels": data.train.shape[2], "schemes": scores}
    save(wanted.output / "results.json", result, key, started=started)


if __name__ == "__main__":
    run(main)
