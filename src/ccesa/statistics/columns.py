"""Columns of a table: numbers between bounds, in exact steps, and words from a list."""

import itertools
import math
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import cached_property
from typing import Any, Literal, get_args
from unicodedata import normalize

import msgspec

from ccesa.errors import ConfigError, quoted
from ccesa.parts import Part, check_integer, is_printable

Measure = Literal["count", "sum", "mean", "variance", "histogram", "quantiles"]

#: What the sums of a number column are for.
_NEEDED_BY = {
    "sum": ("sum", "mean", "variance"),
    "square": ("variance",),
    "bins": ("histogram", "quantiles"),
}
#: What a category is where it is none of the agreed values, or empty.
OTHER, MISSING = "other", "missing"
#: The largest of everything; all that a schema says is sent to and kept by every site.
_MOST_PLACES, _MOST_STEPS, _MOST_LISTED = 9, 2**53, 1000
#: Precision for what lies within the bounds; nobody's own settings change it.
_CONTEXT = Context(prec=40, rounding=ROUND_HALF_EVEN)


class Number(Part, frozen=True, kw_only=True, dict=True):
    """A column of numbers, between two bounds.

    Attributes:
        name: Of the column.
        lower: The least value; what is below is clipped to it, and counted.
        upper: The largest value.
        places: Decimal places: values are rounded to them, half to even, and are exact from there on.
        measures: What is learned of it.
        edges: Where one bin ends and the next begins, ascending, within the bounds; a value on an edge is in
            the upper bin.
        quantiles: Which quantiles, between 0 and 1, ascending.

    Raises:
        ConfigError: A field cannot be.
    """

    name: str
    lower: float
    upper: float
    places: int = 0
    measures: tuple[Measure, ...] = ("count", "mean")
    edges: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = (0.25, 0.5, 0.75)

    def __post_init__(self) -> None:
        composed(self, "name")
        check_text("the name of a column", self.name)
        _settle(self, "lower", "upper", "edges", "quantiles")
        msgspec.structs.force_setattr(self, "measures", tuple(self.measures))
        check_integer("places", self.places)
        if not 0 <= self.places <= _MOST_PLACES:
            raise self._wrong(f"places must lie in 0..{_MOST_PLACES}, not {self.places}")
        if not self.measures or not set(self.measures) <= set(get_args(Measure)):
            raise self._wrong(f"measures are some of {', '.join(get_args(Measure))}")
        check_list(f"measures of {quoted(self.name)}", self.measures)
        ends = [self.lower, *self.edges, self.upper]
        if any(one >= other for one, other in itertools.pairwise(map(self._exact, ends))):
            raise self._wrong("lower, edges and upper must ascend")
        # What is no number is neither below nor above another one.
        if not all(one < other for one, other in itertools.pairwise([0.0, *self.quantiles, 1.0])):
            raise self._wrong("quantiles must ascend between 0 and 1")
        check_list(f"edges of {quoted(self.name)}", self.edges)
        check_list(f"quantiles of {quoted(self.name)}", self.quantiles)
        if self.needs("bins") != bool(self.edges):
            raise self._wrong("histogram and quantiles go with edges of bins, and edges with one of them")
        if "quantiles" in self.measures and not self.quantiles:
            raise self._wrong("it is not said which quantiles")

    def _wrong(self, why: str) -> ConfigError:
        return ConfigError(f"column {quoted(self.name)}: {why}")

    def _exact(self, value: float) -> int:
        """Return a bound or an edge in steps, as it is written; refuse one that lies between two steps."""
        steps = Decimal(repr(value)).scaleb(self.places, _CONTEXT) if math.isfinite(value) else None
        if steps is None or not -_MOST_STEPS <= steps <= _MOST_STEPS or steps != int(steps):
            raise self._wrong(f"{value!r} is not a number below 2^53 steps with {self.places} places")
        return int(steps)

    def needs(self, what: str) -> bool:
        """Return whether some measure needs these sums.

        Args:
            what: ``sum``, ``square`` or ``bins``.
        """
        return not set(_NEEDED_BY[what]).isdisjoint(self.measures)

    @cached_property
    def least(self) -> int:
        """The lower bound in steps."""
        return self._exact(self.lower)

    @cached_property
    def range(self) -> int:
        """How many steps the upper bound is above the lower one."""
        return self._exact(self.upper) - self.least

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The ends of all bins in steps above the lower bound, the first 0 and the last ``range``."""
        return tuple(self._exact(one) - self.least for one in (self.lower, *self.edges, self.upper))

    @cached_property
    def bounds(self) -> tuple[Decimal, Decimal]:
        """Both bounds, exactly."""
        return Decimal(repr(self.lower)), Decimal(repr(self.upper))

    def steps(self, value: Decimal) -> int:
        """Return a value in steps above the lower bound, clipped to the bounds.

        Args:
            value: Any finite number.
        """
        lower, upper = self.bounds
        if not lower < value < upper:  # also numbers that are too large to be written out
            return 0 if value <= lower else self.range
        exact = value.quantize(Decimal((0, (1,), -self.places)), context=_CONTEXT)
        return int(exact.scaleb(self.places, _CONTEXT)) - self.least


class Category(Part, frozen=True, kw_only=True, dict=True):
    """A column of words.

    Attributes:
        name: Of the column.
        values: Those that are counted, in Normalization Form C; any other counts as ``other``, and an empty
            one as ``missing``.

    Raises:
        ConfigError: A field cannot be.
    """

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        composed(self, "name", "values")
        check_text("the name of a column", self.name)
        if not self.values:
            raise ConfigError(f"column {quoted(self.name)} has no values")
        check_list(f"values of {quoted(self.name)}", self.values)
        for value in self.values:
            check_text(f"a value of column {quoted(self.name)}", value)
            if value in (OTHER, MISSING):
                raise ConfigError(f"column {quoted(self.name)}: {value} is counted anyway")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All that a record can be counted as."""
        return (*self.values, OTHER, MISSING)

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each value among the labels."""
        return {value: place for place, value in enumerate(self.labels)}


def _settle(part: Part, *names: str) -> None:
    """Give each number one form: 20 and 20.0 would have two digests."""
    for name in names:
        value = getattr(part, name)
        try:
            settled = tuple(map(_float, value)) if isinstance(value, list | tuple) else _float(value)
        except (TypeError, ValueError, OverflowError):
            raise ConfigError(f"{name} must be a number, or numbers, not {quoted(value)}") from None
        msgspec.structs.force_setattr(part, name, settled)


def _float(value: Any) -> float:
    if isinstance(value, str | bool):
        raise TypeError
    return float(value) + 0.0  # the other zero is the same number


def check_list(what: str, values: Iterable[object], most: int = _MOST_LISTED) -> None:
    """Refuse a list with an entry twice, or with too many."""
    listed = list(values)
    if len(set(listed)) != len(listed):
        raise ConfigError(f"{what}: an entry is there twice")
    if len(listed) > most:
        raise ConfigError(f"{what}: at most {most} can be, not {len(listed)}")


def composed(part: Part, *names: str) -> None:
    """Put texts into Normalization Form C, in which those that look alike are alike."""
    for name in names:
        value = getattr(part, name)
        if isinstance(value, list | tuple):
            value = tuple(_composed(one) for one in value)
        msgspec.structs.force_setattr(part, name, _composed(value))


def _composed(value: Any) -> Any:
    return normalize("NFC", value) if isinstance(value, str) else value


def check_text(what: str, text: object) -> None:
    """Refuse what is no name: it is shown to people, and compared."""
    if not isinstance(text, str) or not 1 <= len(text) <= 100 or text.strip() != text:
        raise ConfigError(f"{what} has one to 100 characters and no space around it, not {quoted(text)}")
    if not is_printable(text):
        raise ConfigError(f"{what} has characters that cannot be printed: {quoted(text)}")
