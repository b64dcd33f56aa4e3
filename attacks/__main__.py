"""``python -m attacks`` runs an attack, or lists all of them."""

from typing import TYPE_CHECKING

from ccesa.cli import run

if TYPE_CHECKING:  # the packages are imported where an interrupt is caught
    import typer


def _app() -> "typer.Typer":
    from attacks.command import app

    return app


def main() -> None:
    run("attacks", _app)


if __name__ == "__main__":
    main()
