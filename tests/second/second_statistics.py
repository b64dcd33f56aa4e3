"""The second implementation, statistics: a table counted record by record, and its words without noise."""

import itertools
import math
import re
import unicodedata
from fractions import Fraction

from second import packed
from second_active import statistics_of
from second_refusals import refuse

SPACES = "".join(
    chr(one)
    for start, end in ((9, 13), (28, 32), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A))
    for one in range(start, end + 1)
) + "".join(map(chr, (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)))
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
#: An exponent beyond these cannot matter: bounds have at most 17 digits.
FAR = 10**30


def encoding_of(given):
    """What a charter has of a schema."""
    return packed(statistics_of(given))


def numbers_of(given, records):
    """All numbers of a table, by quantity, group and order; small groups and rare values are zero."""
    schema = statistics_of(given)
    if len(records) > schema["max_records"]:
        refuse("G2.1", "VectorError")
    groups = list(itertools.product(*(labels_of(schema, name) for name in schema["group_by"])))
    found = {labels: counted(schema, rows_of(schema, labels, records)) for labels in groups}
    return [number for place in range(len(quantities(schema))) for one in groups for number in found[one][place]]


def words_of_table(given, records):
    """The words without noise: digits to the base 2^43, as many as M L has."""
    schema, numbers = statistics_of(given), iter(numbers_of(given, records))
    groups = math.prod(len(labels_of(schema, name)) for name in schema["group_by"])
    words = []
    for _, _, width, largest in quantities(schema):
        most, digits = schema["max_records"] * largest, 1
        while most >= 2 ** (43 * digits):
            digits += 1
        for _ in range(groups * width):
            number = next(numbers)
            words += [number >> 43 * k & 2**43 - 1 for k in range(digits)]
    return b"".join(word.to_bytes(8, "little") for word in words)


def quantities(schema):
    """Column, what, how many numbers, and the largest."""
    found = [("", "records", 1, 1)]
    for one in schema["numbers"]:
        r, asked = range_of(one), set(one["measures"])
        found += [(one["name"], "present", 1, 1)]
        found += [(one["name"], "clipped", 1, 1)] if schema["privacy_unit"] == "none" else []
        found += [(one["name"], "total", 1, r)] if asked & {"sum", "mean", "variance"} else []
        found += [(one["name"], "square", 1, r**2)] if "variance" in asked else []
        if asked & {"histogram", "quantiles"}:
            found.append((one["name"], "bins", len(one["edges"]) + 1, 1))
    for one in schema["categories"]:
        if one["name"] not in schema["group_by"]:
            found.append((one["name"], "values", len(one["values"]) + 2, 1))
    return found


def counted(schema, rows):
    """The numbers of each quantity in one group."""
    least, columns = schema["least_group"], {one["name"]: one for one in schema["numbers"]}
    empty = 0 < len(rows) < least
    found = []
    for name, what, width, _ in quantities(schema):
        row = [0] * width
        if what == "records":
            row[0] = len(rows)
        elif what == "values":
            for one in rows:
                row[labels_of(schema, name).index(label(schema, name, one))] += 1
        else:
            values = [x for one in rows if (x := number_of(schema, name, one)) is not None]
            if len(values) >= least:
                for x in values:
                    add(row, what, columns[name], x)
        found.append([0] * width if empty else row)
    return found


def add(row, what, column, x):
    """What one value adds."""
    u, edges = steps(column, x), [exact(one) for one in column["edges"]]
    inside = exact(column["lower"]) <= x <= exact(column["upper"])
    if what == "bins":
        ends = [(one - exact(column["lower"])) * 10 ** column["places"] for one in edges]
        row[sum(u >= end for end in ends)] += 1
    else:
        row[0] += {"present": 1, "clipped": int(not inside), "total": u, "square": u * u}[what]


def exact(value):
    return Fraction(repr(value))


def range_of(column):
    return int((exact(column["upper"]) - exact(column["lower"])) * 10 ** column["places"])


def steps(column, x):
    lower, upper = exact(column["lower"]), exact(column["upper"])
    if x <= lower:
        return 0
    if x >= upper:
        return range_of(column)
    return int(round(x * 10 ** column["places"]) - lower * 10 ** column["places"])  # half to even


def labels_of(schema, name):
    (column,) = (one for one in schema["categories"] if one["name"] == name)
    return [*column["values"], "other", "missing"]


def rows_of(schema, labels, records):
    wanted = list(zip(schema["group_by"], labels, strict=True))
    return [one for one in records if all(label(schema, name, one) == found for name, found in wanted)]


def label(schema, name, record):
    value = field(schema, name, record)
    return "missing" if value is None else value if value in labels_of(schema, name)[:-2] else "other"


def field(schema, name, record):
    """Text without the spaces around it, in NFC; a number as it is; None where it is missing."""
    if name not in record:
        refuse("G2.2", "VectorError")
    value = record[name]
    if isinstance(value, str):
        value = unicodedata.normalize("NFC", value.strip(SPACES))
        return None if value == "" or value in schema["missing"] else value
    return None if value is None or math.isnan(value) else value


def number_of(schema, name, record):
    value = field(schema, name, record)
    if value is None:
        return None
    if isinstance(value, str):
        if not DECIMAL.fullmatch(value):
            refuse("G2.3", "VectorError")
        digits, _, exponent = value.lower().partition("e")
        if abs(int(exponent or 0)) > 500:
            return Fraction(0) if int(exponent) < 0 else FAR * (-1 if value[0] == "-" else 1)
        return Fraction(digits) * Fraction(10) ** int(exponent or 0)
    return exact(value)
