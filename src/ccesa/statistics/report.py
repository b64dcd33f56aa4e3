"""``Report``: joint statistics, from the sums of all sites.

Without noise everything is exact: counts are whole numbers, sums, means and variances fractions of them.
Quantiles are interpolated within bins, whose ends bound the error. With noise all of it is approximate, and
computed from noisy sums only, so nothing here spends any privacy.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

#: Exact without noise, a float with it.
Value = int | Fraction | float


@dataclass(frozen=True, kw_only=True)
class Bin:
    """How many values lie from ``lower`` to below ``upper``; the last bin has its upper end, too.

    Attributes:
        lower: Where it begins.
        upper: Where it ends.
        count: How many values.
    """

    lower: Value
    upper: Value
    count: Value


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """An estimate of the least value that a fraction ``at`` of all values does not exceed.

    Attributes:
        at: The fraction.
        value: The estimate: its bin's values are taken to be evenly spread.
        lower: The lower end of the bin; without noise, the true one is between both ends for certain.
        upper: The upper end.
    """

    at: float
    value: Value
    lower: Value
    upper: Value


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is known of a number column in a group; None for what was not asked for or cannot be said.

    Attributes:
        count: How many records have a value.
        missing: How many have none, or one at a site that left out the column for having few values.
        clipped: How many values were beyond the bounds and cut to them.
        sum: Of all values.
        mean: Of all values.
        variance: That of a sample: squares are divided by the count less one.
        histogram: The bins.
        quantiles: In the order of the schema.
        noise: With noise, the standard deviation of the mean that it causes, about.
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
        key: These values, by column; empty where nothing is grouped by.
        records: How many records, at those sites that have not left the group out.
        numbers: What is known of each number column.
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
        name: Of the schema.
        sites: How many sites are in the sum.
        groups: Those with records; all of them where there is noise.
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
