"""The board is the desk of a real hub: it shows the views that the engine publishes, and reads the store.

It belongs to one event loop. Two other threads use its own store: nothing here waits for the engine, which may be
unmasking a sum, and no token waits for a large task or result.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ccesa.errors import ConfigError, OrderError
from ccesa.service.desk import ACTIONS, TO_MEMBERS, Receipt, Status, Taken, View
from ccesa.service.federation import Federation
from ccesa.service.hub.agenda import Presence, describe_result
from ccesa.service.hub.engine import Engine, Handed
from ccesa.service.store import Store
from ccesa.service.tokens import hash_token, new_token
from ccesa.wire import Data

#: Seconds that a session lives and that a token is cached, and the maximum number of tokens in the cache.
SESSION, REMEMBERED, MOST_TOKENS = 3600.0, 10.0, 100_000

T = TypeVar("T")


class Board:
    """The desk of a hub; see ``Desk`` for its methods. Make it on the event loop that it belongs to."""

    def __init__(self, federation: Federation, store: Store, presence: Presence) -> None:
        self._federation, self._store, self.presence = federation, store, presence
        self._loop = asyncio.get_running_loop()
        self._reader, self._fetcher = ThreadPoolExecutor(1, "ccesa-board"), ThreadPoolExecutor(1, "ccesa-fetch")
        #: Tasks on their way to members, each in memory once, and the latest of them.
        self._tasks: WeakValueDictionary[bytes, memoryview] = WeakValueDictionary()
        self._latest: memoryview | None = None
        #: The latest result that was asked for, without the head of the audit log.
        self._published: dict[str, Any] | None = None
        self._change = self._loop.create_future()
        self._view: View | None = None
        self._status: Status | None = None
        #: Clients of tokens by hash, and the times until which the cache holds them.
        self._known: dict[bytes, tuple[int | None, float]] = {}
        #: Hashes to look up, and the task that will do so, before it has begun.
        self._asked: set[bytes] = set()
        self._look: asyncio.Task[dict[bytes, int | None]] | None = None
        self._looking = asyncio.Lock()
        self.secret = store.secret()
        self._charter = federation.agreement.digest  # the digest of the charter; empty without one
        self.engine: Engine | None = None

    # For the engine, from its thread

    def publish(self, view: View, status: Status) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.show, view, status)

    def show(self, view: View, status: Status) -> None:
        """Show a view and a status, on the loop; call this once before anyone asks."""
        self._status = status
        if self._view is None or _mark(view) != _mark(self._view):
            self._view, changed = view, self._change
            self._change = self._loop.create_future()
            changed.set_result(None)

    # For HTTP

    @property
    def view(self) -> View:
        return _published(self._view)

    async def next_view(self, view: View, seconds: float) -> View:
        if view is self._view and seconds > 0:
            await asyncio.wait([self._change], timeout=seconds)
        return self.view

    async def take(self, client: int, series: int, exchange: int, reply: Data) -> Receipt:
        if self.engine is None or not self.engine.alive:
            return Receipt(taken=Taken.AGAIN, reason="this hub is not ready")
        receipt: asyncio.Future[Receipt] = self._loop.create_future()

        def done(result: Receipt) -> None:
            self._loop.call_soon_threadsafe(_settle, receipt, result)

        self.engine.hand_in(Handed(client=client, series=series, exchange=exchange, reply=reply, done=done))
        return await _uninterrupted(receipt)

    def hear(self, client: int, series: int = 0, exchange: int = -1) -> None:
        self.presence.hear(client)
        if self._view is not None and (series, exchange) > (self._view.series, self._view.latest):
            self.presence.note_known(client, series, exchange)

    def is_set_aside(self, client: int) -> bool:
        return bool(self.presence.row(client).set_aside)

    async def task(self, digest: bytes) -> memoryview | None:
        return await self._loop.run_in_executor(self._fetcher, self._task, digest)

    def _task(self, digest: bytes) -> memoryview | None:
        task = self._tasks.get(digest)
        if task is None:
            payload = self._store.task(digest)
            if payload is None:
                return None
            task = self._tasks[digest] = memoryview(payload)
        self._latest = task
        return task

    async def result(self, question: int) -> dict[str, Any] | None:
        if not self._federation.hub.publish:
            return None
        return await self._loop.run_in_executor(self._fetcher, self._result, question)

    def _result(self, question: int) -> dict[str, Any] | None:
        if self._published is None or self._published["question"] != question:
            self._published = describe_result(self._federation, self._store, question)
        if self._published is None:
            return None
        head = self._store.head()
        return self._published | {"head": "" if head is None else head.hash.hex()}

    async def member_of(self, token: str) -> int | None:
        digest, now = hash_token(token, self._charter), time.monotonic()
        known = self._known.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        self._asked.add(digest)
        if self._look is None:
            self._look = self._loop.create_task(self._look_up())
        client = (await asyncio.shield(self._look))[digest]
        if len(self._known) >= MOST_TOKENS:
            self._known.clear()
        self._known[digest] = (client, now + REMEMBERED)
        return client

    async def _look_up(self) -> dict[bytes, int | None]:
        """Look up all waiting tokens at once: switching threads costs more than the lookup."""
        async with self._looking:
            asked, self._asked, self._look = self._asked, set(), None
            return await self._read(lambda: {digest: self._member_of(digest) for digest in asked})

    def _member_of(self, digest: bytes) -> int | None:
        if self._federation.signs_in:
            return self._store.session(digest, time.time())
        return self._store.member_of(digest)

    async def is_operator(self, token: str) -> bool:
        return await self._read(lambda: self._store.is_operator(hash_token(token)))

    async def new_session(self, client: int, nonce: bytes) -> tuple[str, float] | None:
        token = new_token()
        digest, expires = hash_token(token, self._charter), time.time() + SESSION
        made = await self._read(lambda: self._store.add_session(digest, nonce, client, expires))
        return (token, SESSION) if made else None

    # For the operator

    def status(self) -> Status:
        return _published(self._status)

    def alive(self) -> bool:
        return self.engine is not None and self.engine.alive

    def trouble(self) -> str:
        return "the hub is starting" if self.engine is None else self.engine.trouble

    async def act(self, action: str, client: int | None, reason: str) -> None:
        await self._read(lambda: self._act(action, client, reason))

    def _act(self, action: str, client: int | None, reason: str) -> None:
        known = ACTIONS if client is None else TO_MEMBERS
        if action not in known:
            raise ConfigError(f"the actions {'' if client is None else 'on a member '}are {', '.join(known)}")
        if client is not None and not 0 <= client < self._federation.clients:
            raise ConfigError(f"member {client} does not exist")
        doing: dict[str, Callable[[], None]] = {
            "pause": lambda: self._store.pause(reason),
            "resume": self._store.resume,
            "finish": self._store.finish,
            "set-aside": lambda: self._store.set_aside(client or 0, reason),
            "let-in": lambda: self._store.let_in(client or 0),
        }
        # Log first: a crash in between leaves an entry without its action, never an action without its entry.
        body = {"action": action, "client": client, "reason": reason[:200]}
        self._store.audit("operator", body, time.time())
        doing[action]()

    def close(self) -> None:
        self._reader.shutdown()
        self._fetcher.shutdown()
        self._store.close()

    async def _read(self, look: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._reader, look)


def _published(thing: T | None) -> T:
    if thing is None:
        raise OrderError("the hub has published nothing yet")
    return thing


def _mark(view: View) -> tuple[object, ...]:
    """Return the fields of a view whose change wakes those that wait."""
    return view.state, view.series, view.exchange, view.question, view.serves, tuple(view.beside.items())


async def _uninterrupted(receipt: "asyncio.Future[Receipt]") -> Receipt:
    """Wait for a receipt even if the request is cancelled, as the engine reads its buffer until then."""
    cancelled = False
    while not receipt.done():
        try:
            await asyncio.wait([receipt])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return receipt.result()


def _settle(receipt: "asyncio.Future[Receipt]", result: Receipt) -> None:
    if not receipt.done():
        receipt.set_result(result)
