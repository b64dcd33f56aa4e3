"""The engine of a hub is one thread that does everything that touches the series or the store.

Replies wait in line while it works, and are then taken together: claimed in one transaction, given to the
series, and saved with the running sum in another. Only then is a client told that its reply has come. So what
was acknowledged is durable, and whatever a crash loses will be sent again.
"""

import hashlib
import queue
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ccesa.errors import CcesaError, LateMessage
from ccesa.service.desk import Receipt, Taken, Unavailable, View
from ccesa.service.federation import Federation
from ccesa.service.hub.leader import Leader
from ccesa.service.hub.replica import Replica
from ccesa.service.operator.meters import Meters
from ccesa.service.store import Store
from ccesa.service.store.rows import Claim
from ccesa.wire import Data

#: Seconds between two looks at the log when nobody sends anything.
TICK = 0.1
#: Replies that are taken together at most.
BATCH = 256
#: Seconds between two signs of life, and after which a hub without one is taken for dead.
HEARTBEAT, DEAD = 2.0, 15.0
#: Seconds after which the store is asked again when it was away.
AWAY = 1.0

_RECEIPTS = {
    Claim.SAVED: Receipt(taken=Taken.SAVED),
    Claim.PENDING: Receipt(taken=Taken.AGAIN, reason="the same reply is being taken elsewhere"),
    Claim.OTHER: Receipt(taken=Taken.CONFLICT, reason="another reply of this client came first"),
    Claim.LATE: Receipt(taken=Taken.LATE, reason="the exchange has closed"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Handed:
    """A reply that was handed in; ``done`` is told what became of it, in the engine's thread."""

    client: int
    series: int
    exchange: int
    reply: Data
    done: Callable[[Receipt], None]


class Engine:
    """Takes replies and follows the log, in a thread of its own; leads where it holds the lease."""

    def __init__(
        self,
        federation: Federation,
        store: Store,
        leader: Leader,
        publish: Callable[[View], None],
        meters: Meters,
        *,
        name: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._federation, self._store, self._leader, self._publish = federation, store, leader, publish
        self._meters, self._name, self._clock = meters, name, clock
        self._waiting: queue.SimpleQueue[Handed | None] = queue.SimpleQueue()
        self._replica: Replica | None = None
        self._shown: object = None
        self._beat = 0.0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="ccesa-engine")
        #: What ended the thread, if anything did that should not have.
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after what it is doing."""
        self._stopping = True
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread is at work."""
        return self._thread.is_alive()

    def hand_in(self, handed: Handed) -> None:
        """Put a reply in line."""
        self._waiting.put(handed)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn(self._batch())
        except BaseException as error:  # whoever runs the hub has to know, and ends it
            self.failure = error
        finally:
            self._refuse(self._batch(wait=False), "this hub is stopping")

    def _batch(self, wait: bool = True) -> list[Handed]:
        """Return the replies that wait in line; wait a moment for the first one."""
        batch: list[Handed] = []
        try:
            first = self._waiting.get(wait, TICK if wait else None)
            while len(batch) < BATCH:
                if first is not None:
                    batch.append(first)
                first = self._waiting.get_nowait()
        except queue.Empty:
            pass
        return batch

    def _turn(self, batch: list[Handed]) -> None:
        """Take a batch of replies, and do what is due."""
        try:
            now = self._clock()
            self._sign_of_life(now)
            self._follow()
            self._take(batch)
            batch = []
            while self._leader.act(self._replica, now):
                self._follow()
            self._show()
        except Unavailable as error:
            self._replica = None  # it may hold more than was saved
            self._refuse(batch, "the hub cannot reach its store")
            self._meters.store_away()
            self._leader.stuck(str(error))
            self._show()
            time.sleep(AWAY)

    def _sign_of_life(self, now: float) -> None:
        if now - self._beat >= HEARTBEAT:
            self._store.alive(self._replica.hub if self._replica else self._name, now)
            self._store.drop_claims(now - DEAD)
            self._leader.breathe(now)
            self._beat = now

    def _follow(self) -> None:
        """Be at the place of the log; where there is no replica, or of another series, make one."""
        row = self._store.series()
        if row is None or row.over:
            self._replica = None
        elif self._replica is None or self._replica.row.series != row.series:
            hub = f"{self._name}-{secrets.token_hex(4)}"  # a new one: what the last one did not save is lost
            self._replica = Replica(self._federation, self._store, row, hub)
            self._store.alive(hub, self._clock())
        else:
            self._replica.follow()

    def _take(self, batch: list[Handed]) -> None:
        """Claim, receive, save, and then tell."""
        replica, due, told = self._replica, dict[int, Handed](), list[tuple[Handed, Receipt]]()
        for handed in batch:
            if replica is None or replica.open is None or handed.series != replica.row.series:
                told.append((handed, _RECEIPTS[Claim.LATE]))
            elif handed.exchange != replica.open.exchange:
                told.append((handed, _RECEIPTS[Claim.LATE]))
            elif handed.client in due:  # one of them is next
                told.append((handed, _RECEIPTS[Claim.PENDING]))
            else:
                due[handed.client] = handed
        if due and replica is not None and replica.open is not None:
            told += self._taken(replica, due)
        for handed, receipt in told:
            self._meters.refused(receipt.taken.value) if receipt.taken is not Taken.SAVED else None
            handed.done(receipt)

    def _taken(self, replica: Replica, due: dict[int, Handed]) -> list[tuple[Handed, Receipt]]:
        """Return what became of replies to the open exchange."""
        if replica.open is None:
            return []
        place = (replica.row.series, replica.open.exchange)
        digests = {client: hashlib.sha256(handed.reply).digest() for client, handed in due.items()}
        claims = self._store.claim(*place, replica.hub, digests)
        told = [(due[client], _RECEIPTS[claim]) for client, claim in claims.items() if claim is not Claim.OWN]
        answers: dict[int, bytes] = {}
        faulty: dict[int, str] = {}
        for client in (client for client, claim in claims.items() if claim is Claim.OWN):
            answer, fault = replica.receive(client, due[client].reply)
            if fault is not None and not isinstance(fault, LateMessage):
                faulty[client] = str(fault)
            if answer or fault is None:  # of a reply with a fault the rest counts
                answers[client] = answer
            if fault is not None:
                told.append((due[client], Receipt(taken=Taken.FAULTY, reason=str(fault))))
        refused = [client for client, claim in claims.items() if claim is Claim.OWN and client not in answers]
        if refused:
            self._store.release(*place, replica.hub, refused)
        if faulty:
            self._leader.fault(faulty)
        if answers and not self._store.save(*place, replica.hub, answers, replica.total):
            self._replica = None  # closed, or taken for dead, in the meantime: what it holds does not count
            again = Receipt(taken=Taken.AGAIN, reason="this hub was too slow; send it again")
            return told + [(due[client], again) for client in answers if client not in faulty]
        saved = Receipt(taken=Taken.SAVED)
        return told + [(due[client], saved) for client in answers if client not in faulty]

    def _refuse(self, batch: list[Handed], why: str) -> None:
        for handed in batch:
            handed.done(Receipt(taken=Taken.AGAIN, reason=why))

    def _show(self) -> None:
        """Publish what is open, if that has changed."""
        view, mark = self._leader.view(self._replica)
        if mark != self._shown:
            self._publish(view)
            self._shown = mark
