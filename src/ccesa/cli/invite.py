"""``ccesa invite`` makes tokens for clients without a charter, and for the operator."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ccesa import files
from ccesa.cli import options
from ccesa.errors import ConfigError

if TYPE_CHECKING:
    from ccesa.service.federation import Federation
    from ccesa.service.store import Store

_OPERATOR = "operator"


def invite(
    path: options.FederationFile,
    client: Annotated[int | None, typer.Option(help="Make a token for this client.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="Make one for each client without a token.")] = False,
    operator: Annotated[bool, typer.Option("--operator", help="Make one for the operator's page.")] = False,
    revoke: Annotated[
        str | None,
        typer.Option(
            metavar="N|operator", help="Revoke all tokens of this client, or of operators.", show_default=False
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write each token to its own file, and print none.", show_default=False),
    ] = None,
) -> None:
    """Make tokens for clients and operators. Without options, list the tokens.

    A token is shown once, because the hub keeps only a hash. Anyone with the token acts for the client, so
    hand it over in private. Members under a charter sign in with their identities and need none.
    """
    from ccesa.service.federation import Federation
    from ccesa.service.store import open_store

    if sum((client is not None, every, operator, revoke is not None)) > 1:
        raise ConfigError("give one of --client, --all, --operator and --revoke")
    federation = Federation.load(path)
    store = open_store(federation.store)
    try:
        store.check_federation(federation.name, federation.digest)
        if revoke is not None:
            _revoke(store, _bearer(federation, revoke))
        elif client is not None:
            _invite(store, federation, [_checked(federation, client)], to)
        elif every:
            _invite(store, federation, _without(store, federation), to, named=True)
        elif operator:
            _invite(store, federation, [None], to)
        else:
            _show(store)
    finally:
        store.close()


def _bearer(federation: "Federation", text: str) -> int | None:
    if text == _OPERATOR:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ConfigError("--revoke must be the number of a client, or operator")
    return _checked(federation, int(text))


def _checked(federation: "Federation", client: int) -> int:
    _check_tokens(federation)
    if not 0 <= client < federation.clients:
        raise ConfigError(f"there is no client {client}: clients are 0 to {federation.clients - 1}")
    return client


def _check_tokens(federation: "Federation") -> None:
    if federation.signs_in:
        raise ConfigError("members under a charter sign in with identities; make tokens for --operator only")


def _without(store: "Store", federation: "Federation") -> list[int]:
    """Return the clients without a token."""
    _check_tokens(federation)
    have = {row.client for row in store.tokens()}
    return [client for client in range(federation.clients) if client not in have]


def _name(client: int | None) -> str:
    return _OPERATOR if client is None else f"client-{client}"


def _invite(
    store: "Store", federation: "Federation", clients: Sequence[int | None], folder: Path | None, named: bool = False
) -> None:
    """Make tokens, files first; if anything fails, remove the files.

    A token for one client or for the operator is printed alone, as for TOKEN=$(ccesa invite FILE --operator).
    """
    from ccesa.service.tokens import hash_token, new_token

    made = {client: new_token() for client in clients}
    with ExitStack() as undone:
        lines = [f"{_name(client)}: {token}" if named else token for client, token in made.items()]
        if folder is not None:
            folder.mkdir(mode=0o700, exist_ok=True)
            lines = []
            for client, token in made.items():
                file = folder / f"{_name(client)}.token"
                files.write_new(file, f"{token}\n", private=True)
                undone.callback(file.unlink)
                lines.append(f"{_name(client)}: {file}")
        for client, token in made.items():
            label = _OPERATOR if client is None else federation.agreement.names[client]
            store.add_token(hash_token(token), client, label)
        undone.pop_all()
    for line in lines or ["every client has a token already; --client N makes another one"]:
        typer.echo(line)


def _revoke(store: "Store", client: int | None) -> None:
    typer.echo(f"{_name(client)}: {store.revoke_tokens(client)} token(s) revoked")


def _show(store: "Store") -> None:
    rows = store.tokens()
    for row in rows:
        typer.echo(f"{_name(row.client)}: {row.label}")
    typer.echo(f"{len(rows):,} token(s)")
