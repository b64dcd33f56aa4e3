"""``Hub`` puts store, engine, board and two addresses together."""

import asyncio
import gc
import logging
import secrets
import socket
from collections.abc import Callable
from contextlib import ExitStack

from ccesa.errors import OrderError
from ccesa.logfile import OpeningCounter
from ccesa.service import http, operator
from ccesa.service.coordinator import Coordinator, Questions
from ccesa.service.errors import EngineFailed, NewerDatabase, Unavailable
from ccesa.service.federation import Federation
from ccesa.service.http import Front, Limits, serve
from ccesa.service.hub.agenda import Presence
from ccesa.service.hub.board import Board
from ccesa.service.hub.engine import Engine
from ccesa.service.logs import event
from ccesa.service.meters import Meters
from ccesa.service.store import open_store

#: Seconds between two looks at the engine, and between two attempts to reach the store at the start.
_LOOK, _AWAY = 0.5, 2.0
_FAREWELL = 5.0  # seconds for which a hub answers sites after the end of its federation
#: Thresholds of garbage collection. Waiting members are many objects and hardly any garbage: with 3,000 of
#: them, Python's default thresholds took about a third of a hub's processor time.
_COLLECTING = (10_000, 20, 50)


class Hub:
    """Runs a federation. Several hubs on one PostgreSQL share it.

    Args:
        federation: The federation to run.
        coordinator: Makes the questions and gets the results; by default ``Questions``.
        name: Of this process among the hubs of the federation; by default, the machine's name and a number.
        until_over: Whether to end when the federation is over, a moment after sites can learn it.
        new_series: Whether to end a running series and begin a new one: after the charter was replaced, or
            the store was restored from a backup.
    """

    def __init__(
        self,
        federation: Federation,
        coordinator: Coordinator | None = None,
        *,
        name: str | None = None,
        until_over: bool = False,
        new_series: bool = False,
    ) -> None:
        self.federation, self._until_over, self._new_series = federation, until_over, new_series
        self._coordinator = coordinator or Questions(federation.question)
        self._fronts: tuple[Front, ...] = ()
        #: The numbers of sums that were wanted, and that were missing, when the hub ended.
        self.questions = self.missing = federation.rounds
        self.name = name or f"{socket.gethostname()[:32]}-{secrets.token_hex(2)}"

    @property
    def address(self) -> str:
        """The URL for sites, once the hub is ready."""
        return self._url(0, self.federation.tls is not None)

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins that sites sign for this hub, once it is ready."""
        if self.federation.hub.origins:
            return self.federation.hub.origins
        known = self.federation.origins
        return (self.address,) if self.federation.hub.listen.endswith(":0") else known[:1]

    @property
    def page(self) -> str:
        """The URL of the operator's page, once the hub is ready."""
        return self._url(1, False)

    def _url(self, place: int, tls: bool) -> str:
        if not self._fronts or not self._fronts[place].started:
            raise OrderError("the hub is not ready yet")
        host, port = self._fronts[place].address
        return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    def serve(self, ready: Callable[["Hub"], None] | None = None) -> None:
        """Run until SIGTERM or SIGINT, or with ``until_over`` until the federation is over.

        Args:
            ready: Called when the hub listens on ``address`` and ``page``.

        Raises:
            EngineFailed: An unexpected error has ended the engine.
            NewerDatabase: A newer ccesa has taken the store over.
            ConfigError: The store is another federation's, or another hub uses it.
        """
        before = gc.get_threshold()
        gc.set_threshold(*_COLLECTING)
        try:
            asyncio.run(self.run(ready))
        finally:
            gc.set_threshold(*before)

    def stop(self) -> None:
        """End the hub soon. Call this in the thread of its event loop."""
        for front in self._fronts:
            front.should_exit = True

    async def run(self, ready: Callable[["Hub"], None] | None = None) -> None:
        """Run in an event loop, as ``serve`` does; arguments and errors are the same.

        Args:
            ready: Called when the hub listens.
        """
        logged = ""
        while True:
            try:
                return await self._begin(ready)
            except Unavailable as error:  # such as a database that is starting
                if str(error) != logged:
                    event("waiting", logging.WARNING, reason=str(error))
                logged = str(error)
            await asyncio.sleep(_AWAY)

    async def _begin(self, ready: Callable[["Hub"], None] | None) -> None:
        with ExitStack() as closing:
            store = open_store(self.federation.store, hub=True)
            closing.callback(store.close)
            store.check_federation(self.federation.name, self.federation.digest)
            board = Board(self.federation, open_store(self.federation.store), Presence(self.federation, store))
            closing.callback(board.close)
            counter = OpeningCounter(self.federation.counter)
            closing.callback(counter.close)
            meters = Meters()
            engine = board.engine = Engine(
                self.federation,
                store,
                self._coordinator,
                presence=board.presence,
                publish=board.publish,
                meters=meters,
                name=self.name,
                counter=counter,
            )
            if self._new_series:
                engine.abandon_series()
            board.show(*engine.first_look())
            self._fronts = self._open_fronts(board, meters)
            await self._run(engine, board, ready)

    def _open_fronts(self, board: Board, meters: Meters) -> tuple[Front, Front]:
        """Return the servers for sites and for the operator."""
        hub, limits = self.federation.hub, self._limits
        sites = http.app(board, self.federation, limits, meters)
        page = operator.app(board, meters, hosts=hub.hosts)
        return Front(sites, hub.listen, tls=self.federation.tls, limits=limits, meters=meters), Front(page, hub.operate)

    @property
    def _limits(self) -> Limits:
        """Limits under which a waiting member is heard from twice before it counts as absent."""
        wait = min(Limits().wait_seconds, int(self.federation.policy.absent / 2))
        return Limits(connections=self.federation.hub.connections, wait_seconds=wait)

    async def _run(self, engine: Engine, board: Board, ready: Callable[["Hub"], None] | None) -> None:
        engine.start()
        try:
            watching = asyncio.ensure_future(self._watch(engine, board, ready))
            await serve(*self._fronts)
            watching.cancel()
            self.questions = board.status().questions
            self.missing = self.questions - board.status().answered
        finally:
            await asyncio.to_thread(engine.stop)
        if isinstance(engine.failure, NewerDatabase):
            raise engine.failure
        if engine.failure is not None:
            raise EngineFailed(repr(engine.failure)) from engine.failure

    async def _watch(self, engine: Engine, board: Board, ready: Callable[["Hub"], None] | None) -> None:
        """Call ``ready``; end the hub when its engine has failed or the federation is over."""
        while not all(front.started for front in self._fronts):
            await asyncio.sleep(_LOOK / 10)
        if ready is not None:
            ready(self)
        over = 0
        while engine.alive and not (self._until_over and over * _LOOK > _FAREWELL):
            await asyncio.sleep(_LOOK)
            over = over + 1 if board.view.is_over else 0
            if over == 1:
                event("over", answered=board.status().answered, questions=board.status().questions)
        self.stop()
