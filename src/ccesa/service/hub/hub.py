"""``Hub``: store, engine, board and two addresses, put together."""

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
from ccesa.service.http.serving import Front, serve
from ccesa.service.hub.agenda import Agenda
from ccesa.service.hub.board import Board
from ccesa.service.hub.engine import Engine
from ccesa.service.hub.leader import Leader
from ccesa.service.hub.presence import Presence
from ccesa.service.hub.records import Records
from ccesa.service.hub.showing import Showing
from ccesa.service.logs import event
from ccesa.service.meters import Meters
from ccesa.service.store import Store, open_store
from ccesa.service.store.mark import Mark

#: Seconds between two looks at whether the engine is alive.
_LOOK = 0.5
#: Seconds between two tries to reach a store that is away when the hub starts.
_AWAY = 2.0
#: Seconds for which a hub that ends with its federation still tells sites so.
_FAREWELL = 5.0

#: Members that wait are many objects, and hardly any is garbage. With 3,000 of them, looking through all of
#: them as often as Python does by default took about a third of a hub's processor time.
_COLLECTING = (10_000, 20, 50)


class Hub:
    """Runs a federation. Several hubs on one PostgreSQL share it.

    Args:
        federation: What to run, for whom.
        coordinator: Makes the questions and is told what came out; by default one that numbers them.
        name: Of this process among the hubs of the federation; by default, that of the machine and a number.
        until_over: Whether to end when the federation is over; sites are told for a moment before.
        new_series: Whether to end a series that is running and begin another one: after the charter was
            replaced, and after the store was restored from a backup.
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
        #: Sums that were wanted, and that were not there, when the hub ended.
        self.questions = self.missing = federation.rounds
        self.name = name or f"{socket.gethostname()[:32]}-{secrets.token_hex(2)}"

    @property
    def address(self) -> str:
        """Where sites reach this hub, once it is ready."""
        return self._url(0, self.federation.tls is not None)

    @property
    def origins(self) -> tuple[str, ...]:
        """What sites have to call this hub, once it is ready: they sign it."""
        if self.federation.hub.origins:
            return self.federation.hub.origins
        known = self.federation.origins
        return (self.address,) if self.federation.hub.listen.endswith(":0") else known[:1]

    @property
    def page(self) -> str:
        """Where the operator's page is, once the hub is ready."""
        return self._url(1, False)

    def _url(self, place: int, tls: bool) -> str:
        if not self._fronts or not self._fronts[place].started:
            raise OrderError("the hub is not ready yet")
        host, port = self._fronts[place].address
        return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    def serve(self, ready: Callable[["Hub"], None] | None = None) -> None:
        """Run until SIGTERM or SIGINT, or until the federation is over if so asked for.

        Args:
            ready: Called when both addresses are listened on: ``address`` and ``page`` say which they are.

        Raises:
            EngineFailed: An error that nobody expected has ended the engine.
            NewerDatabase: A newer ccesa has taken the store over.
            ConfigError: The store is another federation's, or another hub has it.
        """
        before = gc.get_threshold()
        gc.set_threshold(*_COLLECTING)
        try:
            asyncio.run(self.run(ready))
        finally:
            gc.set_threshold(*before)

    def stop(self) -> None:
        """End the hub soon, from the thread of its event loop; what was acknowledged is safe."""
        for front in self._fronts:
            front.should_exit = True

    async def run(self, ready: Callable[["Hub"], None] | None = None) -> None:
        """Run in an event loop, as ``serve`` does.

        Args:
            ready: Called when both addresses are listened on.

        Raises:
            EngineFailed: An error that nobody expected has ended the engine.
            NewerDatabase: A newer ccesa has taken the store over.
            ConfigError: The store is another federation's, or another hub has it.
        """
        told = ""
        while True:
            try:
                return await self._begin(ready)
            except Unavailable as error:  # a database that is starting is waited for
                if str(error) != told:
                    event("waiting", logging.WARNING, reason=str(error))
                told = str(error)
            await asyncio.sleep(_AWAY)

    async def _begin(self, ready: Callable[["Hub"], None] | None) -> None:
        with ExitStack() as closing:
            store = open_store(self.federation.store, hub=True)
            closing.callback(store.close)
            store.check_federation(self.federation.name, self.federation.digest)
            board = Board(
                self.federation, open_store(self.federation.store), Presence(self.federation, store)
            )
            closing.callback(board.close)
            counter = OpeningCounter(self.federation.counter)
            closing.callback(counter.close)
            await self._run(store, board, counter, ready)

    async def _run(
        self, store: Store, board: Board, counter: OpeningCounter, ready: Callable[["Hub"], None] | None
    ) -> None:
        meters = Meters()
        engine = board.engine = self._engine(store, board, counter, meters)
        meters.follow(board.status)
        hub, limits = self.federation.hub, self._limits
        sites = http.app(board, self.federation, limits, meters)
        page = operator.app(board, meters, hosts=hub.hosts)
        self._fronts = (
            Front(sites, hub.listen, tls=self.federation.tls, limits=limits, meters=meters),
            Front(page, hub.operate),
        )
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

    @property
    def _limits(self) -> http.Limits:
        """A member that waits for something to change is heard from twice before it counts as absent."""
        wait = min(http.Limits().wait_seconds, int(self.federation.policy.absent / 2))
        return http.Limits(connections=self.federation.hub.connections, wait_seconds=wait)

    def _engine(self, store: Store, board: Board, counter: OpeningCounter, meters: Meters) -> Engine:
        federation, presence = self.federation, board.presence
        agenda = Agenda(federation, store, self._coordinator)
        agenda.start(presence.now())
        records = Records(federation, store, agenda, presence, meters)
        if self._new_series:
            records.abandon(presence.now(), Mark.counted(counter.value).place[0])
        leader = Leader(federation, store, agenda, records, presence, meters, self.name)
        showing = Showing(federation, store, agenda, presence, leader)
        board.show(showing.view(None), showing.status(None, presence.now()))
        return Engine(
            federation,
            store,
            leader=leader,
            records=records,
            presence=presence,
            showing=showing,
            publish=board.publish,
            meters=meters,
            name=self.name,
            counter=counter,
        )

    async def _watch(self, engine: Engine, board: Board, ready: Callable[["Hub"], None] | None) -> None:
        """Say when the hub is ready; end it when its engine has failed, or all is over."""
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
