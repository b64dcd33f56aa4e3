"""Numbers and tables as the page writes them."""

from collections.abc import Iterable, Sequence
from statistics import median

#: Small numbers in words, each at its own place.
WORDS = [
    *("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen"),
    *("sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
]
_RAISED = str.maketrans("-0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1) -> str:
    """Return a Markdown table whose first ``left`` columns are words, the others numbers on the right."""
    rule = "|" + "---|" * left + "--:|" * (len(head) - left)
    return "\n".join([_line(head), rule, *map(_line, rows)])


def _line(cells: Sequence[object]) -> str:
    return "".join(f"| {cell} " if cell != "" else "| " for cell in cells) + "|"


def formatted(value: object, spec: str = "") -> str:
    """Return the value as the page writes it: a space before %, a true minus sign."""
    text = format(value, spec)
    return text if isinstance(value, str) else text.replace("%", " %").replace("-", "−")


def ends(values: Iterable[float]) -> list[float]:
    """Return the least and the greatest of them, for "from … to …"."""
    found = list(values)
    return [min(found), max(found)]


def spread(values: Iterable[float], spec: str) -> str:
    """Return the median of several seeds with the lowest and the highest: "58.2 % (57.9 to 58.4 %)"."""
    found = sorted(values)
    return between([median(found), found[0], found[-1]], spec)


def between(values: Sequence[float], spec: str) -> str:
    """Return a middle, the lowest and the highest in this way; where all are written alike, that alone."""
    middle, low, high = (formatted(value, spec) for value in values)
    return middle if middle == low == high else f"{middle} ({low.removesuffix(' %')} to {high})"


def word(count: int) -> str:
    """Return a small number in words, a larger one in digits."""
    return WORDS[count] if 0 <= count < len(WORDS) else f"{count:,}"


def power(base: int, exponent: float) -> str:
    """Return for instance 2⁻²⁰, or with a fraction 10⁻⁴¹·⁵."""
    return f"{base}{f'{exponent:g}'.translate(_RAISED)}"


def scientific(value: float, digits: int = 0) -> str:
    """Return for instance 3·10⁻⁴."""
    factor, exponent = f"{value:.{digits}e}".split("e")
    return f"{factor}·{power(10, int(exponent))}"
