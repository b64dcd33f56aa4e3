"""A log keeps all calls of a server in one file; after a crash another server replays the file.

A server draws no randomness that decides anything, so the same calls give the same server. A row is on the disk before
its call returns. The opening of a step is a row, too, written before the first request leaves, and a counter beside the
log counts openings. A log restored from a backup is behind its counter, and asks nobody.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from ccesa.errors import CcesaError, ConfigError, DamagedLog, OrderError, RoundFailed, StaleLog
from ccesa.logfile import MARK_BYTES, NO_MARK, LogFile, OpeningCounter

VERSION: Final = 1
_Place = Annotated[int, msgspec.Meta(ge=0)]


class _Logged(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class BeginRow(_Logged, frozen=True, tag="begin"):
    """The round or series of the log, and the place of a series when the log began."""

    kind: Literal["round", "series"]
    context: bytes
    number: _Place = 0
    #: The first step or exchange in this log, the mark of the one before it, and the clients asked before.
    place: _Place = 0
    left: _Place = 0
    mark: bytes = NO_MARK
    asked: list[int] = []
    version: Literal[1] = VERSION


class OpenRow(_Logged, frozen=True, tag="open"):
    """A step of a round, or an exchange of a series, was opened; the one before it closed."""

    place: _Place
    mark: bytes
    task: bytes
    #: The clients that were asked, by the number of the round: a replay must ask the same.
    asked: dict[int, list[int]]
    #: The clients of rounds yet to start; with helpers, which are asked first, also those of a single round.
    members: list[int] = []
    left: _Place = 0
    start: bool = True


class TaskRow(_Logged, frozen=True, tag="task"):
    task: bytes


class AskRow(_Logged, frozen=True, tag="ask"):
    """Helpers were asked beside the open step."""

    again: bool = False


class ReplyRow(_Logged, frozen=True, tag="reply"):
    client: int
    reply: memoryview


class SumRow(_Logged, frozen=True, tag="sum"):
    """The answers of another server were taken over."""

    answers: dict[int, bytes]
    total: memoryview


Row = BeginRow | OpenRow | TaskRow | AskRow | ReplyRow | SumRow
_DECODER = msgspec.msgpack.Decoder(Row)


def new_mark() -> bytes:
    """Return a mark that no other opening has: two servers that go on from copies of one log differ by it."""
    return os.urandom(MARK_BYTES)


@contextmanager
def follow() -> Iterator[None]:
    """Fail the round if the calls of another server cannot be followed, of which some are done by then."""
    try:
        yield
    except (CcesaError, TypeError, KeyError) as error:
        raise RoundFailed(
            "this log does not fit this server: make the server with the same arguments as before, or run a new round"
        ) from error


class RoundLog:
    """The log of one round, or of one series, in a file: ``Server(log=…)``, ``Series(log=…)``.

    Args:
        path: The file; it is made if it is missing. It holds shares and masked vectors, so only its owner may read it.
            Delete it when the round is over.
        counter: Another file, which is never restored together with the log: on another disk, or in a folder without
            backups.

    Raises:
        DamagedLog: The log was changed. A last row that is not whole is dropped in silence.
        ConfigError: Another process has one of the files, or others can read or write them.
    """

    def __init__(self, path: Path | str, *, counter: Path | str) -> None:
        self._begun: BeginRow | None = None
        #: The mark of each opening, by its place.
        self._marks: dict[int, bytes] = {}
        self._is_replayed = False
        with ExitStack() as undone:
            self._file, self._name = LogFile(path), str(path)
            undone.callback(self._file.close)
            for row in self._rows():
                self._note(row)
            self._counter = OpeningCounter(counter)
            undone.pop_all()

    def __enter__(self) -> "RoundLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the files. No server can use this log any more."""
        self._file.close()
        self._counter.close()

    def begin(self, row: BeginRow) -> None:
        """Begin the log of a round or a series, before it is opened; a ``Server`` calls this.

        Args:
            row: The round or series of the log.

        Raises:
            OrderError: The log has an opening: replay it.
            StaleLog: It has none, and its counter has counted openings.
        """
        if self._has_openings:
            raise OrderError(f"{self._name} already has the log of a round or series: replay it")
        self._check_counted()
        if self._begun is None:
            self.append(row)
        self._check_of(row.kind, row.context)

    @contextmanager
    def replay(self, kind: str, context: bytes) -> Iterator[Iterable[Row]]:
        """Return the rows of this round or series, as a context in which ``append`` writes nothing.

        The first row is its ``BeginRow``. A log without an opening has no rows to replay.

        Args:
            kind: ``"round"`` or ``"series"``.
            context: Of the configuration.

        Raises:
            StaleLog: The log is behind its counter.
            DamagedLog: The counter is behind the log by more than a crash explains.
            ConfigError: The log is of another round or series.
            RoundFailed: The rows do not fit the server that follows them.
        """
        self._check_of(kind, context)
        self._check_counted()
        self._is_replayed = True
        try:
            with follow():
                yield self._rows() if self._has_openings else ()
        finally:
            self._is_replayed = False

    def append(self, row: Row) -> None:
        """Append a row, which is safe on the disk when this returns; an opening is counted by then.

        Args:
            row: A call of a server.

        Raises:
            StaleLog: Another process has changed the counter.
            OSError: The system cannot write it. The log takes no more rows.
        """
        if self._is_replayed:
            return
        self._file.append(msgspec.msgpack.encode(row))
        self._note(row)
        if isinstance(row, OpenRow):
            self._counter.set(row.place + 1, row.mark)

    def cut(self, begin: BeginRow) -> None:
        """Drop the rows before an opening, which are needed no more; later rows stay.

        Args:
            begin: The row that takes their place.
        """
        if self._begun is None or begin.place <= self._begun.place:
            return
        self._begun = msgspec.structs.replace(begin, mark=self._marks[begin.place - 1])
        self._file.replace(map(msgspec.msgpack.encode, self._since(self._begun)))

    @property
    def _has_openings(self) -> bool:
        return max(self._marks, default=-1) >= 0

    def _since(self, begin: BeginRow) -> Iterator[Row]:
        yield begin
        is_kept = False
        for row in self._rows():
            is_kept = is_kept or (isinstance(row, OpenRow) and row.place == begin.place)
            if is_kept:
                yield row

    def _rows(self) -> Iterator[Row]:
        for body in self._file:
            try:
                yield _DECODER.decode(body)
            except msgspec.DecodeError:
                raise DamagedLog(f"{self._name} has a row that this version of ccesa does not read") from None

    def _note(self, row: Row) -> None:
        """Note an opening by its place; refuse rows in an order that no server writes."""
        if isinstance(row, BeginRow) is not (self._begun is None):
            raise DamagedLog(f"{self._name} does not say in its first row what the log is of")
        if isinstance(row, BeginRow):
            self._begun, self._marks[row.place - 1] = row, row.mark
        if isinstance(row, OpenRow):
            if row.place - 1 != max(self._marks):
                raise DamagedLog(f"{self._name} lacks the opening before place {row.place}")
            self._marks[row.place] = row.mark

    def _check_of(self, kind: str, context: bytes) -> None:
        begun = self._begun
        if begun is not None and (begun.kind, begun.context) != (kind, context):
            raise ConfigError(
                f"{self._name} is the log of another {begun.kind}, or of another configuration: give the configuration "
                "that it was opened with"
            )

    def _check_counted(self) -> None:
        """Compare the openings with the counter; count the last one if a crash has prevented that."""
        last = max(self._marks, default=-1)
        count, mark = self._counter.value
        if count > last + 1 or (count and self._marks.get(count - 1, mark) != mark):
            raise StaleLog(
                f"{self._name} is behind its counter: it is an older copy, or another server has gone on from a copy; "
                "run a new round, or begin a new series"
            )
        if count < last:
            raise DamagedLog(
                f"{self._name} has {last + 1} openings and its counter {count}: give the counter that it was made "
                "with; if that is lost, run a new round"
            )
        if count == last:
            self._counter.set(last + 1, self._marks[last])
