"""The one place that knows uvicorn: its connections within our limits, its server, and how both stop.

``Connection`` bounds time and size of everything before and after a request. While the application works on a
request, the application sets the bounds. Pipelining is refused: no participant uses it, and each request in a
queue would cost memory. ``check_uvicorn`` refuses a release that lacks anything that this file uses.
"""

import asyncio
import inspect
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httptools
import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp

from ccesa.errors import ConfigError
from ccesa.service.meters import Meters
from ccesa.service.problems import Problem


def _unfit(why: str) -> ConfigError:
    return ConfigError(
        f"uvicorn {uvicorn.__version__} does not fit: {why}; install a release that ccesa[service] allows"
    )


try:
    from uvicorn.protocols.http.flow_control import FlowControl
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
    from uvicorn.server import Server, ServerState
except ImportError as error:
    raise _unfit(str(error)) from error

KIB, MIB = 1 << 10, 1 << 20
#: The maximum of one read, and so of the body that arrives before its sender is known.
_READ_BYTES = 1 << 16
_RESERVED = 256  # files and sockets that a hub needs beside connections
_TICKS = 10  # uvicorn ticks ten times per second
#: The parts of uvicorn's classes that this file uses: methods, then attributes that the class or its ``__init__`` sets.
_USED: dict[type, tuple[str, str]] = {
    HttpToolsProtocol: (
        "connection_made connection_lost pause_writing resume_writing data_received shutdown "
        "on_message_begin on_url on_header on_headers_complete on_body on_message_complete "
        "on_response_complete",
        "app_state cycle flow headers loop parser scope server_state transport",
    ),
    RequestResponseCycle: ("", "response_complete"),
    FlowControl: ("pause_reading resume_reading", ""),
    Server: ("_serve main_loop on_tick shutdown startup", "config server_state should_exit started"),
    ServerState: ("", "connections total_requests"),
}


def check_uvicorn() -> None:
    """Raise ConfigError if the installed uvicorn lacks anything that this file uses of it."""
    for owner, (methods, attributes) in _USED.items():
        has = set(dir(owner)) | set(owner.__init__.__code__.co_names)  # type: ignore[misc]
        lacks = [name for name in f"{methods} {attributes}".split() if name not in has]
        if lacks:
            raise _unfit(f"{owner.__name__} lacks {', '.join(lacks)}")
    try:
        inspect.signature(HttpToolsProtocol).bind(None, None, None, None)
    except TypeError:
        raise _unfit("HttpToolsProtocol takes other arguments") from None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Maxima in numbers, bytes and seconds."""

    #: Connections at a time, in all and of one member.
    connections: int = 20_000
    connections_of_member: int = 16
    #: One request's header with its first line, the lines in it, and the time until it is complete.
    header_bytes: int = 16 * KIB
    headers: int = 100
    header_seconds: float = 10.0
    idle_seconds: float = 75.0  # between two requests
    #: The rest that is sent and read before a connection closes: the sender of an unwanted body reads its answer.
    linger_seconds: float = 5.0
    linger_bytes: int = 4 * MIB
    #: Failed authentications on one connection, and lookups of strangers' tokens at a time.
    failures: int = 3
    lookups: int = 64
    sessions_per_minute: int = 30  # of one member
    wait_seconds: int = 60  # of a request, for a change
    #: After the grace, a sender or a reader must reach the minimum rate, in bytes per second.
    grace_seconds: float = 10.0
    minimum_rate: int = 8 * KIB
    #: The time between two pieces of a body, and the time until a newer request of the member replaces it.
    silence_seconds: float = 30.0
    yield_seconds: float = 2.0
    #: One body and all bodies in memory. A larger one, or one that has waited for memory, goes to a file.
    body_in_memory: int = MIB
    bodies_in_memory: int = 64 * MIB
    room_seconds: float = 5.0
    #: The time for a TLS handshake, and for requests under way when the hub stops.
    handshake_seconds: float = 10.0
    shutdown_seconds: int = 5


class _Refused(Exception):
    """Stops the parser."""


class Connection(HttpToolsProtocol):
    """A connection to a hub. ``connection_of`` finds that of a request."""

    def __init__(self, front: "Front") -> None:
        super().__init__(front.config, front.server_state, front.lifespan.state, asyncio.get_running_loop())
        self.door, self._limits, self._meters = front.door, front.limits, front.meters
        self.failures = 0  # failed authentications so far
        self.stopping = False
        self._waiting: asyncio.Task[Any] | None = None
        self._ending: Problem | None = None  # the reason for which the waiting task was ended
        #: The times to close the connection, and to cut off a client that does not read, by the loop's clock.
        self._deadline = self._write_deadline = math.inf
        self._in_header, self._complete = False, True
        self._header_bytes = self._unparsed_bytes = self._unwanted_bytes = 0
        #: The reason for which the parser was stopped, unless it stopped by itself.
        self._problem: Problem | None = None

    # For the application

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """End the block with a ``Problem`` when the client is gone, the hub stops, or ``end`` is called."""
        if self.stopping:
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
        """End the ``interruptible`` block; return whether there is one."""
        if self._waiting is not None and self._ending is None:
            self._ending = why
            self._waiting.cancel()
        return self._waiting is not None

    def _stopped(self) -> Problem:
        return Problem("stopping", "send the request again, to this hub or another one", retry_after=1)

    # For the door and the server

    def turn_out(self) -> None:
        self.transport.abort()

    def sweep(self, now: float) -> None:
        if now >= self._write_deadline or (now >= self._deadline and self.transport.is_closing()):
            self.transport.abort()
        elif now >= self._deadline:
            if self._in_header:
                self._refuse(Problem("timeout", "the header did not arrive in time"))
            self._close()

    def shutdown(self) -> None:
        """End what waits. Other requests may finish."""
        self.stopping = True
        super().shutdown()
        self.end(self._stopped())

    # From the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_BYTES
        self._set_deadline(self._limits.header_seconds)
        if not self.door.enter(self):
            self._refuse(Problem("full", "try again later", retry_after=10))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.door.leave(self)
        self.end(self._stopped())

    def pause_writing(self) -> None:
        """Give a slow reader as long as the minimum rate allows."""
        super().pause_writing()
        size = self.transport.get_write_buffer_size()
        seconds = self._limits.grace_seconds + size / self._limits.minimum_rate
        self._write_deadline = self.loop.time() + seconds

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_deadline = math.inf

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse(self._problem or Problem("malformed", "this is not HTTP"))
            return
        if self._in_header:  # a line that has not ended was not counted
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > self._limits.header_bytes:
                self._refuse(self._too_large())

    # From the parser

    def on_message_begin(self) -> None:
        """Begin a request, unless another one is being answered."""
        if self._is_answering:
            raise _Refused
        super().on_message_begin()
        self.scope["state"]["connection"] = self
        self._in_header, self._complete = True, False
        self._header_bytes = self._unparsed_bytes = self._unwanted_bytes = 0
        self._set_deadline(self._limits.header_seconds)

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one line of the header. Trailers behind a body are ignored."""
        if not self._in_header:
            return
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application. The body is read when the application asks for it."""
        if self.parser.should_upgrade():
            raise _Refused
        super().on_headers_complete()
        self._in_header, self._deadline = False, math.inf
        if any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Hand on a piece of a body, or count it if the request was answered already."""
        super().on_body(body)
        if self.cycle.response_complete:
            self._unwanted_bytes += len(body)
            if self._unwanted_bytes > self._limits.linger_bytes:
                self._close()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._complete = True
        if self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        """Wait for the rest of an unwanted body: after a reset, its sender might not see the answer."""
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
        """Wait for the next request, unless there were too many failures."""
        self._set_deadline(self._limits.idle_seconds)
        if self.failures >= self._limits.failures:
            self._close()

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds

    def _count(self, *pieces: bytes) -> None:
        """Count the parsed part of a header, and stop if it is too large."""
        self._header_bytes += sum(map(len, pieces))
        if self._header_bytes > self._limits.header_bytes or len(self.headers) >= self._limits.headers:
            self._problem = self._too_large()
            raise _Refused

    def _too_large(self) -> Problem:
        most, lines = self._limits.header_bytes, self._limits.headers
        return Problem("header-too-large", f"send at most {most} bytes in {lines} lines")

    def _refuse(self, problem: Problem) -> None:
        """Answer with the problem, unless another answer has begun, and close."""
        self._meters.count_refusal(problem.name)
        if self._is_answering:
            self.transport.abort()
            return
        self.transport.write(problem.raw())
        self._in_header = False
        self._close()

    def _close(self) -> None:
        """Close once everything written is sent, within ``linger_seconds``."""
        self._set_deadline(self._limits.linger_seconds)
        self.transport.close()


class Door:
    """Counts connections, and closes the oldest of strangers when full, so strangers cannot keep members out."""

    def __init__(self, most: int, most_of_member: int) -> None:
        self._most, self._most_of_member = most, most_of_member
        self._strangers: dict[Connection, None] = {}
        self._members: dict[int, dict[Connection, None]] = {}
        self._groups: dict[Connection, dict[Connection, None]] = {}  # the dict of each guest

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, guest: Connection) -> bool:
        if len(self) >= self._most:
            if not self._strangers:
                return False
            self._turn_out_oldest(self._strangers)
        self._move(guest, self._strangers)
        return True

    def admit(self, guest: Connection, client: int) -> None:
        """Note that the other end has just proved to be this member."""
        group = self._members.setdefault(client, {})
        if guest in group or guest not in self._groups:
            return
        self._move(guest, group)
        if len(group) > self._most_of_member:
            self._turn_out_oldest(group)

    def is_member(self, guest: Connection) -> bool:
        return guest in self._groups and guest not in self._strangers

    def leave(self, guest: Connection) -> None:
        self._groups.pop(guest, {}).pop(guest, None)

    def _move(self, guest: Connection, group: dict[Connection, None]) -> None:
        self.leave(guest)
        self._groups[guest] = group
        group[guest] = None

    def _turn_out_oldest(self, group: dict[Connection, None]) -> None:
        oldest = next(iter(group))
        self.leave(oldest)
        oldest.turn_out()


class Room:
    """A number of bytes that requests share, first come, first served."""

    def __init__(self, size: int) -> None:
        self._left, self._turn, self._freed = size, asyncio.Lock(), asyncio.Event()

    async def take(self, size: int) -> None:
        """Wait until this many bytes are free, and hold them."""
        async with self._turn:
            while size > self._left:
                self._freed.clear()
                await self._freed.wait()
            self._left -= size

    def give(self, size: int) -> None:
        self._left += size
        self._freed.set()


def connection_of(request: Request) -> Connection:
    """Return the connection of a request; KeyError if the app is served by anything but ``Front``."""
    return cast(Connection, request.scope["state"]["connection"])


class Front(Server):
    """Serves an application at ``ADDRESS:PORT``, within limits; ``tls`` has the files of a certificate and its key."""

    def __init__(
        self,
        app: ASGIApp,
        listen: str,
        *,
        tls: tuple[Path, Path] | None = None,
        limits: Limits | None = None,
        meters: Meters | None = None,
    ) -> None:
        check_uvicorn()
        host, _, port = listen.rpartition(":")
        certificate, key = tls or (None, None)
        self.limits, self.meters = limits or Limits(), meters or Meters()
        most = min(self.limits.connections, _open_files() - _RESERVED)
        self.door = Door(most, self.limits.connections_of_member)
        super().__init__(
            uvicorn.Config(
                app,
                host=host.strip("[]"),
                port=int(port),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=[("X-Content-Type-Options", "nosniff")],
                ssl_certfile=certificate,
                ssl_keyfile=key,
                timeout_graceful_shutdown=self.limits.shutdown_seconds,
            )
        )

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return host, port

    async def startup(self, sockets: object = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            return
        config = self.config
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: Connection(self),
                host=config.host,
                port=config.port,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=self.limits.handshake_seconds if config.ssl else None,
            )
        except OSError:
            await self.lifespan.shutdown()
            raise
        self.servers, self.started = [server], True

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            now = asyncio.get_running_loop().time()
            self.meters.connections.set(len(self.door))
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.sweep(now)
        return await super().on_tick(counter)

    async def run_until_stopped(self) -> None:
        """Serve until ``should_exit`` is set; the caller handles signals."""
        await self._serve()


async def serve(*fronts: Front) -> None:
    """Run fronts until SIGTERM or SIGINT, or until one of them ends. Then all end within seconds."""
    loop = asyncio.get_running_loop()

    def stop(*_: object) -> None:
        for front in fronts:
            front.should_exit = True

    signals = (signal.SIGTERM, signal.SIGINT)
    for one in signals:
        loop.add_signal_handler(one, stop)
    try:
        tasks = [asyncio.ensure_future(front.run_until_stopped()) for front in fronts]
        for task in tasks:
            task.add_done_callback(stop)
        await asyncio.wait(tasks)  # if one cannot start, the others shut down in order
        await asyncio.gather(*tasks)
    finally:
        for one in signals:
            loop.remove_signal_handler(one)


def _open_files() -> int:
    """Raise this process's limit on open files as far as allowed, and return it."""
    try:
        import resource
    except ImportError:  # not on Windows, where sockets are not files
        return 1 << 16
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1 << 30 if hard == resource.RLIM_INFINITY else hard
