"""Serving: uvicorn, with our connections, a door, and one sweep per second over all deadlines."""

import asyncio
import signal
from pathlib import Path

from starlette.types import ASGIApp
from uvicorn import Config, Server

from ccesa.service.http.connection import Connection
from ccesa.service.http.limits import Door, Limits
from ccesa.service.meters import Meters

#: Files and sockets that a hub needs beside connections.
_RESERVED = 256
#: uvicorn ticks ten times per second.
_TICKS = 10


class Front(Server):
    """Serves one application on one address, within limits.

    Args:
        app: The application.
        listen: ``ADDRESS:PORT``; port 0 takes a free one.
        tls: Files of a certificate and its key; None where a proxy does TLS.
        limits: On connections and requests.
        meters: Count connections, and requests that never reach the application.
    """

    def __init__(
        self,
        app: ASGIApp,
        listen: str,
        *,
        tls: tuple[Path, Path] | None = None,
        limits: Limits | None = None,
        meters: Meters | None = None,
    ) -> None:
        host, _, port = listen.rpartition(":")
        certificate, key = tls or (None, None)
        self.limits, self.meters = limits or Limits(), meters or Meters()
        most = min(self.limits.connections, _open_files() - _RESERVED)
        self.door = Door(most, self.limits.connections_of_member)
        super().__init__(
            Config(
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
        """Where it listens, once it has started."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return host, port

    async def startup(self, sockets: object = None) -> None:
        """Start the application, and listen."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            return
        try:
            self.servers = [await self._listening()]
        except OSError:
            await self.lifespan.shutdown()
            raise
        self.started = True

    async def _listening(self) -> asyncio.Server:
        config = self.config
        return await asyncio.get_running_loop().create_server(
            self._connect,
            host=config.host,
            port=config.port,
            ssl=config.ssl,
            backlog=config.backlog,
            ssl_handshake_timeout=self.limits.handshake_seconds if config.ssl else None,
        )

    def _connect(self) -> Connection:
        state, shared = self.server_state, self.lifespan.state
        return Connection(self.config, state, shared, self.door, self.limits, self.meters)

    async def on_tick(self, counter: int) -> bool:
        """Close connections whose time is up, once per second."""
        if counter % _TICKS == 0:
            now = asyncio.get_running_loop().time()
            self.meters.connections.set(len(self.door))
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.sweep(now)
        return await super().on_tick(counter)

    async def run_until_stopped(self) -> None:
        """Serve until ``should_exit`` is set; whoever calls this sees to signals."""
        await self._serve()


async def serve(*fronts: Front) -> None:
    """Run fronts until SIGTERM or SIGINT, or until one of them ends; then all end within seconds.

    Args:
        fronts: What to run, in this event loop.
    """
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
        await asyncio.wait(tasks)  # where one cannot start, the others end in order
        await asyncio.gather(*tasks)
    finally:
        for one in signals:
            loop.remove_signal_handler(one)


def _open_files() -> int:
    """Return how many files this process may have open, after asking for as many as it may."""
    try:
        import resource
    except ImportError:  # not on this system: its sockets are not files
        return 1 << 16
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1 << 30 if hard == resource.RLIM_INFINITY else hard
