"""From sums to a report. Numbers stay fractions where there is no noise, so nothing is rounded."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from ccesa.errors import VectorError
from ccesa.statistics.columns import Number
from ccesa.statistics.noisy import Scale
from ccesa.statistics.report import Bin, Group, Measured, Quantile, Report, Value
from ccesa.statistics.schema import Schema

AllSums = Mapping[tuple[str, str], Sequence[Value]]

#: A noisy count is divided by only if it is so many standard deviations above zero.
_CLEAR = 3.0


def reported(schema: Schema, sums: AllSums, sites: int, scale: Scale | None = None) -> Report:
    """Return the report on sums, of which ``scale`` says how much noise there is.

    Raises:
        VectorError: Sums without noise that no records can have.
    """
    noise = None if scale is None else scale.noise(schema.quantities[0], sites)
    cells = (_Cell(schema, sums, noise, place) for place in range(len(schema.cells)))
    groups = tuple(cell.group() for cell in cells if scale is not None or cell.is_there())
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

    def is_there(self) -> bool:
        """Tell whether any record is in the group; refuse sums that no records have."""
        records = self.one("", "records")
        totals = [self.numbers(one.name, "values") for one in self.schema.counted]
        if any(sum(total) != records for total in totals) or not all(
            map(self._is_possible, self.schema.numbers)
        ):
            raise VectorError("sums that no records can have: some site sent others than it has counted")
        return bool(records)

    def _is_possible(self, column: Number) -> bool:
        name, most = column.name, column.range
        n = self.one(name, "present")
        s = self.one(name, "sum") if column.needs("sum") else 0
        q = self.one(name, "square") if column.needs("square") else s * s
        return (
            self.one(name, "clipped") <= n <= self.one("", "records")
            and s <= n * most
            and (not column.needs("square") or (s * s <= n * q and q <= s * most))
            and (not column.needs("bins") or sum(self.numbers(name, "bins")) == n)
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
        bins = self.numbers(column.name, "bins") if column.needs("bins") else ()
        return Measured(
            count=n,
            missing=self.one("", "records") - n,
            clipped=self.one(column.name, "clipped") if self.noise is None else None,
            histogram=tuple(_bins(column, bins)) if "histogram" in column.measures else (),
            quantiles=tuple(_quantiles(column, bins))
            if "quantiles" in column.measures and self._is_clear(n)
            else (),
            **self._moments(column, n),
        )

    def _is_clear(self, n: Value) -> bool:
        """Tell whether there is something to take a mean of, and not only noise."""
        return n > (0 if self.noise is None else _CLEAR * self.noise)

    def _moments(self, column: Number, n: Value) -> dict[str, Any]:
        """Return sum, mean and variance, as far as they are asked for and can be said."""
        if not column.needs("sum"):
            return {}
        s, step = self.one(column.name, "sum"), Fraction(1, 10**column.places)
        found: dict[str, Any] = {"sum": (column.least * n + s) * _like(s, step)}
        if self._is_clear(n):
            mean = _clipped(_like(s, Fraction(1)) * s / n, 0, column.range)
            found["mean"] = (column.least + mean) * _like(s, step)
            if self.noise is not None:
                found["noise"] = self._error(column, n, mean)
        if column.needs("square") and n > (1 if self.noise is None else _CLEAR * self.noise + 1):
            q = self.one(column.name, "square")
            found["variance"] = max((q - _like(s, Fraction(1)) * s * s / n) / (n - 1), 0) * _like(s, step**2)
        asked = {*column.measures, *(["noise"] if "mean" in column.measures else [])}
        return {name: value for name, value in found.items() if name in asked}

    def _error(self, column: Number, n: Value, mean: Value) -> float:
        """Return the standard deviation of a noisy mean, to first order.

        With c = 2 u - R, the mean of u is R / 2 + (sum of c) / 2 n, and that sum has R times the noise of n.
        """
        far = float(2 * mean - column.range)
        return float(self.noise or 0) * math.hypot(column.range, far) / (2 * float(n) * 10**column.places)


def _like(value: Value, exact: Fraction) -> Value:
    """Return a factor that keeps what is exact exact, and what has noise a float."""
    return float(exact) if isinstance(value, float) else exact


def _clipped(value: Value, least: int, most: int) -> Value:
    return min(max(value, least), most)


def _bins(column: Number, counts: Sequence[Value]) -> Iterator[Bin]:
    for (lower, upper), count in zip(pairwise(_ends(column)), counts, strict=True):
        yield Bin(lower=lower, upper=upper, count=count)


def _quantiles(column: Number, counts: Sequence[Value]) -> Iterator[Quantile]:
    """Yield quantiles; none if there is nothing to take them of. Less than nothing counts as nothing."""
    counts = [max(count, 0) for count in counts]
    before, ends = list(accumulate(counts, initial=0)), _ends(column)
    if (n := before[-1]) < 1:
        return
    for at in column.quantiles:
        rank = min(
            max(math.ceil(Fraction(repr(at)) * Fraction(n)), 1), n
        )  # of the value among all, from 1 on
        place = next(place for place, upto in enumerate(before[1:]) if upto >= rank)
        lower, upper = ends[place], ends[place + 1]
        within = _clipped(
            (Fraction(rank) - Fraction(before[place]) - Fraction(1, 2)) / Fraction(counts[place]), 0, 1
        )
        value = lower + (upper - lower) * within
        yield Quantile(at=at, value=value, lower=lower, upper=upper)


def _ends(column: Number) -> list[Fraction]:
    return [Fraction(column.least + end, 10**column.places) for end in column.ends]
