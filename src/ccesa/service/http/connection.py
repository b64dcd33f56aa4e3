"""One connection: uvicorn's, with bounds on the time and size of everything before and after a request.

While the application works on a request the application sets the bounds. Pipelining is not supported: no
client that takes part does it, and each request that waits in a queue would cost memory.
"""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import httptools
from starlette.requests import Request
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from ccesa.service.http.limits import Door, Limits
from ccesa.service.meters import Meters
from ccesa.service.problems import Problem

#: One read takes no more than this: so much of a body is there before anybody knows whose it is.
_READ_BYTES = 1 << 16


class _Refused(Exception):
    """Raised into the parser, which stops."""


class Connection(HttpToolsProtocol):
    """A connection to a hub; requests find theirs with ``connection_of``."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        app_state: dict[str, Any],
        door: Door,
        limits: Limits,
        meters: Meters,
    ) -> None:
        super().__init__(config, state, app_state, asyncio.get_running_loop())
        self.door, self._limits, self._meters = door, limits, meters
        #: Failed authentications so far.
        self.failures = 0
        self._stopping = False
        self._waiting: asyncio.Task[Any] | None = None
        #: Why what waits was ended.
        self._ending: Problem | None = None
        #: When the connection is closed, and when whoever does not read is cut off, by the loop's clock.
        self._deadline = self._write_deadline = math.inf
        self._in_header, self._complete = False, True
        self._header_bytes = self._unparsed_bytes = self._unwanted_bytes = 0
        #: Why the parser was stopped, where it did not stop by itself.
        self._problem: Problem | None = None

    # What the application asks for

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """End what is inside, at its next await, when the client is gone, the hub stops, or ``end`` says so.

        Raises:
            Problem: It was ended, and why.
        """
        if self._stopping:
            raise self._stopped()
        task = self._waiting = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if self._ending is None or task is None:
                raise
            task.uncancel()
            raise self._ending from None
        finally:
            self._waiting = self._ending = None

    def end(self, why: Problem) -> bool:
        """End what is ``interruptible``; tell whether anything is."""
        if self._waiting is not None and self._ending is None:
            self._ending = why
            self._waiting.cancel()
        return self._waiting is not None

    @property
    def stopping(self) -> bool:
        """Whether the hub is stopping."""
        return self._stopping

    def _stopped(self) -> Problem:
        return Problem("stopping", "ask again, this hub or another", retry_after=1)

    # What the door and the server ask for

    def turn_out(self) -> None:
        """Close the connection at once, whatever it is at."""
        self.transport.abort()

    def sweep(self, now: float) -> None:
        """Close the connection if its time is up."""
        if now >= self._write_deadline or (now >= self._deadline and self.transport.is_closing()):
            self.transport.abort()
        elif now >= self._deadline:
            if self._in_header:
                self._refuse(Problem("timeout", "the header did not come in time"))
            self._close()

    def shutdown(self) -> None:
        """End what waits; what is under way otherwise may end by itself."""
        self._stopping = True
        super().shutdown()
        self.end(self._stopped())

    # What the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the connection in, or say why not."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_BYTES
        self._set_deadline(self._limits.header_seconds)
        if not self.door.enter(self):
            self._refuse(Problem("full", "try again later", retry_after=10))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and end what waits for nobody."""
        super().connection_lost(exc)
        self.door.leave(self)
        self.end(self._stopped())

    def pause_writing(self) -> None:
        """Give whoever does not read fast enough as long as the least rate allows."""
        super().pause_writing()
        size = self.transport.get_write_buffer_size()
        seconds = self._limits.grace_seconds + size / self._limits.least_rate
        self._write_deadline = self.loop.time() + seconds

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        self._write_deadline = math.inf

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless the connection is closing."""
        if self.transport.is_closing():
            return
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse(self._problem or Problem("malformed", "this is not what an HTTP client sends"))
            return
        if self._in_header:  # one line may be longer than everything that was parsed
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > self._limits.header_bytes:
                self._refuse(self._too_large())

    # What the parser says

    def on_message_begin(self) -> None:
        """Begin a request, unless there is one already."""
        if self._is_answering:
            raise _Refused
        super().on_message_begin()
        self.scope["state"]["connection"] = self
        self._in_header, self._complete = True, False
        self._header_bytes = self._unparsed_bytes = self._unwanted_bytes = 0
        self._set_deadline(self._limits.header_seconds)

    def on_url(self, url: bytes) -> None:
        """Keep a piece of the address."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one line of the header, and of what comes behind a body none."""
        if not self._in_header:
            return
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application; no more of a body is read before it asks."""
        if self.parser.should_upgrade():
            raise _Refused
        super().on_headers_complete()
        self._in_header, self._deadline = False, math.inf
        if any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Hand on what came of a body, or count it if nobody wants it."""
        super().on_body(body)
        if self.cycle.response_complete:
            self._unwanted_bytes += len(body)
            if self._unwanted_bytes > self._limits.linger_bytes:
                self._close()

    def on_message_complete(self) -> None:
        """Note that the whole request is there."""
        super().on_message_complete()
        self._complete = True
        if self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        """Wait for the next request, and before that, for the end of a body that nobody wants.

        Closed at once, the connection would be reset, and who is still sending might not see the answer.
        """
        self.server_state.total_requests += 1
        self._set_deadline(self._limits.linger_seconds)
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self._complete:
                self._rest()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _rest(self) -> None:
        """Wait for the next request, unless its sender had its chances."""
        self._set_deadline(self._limits.idle_seconds)
        if self.failures >= self._limits.failures:
            self._close()

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds

    def _count(self, *pieces: bytes) -> None:
        """Count what was parsed of a header, and stop where it is too much."""
        self._header_bytes += sum(map(len, pieces))
        if self._header_bytes > self._limits.header_bytes or len(self.headers) >= self._limits.headers:
            self._problem = self._too_large()
            raise _Refused

    def _too_large(self) -> Problem:
        most, lines = self._limits.header_bytes, self._limits.headers
        return Problem("header-too-large", f"at most {most} bytes in {lines} lines")

    def _refuse(self, problem: Problem) -> None:
        """Say why, unless an answer is on its way already, and close."""
        self._meters.refused(problem.name)
        if self._is_answering:
            self.transport.abort()
            return
        self.transport.write(problem.raw())
        self._in_header = False
        self._close()

    def _close(self) -> None:
        """Close once what was written is sent, for which there is a little time."""
        self._set_deadline(self._limits.linger_seconds)
        self.transport.close()


def connection_of(request: Request) -> Connection:
    """Return the connection that a request came on; KeyError where ``Front`` does not serve the app."""
    return cast(Connection, request.scope["state"]["connection"])
