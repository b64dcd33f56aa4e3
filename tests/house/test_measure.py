"""The measures of the house: what they count is there, and the picture shows the imports as they are."""

import ast
import re

import pytest

from release import measure

FILES = measure.files_of(measure.ROOT)


def parsed(name: str, text: str) -> measure.File:
    return measure.File(name, len(text.splitlines()), ast.parse(text))


def structure(picture: str) -> str:
    """What does not change when a file grows."""
    return re.sub(r"[\d,]+ lines", "", picture)


def test_the_picture_of_the_house_is_the_one_that_the_imports_give():
    drawn = measure.PICTURE.read_text(encoding="utf-8")
    assert structure(drawn) == structure(measure.picture(FILES)), "python -m release.measure --picture"


def test_every_room_stands_above_those_that_it_imports():
    links = measure.imports(FILES)
    place = {room: level for level, row in enumerate(measure.floors(links)) for room in row}
    assert all(place[room] < place[other] for room in links for other in links[room])


def test_lines_that_are_left_out_of_the_picture_are_ways_through_other_rooms():
    links = {"cli": {"plan", "graphs"}, "plan": {"graphs"}, "graphs": set()}
    assert measure.needed(links) == {"cli": {"plan"}, "plan": {"graphs"}, "graphs": set()}


def test_docstrings_do_not_count_as_lines_of_a_function():
    file = parsed("a.py", 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n')
    assert measure.functions([file]) == [(2, "a.py:f")]


def test_comparisons_of_a_charter_with_none_are_counted_and_others_are_not():
    file = parsed("a.py", "a = self.charter is None\nb = charter is not None\nc = config is None\n")
    assert list(measure.tests_for_none([file])) == ["a.py", "a.py"]


def test_class_names_that_exist_twice_are_named():
    files = [parsed("a.py", "class A: ...\nclass B: ...\n"), parsed("b/c.py", "class B: ...\n")]
    assert measure.twice(files) == ["B"]


@pytest.mark.parametrize("work", ["aggregate", "question"])
def test_work_enters_files_and_functions(work):
    counted = measure.entered(measure.ROOT, work)
    assert 10 < counted["files"] <= len(FILES)
    assert counted["files"] < counted["functions"]
