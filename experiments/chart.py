"""Lines that can be told apart on a grey printout: by shade, dashes and marker."""

import io
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

#: Of a saved figure. Masked models are noise, which is small in no other way.
_SHADES = 16

_STYLES: tuple[dict[str, Any], ...] = (
    {"color": "black", "ls": "-", "marker": "o"},
    {"color": "0.45", "ls": "--", "marker": "s"},
    {"color": "0.2", "ls": "-.", "marker": "^"},
    {"color": "0.6", "ls": ":", "marker": "v"},
    {"color": "0.35", "ls": "-", "marker": "x"},
    {"color": "0.7", "ls": "-", "marker": "D"},
)


def style(number: int) -> dict[str, Any]:
    return dict(_STYLES[number % len(_STYLES)])


def finish(panel: Axes, title: str, *, loc: str = "best", legend: bool = True) -> None:
    panel.set_title(title, fontsize=10)
    panel.grid(color="0.9")
    if legend:
        panel.legend(fontsize=8, loc=loc)


def save(figure: Figure, file: Path) -> None:
    """Write the figure in a few shades of grey: a fraction of the bytes."""
    whole = io.BytesIO()
    figure.savefig(whole, dpi=100)
    with Image.open(whole) as image:
        image.convert("L").quantize(_SHADES).save(file, optimize=True)
