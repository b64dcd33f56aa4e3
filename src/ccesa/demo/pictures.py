"""HTML and pictures without a plotting library: SVG for the report, shaded blocks for the terminal.

Text that is not markup already is escaped. Colours are classes of page.html, which has two of each: for light
paper and for dark. A stroke, a number or a word shows the same as each colour.
"""

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from ccesa.demo.learning import CLASSES, PIXELS


class Markup(str):
    """Text that is HTML, and goes into a page as it is."""

    __slots__ = ()


#: Parts of the page, by their names there.
Slots = dict[str, str]


def tag(name: str, *inside: str, **attributes: str | float) -> Markup:
    """Return an element; ``class_`` stands for class, ``aria_label`` for aria-label."""
    pairs = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{pairs}>{join(inside)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Return all parts in a row; plain text is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table in a box of its own, which scrolls on a narrow page."""
    head = tag("tr", *(tag("th", name, scope="col") for name in heads))
    body = [tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in cells)) for first, *cells in rows]
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", made, class_="box", role="region", aria_label=caption, tabindex=0)


def svg(width: float, height: float, alternative: str, *inside: str) -> Markup:
    """Return a picture, with a description in words."""
    label = {"role": "img", "aria_label": alternative}
    return tag("svg", *inside, viewBox=f"0 0 {_value(width)} {_value(height)}", **label)


def _value(value: str | float) -> str:
    return html.escape(value) if isinstance(value, str) else f"{round(value, 2):g}"


_SIDE = int(PIXELS**0.5)
_SHADES = " ·░▒▓█"
_LEVELS = 12  # shades of a tile in the report
_ABREAST = 5  # tiles in a row
_WIDTH, _LEFT, _RIGHT, _TOP, _LINE = 420, 58, 392, 12, 20
_PLOT = 190  # height between the axes
_LEGIBLE = 24  # the maximum of columns that have room for a number each
_MARKED = 40  # the maximum of points that have room for a dot each

Numbers = NDArray[np.float64] | NDArray[np.int64]


def tiles(numbers: Numbers) -> list[NDArray[np.float64]]:
    """Return the numbers of a softmax model as one 8 x 8 image per digit, scaled to [-1, 1] over all."""
    weights = numbers[: PIXELS * CLASSES].reshape(PIXELS, CLASSES)
    scaled = weights / (float(np.abs(weights).max()) or 1.0)
    return [scaled[:, digit].reshape(_SIDE, _SIDE) for digit in range(CLASSES)]


def tiles_svg(numbers: Numbers, alternative: str) -> Markup:
    """Draw ten images in two rows: one colour above zero, another below, stronger for larger."""
    step, cells, backs = _SIDE + 1, dict[tuple[str, int], list[str]](), []
    for digit, tile in enumerate(tiles(numbers)):
        left, top = digit % _ABREAST * step, digit // _ABREAST * step
        backs.append(tag("rect", class_="tile", x=left, y=top, width=_SIDE, height=_SIDE))
        for (y, x), value in np.ndenumerate(tile):
            shade = "up" if value > 0 else "down", round(abs(value) * _LEVELS)
            cells.setdefault(shade, []).append(f"M{left + x} {top + y}h1v1h-1z")
    shaded = [
        tag("path", class_=sign, opacity=level / _LEVELS, d="".join(paths))
        for (sign, level), paths in cells.items()
        if level
    ]
    drawn = tag("g", *backs, *shaded, shape_rendering="crispEdges")
    return svg(_ABREAST * step - 1, CLASSES // _ABREAST * step - 1, alternative, drawn)


def tiles_text(numbers: Numbers, digits: int = 2) -> Text:
    """Draw the first few images: darker for larger, red above zero, blue below."""
    text = Text()
    for y in range(_SIDE):
        for tile in tiles(numbers)[:digits]:
            for value in tile[y].tolist():
                text.append(_SHADES[round(abs(value) * (len(_SHADES) - 1))], "red" if value > 0 else "blue")
            text.append("  ")
        text.append("\n")
    return text


def every_fifth(rounds: int) -> list[int]:
    """Return which rounds have their number written: the first, the last, and some between."""
    step = 5 * math.ceil(rounds / 30)
    return sorted({1, *range(step, rounds - step // 2, step), rounds})


class Axis(NamedTuple):
    """An axis with its name and ticks; it reaches from the first tick to the last."""

    name: str
    ticks: Mapping[float, str]
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a value lies, from 0 to 1."""
        scale = math.log10 if self.log else float
        first, last = scale(min(self.ticks)), scale(max(self.ticks))
        return (scale(value) - first) / ((last - first) or 1.0)


class ChartLine(NamedTuple):
    """A line with its name; its style is a class of page.html: solid, band, dash or dot."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]


def percentages(values: Sequence[float], name: str) -> Axis:
    """Return an axis that is no longer than these fractions need."""
    low, high = min(values), max(values)
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2) if high - low <= 5 * step)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(name, {tick * step: f"{tick * step:.0%}" for tick in range(first, max(last, first + 1) + 1)})


def powers(values: Sequence[float], name: str, write: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis around these values, a line for each power of ten."""
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(name, {10.0**power: write(10.0**power) for power in range(first, last + 1)}, log=True)


def chart(curves: Sequence[ChartLine], x: Axis, y: Axis, alternative: str, lost: Sequence[int] = ()) -> Markup:
    """Draw curves over a grid with a legend below; upright lines are rounds without a sum."""
    bottom = _TOP + _LINE + _PLOT

    def across(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * x.place(value)

    def up(value: float) -> float:
        return bottom - _PLOT * y.place(value)

    parts = [_label(0, _TOP, y.name, "start"), _label(_RIGHT, bottom + 2 * _LINE, x.name, "end")]
    for value, name in y.ticks.items():
        parts += [_line("grid", _LEFT, up(value), _RIGHT, up(value)), _label(_LEFT - 6, up(value) + 4, name)]
    parts += [_label(across(value), bottom + _LINE, name, "middle") for value, name in x.ticks.items()]
    parts += [_line("lost", across(number), _TOP + _LINE, across(number), bottom) for number in lost]
    for place, (name, style, points) in enumerate(curves):
        drawn = [(across(a), up(b)) for a, b in points]
        way = " ".join(f"{a:.1f},{b:.1f}" for a, b in drawn)
        parts.append(tag("polyline", class_=style, points=way))
        if style == "solid" and len(drawn) <= _MARKED:
            parts += [tag("circle", class_="mark", cx=a, cy=b, r=3) for a, b in drawn]
        line = bottom + (place + 3) * _LINE
        parts += [_line(style, _LEFT, line - 4, _LEFT + 34, line - 4), _label(_LEFT + 42, line, name, "start")]
    return svg(_WIDTH, bottom + (len(curves) + 3) * _LINE - 6, alternative, *parts)


def rounds_svg(gone: Sequence[Mapping[str, int]], survivors: Sequence[int], clients: int, alternative: str) -> Markup:
    """Draw who left in which step of which round, and below it how many the sum of each round has."""
    left, top, steps = _LEFT + 18, _TOP + len(gone[0]) * _LINE + 26, list(gone[0])
    bottom, column = top + 90, (_RIGHT - left) / len(gone)
    most, written = max(max(one.values()) for one in gone) or 1, len(gone) <= _LEGIBLE
    parts = [_label(left - 6, _TOP + row * _LINE + 14, step) for row, step in enumerate(steps)]
    parts += [_label(left - 6, top + 4, f"all {clients}"), _line("grid", left, top, _RIGHT, top)]
    parts += [_label(left - 6, bottom, "in the sum"), _line("axis", left, bottom, _RIGHT, bottom)]
    for number, (leaving, staying) in enumerate(zip(gone, survivors, strict=True)):
        wide, middle = {"x": left + number * column, "width": column * 0.92}, left + (number + 0.46) * column
        for row, count in enumerate(leaving.values()):
            box = {**wide, "y": _TOP + row * _LINE, "height": _LINE - 2}
            shade = tag("rect", class_="gone", opacity=0.45 * count / most, **box)
            parts += [tag("rect", class_="cell", **box), shade]
            if written and count:
                parts.append(_label(middle, box["y"] + 14, f"{count}", "middle"))
        height = (bottom - top) * staying / clients
        parts.append(tag("rect", class_="bar", y=bottom - height, height=height, **wide))
        if not staying:
            parts += [_line("lost", middle, top, middle, bottom), _label(middle, top + 50, "✕", "middle")]
        elif written:
            parts.append(_label(middle, bottom - height - 4, f"{staying}", "middle", "small"))
    parts += [
        _label(left + (number - 0.54) * column, bottom + 16, f"{number}", "middle", "small")
        for number in every_fifth(len(gone))
    ]
    return svg(_WIDTH, bottom + 2 * _LINE, alternative, *parts, _label(_RIGHT, bottom + 34, "round"))


def _label(x: float, y: float, text: str, anchor: str = "end", size: str = "usual") -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=size)


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return tag("line", class_=style, x1=x1, y1=y1, x2=x2, y2=y2)
