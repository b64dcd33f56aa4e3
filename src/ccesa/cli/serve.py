"""``ccesa serve``: run a federation that sites take part in over HTTP."""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ccesa.errors import ConfigError, quoted

if TYPE_CHECKING:
    from ccesa.service import Hub

_File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The federation's file, TOML.", show_default=False)
]


def serve(
    path: _File,
    run: Annotated[
        str | None,
        typer.Option(
            help="module:name of a coordinator: a class or an object that makes tasks and takes results.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Of this process, where several hubs share a store.", show_default=False),
    ] = None,
    until_over: Annotated[bool, typer.Option("--until-over", help="End when all sums are there.")] = False,
    new_series: Annotated[
        bool,
        typer.Option(
            "--new-series",
            help="End a running series and begin another: with a new charter, or after a restored backup.",
        ),
    ] = False,
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Run a federation: sites join with `ccesa join`, and the page shows what is going on.

    It can be killed at any moment and started again: rounds go on. Several of them share a federation where
    its store is PostgreSQL.
    """
    from ccesa.service import Federation, Hub
    from ccesa.service.operator import logs

    federation = Federation.load(path)
    logs.set_up(log_format)
    Hub(federation, loaded(run), name=name, until_over=until_over, new_series=new_series).serve(_ready)


def loaded(spec: str | None) -> Any:
    """Return what ``module:name`` names; a class or a function is called."""
    if spec is None:
        return None
    module, _, name = spec.partition(":")
    if not module or not name:
        raise ConfigError(f"{quoted(spec)} is not module:name")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{quoted(spec)} cannot be loaded: {error}") from error
    return found() if callable(found) else found


def _ready(hub: "Hub") -> None:
    typer.echo(f"sites: {hub.address}")
    typer.echo(f"page:  {hub.page}")
