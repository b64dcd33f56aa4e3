"""A page to play with: open it in several tabs or on phones, and add up numbers that nobody shows.

    make browser-demo                                  # on this machine: open the address in three tabs
    make browser-demo HOST=0.0.0.0                     # and for phones in the same network
    python examples/browser/demo.py --guard active     # the hub may lie: people compare a charter first

Every tab is a client of its own, written in TypeScript (clients/typescript). Every round has its own hub,
which is ``ccesa serve`` in a process. Nothing is kept: folders are temporary, and Ctrl-C ends all of it.
"""

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Sequence

import qr
import uvicorn
from hubs import GATHER
from lobby import Lobby
from web import CLIENT, app


def addresses(host: str, port: int, names: Sequence[str]) -> list[str]:
    """Return the origins under which browsers reach this server."""
    hosts = ["localhost", "127.0.0.1"] if host in ("127.0.0.1", "localhost", "0.0.0.0", "::") else [host]  # noqa: S104
    if host in ("0.0.0.0", "::"):  # noqa: S104 - what the user asked for
        hosts += _in_the_network()
    return [f"http://{one}:{port}" for one in dict.fromkeys([*hosts, *names])]


def _in_the_network() -> list[str]:
    """Return this machine's address in the local network, if it has one. Nothing is sent."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return [probe.getsockname()[0]]
    return []


def say(origins: Sequence[str], is_open: bool) -> None:
    """Print what to do."""
    paint = "\x1b[97;40m{}\x1b[0m" if sys.stdout.isatty() else "{}"  # light on dark, whatever the terminal is
    phones = [one for one in origins if not one.startswith(("http://localhost", "http://127."))]
    print(
        "Add up without revealing",
        "",
        f"  Open      {origins[0]}/",
        "            in three or more tabs: each tab is a person. Enter a number, press the button.",
        *(f"  Phones    {one}/" for one in phones),
        f"  The hub   {origins[0]}/hub    shows all that the hub sees of it",
        "",
        "  Close a tab in the middle of a round: the others still get their sum.",
        *([] if is_open else ["  For phones in the same network: make browser-demo HOST=0.0.0.0"]),
        "  Ctrl-C ends it.",
        *("  " + paint.format(line) for one in phones[:1] for line in ("", *qr.lines(f"{one}/"))),
        sep="\n",
        flush=True,
    )


async def run(given: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    family = socket.AF_INET6 if ":" in given.host else socket.AF_INET
    with socket.create_server((given.host, given.port), family=family) as listening:
        origins = addresses(given.host, listening.getsockname()[1], given.name)
        lobby = Lobby(guard=given.guard, pace=given.pace, patience=given.patience, origins=origins)
        config = uvicorn.Config(app(lobby), log_level="warning", access_log=False, timeout_graceful_shutdown=1)
        looking = asyncio.create_task(lobby.look_after())
        say(origins, given.host not in ("127.0.0.1", "localhost"))
        try:
            await uvicorn.Server(config).serve(sockets=[listening])
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="use 0.0.0.0 to let phones on the same network connect")
    parser.add_argument("--port", type=int, default=8480, help="use 0 for a free port")
    parser.add_argument("--name", action="append", default=[], help="another name of this machine in browsers")
    parser.add_argument("--guard", choices=sorted(GATHER), default="curious", help="choose active if the hub may lie")
    parser.add_argument(
        "--pace", type=float, default=4, help="seconds that a tab waits before it masks, so that people can watch"
    )
    parser.add_argument(
        "--patience", type=float, default=12, help="seconds to wait for more people once three are ready"
    )
    given = parser.parse_args()
    if not (CLIENT / "dist" / "index.js").exists():
        raise SystemExit("the client for browsers is not built: make client (it needs Node)")
    for stop in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: hubs that were started end, too
        signal.signal(stop, lambda number, frame: sys.exit(128 + number))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(given))


if __name__ == "__main__":
    main()
