"""A desk in memory with a real series behind it, and a front that serves it on a loopback port."""

import asyncio
import hashlib
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from ccesa.agreement.identity import in_base64
from ccesa.errors import FaultyClient, LateMessage
from ccesa.protocol.series import Ended
from ccesa.service.desk import Receipt, Taken, View
from ccesa.service.errors import Unavailable
from ccesa.service.federation import Federation, HubTable
from ccesa.service.http import Front, Limits, app
from ccesa.service.meters import Meters
from ccesa.service.tokens import signed_text
from rounds import charter_of, identity
from series_rounds import SeriesPlay, task_of

#: What clients fetch as the task of a round.
TASK = bytes(range(256)) * 40
SESSION_SECONDS = 3600.0


class SeriesDesk:
    """One series: its next exchange opens as soon as everyone has answered."""

    def __init__(self, play: SeriesPlay, most_bytes: int = 1 << 22) -> None:
        self.play, self.secret = play, os.urandom(32)
        self.tokens = {f"token-{client}": client for client in range(play.config.clients)}
        self.nonces: set[bytes] = set()
        self.ended: list[Ended] = []
        self.answered: dict[int, bytes] = {}
        self.heard: list[int] = []
        self.aside: set[int] = set()
        #: Series and exchange that clients have said they know.
        self.known: list[tuple[int, int]] = []
        self.away = False
        #: Given, it is what every reply gets; a function of client and reply.
        self.taking = None
        self._most_bytes = most_bytes
        self._change = asyncio.Event()
        self.view = View(
            state="running",
            series=1,
            config=play.config.encode(),
            exchange=-1,
            latest=-1,
            requests={},
            task=None,
            closes=0.0,
            next_start=0.0,
            question=-1,
            most_bytes=0,
        )
        self.open()

    def publish(self, **changes) -> None:
        self.view = replace(self.view, **changes)
        self._change.set()
        self._change = asyncio.Event()

    def open(self) -> None:
        working = self.play.series.masking
        self.answered = {}
        self.publish(
            exchange=self.view.latest + 1,
            latest=self.view.latest + 1,
            requests=self.play.open(),
            task=None if working is None else task_of(working),
            closes=time.time() + 60,
            most_bytes=self._most_bytes,
        )

    def advance(self) -> None:
        """Close the exchange and open the next one, if there is one."""
        self.ended += self.play.series.close()
        sums = [one.number for one in self.ended if one.aggregate is not None]
        self.publish(question=max(sums, default=-1))
        if self.play.series.finished:
            self.publish(state="over", exchange=-1, requests={}, most_bytes=0)
        else:
            self.open()

    def open_next(self) -> None:
        """Go on without those who have not answered."""
        for client in sorted(self.play.series.waiting):
            self.play.series.receive(client, self.play.clients[client].receive(self.view.requests[client]))
        self.advance()

    async def next_view(self, view: View, seconds: float) -> View:
        if view is self.view:
            try:
                async with asyncio.timeout(seconds):
                    await self._change.wait()
            except TimeoutError:
                pass
        return self.view

    async def take(self, client, series, exchange, reply):
        self._check_store()
        if self.taking is not None:
            return await self.taking(client, reply)
        if (series, exchange) != (self.view.series, self.view.exchange):
            return Receipt(taken=Taken.LATE)
        digest = hashlib.sha256(reply).digest()
        if client in self.answered:
            same = self.answered[client] == digest
            return Receipt(taken=Taken.SAVED if same else Taken.CONFLICT)
        try:
            self.play.series.receive(client, reply)
        except LateMessage as error:
            return Receipt(taken=Taken.LATE, reason=str(error))
        except FaultyClient as error:
            return Receipt(taken=Taken.FAULTY, reason=str(error))
        self.answered[client] = digest
        if not self.play.series.waiting:
            self.advance()
        return Receipt(taken=Taken.SAVED)

    def hear(self, client, series=0, exchange=-1):
        self.heard.append(client)
        self.known.append((series, exchange))

    def is_set_aside(self, client):
        return client in self.aside

    async def task(self, digest):
        self._check_store()
        known = {task_of(number) for number in range(10)}
        return TASK if digest in known else None

    async def result(self, question):
        self._check_store()
        sums = {one.number: one.aggregate for one in self.ended if one.aggregate is not None}
        if question not in sums:
            return None
        return {"question": question, "sum": sums[question].vector.tolist()}

    async def member_of(self, token):
        self._check_store()
        return self.tokens.get(token)

    async def is_operator(self, token):
        return False

    async def new_session(self, client, nonce):
        self._check_store()
        if nonce in self.nonces:
            return None
        self.nonces.add(nonce)
        token = os.urandom(16).hex()
        self.tokens[token] = client
        return token, SESSION_SECONDS

    def status(self):
        raise NotImplementedError

    async def act(self, action, client, reason):
        raise NotImplementedError

    def _check_store(self) -> None:
        if self.away:
            raise Unavailable


class Served:
    """A front in a thread of its own, with the desk behind it and everything that a test asks of them."""

    def __init__(self, play: SeriesPlay, folder: Path, limits: Limits, **options) -> None:
        self.play, self.limits, self._folder, self._options = play, limits, folder, options
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        chartered = self.play.guard == "active"
        hub = {"listen": "127.0.0.1:0", "spool": str(self._folder / "spool"), **self._options}
        most_bytes = hub.pop("most_bytes", 1 << 22)
        self.federation = Federation(
            name="a test",
            rounds=4,
            charter=charter_of(self.play.config) if chartered else None,
            config=None if chartered else self.play.config,
            form={"type": "words", "words": self.play.config.length, "bits": self.play.config.bits},
            hub=HubTable(**{"origins": ("http://hub.test",), **hub}),
        )
        self.desk = SeriesDesk(self.play, most_bytes)
        self.meters = Meters()
        self.app = app(self.desk, self.federation, self.limits, self.meters)
        self.front = Front(
            self.app, self.federation.hub.listen, tls=self.federation.tls, limits=self.limits, meters=self.meters
        )
        running = asyncio.ensure_future(self.front.run_until_stopped())
        while not self.front.started and not running.done():
            await asyncio.sleep(0.005)
        self._started.set()
        await running

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(10)
        assert self.front.started
        self.address = self.front.address

    def stop(self) -> float:
        """Return how many seconds it took."""
        began = time.monotonic()
        self.front.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()
        return time.monotonic() - began

    def do(self, function, *arguments):
        """Call a function on the event loop, and wait for what it returns."""

        async def call():
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(10)

    @property
    def url(self) -> str:
        scheme = "https" if self.federation.tls else "http"
        return "{}://{}:{}".format(scheme, *self.address)

    @contextmanager
    def client(self, member: int | None = 0, **options):
        headers = {} if member is None else self.own(member)
        options.setdefault("verify", False)  # no list of authorities is read for each client
        with httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30, **options) as made:
            yield made

    @staticmethod
    def own(client: int) -> dict[str, str]:
        """The header by which a client is known."""
        return {"Authorization": f"Bearer token-{client}"}

    def count(self, name: str, **labels: str) -> float:
        """What the hub has counted."""
        return self.meters.registry.get_sample_value(f"ccesa_{name}", labels) or 0

    def reply(self, client: int) -> bytes:
        """An honest reply to the open exchange."""
        return self.play.clients[client].receive(self.do(lambda: self.desk.view.requests[client]))

    def path(self, exchange: int | None = None, series: int = 1) -> str:
        """Where the reply to the open exchange goes."""
        number = self.desk.view.exchange if exchange is None else exchange
        return f"/v1/series/{series}/exchanges/{number}/reply"


@contextmanager
def served(folder: Path, guard: str = "curious", clients: int = 4, limits: Limits | None = None, **options):
    """Run a front over a series until the test is done with it."""
    rounds = options.pop("rounds", 3)
    length = options.pop("length", 5)
    play = SeriesPlay(guard, clients, rounds=rounds, length=length)
    made = Served(play, folder, limits or Limits(), **options)
    made.start()
    try:
        yield made
    finally:
        if made._thread.is_alive():
            made.stop()


def answer_challenge(hub: Served, challenge: bytes, client: int, origin: str = "http://hub.test") -> dict:
    """What a member sends for a session, signed with its identity."""
    own = identity(client)
    signature = own.sign(signed_text(hub.federation.agreement.digest, origin, challenge))
    return {
        "key": in_base64(own.public),
        "challenge": in_base64(challenge),
        "origin": origin,
        "signature": in_base64(signature),
    }
