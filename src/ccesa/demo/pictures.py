"""Pictures without a plotting library: SVG for the report, shaded blocks for the terminal."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from ccesa.demo.learning import CLASSES, PIXELS

_SIDE = int(PIXELS**0.5)
_WIDTH, _HEIGHT, _MARGIN = 640, 260, 44
_SHADES = " ·░▒▓█"


def tiles(update: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return a softmax update as one 8 x 8 image per digit, scaled to [-1, 1] over all of them."""
    weights = update[: PIXELS * CLASSES].reshape(PIXELS, CLASSES)
    scaled = weights / (np.abs(weights).max() or 1.0)
    return [scaled[:, digit].reshape(_SIDE, _SIDE) for digit in range(CLASSES)]


def colour(value: float) -> str:
    """Return a colour: blue below zero, white at it, red above."""
    pale = round(255 * (1 - min(abs(value), 1.0)))
    return f"#{pale:02x}{pale:02x}ff" if value < 0 else f"#ff{pale:02x}{pale:02x}"


def tiles_svg(update: NDArray[np.float64], pixel: int = 8) -> str:
    """Draw ten images side by side."""
    step = (_SIDE + 1) * pixel
    cells = [
        f'<rect x="{digit * step + x * pixel}" y="{y * pixel}" width="{pixel}" height="{pixel}" '
        f'fill="{colour(float(tile[y, x]))}"/>'
        for digit, tile in enumerate(tiles(update))
        for y in range(_SIDE)
        for x in range(_SIDE)
    ]
    return f'<svg viewBox="0 0 {CLASSES * step} {_SIDE * pixel}" role="img">{"".join(cells)}</svg>'


def tiles_text(update: NDArray[np.float64], digits: int = 3) -> Text:
    """Draw the first few images: darker for larger, red above zero, blue below."""
    text = Text()
    for y in range(_SIDE):
        for tile in tiles(update)[:digits]:
            for value in tile[y].tolist():
                text.append(_SHADES[round(abs(value) * (len(_SHADES) - 1))], "red" if value > 0 else "blue")
            text.append("  ")
        text.append("\n")
    return text


def curves_svg(curves: Sequence[tuple[str, str, Sequence[float]]], lost: Sequence[int]) -> str:
    """Draw accuracy per round: (name, SVG stroke style, values from 0 to 1) each; lost rounds are marked."""
    rounds = max(len(values) for _, _, values in curves)
    right, bottom = _WIDTH - _MARGIN, _HEIGHT - _MARGIN
    parts = [_label(_WIDTH / 2, _HEIGHT - 6, "round")]

    def x(number: int) -> float:
        return round(_MARGIN + (right - _MARGIN) * number / rounds, 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - _MARGIN) * value, 1)

    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line x1="{_MARGIN}" x2="{right}" y1="{y(tick)}" y2="{y(tick)}" stroke="#ddd"/>')
        parts.append(_label(_MARGIN - 20, y(tick) + 4, f"{tick:.0%}"))
    parts += [_label(x(n), bottom + 18, str(n)) for n in range(0, rounds + 1, max(1, rounds // 5))]
    parts += [_label(x(n), _MARGIN - 6, "lost") for n in lost]
    for place, (name, style, values) in enumerate(curves):
        points = " ".join(f"{x(number)},{y(value)}" for number, value in enumerate(values, 1))
        left, line = right - 200, bottom - 40 + 18 * place
        parts.append(f'<polyline points="{points}" fill="none" style="{style}"/>')
        parts.append(f'<line x1="{left}" x2="{left + 28}" y1="{line}" y2="{line}" style="{style}"/>')
        parts.append(f'<text x="{left + 34}" y="{line + 4}">{name}</text>')
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle">{text}</text>'
