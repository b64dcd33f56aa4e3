"""HTML and SVG out of small functions: whatever is not markup already is escaped."""

import html
from collections.abc import Iterable, Sequence


class Markup(str):
    """Text that is HTML, and goes into a page as it is."""

    __slots__ = ()


#: What goes into the page, by its names there.
Slots = dict[str, str]


def tag(name: str, *inside: str, **attributes: str | float) -> Markup:
    """Return an element; ``class_`` stands for class, ``aria_label`` for aria-label."""
    pairs = "".join(f' {_name(key)}="{_value(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{pairs}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    """Return all parts in a row, those escaped that are plain text."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table in a box of its own, which scrolls where the page is too narrow for it."""
    head = tag("tr", *(tag("th", name, scope="col") for name in heads))
    body = [
        tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", made, class_="box", role="region", aria_label=caption, tabindex=0)


def svg(width: float, height: float, alternative: str, *inside: str) -> Markup:
    """Return a picture, with what it shows in words for those who do not see it."""
    label = {"role": "img", "aria_label": alternative}
    return tag("svg", *inside, viewBox=f"0 0 {_value(width)} {_value(height)}", **label)


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return html.escape(value) if isinstance(value, str) else f"{round(value, 2):g}"
