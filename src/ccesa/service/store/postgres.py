"""PostgreSQL, for one or several hub processes."""

from collections.abc import Iterable
from typing import Any

from ccesa.errors import ConfigError
from ccesa.extras import missing
from ccesa.service.errors import Unavailable
from ccesa.service.store.database import Database, Row

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise missing("PostgreSQL", "psycopg", "service") from None

#: Notice a silent server soon; the URL can overrule this.
_CONNECTION = {"connect_timeout": 5, "tcp_user_timeout": 10_000, "application_name": "ccesa"}
_LOCK = 0x6363657361  # the advisory lock of ``alone``, a number that others are unlikely to use


class _PostgresRun:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __call__(self, sql: str, *values: Any) -> list[Row]:
        with self._connection.cursor(binary=True) as cursor:
            cursor.execute(_dialect(sql), values, binary=True)
            return [] if cursor.description is None else cursor.fetchall()

    def many(self, sql: str, rows: Iterable[Row]) -> int:
        # One by one: in a pipeline, no timeout ends the transaction of a hub that stands still, and its locks
        # would block all others.
        sql, changed = _dialect(sql), 0
        with self._connection.cursor() as cursor:
            for row in rows:
                changed += cursor.execute(sql, row).rowcount
        return changed


def _dialect(sql: str) -> str:
    return sql.replace("?", "%s").replace("BLOB", "BYTEA")


class PostgreSQL(Database):
    """A database on a PostgreSQL server, at a URL that libpq understands."""

    #: A waiting statement or a hub that stops halfway must not block others for long; commits reach the disk.
    SETTINGS = (
        "SET statement_timeout = '60s'",
        "SET lock_timeout = '10s'",
        "SET idle_in_transaction_session_timeout = '10s'",
        "SET client_min_messages = 'warning'",
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') IN ('off', 'local')",
    )
    READ = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)  # all statements see the same
    WRITE = ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",)
    CLAIM = (*WRITE, "SET LOCAL synchronous_commit = off")
    ALONE = (*WRITE, f"SELECT pg_advisory_xact_lock({_LOCK})")
    ERASE = ("VACUUM (SKIP_LOCKED) answers, sums, held",)
    runner = _PostgresRun
    errors = psycopg.Error

    def __init__(self, url: str) -> None:
        super().__init__()
        try:
            self._parameters = _CONNECTION | conninfo_to_dict(url)
        except psycopg.ProgrammingError:  # its text can hold the password
            raise ConfigError("the URL of the database is not valid for PostgreSQL") from None

    def _connect(self) -> Any:
        return psycopg.connect(**self._parameters, autocommit=True)

    def _check_place(self) -> None:
        """Do nothing: the server keeps its own files."""

    def _translate(self, error: Exception) -> Exception:
        state = getattr(error, "sqlstate", None) or type(error).__name__
        if isinstance(error, psycopg.ProgrammingError | psycopg.DataError | psycopg.NotSupportedError):
            return ConfigError(f"PostgreSQL refuses a statement ({state}, {type(error).__name__})")
        if self._connection is None:  # no statement was sent that the text could quote
            return Unavailable(f"PostgreSQL cannot be reached: {' '.join(str(error).split())}")
        return Unavailable(f"PostgreSQL cannot be used now ({state}, {type(error).__name__})")
