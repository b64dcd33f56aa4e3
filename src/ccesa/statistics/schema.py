"""``Schema``: the columns, bounds, groups and measures that all sites agree on before anyone counts.

A column has numbers between bounds, or words from a list. Numbers are counted in steps of 10^-``places`` above their
lower bound, so all sums are of whole numbers and exact. A record adds at most ``Quantity.largest`` to a number, which
bounds every sum.
"""

import itertools
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from unicodedata import normalize

import msgspec

from ccesa.errors import ConfigError, quoted, shown
from ccesa.parts import Part, check_integer, check_range, is_printable
from ccesa.privacy.mechanism import Mechanism
from ccesa.values.fields import WORD_BITS
from ccesa.words import Vector

if TYPE_CHECKING:
    from ccesa.statistics.report import Report

Measure = Literal["count", "sum", "mean", "variance", "histogram", "quantiles"]

#: The measures that need each sum of a number column.
_NEEDED_BY = {"sum": ("sum", "mean", "variance"), "square": ("variance",), "bins": ("histogram", "quantiles")}
#: The label of a category that has another value than the agreed ones, or no value.
OTHER, MISSING = "other", "missing"
#: Limits, because a schema is sent to every site and kept there.
_MAX_PLACES, _MAX_STEPS, _MAX_LISTED, _MAX_GROUPED = 9, 2**53, 1000, 3
MAX_CELLS, MAX_LENGTH = 10_000, 2**20
#: The most records of a site. With noise a record has up to 2^31 fine steps, and centres end at 2^62.
_MAX_RECORDS = {"none": 2**32, "record": 2**30}
#: A file has room for a thousand values in each of many columns.
MAX_FILE_BYTES = 1 << 20
#: Precision for numbers within the bounds, independent of the settings of the program.
_CONTEXT = Context(prec=40, rounding=ROUND_HALF_EVEN)


class Number(Part, frozen=True, kw_only=True, dict=True):
    """A column of numbers, between two bounds.

    Attributes:
        name: The name of the column.
        lower: The smallest value. Smaller values are clipped to it, and counted.
        upper: The largest value. Larger values are clipped to it, and counted.
        places: Decimal places to which values are rounded, half to even. The rest is exact.
        measures: The measures that are learned.
        edges: The edges between bins, ascending, within the bounds. A value on an edge is in the upper bin.
        quantiles: The quantiles, between 0 and 1, ascending.

    Raises:
        ConfigError: A field is out of range.
    """

    name: str
    lower: float
    upper: float
    places: int = 0
    measures: tuple[Measure, ...] = ("count", "mean")
    edges: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = (0.25, 0.5, 0.75)

    def __post_init__(self) -> None:
        _compose(self, "name")
        _check_text("the name of a column", self.name)
        _settle(self, "lower", "upper", "edges", "quantiles")
        msgspec.structs.force_setattr(self, "measures", tuple(self.measures))
        check_integer("places", self.places)
        if not 0 <= self.places <= _MAX_PLACES:
            raise self._wrong(f"places must lie in 0..{_MAX_PLACES}, not {self.places}")
        if not self.measures or not set(self.measures) <= set(get_args(Measure)):
            raise self._wrong(f"measures are some of {', '.join(get_args(Measure))}")
        ends = [self.lower, *self.edges, self.upper]
        if any(one >= other for one, other in itertools.pairwise(map(self._exact, ends))):
            raise self._wrong("lower, edges and upper must ascend")
        # The comparison of a NaN is always false.
        if not all(one < other for one, other in itertools.pairwise([0.0, *self.quantiles, 1.0])):
            raise self._wrong("quantiles must ascend between 0 and 1")
        for field in ("measures", "edges", "quantiles"):
            _check_list(f"{field} of {quoted(self.name)}", getattr(self, field))
        if ("bins" in self.sums) != bool(self.edges):
            raise self._wrong("histogram and quantiles need edges of bins, and edges need one of the two")
        if "quantiles" in self.measures and not self.quantiles:
            raise self._wrong("quantiles are missing")

    def _wrong(self, why: str) -> ConfigError:
        return ConfigError(f"column {quoted(self.name)}: {why}")

    def _exact(self, value: float) -> int:
        """Return a bound or an edge in steps, as it is written; refuse one between two steps."""
        steps = Decimal(repr(value)).scaleb(self.places, _CONTEXT) if math.isfinite(value) else None
        if steps is None or not -_MAX_STEPS <= steps <= _MAX_STEPS or steps != int(steps):
            raise self._wrong(f"{value!r} is not a number below 2^53 steps with {self.places} places")
        return int(steps)

    @cached_property
    def sums(self) -> list[str]:
        """The sums that some measure needs, of ``sum``, ``square`` and ``bins``."""
        return [what for what, measures in _NEEDED_BY.items() if not set(measures).isdisjoint(self.measures)]

    @cached_property
    def minimum(self) -> int:
        """The lower bound in steps."""
        return self._exact(self.lower)

    @cached_property
    def range(self) -> int:
        """The number of steps between the bounds."""
        return self._exact(self.upper) - self.minimum

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The ends of all bins in steps above the lower bound, from 0 to ``range``."""
        return tuple(self._exact(one) - self.minimum for one in (self.lower, *self.edges, self.upper))

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
        if not lower < value < upper:  # some numbers are too large to be written out
            return 0 if value <= lower else self.range
        exact = value.quantize(Decimal((0, (1,), -self.places)), context=_CONTEXT)
        return int(exact.scaleb(self.places, _CONTEXT)) - self.minimum


class Category(Part, frozen=True, kw_only=True, dict=True):
    """A column of words.

    Attributes:
        name: The name of the column.
        values: The values that are counted, in Normalization Form C. Others count as ``other``, empty ones as
            ``missing``.

    Raises:
        ConfigError: A field is out of range.
    """

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _compose(self, "name", "values")
        _check_text("the name of a column", self.name)
        if not self.values:
            raise ConfigError(f"column {quoted(self.name)} has no values")
        _check_list(f"values of {quoted(self.name)}", self.values)
        for value in self.values:
            _check_text(f"a value of column {quoted(self.name)}", value)
            if value in (OTHER, MISSING):
                raise ConfigError(f"column {quoted(self.name)}: {value} is always counted, so leave it out")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels as which records are counted."""
        return (*self.values, OTHER, MISSING)

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each value among the labels."""
        return {value: place for place, value in enumerate(self.labels)}


def _settle(part: Part, *names: str) -> None:
    """Store numbers as floats: 20 and 20.0 would have two digests."""
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
    return float(value) + 0.0  # -0.0 becomes 0.0


def _check_list(what: str, values: Sequence[object], most: int = _MAX_LISTED) -> None:
    """Refuse a list with an entry twice, or with too many entries."""
    if len(set(values)) != len(values):
        raise ConfigError(f"{what}: an entry appears twice")
    if len(values) > most:
        raise ConfigError(f"{what}: at most {most} are allowed, not {len(values)}")


def _compose(part: Part, *names: str) -> None:
    """Put texts into Normalization Form C, in which texts that look alike are equal."""
    for name in names:
        value = getattr(part, name)
        listed = isinstance(value, list | tuple)
        texts = [normalize("NFC", one) if isinstance(one, str) else one for one in (value if listed else [value])]
        msgspec.structs.force_setattr(part, name, tuple(texts) if listed else texts[0])


def _check_text(what: str, text: object) -> None:
    """Refuse a name that cannot be shown to people and compared."""
    if not isinstance(text, str) or not 1 <= len(text) <= 100 or text.strip() != text:
        raise ConfigError(f"{what} must have 1 to 100 characters and no space around it, not {quoted(text)}")
    if not is_printable(text):
        raise ConfigError(f"{what} has characters that cannot be printed: {quoted(text)}")


# The schema


class Quantity(NamedTuple):
    """``width`` numbers of each group. A record adds at most ``largest`` to one of them."""

    #: The column that they are about; empty for the records themselves.
    column: str
    #: ``records``, ``present``, ``clipped``, ``sum``, ``square``, ``bins`` or ``values``.
    what: str
    width: int = 1
    largest: int = 1

    @property
    def key(self) -> tuple[str, str]:
        """The name among all sums."""
        return self.column, self.what


class Schema(Part, frozen=True, kw_only=True, dict=True):
    """The columns, groups and measures that sites with tables agree to learn together.

    Attributes:
        name: A name for people.
        max_records: The most records of a site. They cannot make a sum overflow.
        least_group: A site leaves out each group with fewer records, and in the others each column of numbers with
            fewer values; 1 leaves out nothing.
        privacy_unit: ``none``, or ``record`` for noise that hides any one record.
        group_by: Names of up to three categories. Each combination of their values is a group.
        missing: Texts that stand for a missing value, like an empty one.
        numbers: The columns of numbers.
        categories: The columns of words. Those that are not grouped by are counted by value in every group.

    Raises:
        ConfigError: A field is out of range, or fields contradict each other.
    """

    name: str
    max_records: int = 1_000_000
    least_group: int = 5
    privacy_unit: Literal["none", "record"] = "none"
    group_by: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    categories: tuple[Category, ...] = ()

    #: Bits of a word.
    bits = WORD_BITS

    def __post_init__(self) -> None:
        _compose(self, "name", "group_by", "missing")
        _check_text("the name of a schema", self.name)
        for field in ("numbers", "categories"):
            msgspec.structs.force_setattr(self, field, tuple(getattr(self, field)))
        if self.privacy_unit not in _MAX_RECORDS:
            raise ConfigError(f"privacy_unit must be none or record, not {quoted(self.privacy_unit)}")
        check_range("max_records", self.max_records, 1, _MAX_RECORDS[self.privacy_unit])
        check_range("least_group", self.least_group, 1, self.max_records)
        if self.privacy_unit == "record" and self.least_group != 1:
            raise ConfigError(
                "privacy_unit = record needs least_group = 1: otherwise one record could show or hide a whole "
                "group, which is more than the noise is made for; noise hides small groups by itself"
            )
        self._check_columns()
        if self.length > MAX_LENGTH:
            raise ConfigError(f"the schema has {self.length} words, but at most {MAX_LENGTH} are allowed")

    def _check_columns(self) -> None:
        _check_list("columns", self.columns)
        _check_list("missing", self.missing)
        _check_list("group_by", self.group_by, _MAX_GROUPED)
        for text in self.missing:
            _check_text("what stands for a missing value", text)
        for one in self.categories:
            if not set(one.values).isdisjoint(self.missing):
                raise ConfigError(f"column {quoted(one.name)}: a value also stands for a missing one")
        for name in self.group_by:
            if name not in {one.name for one in self.categories}:
                raise ConfigError(f"group_by names {quoted(name)}, which is not a category")
        if math.prod(len(one.labels) for one in self.grouped) > MAX_CELLS:
            raise ConfigError(f"more than {MAX_CELLS} groups; take fewer columns or values to group by")

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [one.name for one in self.numbers] + [one.name for one in self.categories]

    @cached_property
    def grouped(self) -> tuple[Category, ...]:
        """The categories that are grouped by, in the order of ``group_by``."""
        by_name = {one.name: one for one in self.categories}
        return tuple(by_name[name] for name in self.group_by)

    @cached_property
    def counted(self) -> tuple[Category, ...]:
        """The categories that are counted by value in every group."""
        return tuple(one for one in self.categories if one.name not in self.group_by)

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """All groups by the labels of their categories. The labels of the last category change fastest."""
        return tuple(itertools.product(*(one.labels for one in self.grouped)))

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """All numbers that are added up in each group, in the order of the vector."""
        return tuple(self._quantities())

    def _quantities(self) -> Iterator[Quantity]:
        yield Quantity("", "records")
        for one in self.numbers:
            yield Quantity(one.name, "present")
            if self.privacy_unit == "none":  # with noise it would add to the noise of all others
                yield Quantity(one.name, "clipped")
            if "sum" in one.sums:
                yield Quantity(one.name, "sum", largest=one.range)
            if "square" in one.sums:
                yield Quantity(one.name, "square", largest=one.range**2)
            if "bins" in one.sums:
                yield Quantity(one.name, "bins", width=len(one.ends) - 1)
        for category in self.counted:
            yield Quantity(category.name, "values", width=len(category.labels))

    @cached_property
    def dimension(self) -> int:
        """The number of numbers that are added up, in all groups together."""
        return len(self.cells) * sum(one.width for one in self.quantities)

    @property
    def norm(self) -> float:
        """The largest L2 norm of a record's additions, if its largest addition to any quantity counts as 1."""
        return math.sqrt(len(self.quantities))

    @cached_property
    def length(self) -> int:
        """Words of a vector, of 64 bits each."""
        if self.privacy_unit == "record":
            return self.dimension
        from ccesa.statistics.packing import exact_length

        return exact_length(self)

    def encode(
        self,
        rows: Iterable[Mapping[str, Any]],
        mechanism: Mechanism | None = None,
        random: Callable[[int], bytes] = os.urandom,
    ) -> Vector:
        """Return a site's vector of ``length`` words.

        Args:
            rows: A mapping per record, from the names of columns to values, as ``read_csv`` yields them.
            mechanism: The noise, with ``privacy_unit`` = record.
            random: Returns a number of random bytes. Only tests give their own.

        Raises:
            VectorError: More than ``max_records`` records, or a value that is not valid. No text contains a value.
            ConfigError: Noise is missing, or does not go with the schema.
        """
        from ccesa.statistics import packing
        from ccesa.statistics.tally import count_table

        self.check_noise(mechanism)
        tally = count_table(self, rows)
        return packing.pack_exact(tally) if mechanism is None else packing.pack_noisy(tally, mechanism, random)

    def decode(self, total: Vector, sites: int, mechanism: Mechanism | None = None) -> "Report":
        """Return the joint statistics of all sites whose vectors are in the sum.

        Args:
            total: The sum of their vectors.
            sites: The number of sites.
            mechanism: The noise, with ``privacy_unit`` = record.

        Raises:
            VectorError: Another length or type, or a sum that these sites cannot have.
            ConfigError: Noise is missing, or does not go with the schema.
        """
        from ccesa.statistics import packing
        from ccesa.statistics.report import make_report

        self.check_noise(mechanism, sites)
        if mechanism is None:
            return make_report(self, packing.unpack_exact(self, total, sites), sites)
        return make_report(self, packing.unpack_noisy(self, total, mechanism), sites, packing.Scale(self, mechanism))

    def check_noise(self, mechanism: Mechanism | None, sites: int = 1) -> None:
        """Check that noise is made for this schema, or that neither has any.

        Args:
            mechanism: The noise, or None.
            sites: The most sites in a sum.

        Raises:
            ConfigError: The noise is for another schema, or that many sites could overflow a sum.
        """
        from ccesa.statistics import packing

        if (self.privacy_unit == "record") != (mechanism is not None):
            raise ConfigError(
                "statistics with noise need privacy_unit = record, and privacy_unit = record needs noise: "
                "a table [privacy] in the charter"
            )
        if mechanism is None:
            packing.check_sites(sites)
        else:
            packing.Scale(self, mechanism).check(sites)

    @classmethod
    def parse(cls, text: str) -> "Schema":
        """Return the schema that a text describes.

        Args:
            text: TOML, as in the table ``[statistics]`` of a charter.

        Raises:
            ConfigError: The text is not a schema, or a field is out of range.
        """
        try:
            return msgspec.convert(tomllib.loads(text.removeprefix("\ufeff")), cls)
        except (ValueError, RecursionError) as error:
            allowed = f" (one of {', '.join(get_args(Measure))})" if ".measures[" in str(error) else ""
            raise ConfigError(f"this is not a schema: {shown(str(error), 200)}{allowed}") from None

    @classmethod
    def load(cls, path: Path | str) -> "Schema":
        """Return the schema in a file.

        Args:
            path: A file of at most 1 MiB.

        Raises:
            ConfigError: The file is too large, or its text is not a schema.
            OSError: The system cannot read the file.
        """
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: expected at most {MAX_FILE_BYTES} bytes")
        try:
            return cls.parse(data.decode())
        except ValueError as error:
            raise ConfigError(f"{path}: {shown(str(error), 300)}") from None
