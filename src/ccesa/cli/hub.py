"""``ccesa serve``, ``invite``, ``results`` and ``audit`` are for the operator of a hub."""

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ccesa import files
from ccesa.cli import LOST, options
from ccesa.cli.output import end_wrong
from ccesa.errors import ConfigError, shown
from ccesa.service.errors import DamagedAudit
from ccesa.service.federation import Federation
from ccesa.service.store import Store, open_store
from ccesa.service.store.audit import verify
from ccesa.service.tokens import hash_token, new_token

_OPERATOR = "operator"
#: The maximum of characters that are printed of an entry of the audit log, and of a line of a result.
_ENTRY, _LINE = 2000, 500


def serve(
    path: options.FederationFile,
    run: Annotated[
        str | None,
        Option(
            metavar="MODULE:COORDINATOR",
            help="Your coordinator, which makes tasks and gets results: its class, or a function that returns one.",
        ),
    ] = None,
    name: Annotated[str | None, Option(help="A name for this process, if several hubs share a store.")] = None,
    until_over: Annotated[
        bool, Option("--until-over", help="End when the federation is over; exit with 3 if sums are missing.")
    ] = False,
    new_series: Annotated[
        bool,
        Option("--new-series", help="End a running series and begin another: for a new charter, or a restored backup."),
    ] = False,
    log_format: Annotated[str, Option(help="Format of the log: text or json.")] = "text",
) -> None:
    """Run a federation: sites join with `ccesa join`, and the page shows the state of the federation.

    You can kill a hub at any moment and start it again: its rounds continue. With PostgreSQL several hubs can
    share a federation.
    """
    from ccesa.service import Hub, logs

    federation = Federation.load(path)
    logs.set_up(log_format)
    coordinator = None if run is None else options.import_function(run)()
    hub = Hub(federation, coordinator, name=name, until_over=until_over, new_series=new_series)
    hub.serve(lambda hub: typer.echo(f"sites: {' or '.join(hub.origins)}\npage:  {hub.page}"))
    if until_over and hub.missing:
        typer.echo(f"ccesa: {hub.missing} of {hub.questions} sums are missing", err=True)
        raise typer.Exit(LOST)


def invite(
    path: options.FederationFile,
    client: Annotated[int | None, Option(help="Make a token for this client.")] = None,
    every: Annotated[bool, Option("--all", help="Make a token for each client that has none.")] = False,
    operator: Annotated[bool, Option("--operator", help="Make a token for the operator's page.")] = False,
    revoke: Annotated[
        str | None, Option(metavar="N|operator", help="Revoke all tokens of this client, or of operators.")
    ] = None,
    to: Annotated[Path | None, Option(metavar="FOLDER", help="Write tokens to files of their own; print none.")] = None,
) -> None:
    """Make tokens for clients and operators. Without options, list the tokens.

    A token is shown once, because the hub keeps only a hash. Anyone with the token acts for the client, so
    hand it over in private. Members under a charter sign in with their identities and need no token.
    """
    if sum((client is not None, every, operator, revoke is not None)) > 1:
        raise ConfigError("give one of --client, --all, --operator and --revoke")
    federation = Federation.load(path)
    with closing(open_store(federation.store)) as store:
        store.check_federation(federation.name, federation.digest)
        if revoke is not None:
            bearer = None if revoke == _OPERATOR else _client(federation, revoke)
            typer.echo(f"{_name(bearer)}: {store.revoke_tokens(bearer)} token(s) revoked")
        elif client is not None:
            _check_client(federation, client)
            _invite(store, federation, [client], to)
        elif every:
            _check_tokens(federation)
            have = {row.client for row in store.tokens()}
            without = [number for number in range(federation.clients) if number not in have]
            _invite(store, federation, without, to, named=True)
        elif operator:
            _invite(store, federation, [None], to)
        else:
            rows = store.tokens()
            for row in rows:
                typer.echo(f"{_name(row.client)}: {row.label}")
            typer.echo(f"{len(rows):,} token(s)")


def _client(federation: Federation, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError("--revoke must be the number of a client, or operator")
    _check_client(federation, int(text))
    return int(text)


def _check_client(federation: Federation, client: int) -> None:
    _check_tokens(federation)
    if not 0 <= client < federation.clients:
        raise ConfigError(f"there is no client {client}: clients are 0 to {federation.clients - 1}")


def _check_tokens(federation: Federation) -> None:
    if federation.signs_in:
        raise ConfigError("members under a charter sign in with identities; make tokens for --operator only")


def _name(client: int | None) -> str:
    return _OPERATOR if client is None else f"client-{client}"


def _invite(
    store: Store, federation: Federation, clients: Sequence[int | None], folder: Path | None, named: bool = False
) -> None:
    """Make tokens, files first; if anything fails, remove the files.

    A token for one client or for the operator is printed alone, as for TOKEN=$(ccesa invite FILE --operator).
    """
    made, lines = {client: new_token() for client in clients}, []
    with ExitStack() as undone:
        for client, token in made.items():
            if folder is None:
                lines.append(f"{_name(client)}: {token}" if named else token)
                continue
            folder.mkdir(mode=0o700, exist_ok=True)
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


def results(
    path: options.FederationFile,
    question: Annotated[int | None, Option(min=0, help="Print only the sum of this question.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per sum, as sites get it.")] = False,
) -> None:
    """Print the sums of a federation, also while a hub is running; exit with 3 if it has none.

    Long vectors are cut off after the first numbers. Arrays are shown by name and shape, statistics as a
    report. With --json nothing is left out.
    """
    from ccesa.service.hub.agenda import describe_result, form_of_series, value_of

    federation = Federation.load(path)
    with closing(open_store(federation.store, create=False)) as store:
        wanted = range(max(federation.rounds, store.count_questions())) if question is None else [question]
        rows = [row for row in map(store.total_of, wanted) if row is not None]
        for row in rows:
            if as_json:
                typer.echo(json.dumps(describe_result(federation, store, row.question or 0)))
            else:
                value = form_of_series(federation, store, row.series).in_words(value_of(federation, store, row))
                # The coordinator chose the names of the numbers.
                metrics = "".join(f", {shown(name)} {number:.6g}" for name, number in row.metrics.items())
                typer.echo(f"question {row.question}: a sum over {len(row.survivors)}{metrics}")
                for line in value.splitlines():
                    typer.echo(f"  {shown(line, _LINE)}")
    if not rows:
        raise typer.Exit(LOST)


def audit(
    where: Annotated[str, Argument(metavar="FILE|URL", help="The federation's file, or the URL of its database.")],
    head: Annotated[
        str | None, Option(metavar="HEX", help="A hash that you have noted: check that the log contains it.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the audit log of a federation, and print it; exit with 1 if it is damaged.

    Each entry has a hash over everything before it. The operator of the hub can write a whole new log, but
    the new log does not contain a hash that a member has noted.
    """
    noted = None if head is None else _hash(head)
    url = where if "://" in where else Federation.load(Path(where)).store
    with closing(open_store(url, create=False)) as store:
        try:
            rows = verify(store.audit_rows(), noted)
        except DamagedAudit as error:
            end_wrong(str(error))
    if as_json:
        entries = [asdict(row) | {"body": json.loads(row.body), "hash": row.hash.hex()} for row in rows]
        typer.echo(json.dumps({"head": entries[-1]["hash"] if entries else None, "entries": entries}))
        return
    for row in rows:
        body = ", ".join(f"{name}: {json.dumps(value)}" for name, value in json.loads(row.body).items())
        typer.echo(f"{row.place}  {_time(row.time)}  {shown(row.kind)}  {shown(body, _ENTRY)}")
    typer.echo(f"{len(rows):,} entries, each as it was written")
    if rows:
        typer.echo(f"head: {rows[-1].hash.hex()}")


def _hash(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise ConfigError("--head is a hash of 64 hexadecimal digits")
    return digest


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # a hub whose clock was far off
        return f"{seconds:g}"
