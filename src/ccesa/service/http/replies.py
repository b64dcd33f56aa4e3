"""Where replies are handed in: whole by PUT, or in parts by PATCH, and what becomes of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.requests import Request
from starlette.responses import Response

from ccesa.errors import shown
from ccesa.service.desk import Desk, Receipt, Taken, View
from ccesa.service.http import asking
from ccesa.service.http.connection import Connection, connection_of
from ccesa.service.http.limits import Limits, Room
from ccesa.service.http.members import Members
from ccesa.service.http.spool import Key, Spool
from ccesa.service.meters import Meters
from ccesa.service.problems import FRESH, Problem
from ccesa.wire import Data


class _Underway:
    """A body that is on its way, on a connection that may have died without a word."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self.gone = connection, asyncio.Event()
        self.hear()

    def hear(self) -> None:
        """Note that a piece of it came."""
        self._heard = time.monotonic()

    def yields(self, seconds: float) -> bool:
        """End it if it was silent for so long, and is not with the desk yet; tell whether it was."""
        if time.monotonic() - self._heard < seconds:
            return False
        why = Problem("busy", "it was silent, and a newer request took its place", retry_after=2)
        return self._connection.end(why)


class Replies:
    """Takes replies, one body per client at a time."""

    def __init__(self, desk: Desk, members: Members, spool: Spool, limits: Limits, meters: Meters) -> None:
        self._desk, self._members, self._spool = desk, members, spool
        self._limits, self._meters = limits, meters
        self._room = Room(limits.bodies_in_memory)
        self._underway: dict[int, _Underway] = {}
        #: The last upload in parts that was saved, by client, and its size.
        self._saved: dict[int, tuple[Key, int]] = {}
        self._swept: tuple[int, int] | None = None

    async def put(self, request: Request) -> Response:
        """Take a whole reply."""
        key = await self._key(request)
        size = asking.body_size(request, self._checked(key).most_bytes)
        async with self._alone(request, key):
            if size <= self._limits.body_in_memory and await self._finds_room(request, size):
                return self._answered(key, await self._take_body(request, key, size))
            self._spool.remove(key)
            await self._append(request, key)
            return await self._take_upload(key, size)

    async def head(self, request: Request) -> Response:
        """Say how much of an upload is there, once nothing more of it is on its way."""
        key = await self._key(request)
        self._checked(key)
        async with self._alone(request, key):
            return _no_content({"Upload-Offset": str(self._offset(key))})

    async def patch(self, request: Request) -> Response:
        """Take the next part of a reply; the last one is answered as the whole would be."""
        key = await self._key(request)
        most = self._checked(key).most_bytes
        size = asking.body_size(request, most)
        offset, length = asking.size(request, "upload-offset"), asking.size(request, "upload-length")
        asking.check_size(length, most)
        if offset + size > length:
            raise Problem("malformed", "this part would end behind Upload-Length")
        async with self._alone(request, key):
            there = self._offset(key)
            if offset != there:
                raise Problem("upload-offset", "go on where it ended", upload_offset=there)
            if self._saved.get(key[2]) == (key, length):
                return _no_content()
            await self._append(request, key)
            if offset + size < length:
                return _no_content({"Upload-Offset": str(offset + size)})
            return await self._take_upload(key, length)

    def forget(self, view: View) -> None:
        """Drop what is left of uploads for exchanges that are over."""
        if self._swept != (view.series, view.exchange):
            self._swept = view.series, view.exchange
            self._spool.sweep(*self._swept)

    async def _key(self, request: Request) -> Key:
        """Return what a reply is for and whom it is from; only the latter is not in the path."""
        client = await self._members.who(request)
        return request.path_params["series"], request.path_params["exchange"], client

    def _checked(self, key: Key) -> View:
        """Return what is open, if it is the exchange that a reply is for.

        One that this hub has not heard of is open elsewhere, or was before this hub was started: wait for it.
        Or its database has gone back, which the hub finds out by what its members know.
        """
        view = self._desk.view
        if key[:2] == (view.series, view.exchange) and not view.is_over:
            return view
        if key[:2] <= (view.series, view.latest) or view.is_over:
            raise self._late(view)
        self._desk.seen(key[2], *key[:2])
        raise Problem("unavailable", "this exchange is not open here yet", retry_after=1)

    def _late(self, view: View, why: str = "it has closed") -> Problem:
        wait = max(1.0, view.next_start - time.time()) if view.next_start else 1.0
        return Problem("late", why, retry_after=wait, next_start=view.next_start)

    @asynccontextmanager
    async def _alone(self, request: Request, key: Key) -> AsyncIterator[None]:
        """Let one body of a client come at a time.

        A newer request takes the place of a silent one, whose connection has probably died. One that is
        heard from keeps its place: two that replace each other would neither come to an end.
        """
        client, own = key[2], _Underway(connection_of(request))
        while (older := self._underway.get(client)) is not None:
            if not older.yields(self._limits.yield_seconds):
                raise Problem("busy", "another reply of this client is on its way", retry_after=2)
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
        """Return a body as it comes, as long as its exchange is open."""
        own = self._underway[key[2]]

        def check() -> None:
            own.hear()
            self._checked(key)

        return asking.pieces(request, self._limits, check)

    async def _append(self, request: Request, key: Key) -> None:
        """Write a body to the client's file; what has come of one that breaks off stays there."""
        with _disk(), connection_of(request).interruptible(), self._spool.append(key) as upload:
            async for piece in self._pieces(request, key):
                upload.add(piece)

    async def _finds_room(self, request: Request, size: int) -> bool:
        """Wait a moment for memory: members that send slowly hold on to it, and keep nobody else waiting."""
        with connection_of(request).interruptible():
            try:
                async with asyncio.timeout(self._limits.room_seconds):
                    await self._room.take(size)
            except TimeoutError:
                return False
        return True

    async def _take_body(self, request: Request, key: Key, size: int) -> Receipt:
        """Hand a reply in from memory, for which room was found."""
        try:
            with connection_of(request).interruptible():
                body = b"".join([piece async for piece in self._pieces(request, key)])
            return await self._take(key, body)
        finally:
            self._room.give(size)

    async def _take_upload(self, key: Key, size: int) -> Response:
        """Hand a reply in where it lies; it stays there if it has to be handed in again."""
        with _disk():
            reply = self._spool.mapped(key)
        receipt = await self._take(key, reply)
        if receipt.taken is Taken.SAVED:
            self._saved[key[2]] = key, size
        if receipt.taken is not Taken.AGAIN:
            self._spool.remove(key)
        return self._answered(key, receipt)

    async def _take(self, key: Key, reply: Data) -> Receipt:
        series, exchange, client = key
        self._meters.received(len(reply))
        return await self._desk.take(client, series, exchange, reply)

    def _answered(self, key: Key, receipt: Receipt) -> Response:
        """Say what became of a reply."""
        why = shown(receipt.reason, 200)
        match receipt.taken:
            case Taken.SAVED:
                return _no_content()
            case Taken.CONFLICT:
                raise Problem("conflict", why or "that one counts")
            case Taken.LATE:
                raise self._late(self._desk.view, why or "it has closed")
            case Taken.AGAIN:
                raise Problem("unavailable", why or "send it again", retry_after=1)
            case Taken.FAULTY:
                raise Problem("faulty", why)


@contextmanager
def _disk() -> Iterator[None]:
    """Say so where the disk is full or away."""
    try:
        yield
    except OSError:
        raise Problem("unavailable", "the hub has no room to keep this", retry_after=10) from None


def _no_content(headers: dict[str, str] | None = None) -> Response:
    return Response(None, 204, {**FRESH, **(headers or {})})
