"""Runs the notebooks in a real kernel and keeps them with what came out: ``make notebooks``.

What would differ from machine to machine is left out: times, versions, paths. Cells tagged ``random`` show
keys or noise, and differ every time; all others come out the same.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def executed(path: Path) -> nbformat.NotebookNode:
    """Run a notebook from its first cell to its last, and return it as it is kept."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3", coalesce_streams=True).execute()
    notebook.metadata = nbformat.from_dict(KERNEL | {"language_info": {"name": "python"}})
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number:02}"
        cell.metadata.pop("execution", None)  # when it was run
    return notebook


def main() -> None:
    for path in sorted(HERE.glob("*.ipynb")):
        if path.stem in (sys.argv[1:] or [path.stem]):
            nbformat.write(executed(path), path)
            print(path)


if __name__ == "__main__":
    main()
