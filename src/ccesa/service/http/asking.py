"""What a request asks for, read strictly: numbers in its path, query and header, and how long it waits."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request

from ccesa.service.desk import Desk, View
from ccesa.service.http.connection import connection_of
from ccesa.service.http.limits import Limits
from ccesa.service.meters import Meters
from ccesa.service.problems import Problem

_AFTER = re.compile("-1|[0-9]{1,9}", re.ASCII)
_SIZE = re.compile("[0-9]{1,15}", re.ASCII)
_WAIT = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?([0-9]{1,4})(?![0-9])', re.ASCII)


class _Number(Convertor[int]):
    """A number in a path: Python refuses to read thousands of digits."""

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
    """Return the number after which the client wants something."""
    text = request.query_params.get("after", str(default))
    if not _AFTER.fullmatch(text):
        raise Problem("malformed", "after= is a whole number from -1 on")
    return int(text)


def size(request: Request, name: str) -> int:
    """Return a size that a header states."""
    text = request.headers.get(name, "")
    if not _SIZE.fullmatch(text):
        raise Problem("malformed", f"{name} is a whole number of bytes")
    return int(text)


def body_size(request: Request, most: int) -> int:
    """Return the size of a body before any of it is read.

    Raises:
        Problem: The size is unknown or too large, or the body is compressed.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("encoded", "what is sent looks random, so there is nothing to compress")
    if "transfer-encoding" in request.headers or "content-length" not in request.headers:
        raise Problem("length-required", "send Content-Length, and the body in one piece")
    found = size(request, "content-length")
    check_size(found, most)
    return found


def check_size(found: int, most: int) -> None:
    """Refuse more bytes than are taken."""
    if found > most:
        raise Problem("too-large", f"at most {most} bytes are taken here", most_bytes=most)


async def pieces(
    request: Request, limits: Limits, check: Callable[[], object] = lambda: None
) -> AsyncIterator[bytes]:
    """Yield a body as it comes.

    Args:
        request: Whose size was checked.
        limits: For the least rate, and the longest silence.
        check: Called for each piece; raises if the body is no longer wanted.

    Raises:
        Problem: The body comes too slowly, or the client is gone.
    """
    clock, got, more = asyncio.get_running_loop().time, 0, True
    began = clock()
    while more:
        slowest = began + limits.grace_seconds + got / limits.least_rate
        try:
            async with asyncio.timeout_at(min(slowest, clock() + limits.silence_seconds)):
                message = await request.receive()
        except TimeoutError:
            rate, silence = limits.least_rate, limits.silence_seconds
            raise Problem(
                "timeout", f"send at least {rate} bytes per second, and pause for at most {silence:g} seconds"
            ) from None
        if message["type"] != "http.request":
            raise Problem("timeout", "the connection ended before the body did")
        piece, more = message.get("body", b""), message.get("more_body", False)
        got += len(piece)
        check()
        yield piece


class Patience:
    """How long a request wants to be kept waiting for something to change: ``Prefer: wait=SECONDS``."""

    def __init__(self, request: Request, desk: Desk, limits: Limits, meters: Meters) -> None:
        found = _WAIT.search(request.headers.get("prefer", ""))
        self.seconds = min(int(found[1]), limits.wait_seconds) if found else 0
        self._clock = asyncio.get_running_loop().time
        self._until = self._clock() + self.seconds
        self._connection, self._desk, self._meters = connection_of(request), desk, meters

    async def until(self, ready: Callable[[View], bool]) -> View:
        """Return the first view that will do; where time is up before there is one, the last.

        Raises:
            Problem: The hub is stopping.
        """
        view = self._desk.view
        while not ready(view) and (left := self._until - self._clock()) > 0:
            with self._connection.interruptible(), self._meters.polls.track_inprogress():
                view = await self._desk.changed(view, left)
        return view
