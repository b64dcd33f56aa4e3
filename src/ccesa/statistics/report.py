"""``Report``: joint statistics, from the sums of all sites.

Without noise counts are whole numbers, and sums, means and variances are exact fractions. Quantiles are interpolated
within bins, whose ends bound the error. With noise everything is approximate. It is computed from noisy sums alone, so
nothing here spends any privacy.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from ccesa.errors import VectorError
from ccesa.statistics.packing import Scale
from ccesa.statistics.schema import Number, Schema

#: Exact without noise, a float with it.
Value = int | Fraction | float


@dataclass(frozen=True, kw_only=True)
class Bin:
    """The number of values from ``lower`` to below ``upper``. The last bin includes its upper end.

    Attributes:
        lower: The lower end.
        upper: The upper end.
        count: How many values.
    """

    lower: Value
    upper: Value
    count: Value


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """An estimate of the smallest value that a fraction ``at`` of all values does not exceed.

    Attributes:
        at: The fraction.
        value: The estimate, as if the values of its bin were evenly spread.
        lower: The lower end of the bin. Without noise the true quantile is between both ends.
        upper: The upper end.
    """

    at: float
    value: Value
    lower: Value
    upper: Value


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The statistics of a number column in a group; None if they were not asked for or cannot be computed.

    Attributes:
        count: How many records have a value.
        missing: How many have no value, or are at a site that left out the column because it has few values.
        clipped: How many values were beyond the bounds and clipped to them.
        sum: The sum of all values.
        mean: The mean of all values.
        variance: The variance of a sample: squares are divided by the count less one.
        histogram: The bins.
        quantiles: The quantiles, in the order of the schema.
        noise: With noise, about the standard deviation that it gives the mean.
    """

    count: Value
    missing: Value
    clipped: Value | None = None
    sum: Value | None = None
    mean: Value | None = None
    variance: Value | None = None
    histogram: tuple[Bin, ...] = ()
    quantiles: tuple[Quantile, ...] = ()
    noise: float | None = None


@dataclass(frozen=True, kw_only=True)
class Group:
    """The records with the same values in all columns that are grouped by.

    Attributes:
        key: These values by column; empty without grouping.
        records: How many records, at the sites that did not leave the group out.
        numbers: The statistics of each number column.
        categories: How many records have each value of the other categories.
    """

    key: dict[str, str]
    records: Value
    numbers: dict[str, Measured]
    categories: dict[str, dict[str, Value]]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The joint statistics of some sites; ``str`` gives them for people.

    Attributes:
        name: The name of the schema.
        sites: How many sites are in the sum.
        groups: The groups with records, or all groups with noise.
        noise: With noise, the standard deviation of every count.
    """

    name: str
    sites: int
    groups: tuple[Group, ...]
    noise: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON; fractions become floats."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return float(value) if isinstance(value, Fraction) else value


def _lines(report: Report) -> Iterator[str]:
    records = sum(group.records for group in report.groups)
    about = "" if report.noise is None else f"; every count has noise of +-{report.noise:.3g}"
    yield f"{report.name}: {_shown(records)} records of {report.sites} sites{about}"
    for group in report.groups:
        key = ", ".join(f"{name} = {value}" for name, value in group.key.items())
        if key:
            yield f"{key}: {_shown(group.records)} records"
        for name, measured in group.numbers.items():
            yield f"  {name}: {'; '.join(_measures(measured))}"
        for name, counts in group.categories.items():
            yield f"  {name}: {', '.join(f'{value} {_shown(count)}' for value, count in counts.items())}"


def _measures(measured: Measured) -> Iterator[str]:
    clipped = "" if measured.clipped is None else f", {_shown(measured.clipped)} clipped"
    yield f"{_shown(measured.count)} values, {_shown(measured.missing)} missing{clipped}"
    for name in ("sum", "mean", "variance"):
        if (value := getattr(measured, name)) is not None:
            noise = f" +-{measured.noise:.3g}" if name == "mean" and measured.noise is not None else ""
            yield f"{name} {_shown(value)}{noise}"
    for one in measured.histogram:
        yield f"{_shown(one.lower)} to {_shown(one.upper)}: {_shown(one.count)}"
    for quantile in measured.quantiles:
        ends = f"{_shown(quantile.lower)} to {_shown(quantile.upper)}"
        yield f"quantile {quantile.at:g} about {_shown(quantile.value)}, in {ends}"


def _shown(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{float(value):,.6g}"


# From sums to a report


AllSums = Mapping[tuple[str, str], Sequence[Value]]

#: Nothing is divided by a noisy count unless it is this number of standard deviations above zero.
_CLEAR = 3.0


def make_report(schema: Schema, sums: AllSums, sites: int, scale: Scale | None = None) -> Report:
    """Return the report on sums, noisy ones with their ``scale``; raise VectorError if no records have exact ones."""
    noise = None if scale is None else scale.noise(schema.quantities[0], sites)
    cells = (_Cell(schema, sums, noise, place) for place in range(len(schema.cells)))
    groups = tuple(cell.group() for cell in cells if scale is not None or cell.has_records())
    return Report(name=schema.name, sites=sites, groups=groups, noise=noise)


@dataclass(frozen=True)
class _Cell:
    """One group among all sums, with the standard deviation of its counts if there is noise."""

    schema: Schema
    sums: AllSums
    noise: float | None
    place: int

    def numbers(self, column: str, what: str) -> Sequence[Value]:
        """Return the numbers of a quantity in this group."""
        row = self.sums[column, what]
        width = len(row) // len(self.schema.cells)
        return row[self.place * width : (self.place + 1) * width]

    def one(self, column: str, what: str) -> Value:
        return self.numbers(column, what)[0]

    def has_records(self) -> bool:
        """Return whether any record is in the group; refuse sums that no records have."""
        records = self.one("", "records")
        totals = [self.numbers(one.name, "values") for one in self.schema.counted]
        if any(sum(total) != records for total in totals) or not all(map(self._is_possible, self.schema.numbers)):
            raise VectorError("no records can have these sums: some site sent other numbers than it counted")
        return bool(records)

    def _is_possible(self, column: Number) -> bool:
        name, most = column.name, column.range
        n = self.one(name, "present")
        s = self.one(name, "sum") if "sum" in column.sums else 0
        q = self.one(name, "square") if "square" in column.sums else s * s
        return (
            self.one(name, "clipped") <= n <= self.one("", "records")
            and s <= n * most
            and ("square" not in column.sums or (s * s <= n * q and q <= s * most))
            and ("bins" not in column.sums or sum(self.numbers(name, "bins")) == n)
        )

    def group(self) -> Group:
        return Group(
            key=dict(zip(self.schema.group_by, self.schema.cells[self.place], strict=True)),
            records=self.one("", "records"),
            numbers={column.name: self._measured(column) for column in self.schema.numbers},
            categories={
                one.name: dict(zip(one.labels, self.numbers(one.name, "values"), strict=True))
                for one in self.schema.counted
            },
        )

    def _measured(self, column: Number) -> Measured:
        n = self.one(column.name, "present")
        bins = self.numbers(column.name, "bins") if "bins" in column.sums else ()
        return Measured(
            count=n,
            missing=self.one("", "records") - n,
            clipped=self.one(column.name, "clipped") if self.noise is None else None,
            histogram=_bins(column, bins) if "histogram" in column.measures else (),
            quantiles=tuple(_quantiles(column, bins)) if "quantiles" in column.measures and self._is_clear(n) else (),
            **self._moments(column, n),
        )

    def _is_clear(self, n: Value) -> bool:
        """Return whether a count is large enough for a mean, and not only noise."""
        return n > (0 if self.noise is None else _CLEAR * self.noise)

    def _moments(self, column: Number, n: Value) -> dict[str, Any]:
        """Return sum, mean and variance, if they are asked for and can be computed."""
        if "sum" not in column.sums:
            return {}
        s, step = self.one(column.name, "sum"), Fraction(1, 10**column.places)
        found: dict[str, Any] = {"sum": (column.minimum * n + s) * _like(s, step)}
        if self._is_clear(n):
            mean = _clip(_like(s, Fraction(1)) * s / n, 0, column.range)
            found["mean"] = (column.minimum + mean) * _like(s, step)
            if self.noise is not None and "mean" in column.measures:
                found["noise"] = self._error(column, n, mean)
        if "square" in column.sums and n > (1 if self.noise is None else _CLEAR * self.noise + 1):
            q = self.one(column.name, "square")
            found["variance"] = max((q - _like(s, Fraction(1)) * s * s / n) / (n - 1), 0) * _like(s, step**2)
        return {name: value for name, value in found.items() if name in (*column.measures, "noise")}

    def _error(self, column: Number, n: Value, mean: Value) -> float:
        """Return the standard deviation of a noisy mean, to first order.

        With c = 2 u - R, the mean of u is R / 2 + (sum of c) / 2 n, and that sum has R times the noise of n.
        """
        far = float(2 * mean - column.range)
        return float(self.noise or 0) * math.hypot(column.range, far) / (2 * float(n) * 10**column.places)


def _like(value: Value, exact: Fraction) -> Value:
    """Return a factor as a float for a noisy value, and as it is for an exact one."""
    return float(exact) if isinstance(value, float) else exact


def _clip(value: Value, low: int, high: int) -> Value:
    return min(max(value, low), high)


def _bins(column: Number, counts: Sequence[Value]) -> tuple[Bin, ...]:
    ends = pairwise(_ends(column))
    return tuple(Bin(lower=low, upper=high, count=count) for (low, high), count in zip(ends, counts, strict=True))


def _quantiles(column: Number, counts: Sequence[Value]) -> Iterator[Quantile]:
    """Yield quantiles, unless there are no values. Noisy counts below zero count as zero."""
    counts = [max(count, 0) for count in counts]
    before, ends = list(accumulate(counts, initial=0)), _ends(column)
    if (n := before[-1]) < 1:
        return
    for at in column.quantiles:
        rank = min(max(math.ceil(Fraction(repr(at)) * Fraction(n)), 1), n)  # the first value has rank 1
        place = next(place for place, upto in enumerate(before[1:]) if upto >= rank)
        lower, upper = ends[place], ends[place + 1]
        within = _clip((Fraction(rank) - Fraction(before[place]) - Fraction(1, 2)) / Fraction(counts[place]), 0, 1)
        value = lower + (upper - lower) * within
        yield Quantile(at=at, value=value, lower=lower, upper=upper)


def _ends(column: Number) -> list[Fraction]:
    return [Fraction(column.minimum + end, 10**column.places) for end in column.ends]
