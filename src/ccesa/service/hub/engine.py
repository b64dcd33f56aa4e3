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
from contextlib import suppress
from dataclasses import dataclass, replace

from ccesa.errors import CcesaError, LateMessage
from ccesa.service.desk import Receipt, Status, Taken, View
from ccesa.service.errors import Forgotten, NewerDatabase, StaleStore, Unavailable
from ccesa.service.federation import Federation
from ccesa.service.hub.leader import Leader
from ccesa.service.hub.presence import Presence, elapsed
from ccesa.service.hub.records import Records
from ccesa.service.hub.replica import Diverged, Replica
from ccesa.service.hub.showing import DEAD, Showing
from ccesa.service.meters import Meters
from ccesa.service.store import Store
from ccesa.service.store.mark import Mark, Saved
from ccesa.service.store.rows import Claim, Exchange, SeriesRow
from ccesa.wire import Data

#: Seconds between two looks at the log when nobody sends anything, and between two views.
TICK, GLANCE = 0.1, 0.25
#: No more than this part of the time goes into statuses: they name every member.
STATUS = 0.05
#: Replies that are taken together at most.
BATCH = 256
#: Seconds between two signs of life.
HEARTBEAT = 2.0
#: Seconds after which the store is asked again when it was away.
AWAY = 1.0

_RECEIPTS = {
    Claim.SAVED: Receipt(taken=Taken.SAVED),
    Claim.PENDING: Receipt(taken=Taken.AGAIN, reason="the same reply is being taken elsewhere"),
    Claim.OTHER: Receipt(taken=Taken.CONFLICT, reason="another reply of this client came first"),
    Claim.LATE: Receipt(taken=Taken.LATE, reason="the exchange has closed"),
}
_NOT_ASKED = Receipt(taken=Taken.LATE, reason="nothing is asked of this client in this exchange")
_TOO_SLOW = Receipt(taken=Taken.AGAIN, reason="this hub was too slow; send it again")


@dataclass(frozen=True, kw_only=True, eq=False)
class Handed:
    """A reply that was handed in; ``done`` is told what became of it, in the engine's thread."""

    client: int
    series: int
    exchange: int
    reply: Data
    done: Callable[[Receipt], None]


class Engine:
    """Takes replies and follows the log, in a thread of its own; leads where it holds the lease.

    Args:
        federation: What the hub runs.
        store: Its database, which no other thread uses through this object.
        leader: Decides, while this hub holds the lease.
        records: Writes down faults.
        presence: Knows who was heard from.
        showing: Makes what is published.
        publish: Takes each new view, and each new status.
        meters: Counts.
        name: Of this hub.
    """

    def __init__(
        self,
        federation: Federation,
        store: Store,
        *,
        leader: Leader,
        records: Records,
        presence: Presence,
        showing: Showing,
        publish: Callable[[View, Status], None],
        meters: Meters,
        name: str,
    ) -> None:
        self._federation, self._store, self._leader, self._records = federation, store, leader, records
        self._presence, self._showing, self._publish = presence, showing, publish
        self._meters, self._name = meters, name
        self._waiting: queue.SimpleQueue[Handed | None] = queue.SimpleQueue()
        self._replica: Replica | None = None
        self._stopping = self._ended = False
        #: The newest series as this hub has seen it, and how far the store had come.
        self._row: SeriesRow | None = None
        self._mark = Mark()
        self._beat = self._glance = self._status_made = self._status_rest = 0.0
        self._status: Status | None = None
        self._thread = threading.Thread(target=self._run, name="ccesa-engine", daemon=True)
        #: Why members cannot be served, such as a store that is away; empty where they can.
        self.trouble = ""
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
        if self._ended:
            self._refuse_all([])

    def _run(self) -> None:
        batch: list[Handed] = []
        try:
            while not self._stopping:
                batch = self._batch(TICK)
                self._turn(batch)
        except BaseException as error:  # whoever runs the hub has to know, and ends it
            self.failure = error
        finally:
            self._ended = True
            self._refuse_all(batch)

    def _refuse_all(self, batch: list[Handed]) -> None:
        """Refuse these, and whatever waits in line: nobody waits for an engine that has ended."""
        while batch or (batch := self._batch(0)):
            _refuse(batch, "this hub is stopping")
            batch = []

    def _batch(self, seconds: float) -> list[Handed]:
        """Return the replies that wait in line; wait so long for the first one."""
        batch: list[Handed] = []
        try:
            handed = self._waiting.get(timeout=seconds) if seconds else self._waiting.get_nowait()
            while len(batch) < BATCH:
                batch += [handed] if handed is not None else []
                handed = self._waiting.get_nowait()
            self._waiting.put(handed)
        except queue.Empty:
            pass
        return batch

    def _turn(self, batch: list[Handed]) -> None:
        """Take a batch of replies, and do what is due."""
        now = self._presence.now()
        try:
            self._sign_of_life(now)
            self._follow()
            told = self._take(batch)
            batch = []
            for handed, receipt in told:
                handed.done(receipt)
            while self._leader.act(self._replica, self._presence.now()):
                self._follow()
                self._glance = 0.0
            self._show(now)
            self.trouble = ""
        except Unavailable as error:
            self._replica = None  # it may hold more than was saved
            self.trouble = str(error) or "the store cannot be reached"
            self._meters.store_away()
            _refuse(batch, "the hub cannot reach its store")
            time.sleep(AWAY)
        except (Diverged, Forgotten):
            self._replica = None  # the next one takes all answers in order of ids, and starts where it can
            _refuse(batch, "this hub has to look at all replies again")
        except NewerDatabase:
            _refuse(batch, "this hub is stopping")
            raise
        except CcesaError as error:  # such as a series under another charter, or a store that has gone back
            self._replica = None
            self.trouble = str(error)
            self._leader.hold(self.trouble, now, is_stale=isinstance(error, StaleStore))
            _refuse(batch, "this hub cannot go on")
            with suppress(CcesaError):
                self._show(now)

    def _sign_of_life(self, now: float) -> None:
        if elapsed(self._beat, now) >= HEARTBEAT:
            self._store.check_version()
            self._store.alive(self._replica.hub if self._replica else self._name, now)
            self._store.drop_claims(now - DEAD)
            self._leader.breathe(now)
            self._meters.leads(self._leader.leads(now))
            self._presence.share()
            self._beat = now

    def _follow(self) -> None:
        """Catch up with the log; make a replica if there is none, or one of another series."""
        row = self._reached()
        changed = row != self._row
        if row is None or row.over:
            self._replica = None
        elif self._replica is None or self._replica.row.series != row.series:
            hub = f"{self._name}/{secrets.token_hex(4)}"  # a new one: what the last one did not save is lost
            self._store.alive(hub, self._presence.now())
            self._replica = Replica(self._federation, self._store, row, hub)
            changed = True
        else:
            changed = self._replica.follow() or changed
        if changed:  # what others have recorded since counts, for whoever opens the next exchange
            self._records.reload()
            self._row, self._glance = row, 0.0  # not before: the store may go away in between

    def _reached(self) -> SeriesRow | None:
        """Return the newest series, of a store that has not gone back."""
        self._presence.share_known()  # before the store is read, which knows all that was ever asked
        try:
            self._mark = self._store.follow(self._mark)
        except StaleStore as error:
            self._store.went_back(str(error), self._presence.now())  # for the other hubs, and the next start
            raise
        if witnesses := self._presence.ahead_of(max(self._mark.place, (self._mark.above, -1))):
            raise StaleStore(
                f"the database has gone back: {witnesses}, and the last one that it has is exchange "
                f"{self._mark.exchange} of series {self._mark.place[0]}"
            )
        return self._mark.series

    def _take(self, batch: list[Handed]) -> list[tuple[Handed, Receipt]]:
        """Claim, receive and save replies; return what became of each."""
        replica, due, told = self._replica, dict[int, Handed](), list[tuple[Handed, Receipt]]()
        opened = None if replica is None else replica.open
        for handed in batch:
            place = None if replica is None or opened is None else (replica.row.series, opened.exchange)
            if (handed.series, handed.exchange) != place:
                told.append((handed, _RECEIPTS[Claim.LATE]))
            elif replica is not None and handed.client not in replica.requests:
                told.append((handed, _NOT_ASKED))
            elif handed.client in due:  # two at a time: one of them is next
                told.append((handed, _RECEIPTS[Claim.PENDING]))
            else:
                due[handed.client] = handed
        if due and replica is not None and opened is not None:
            told += self._taken(replica, opened, due)
        return told

    def _taken(
        self, replica: Replica, opened: Exchange, due: dict[int, Handed]
    ) -> list[tuple[Handed, Receipt]]:
        """Take replies to the open exchange."""
        place = (replica.row.series, opened.exchange)
        digests = {client: hashlib.sha256(handed.reply).digest() for client, handed in due.items()}
        claims = self._store.claim(*place, replica.hub, digests)
        told = {client: _RECEIPTS[claim] for client, claim in claims.items() if claim is not Claim.OWN}
        own = [client for client, claim in claims.items() if claim is Claim.OWN]
        answers: dict[int, bytes] = {}
        for client in own:
            answer, fault = replica.receive(client, due[client].reply)
            if answer or fault is None:  # of a reply with a fault the rest counts
                answers[client] = answer
            if fault is not None:
                told[client] = self._refused(client, fault)
        if refused := [client for client in own if client not in answers]:
            self._store.release(*place, replica.hub, refused)
        saved = not answers or self._store.save(*place, replica.hub, answers, replica.total)
        if saved and answers:
            client, answer = next(iter(answers.items()))
            saved_last = Saved(series=place[0], exchange=place[1], client=client, answer=answer)
            self._mark = replace(self._mark, saved=saved_last)
        if not saved:  # closed, or taken for dead, in the meantime: what it holds does not count
            self._replica = None
        told = {client: Receipt(taken=Taken.SAVED) if saved else _TOO_SLOW for client in answers} | told
        return [(due[client], receipt) for client, receipt in told.items()]

    def _refused(self, client: int, fault: Exception) -> Receipt:
        if isinstance(fault, LateMessage):
            return Receipt(taken=Taken.LATE, reason=str(fault))
        self._records.fault(client, str(fault))
        return Receipt(taken=Taken.FAULTY, reason=str(fault))

    def _show(self, now: float) -> None:
        """Publish what there is to see, now and then; a status of many members less often."""
        if elapsed(self._glance, now) < GLANCE:
            return
        view = self._showing.view(self._replica)
        rested = elapsed(self._status_made, now) >= self._status_rest
        if self._status is None or rested or view.state != self._status.state:
            began = time.monotonic()
            self._status = self._showing.status(self._replica, now)
            self._status_made, self._status_rest = now, (time.monotonic() - began) / STATUS
        self._publish(view, self._status)
        self._glance = now


def _refuse(batch: list[Handed], why: str) -> None:
    for handed in batch:
        handed.done(Receipt(taken=Taken.AGAIN, reason=why))
