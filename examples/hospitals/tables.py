"""Write the tables of five hospitals, which do not exist; the same ones every time.

    python examples/hospitals/tables.py examples/hospitals/data

As in life, they come from different systems: other separators, other columns, empty fields, typing errors.
"""

import csv
import random
import sys
from pathlib import Path

#: Name, records, separator, whether a byte order mark comes first, and how old people are there.
HOSPITALS = (
    ("north", 140, ",", False, 55),
    ("south", 90, ";", True, 62),
    ("east", 120, ",", False, 48),
    ("west", 60, "\t", False, 71),
    ("harbour", 180, ",", True, 58),
)
COLUMNS = ("patient", "age", "sex", "ward", "days", "temperature")
WARDS = (("medicine", 45), ("surgery", 30), ("maternity", 12), ("intensive care", 8), ("day clinic", 5))


def record(chance: random.Random, number: int, age: int) -> list[object]:
    """Return one stay: some fields are empty, some are wrong."""
    (ward,) = chance.choices([name for name, _ in WARDS], [weight for _, weight in WARDS])
    years = min(max(round(chance.gauss(32 if ward == "maternity" else age, 6 if ward == "maternity" else 18)), 0), 104)
    sex = "f" if ward == "maternity" else chance.choice("fm")
    days = max(1, round(chance.expovariate(1 / (12 if ward == "intensive care" else 5))))
    temperature = round(chance.gauss(37.1, 0.7), 1)
    return [
        f"P{number:05}",
        chance.choices([years, "NA", 1000 + years], [970, 25, 5])[0],
        chance.choices([sex, "", "x"], [970, 20, 10])[0],
        ward,
        days,
        chance.choices([temperature, ""], [90, 10])[0],
    ]


def write(folder: Path) -> None:
    """Write the five files."""
    for name, records, separator, marked, age in HOSPITALS:
        chance = random.Random(f"hospital {name}")  # noqa: S311 - invented people
        rows = [record(chance, 10_000 + number, age) for number in range(records)]
        order = list(range(len(COLUMNS)))
        chance.shuffle(order)
        encoding = "utf-8-sig" if marked else "utf-8"
        with (folder / f"{name}.csv").open("w", encoding=encoding, newline="") as file:
            writer = csv.writer(file, delimiter=separator, lineterminator="\n")
            writer.writerows([row[place] for place in order] for row in (COLUMNS, *rows))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
