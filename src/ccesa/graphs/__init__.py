"""The only list of the families of assignment graphs.

A new family is a module beside these, and its name in ``Graph``.
"""

from typing import get_args

from ccesa.errors import ConfigError, quoted
from ccesa.graphs.complete import Complete
from ccesa.graphs.erdos_renyi import ErdosRenyi
from ccesa.graphs.harary import Harary
from ccesa.graphs.kinds import Kind

__all__ = ["BEST", "KINDS", "NAMES", "Complete", "ErdosRenyi", "Graph", "Harary", "Kind", "kind_named"]

Graph = Harary | ErdosRenyi | Complete

KINDS: dict[str, type[Kind]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Graph)}
#: Harary graphs wherever they work: for the same promises varying degrees need more neighbours.
BEST = "best"
NAMES = (BEST, *KINDS)


def kind_named(name: object) -> type[Kind]:
    """Return the family of this name; raise ConfigError if it does not exist."""
    if name not in NAMES:
        raise ConfigError(f"graph must be one of {', '.join(NAMES)}, not {quoted(name)}")
    return Harary if name == BEST else KINDS[str(name)]
