"""``Schema``: which columns, bounds, groups and measures everybody has agreed on, before anyone counts.

Numbers are counted in steps of 10^-``places`` above their lower bound, so all sums are of whole numbers and
exact. A record adds at most ``Quantity.largest`` to a number, which bounds every sum beforehand.
"""

import itertools
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from ccesa.errors import ConfigError, quoted, shown
from ccesa.parts import Part, check_integer
from ccesa.privacy.mechanism import Mechanism
from ccesa.statistics.columns import Category, Measure, Number, check_list, check_text, composed
from ccesa.values.fields import WORD_BITS
from ccesa.words import Vector

if TYPE_CHECKING:
    from ccesa.statistics.report import Report

#: The most of everything; all that a schema says is sent to and kept by every site.
_MOST_GROUPED = 3
MOST_CELLS, MOST_LENGTH = 10_000, 2**20
#: Most records of a site: with noise, a record has up to 2^31 fine steps, and centres end at 2^62.
_MOST_RECORDS = {"none": 2**32, "record": 2**30}
#: A schema of a thousand values in each of many columns fits in.
MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Numbers of each group to which a record adds at most once.

    Attributes:
        column: The column that they are about; empty for the records themselves.
        what: ``records``, ``present``, ``clipped``, ``sum``, ``square``, ``bins`` or ``values``.
        width: How many numbers; a record adds to one of them.
        largest: What a record adds at most.
    """

    column: str = ""
    what: str
    width: int = 1
    largest: int = 1

    @property
    def key(self) -> tuple[str, str]:
        """Its name among all sums."""
        return self.column, self.what


class Schema(Part, frozen=True, kw_only=True, dict=True):
    """What sites with tables have agreed to learn together.

    Attributes:
        name: For people.
        max_records: The most records of a site; no sum can overflow with them.
        least_group: A site leaves out each group of which it has fewer records, and in the others each column
            of numbers with fewer values; 1 leaves out none.
        privacy_unit: ``none``, or ``record``: with noise that hides any one record.
        group_by: Names of up to three categories; each combination of their values is a group.
        missing: What an empty value is written as, besides nothing at all.
        numbers: The columns of numbers.
        categories: The columns of words; each that is not grouped by is counted by value in every group.

    Raises:
        ConfigError: Fields that cannot be, alone or together.
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
        composed(self, "name", "group_by", "missing")
        check_text("the name of a schema", self.name)
        for field in ("numbers", "categories"):
            msgspec.structs.force_setattr(self, field, tuple(getattr(self, field)))
        if self.privacy_unit not in _MOST_RECORDS:
            raise ConfigError(f"privacy_unit must be none or record, not {quoted(self.privacy_unit)}")
        for field, most in (("max_records", _MOST_RECORDS[self.privacy_unit]), ("least_group", None)):
            check_integer(field, getattr(self, field))
            most = self.max_records if most is None else most
            if not 1 <= getattr(self, field) <= most:
                raise ConfigError(f"{field} must lie in 1..{most}, not {getattr(self, field)}")
        if self.privacy_unit == "record" and self.least_group != 1:
            raise ConfigError(
                "with privacy_unit = record say least_group = 1: one record more or less would show or hide "
                "a whole group, which is more than the noise is made for; noise hides small groups by itself"
            )
        self._check_columns()
        if self.length > MOST_LENGTH:
            raise ConfigError(f"the schema has {self.length} words, and at most {MOST_LENGTH} can be")

    def _check_columns(self) -> None:
        check_list("columns", self.columns)
        check_list("missing", self.missing)
        check_list("group_by", self.group_by, _MOST_GROUPED)
        for text in self.missing:
            check_text("what stands for a missing value", text)
        for one in self.categories:
            if not set(one.values).isdisjoint(self.missing):
                raise ConfigError(f"column {quoted(one.name)}: a value that stands for a missing one, too")
        for name in self.group_by:
            if name not in {one.name for one in self.categories}:
                raise ConfigError(f"group_by names {quoted(name)}, which is no category")
        if math.prod(len(one.labels) for one in self.grouped) > MOST_CELLS:
            raise ConfigError(f"more than {MOST_CELLS} groups; take fewer columns or values to group by")

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
        """All groups by the labels of their categories, those of the last one running fastest."""
        return tuple(itertools.product(*(one.labels for one in self.grouped)))

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """All that is added up in each group, in the order of the vector."""
        return tuple(self._quantities())

    def _quantities(self) -> Iterator[Quantity]:
        yield Quantity(what="records")
        for one in self.numbers:
            yield Quantity(column=one.name, what="present")
            if self.privacy_unit == "none":  # nobody asked for it: it would cost noise in all others
                yield Quantity(column=one.name, what="clipped")
            if one.needs("sum"):
                yield Quantity(column=one.name, what="sum", largest=one.range)
            if one.needs("square"):
                yield Quantity(column=one.name, what="square", largest=one.range**2)
            if one.needs("bins"):
                yield Quantity(column=one.name, what="bins", width=len(one.ends) - 1)
        for category in self.counted:
            yield Quantity(column=category.name, what="values", width=len(category.labels))

    @cached_property
    def dimension(self) -> int:
        """How many numbers are added up, in all groups together."""
        return len(self.cells) * sum(one.width for one in self.quantities)

    @property
    def norm(self) -> float:
        """The largest L2 norm of what a record adds, if its largest addition to any quantity counts as 1."""
        return math.sqrt(len(self.quantities))

    @cached_property
    def length(self) -> int:
        """Words of a vector, of 64 bits each."""
        if self.privacy_unit == "record":
            return self.dimension
        from ccesa.statistics.exact import length_of

        return length_of(self)

    def encode(
        self,
        rows: Iterable[Mapping[str, Any]],
        mechanism: Mechanism | None = None,
        random: Callable[[int], bytes] = os.urandom,
    ) -> Vector:
        """Return a site's vector of ``length`` words.

        Args:
            rows: A mapping per record, from the names of columns to values; ``read_csv`` gives them.
            mechanism: The noise, with ``privacy_unit`` = record.
            random: Gives so many random bytes; anything but the system's is for tests.

        Raises:
            VectorError: More than ``max_records`` records, or a value that is none; no text names a value.
            ConfigError: No noise where the schema has it, noise where it has none, or of another kind.
        """
        from ccesa.statistics import exact, noisy
        from ccesa.statistics.tally import tallied

        self.check_noise(mechanism)
        tally = tallied(self, rows)
        return exact.packed(tally) if mechanism is None else noisy.packed(tally, mechanism, random)

    def decode(self, total: Vector, sites: int, mechanism: Mechanism | None = None) -> "Report":
        """Return the joint statistics of all sites whose vectors are in the sum.

        Args:
            total: The sum of their vectors.
            sites: How many they are.
            mechanism: The noise, with ``privacy_unit`` = record.

        Raises:
            VectorError: Another length or type, or a sum that so many sites cannot have.
            ConfigError: As for ``encode``.
        """
        from ccesa.statistics import exact, noisy
        from ccesa.statistics.measuring import reported

        self.check_noise(mechanism, sites)
        if mechanism is None:
            return reported(self, exact.unpacked(self, total, sites), sites)
        return reported(self, noisy.unpacked(self, total, mechanism), sites, noisy.Scale(self, mechanism))

    def check_noise(self, mechanism: Mechanism | None, sites: int = 1) -> None:
        """Check that noise is made for this schema, or that neither has any.

        Args:
            mechanism: The noise, or None.
            sites: The most sites in a sum.

        Raises:
            ConfigError: It is not, or so many sites could overflow a sum.
        """
        from ccesa.statistics import exact, noisy

        if (self.privacy_unit == "record") != (mechanism is not None):
            raise ConfigError(
                "statistics with noise say privacy_unit = record, and those with privacy_unit = record have "
                "noise: a table [privacy] in the charter"
            )
        if mechanism is None:
            exact.check_sites(sites)
        else:
            noisy.Scale(self, mechanism).check(sites)

    @classmethod
    def parse(cls, text: str) -> "Schema":
        """Return the schema that a text describes.

        Args:
            text: TOML, as in the table ``[statistics]`` of a charter.

        Raises:
            ConfigError: The text is not a schema, or one that cannot be.
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
            ConfigError: The file is too large, or ``parse`` refuses its text.
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
