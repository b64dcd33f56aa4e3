"""Strict readers of what a request states: numbers in path, query and header, its body, how long it waits."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request

from ccesa.service.desk import Desk, View
from ccesa.service.http.limits import Limits
from ccesa.service.http.serving import connection_of
from ccesa.service.meters import Meters
from ccesa.service.problems import Problem

_AFTER = re.compile("-1|[0-9]{1,9}", re.ASCII)
_SIZE = re.compile("[0-9]{1,15}", re.ASCII)
_WAIT = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?([0-9]{1,4})(?![0-9])', re.ASCII)


class _Number(Convertor[int]):
    """A number in a path, of at most nine digits."""

    regex = "[0-9]{1,9}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


class _Digest(Convertor[bytes]):
    """Thirty-two bytes in a path, in hexadecimal."""

    regex = "[0-9a-f]{64}"

    def convert(self, value: str) -> bytes:
        return bytes.fromhex(value)

    def to_string(self, value: bytes) -> str:
        return value.hex()


register_url_convertor("number", _Number())
register_url_convertor("digest", _Digest())


def after(request: Request, default: int = -1) -> int:
    """Return the number in ``?after=``."""
    text = request.query_params.get("after", str(default))
    if not _AFTER.fullmatch(text):
        raise Problem("malformed", "after must be -1 or greater")
    return int(text)


def size(request: Request, name: str) -> int:
    """Return the size in a header."""
    text = request.headers.get(name, "")
    if not _SIZE.fullmatch(text):
        raise Problem("malformed", f"{name} must be a number of bytes")
    return int(text)


def body_size(request: Request, most: int) -> int:
    """Return the size of a body before any of it is read.

    Raises:
        Problem: The size is unknown or too large, or the body is compressed.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("encoded", "send the body uncompressed: masked data does not compress")
    if "transfer-encoding" in request.headers or "content-length" not in request.headers:
        raise Problem("length-required", "send Content-Length, and no chunks")
    found = size(request, "content-length")
    check_size(found, most)
    return found


def check_size(found: int, most: int) -> None:
    """Refuse a size that is too large."""
    if found > most:
        raise Problem("too-large", f"send at most {most} bytes", most_bytes=most)


async def pieces(
    request: Request, limits: Limits, check: Callable[[], object] = lambda: None
) -> AsyncIterator[bytes]:
    """Yield a body as it arrives.

    Args:
        request: Its ``body_size`` was checked.
        limits: For the minimum rate and the longest pause.
        check: Called for each piece; raises if the body is no longer wanted.

    Raises:
        Problem: The body arrives too slowly, or the client is gone.
    """
    clock, got, more = asyncio.get_running_loop().time, 0, True
    began = clock()
    while more:
        slowest = began + limits.grace_seconds + got / limits.minimum_rate
        try:
            async with asyncio.timeout_at(min(slowest, clock() + limits.silence_seconds)):
                message = await request.receive()
        except TimeoutError:
            rate, silence = limits.minimum_rate, limits.silence_seconds
            raise Problem(
                "timeout", f"send at least {rate} bytes per second, and pause for at most {silence:g} seconds"
            ) from None
        if message["type"] != "http.request":
            raise Problem("timeout", "the connection ended before the body")
        piece, more = message.get("body", b""), message.get("more_body", False)
        got += len(piece)
        check()
        yield piece


class Patience:
    """How long a request waits for a change: ``Prefer: wait=SECONDS``."""

    def __init__(self, request: Request, desk: Desk, limits: Limits, meters: Meters) -> None:
        found = _WAIT.search(request.headers.get("prefer", ""))
        self.seconds = min(int(found[1]), limits.wait_seconds) if found else 0
        self._clock = asyncio.get_running_loop().time
        self._until = self._clock() + self.seconds
        self._connection, self._desk, self._meters = connection_of(request), desk, meters

    async def until(self, ready: Callable[[View], bool]) -> View:
        """Return the first view that is ready, or the latest one when time is up.

        Raises:
            Problem: The hub is stopping.
        """
        view = self._desk.view
        while not ready(view) and (left := self._until - self._clock()) > 0:
            with self._connection.interruptible(), self._meters.polls.track_inprogress():
                view = await self._desk.changed(view, left)
        return view
