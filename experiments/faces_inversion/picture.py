"""The figure: a photograph that a client trained with, beside what the attack makes of each scheme."""

from typing import Any

from matplotlib.figure import Figure

from experiments.faces import Faces, Images
from experiments.softmax import Federation

SHOWN = 4
#: Titles of the columns that are no attack.
PHOTOGRAPH, MEAN = "a photograph that\nthe client trained with", "mean of the person's\nphotographs"


def draw(known: Faces, data: Federation, columns: dict[str, dict[int, Images]], result: dict[str, Any]) -> Figure:
    everywhere = set.intersection(*(set(images) for images in columns.values()))
    people = sorted(everywhere)[:: max(1, len(everywhere) // SHOWN)][:SHOWN]
    shown = {
        PHOTOGRAPH: {person: data.train[person][0] for person in people},
        MEAN: {person: known.images[person].mean(axis=0) for person in people},
        **{_title(name, result["schemes"][name]): images for name, images in columns.items()},
    }
    figure = Figure(figsize=(1.75 * len(shown), 2.05 * len(people) + 1), layout="constrained")
    panels = figure.subplots(len(people), len(shown), squeeze=False)
    for column, (title, images) in zip(panels.T, shown.items(), strict=True):
        column[0].set_title(title, fontsize=8)
        for panel, person in zip(column, people, strict=True):
            panel.imshow(images[person].reshape(known.size), cmap="gray", interpolation="nearest")
            panel.set(xticks=[], yticks=[])
    for panel, person in zip(panels[:, 0], people, strict=True):
        panel.set_ylabel(f"person {person + 1}")
    count, chance = len(result["seeds"]), 1 / known.persons
    figure.suptitle(
        "model inversion from what an eavesdropper holds: images of one seed; persons identified over "
        f"{count} seeds, mean (lowest to highest), by chance {chance:.1%}",
        fontsize=10,
    )
    return figure


def _title(name: str, found: dict[str, Any]) -> str:
    rate = found["rate"]
    least, most = f"{rate['lowest']:.1%}", f"{rate['highest']:.1%}"
    span = "with every seed" if least == most else f"({least} to {most})"
    return f"{name}\n{rate['mean']:.1%} identified\n{span}"
