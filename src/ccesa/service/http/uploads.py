"""Members hand in replies, whole by PUT or in parts by PATCH; large ones go through a folder on disk."""

import asyncio
import mmap
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ccesa import files
from ccesa.errors import ConfigError, shown
from ccesa.service.desk import Desk, Receipt, Taken, View
from ccesa.service.http import asking
from ccesa.service.http.asking import Members
from ccesa.service.http.serving import Connection, Limits, Room, connection_of
from ccesa.service.meters import Meters
from ccesa.service.problems import FRESH, Problem
from ccesa.wire import Data

Key = tuple[int, int, int]  # series, exchange and client of an upload


class Spool:
    """A folder with a file per upload, for one process: if another one shortened a mapped file, it would crash."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        try:
            self._lock = files.lock(folder / "lock")  # systems without locks do not let mapped files be cut
        except BlockingIOError:
            raise ConfigError(f"another hub uses {folder}: give each hub its own spool folder") from None

    def close(self) -> None:
        os.close(self._lock)

    def size(self, key: Key) -> int:
        try:
            return self._path(key).stat().st_size
        except FileNotFoundError:
            return 0

    @contextmanager
    def append(self, key: Key) -> Iterator[Callable[[bytes], None]]:
        """Open an upload, and yield a function that adds a piece to it."""
        descriptor = os.open(self._path(key), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

        def add(piece: bytes) -> None:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(descriptor, rest) :]

        try:
            yield add
        finally:
            os.close(descriptor)

    def map(self, key: Key) -> Data:
        """Return a whole upload as mapped memory, which stays readable after ``remove``."""
        with self._path(key).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return b""
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def remove(self, key: Key) -> None:
        self._path(key).unlink(missing_ok=True)

    def sweep(self, series: int, exchange: int) -> None:
        """Delete all uploads for other exchanges than this one."""
        for path in self._folder.glob("*-*-*"):
            if not path.name.startswith(f"{series}-{exchange}-"):
                path.unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / "-".join(str(int(number)) for number in key)


class _Underway:
    """A body that is arriving, on a connection that may have died."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self.gone = connection, asyncio.Event()
        self.hear()

    def hear(self) -> None:
        self._heard = time.monotonic()

    def yields(self, seconds: float) -> bool:
        """End this body if it has stalled for this long and is not at the desk yet; return whether it was ended."""
        if time.monotonic() - self._heard < seconds:
            return False
        why = Problem("busy", "this request stalled, and a newer request took its place", retry_after=2)
        return self._connection.end(why)


class Uploads:
    """Takes replies, one body per client at a time."""

    def __init__(self, desk: Desk, members: Members, spool: Spool, limits: Limits, meters: Meters) -> None:
        self._desk, self._members, self._spool = desk, members, spool
        self._limits, self._meters = limits, meters
        self._room = Room(limits.bodies_in_memory)
        self._underway: dict[int, _Underway] = {}
        #: The last upload in parts that was saved, by client, and its size.
        self._saved: dict[int, tuple[Key, int]] = {}

    async def reply(self, request: Request) -> Response:
        """Take a reply or a part of it, or return how much has arrived."""
        client = await self._members.authenticate(request)
        key = (request.path_params["series"], request.path_params["exchange"], client)
        most = self._check(key).most_bytes
        if request.method == "PUT":
            return await self._put(request, key, most)
        if request.method == "PATCH":
            return await self._patch(request, key, most)
        async with self._alone(request, key):  # once no more of it is on its way
            return _no_content({"Upload-Offset": str(self._offset(key))})

    async def _put(self, request: Request, key: Key, most: int) -> Response:
        size = asking.body_size(request, most)
        async with self._alone(request, key):
            if size <= self._limits.body_in_memory and await self._finds_room(request, size):
                try:
                    with connection_of(request).interruptible():
                        body = b"".join([piece async for piece in self._pieces(request, key)])
                    return self._answer(await self._take(key, body))
                finally:
                    self._room.give(size)
            self._spool.remove(key)
            await self._append(request, key)
            return await self._take_upload(key, size)

    async def _patch(self, request: Request, key: Key, most: int) -> Response:
        """Take the next part of a reply. The answer to the last one is that of a whole reply."""
        size = asking.body_size(request, most)
        offset, length = asking.size(request, "upload-offset"), asking.size(request, "upload-length", most)
        if offset + size > length:
            raise Problem("malformed", "this part ends after Upload-Length")
        async with self._alone(request, key):
            arrived = self._offset(key)
            if offset != arrived:
                raise Problem("upload-offset", "continue at upload_offset", upload_offset=arrived)
            if self._saved.get(key[2]) == (key, length):
                return _no_content()
            await self._append(request, key)
            if offset + size < length:
                return _no_content({"Upload-Offset": str(offset + size)})
            return await self._take_upload(key, length)

    def _check(self, key: Key) -> View:
        """Return the view, if the exchange of a reply is open.

        If this hub does not know the exchange, another hub has opened it, or it was opened before this hub started. Or
        the database has gone back, which the hub notices by the exchanges that its members know.
        """
        view = self._desk.view
        if not view.serves:
            raise Problem("unavailable", "another hub of this federation serves now", retry_after=1)
        if key[:2] == (view.series, view.exchange) and not view.is_over:
            return view
        if key[:2] <= (view.series, view.latest) or view.is_over:
            raise self._late(view)
        self._desk.hear(key[2], *key[:2])
        raise Problem("unavailable", "this exchange is not open here yet", retry_after=1)

    def _late(self, view: View, why: str = "this exchange has closed") -> Problem:
        wait = max(1.0, view.next_start - time.time()) if view.next_start else 1.0
        return Problem("late", why, retry_after=wait, next_start=view.next_start)

    @asynccontextmanager
    async def _alone(self, request: Request, key: Key) -> AsyncIterator[None]:
        """Take one body of a client at a time.

        A newer request replaces a stalled one, whose connection has probably died. A request that makes
        progress is not replaced: otherwise two requests could replace each other for ever.
        """
        client, own = key[2], _Underway(connection_of(request))
        while (older := self._underway.get(client)) is not None:
            if not older.yields(self._limits.yield_seconds):
                raise Problem("busy", "another reply of this client is being received", retry_after=2)
            await older.gone.wait()
        self._underway[client] = own
        try:
            yield
        finally:
            del self._underway[client]
            own.gone.set()

    def _offset(self, key: Key) -> int:
        saved, size = self._saved.get(key[2], (None, 0))
        return size if saved == key else self._spool.size(key)

    def _pieces(self, request: Request, key: Key) -> AsyncIterator[bytes]:
        """Yield a body as it arrives, as long as its exchange is open."""
        own = self._underway[key[2]]

        def check() -> None:
            own.hear()
            self._check(key)

        return asking.pieces(request, self._limits, check)

    async def _append(self, request: Request, key: Key) -> None:
        """Write a body to the client's file. If it breaks off, the arrived part stays there."""
        with _disk(), connection_of(request).interruptible(), self._spool.append(key) as add:
            async for piece in self._pieces(request, key):
                add(piece)

    async def _finds_room(self, request: Request, size: int) -> bool:
        """Wait a moment for memory; return whether there is enough. Slow members must not block others."""
        with connection_of(request).interruptible():
            try:
                async with asyncio.timeout(self._limits.room_seconds):
                    await self._room.take(size)
            except TimeoutError:
                return False
        return True

    async def _take_upload(self, key: Key, size: int) -> Response:
        """Hand in a reply from its file. The file stays if the reply has to be handed in again."""
        with _disk():
            reply = self._spool.map(key)
        receipt = await self._take(key, reply)
        # A helper may answer more than once in one exchange.
        if receipt.taken is Taken.SAVED and not self._members.is_helper(key[2]):
            self._saved[key[2]] = key, size
        if receipt.taken is not Taken.AGAIN:
            self._spool.remove(key)
        return self._answer(receipt)

    async def _take(self, key: Key, reply: Data) -> Receipt:
        self._meters.received.inc(len(reply))
        return await self._desk.take(key[2], *key[:2], reply)

    def _answer(self, receipt: Receipt) -> Response:
        """Return or raise the answer to a reply."""
        why = shown(receipt.reason, 200)
        match receipt.taken:
            case Taken.SAVED:
                return _no_content()
            case Taken.CONFLICT:
                raise Problem("conflict", why or "the first reply counts")
            case Taken.LATE:
                raise self._late(self._desk.view, why or "this exchange has closed")
            case Taken.AGAIN:
                raise Problem("unavailable", why or "send the reply again", retry_after=1)
            case Taken.FAULTY:
                raise Problem("faulty", why)


@contextmanager
def _disk() -> Iterator[None]:
    """Turn an error of the disk into an answer 503."""
    try:
        yield
    except OSError:
        raise Problem("unavailable", "the hub has no disk space for this", retry_after=10) from None


def _no_content(headers: dict[str, str] | None = None) -> Response:
    return Response(None, 204, {**FRESH, **(headers or {})})
