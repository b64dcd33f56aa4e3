"""The figure: faces beside what an attacker makes of the published sum, for each epsilon."""

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure, SubFigure

from experiments.faces import Images

if TYPE_CHECKING:
    from experiments.privacy.inversion.run import Try

Tries = dict[tuple[str, str], list["Try"]]

TITLES = {
    "persons": "one client per person, one class per person: the inverted model",
    "photographs": "one client per photograph, seven in a class: the inverted model",
    "upright": "one client per person, which way up: two sums, with and without the person",
}


def draw(rows: list[dict[str, Any]], tries: Tries) -> Figure:
    figure = Figure(figsize=(13, 15), layout="constrained")
    parts: Any = figure.subfigures(len(TITLES), 1)
    for part, (task, title) in zip(parts, TITLES.items(), strict=True):
        some = [row for row in rows if row["task"] == task]
        first = some[0]
        part.suptitle(f"{title} ({first['clients']} clients, {first['parameters']:,} parameters)", fontsize=11)
        _panels(part, some, {row["epsilon"]: tries[task, row["epsilon"]] for row in some})
    return figure


def _panels(part: SubFigure, rows: list[dict[str, Any]], tries: dict[str, list["Try"]]) -> None:
    columns = [_truth(tries[rows[0]["epsilon"]]), *(_published(tries[row["epsilon"]]) for row in rows)]
    panels = part.subplots(len(columns[0]), len(columns), squeeze=False)
    height, width = tries[rows[0]["epsilon"]][0].known.size
    for column, images in enumerate(columns):
        for panel, image in zip(panels[:, column], images, strict=True):
            panel.imshow(image.reshape(height, width), cmap="gray")
            panel.set(xticks=[], yticks=[])
    panels[0][0].set_title("the clients'\nown", fontsize=9)
    if len(tries[rows[0]["epsilon"]]) > 1:
        panels[-1][0].set_ylabel("the sum itself", fontsize=9)
    for panel, row in zip(panels[0][1:], rows, strict=True):
        panel.set_title(_caption(row), fontsize=9)


def _caption(row: dict[str, Any]) -> str:
    noise = "no noise" if row["epsilon"] == "inf" else f"ε = {row['epsilon']}"
    found = f"{row['identified']} of {row['attacks']} identified"
    return f"{noise}\n{found}\naccuracy {row['accuracy']:.0%}"


def _truth(found: list["Try"]) -> list[Images]:
    """Return mean faces; with one victim to a try also the sum without noise."""
    faces = [one.known.images[person].mean(axis=0) for one in found for person in _people(one)]
    return faces if len(found) == 1 else [*faces, found[0].plain]


def _published(found: list["Try"]) -> list[Images]:
    faces = [one.images[person] for one in found for person in _people(one)]
    return faces if len(found) == 1 else [*faces, found[0].total]


def _people(found: "Try") -> list[int]:
    """Return three persons of all, or the only one."""
    everyone = sorted(found.images)
    return everyone[:: max(1, len(everyone) // 3)][:3]
