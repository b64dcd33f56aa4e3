"""The notebooks run, cell by cell, and show what comes out of them."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib as mpl
import pytest

HERE = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in HERE.glob("*.ipynb"))


def cells(name: str) -> list[dict]:
    notebook = json.loads((HERE / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(outputs: list[dict]) -> str:
    return "".join("".join(one["text"]) for one in outputs if one["output_type"] == "stream")


def pictures(outputs: list[dict]) -> int:
    return sum("image/png" in one.get("data", {}) for one in outputs)


def is_random(cell: dict) -> bool:
    """Whether it shows keys or noise, which no seed repeats."""
    return "random" in cell["metadata"].get("tags", [])


@pytest.fixture
def plots(monkeypatch):
    """Return matplotlib's way to draw figures that nobody sees; those that were drawn are closed."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    mpl.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_runs_and_shows_what_is_kept(name, plots):
    names: dict = {}
    for cell in cells(name):
        source, said = "".join(cell["source"]), io.StringIO()
        with redirect_stdout(said):
            exec(compile(source, f"{name}.ipynb", "exec"), names)  # noqa: S102 - our own words
        for number in plots.get_fignums():
            plots.figure(number).canvas.draw()
        assert len(plots.get_fignums()) == pictures(cell["outputs"]), source
        plots.close("all")
        if not is_random(cell):
            assert said.getvalue() == printed(cell["outputs"]), source


def test_there_are_three_and_each_has_text_code_and_pictures():
    assert NOTEBOOKS == ["federation_with_privacy", "first_sum", "planner"]
    for name in NOTEBOOKS:
        assert sum(pictures(cell["outputs"]) for cell in cells(name)) >= 3
        assert not all(map(is_random, cells(name)))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_what_is_kept_does_not_tell_who_ran_it(name):
    """No times, no paths, no warnings, and no value that a cell ends with by accident."""
    text = (HERE / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert [cell["id"] for cell in notebook["cells"]] == [
        f"cell-{number:02}" for number in range(1, len(notebook["cells"]) + 1)
    ]
    assert [cell["execution_count"] for cell in cells(name)] == list(range(1, len(cells(name)) + 1))
    for cell in cells(name):
        assert cell["metadata"].keys() <= {"tags"}
        assert {one["output_type"] for one in cell["outputs"]} <= {"stream", "display_data"}
        assert all(one.get("name", "stdout") == "stdout" for one in cell["outputs"])
    assert not any(word in text for word in ("/home/", "/usr/", "site-packages"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_lead_somewhere(name):
    notebook = json.loads((HERE / f"{name}.ipynb").read_text(encoding="utf-8"))
    text = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    assert all((HERE / link).is_file() for link in links)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_real_kernel_runs_them(name):
    from docs.notebooks.execute import executed

    again = executed(HERE / f"{name}.ipynb")
    found = [cell for cell in again.cells if cell.cell_type == "code"]
    for cell, kept in zip(found, cells(name), strict=True):
        if not is_random(kept):
            assert printed(cell.outputs) == printed(kept["outputs"])
        assert pictures(cell.outputs) == pictures(kept["outputs"])
