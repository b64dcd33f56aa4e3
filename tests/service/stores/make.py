"""Writes what a hub of this checkout leaves in its database in the middle of a federation, as SQL.

Run it in a checkout of a release to keep that release's tables: ``python tests/service/stores/make.py NAME``
writes ``NAME.sqlite.sql`` and ``NAME.postgresql.sql`` here. Releases after it have to take both over.
"""

import argparse
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(folder) for folder in (HERE.parent, HERE.parents[1] / "support", HERE.parents[2])]

from engines import World, federation  # noqa: E402
from postgres import Server  # noqa: E402

#: Rounds that are wanted, and that are over when it stops; another one is in flight then.
ROUNDS, OVER = 4, 2

#: Lines of a dump that are about the session that reads it, and about where the tables are.
_LEFT_OUT = ("--", "SET ", "SELECT pg_catalog.set_config", "\\restrict", "\\unrestrict", "CREATE SCHEMA")


def fill(url: str) -> None:
    """Run a federation until a vector has come for its third question; then stop in the middle."""
    world = World(url, federation(rounds=ROUNDS), seed=3, hubs=1)
    hub = world.hubs[0]
    hub.store.add_token(bytes(range(32)), 2, "a token")
    hub.store.add_token(bytes(range(1, 33)), None, "the operator's")
    hub.store.set_aside(5, "its disk is broken")
    while len(hub.store.rounds()) < OVER or not (hub.view and hub.view.task and world.acknowledged):
        world.go_on(0)
    for one in world.hubs:
        one.store.store.close()


def sqlite_text() -> str:
    with tempfile.TemporaryDirectory() as folder:
        fill(f"sqlite:///{folder}/federation.db")
        with closing(sqlite3.connect(f"{folder}/federation.db")) as connection:
            return "\n".join(connection.iterdump()) + "\n"


def postgresql_text() -> str:
    server = Server()
    try:
        server.start()
        fill(server.url())
        lines = server.dump("--no-owner", "--inserts").splitlines()
        return "\n".join(line for line in lines if line and not line.startswith(_LEFT_OUT)) + "\n"
    finally:
        server.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    name = parser.parse_args().name
    os.umask(0o077)
    (HERE / f"{name}.sqlite.sql").write_text(sqlite_text())
    (HERE / f"{name}.postgresql.sql").write_text(postgresql_text())
