"""Options that several commands have, each said once."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from ccesa.crypto.masks import GENERATORS
from ccesa.graphs import NAMES
from ccesa.guards import GUARDS


def _one_of(names: Iterable[str], text: str) -> Any:
    """Make an option for a name out of a table of the package, which checks it."""
    known = list(names)
    return typer.Option(help=text, metavar=f"[{'|'.join(known)}]", autocompletion=lambda: known)


Clients = Annotated[int, typer.Option(help="Number of clients.")]
Length = Annotated[int, typer.Option(help="Elements of each vector.")]
Bits = Annotated[int, typer.Option(help="Bits of an element: 8, 16, 32 or 64.")]
Dropout = Annotated[float, typer.Option(help="Probability to drop out of a round, over all steps together.")]
Degree = Annotated[int | None, typer.Option(help="Neighbours of a client, even (harary); else planned.")]
GraphName = Annotated[str, _one_of(NAMES, "Assignment graph; the planner chooses what is left open.")]
GuardName = Annotated[str, _one_of(GUARDS, "What the server may do: look at everything, or also lie.")]
GeneratorName = Annotated[str, _one_of(GENERATORS, "Mask generator.")]
Threads = Annotated[int, typer.Option(min=1, help="Clients that work at the same time.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
