"""The engine of a hub is one thread that does everything that touches the series or the store.

Replies queue while it works. Then it claims them in one transaction, gives them to the series, saves them with the
running sum in another, and only then acknowledges them. So every acknowledged reply is durable.
"""

import hashlib
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from ccesa.errors import CcesaError, LateMessage, StaleLog
from ccesa.logfile import OpeningCounter
from ccesa.service.coordinator import Coordinator
from ccesa.service.desk import MemberState, MemberStatus, Receipt, RoundStatus, State, Status, StepStatus, Taken, View
from ccesa.service.errors import Forgotten, NewerDatabase, Unavailable
from ccesa.service.federation import Federation
from ccesa.service.hub.agenda import Agenda, Presence, at, elapsed, measure_privacy, seat_name
from ccesa.service.hub.leader import Leader
from ccesa.service.hub.replica import Diverged, Replica
from ccesa.service.logs import event
from ccesa.service.meters import Meters
from ccesa.service.store import Store
from ccesa.service.store.mark import Mark, count_of
from ccesa.service.store.rows import Claim, ExchangeRow, RoundRow, SeriesRow
from ccesa.wire import Data

#: Seconds between two looks at the log without replies, between two views, and between two signs of life.
TICK, GLANCE, HEARTBEAT = 0.1, 0.25, 2.0
AWAY = 1.0  # seconds until the next attempt after the store was away
STATUS = 0.05  # the maximum share of the time for statuses, which name every member
BATCH = 256  # the maximum number of replies taken together

MOST_ROUNDS = 500  # a status has at most this many rounds, the latest ones
DEAD = 15.0  # seconds after which a hub without a sign of life is not shown
_NAMED = 5  # an advice names at most this many members
_SITES = "The log of each site says why it left."
_GONE_BACK = (
    "Put the newest database back. If it is lost, stop all hubs, and start one with "
    "ccesa serve --new-series. If the members are wrong, set them aside."
)
#: Fields that the status of a round shares with its row.
_SAME = tuple({*RoundStatus.__struct_fields__} - {"survivors", "pairs"})
#: Advice for the operator by state.
_ADVICE: dict[State, str] = {
    "paused": "Resume when you are ready.",
    "running": "Start the helper, or ask its people. The round goes on when it answers.",
    "stuck": "Fix the problem above. The hub tries again every few seconds.",
    "over": "To ask more questions, raise rounds in the federation's file.",
}

_RECEIPTS = {
    Claim.SAVED: Receipt(taken=Taken.SAVED),
    Claim.PENDING: Receipt(taken=Taken.AGAIN, reason="another hub is taking the same reply"),
    Claim.OTHER: Receipt(taken=Taken.CONFLICT, reason="another reply of this client came first"),
    Claim.LATE: Receipt(taken=Taken.LATE, reason="the exchange has closed"),
}
_STANDS_BY = "another hub serves: rounds with helpers have one hub at a time"
_NOT_ASKED = Receipt(taken=Taken.LATE, reason="this exchange asks this client for nothing")
_TOO_SLOW = Receipt(taken=Taken.AGAIN, reason="this hub was too slow; send the reply again")


@dataclass(frozen=True, kw_only=True, eq=False)
class Handed:
    """A reply that was handed in. The engine's thread calls ``done`` with its receipt."""

    client: int
    series: int
    exchange: int
    reply: Data
    done: Callable[[Receipt], None]


class Engine:
    """Takes replies, follows the log and leads, in a thread of its own, which alone uses ``store``.

    It calls ``publish`` with each new view and status. ``counter`` counts the exchanges that this hub has
    shown; without one, it forgets them when it ends.
    """

    def __init__(
        self,
        federation: Federation,
        store: Store,
        coordinator: Coordinator,
        *,
        presence: Presence,
        publish: Callable[[View, Status], None],
        meters: Meters,
        name: str,
        counter: OpeningCounter | None = None,
    ) -> None:
        self._federation, self._store, self._presence = federation, store, presence
        self._publish, self._meters, self._name, self._counter = publish, meters, name, counter
        self._agenda = agenda = Agenda(federation, store, coordinator)
        agenda.start(presence.now())
        self._leader = Leader(federation, store, agenda, presence, meters, name)
        self._showing = Showing(federation, store, agenda, presence, self._leader)
        self._waiting: queue.SimpleQueue[Handed | None] = queue.SimpleQueue()
        self._replica: Replica | None = None
        self._stopping = self._ended = False
        #: Whether this hub takes replies: any hub does, but with helpers only the one that leads.
        self._serves = not federation.helper_ids
        #: The newest series and the mark of the store at the last look.
        self._row: SeriesRow | None = None
        self._mark = Mark() if counter is None else Mark.of_count(counter.value)
        self._beat = self._glance = self._status_made = self._status_rest = 0.0
        self._status: Status | None = None
        self._thread = threading.Thread(target=self._run, name="ccesa-engine", daemon=True)
        #: The reason for which members cannot be served, such as a store that is away; empty if they can.
        self.trouble = ""
        self.failure: BaseException | None = None  # the error that ended the thread

    def first_look(self) -> tuple[View, Status]:
        """Return what to show before the thread starts."""
        return self._view(), self._showing.status(None, self._presence.now())

    def abandon_series(self) -> None:
        """End a running series before the thread starts; the next one has a number that no member knows."""
        self._leader.abandon(self._presence.now(), self._mark.place[0])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its current turn."""
        self._stopping = True
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def hand_in(self, handed: Handed) -> None:
        self._waiting.put(handed)
        if self._ended:
            self._refuse_all([])

    def _run(self) -> None:
        batch: list[Handed] = []
        try:
            while not self._stopping:
                batch = self._batch(TICK)
                self._turn(batch)
        except BaseException as error:  # the hub raises it and stops
            self.failure = error
        finally:
            self._ended = True
            self._refuse_all(batch)

    def _refuse_all(self, batch: list[Handed]) -> None:
        """Refuse these replies and all in the queue."""
        while batch or (batch := self._batch(0)):
            _refuse(batch, "this hub is stopping")
            batch = []

    def _batch(self, seconds: float) -> list[Handed]:
        """Return the replies in the queue; wait for the first one at most this long."""
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
        """Take a batch of replies, and do everything that is due."""
        now = self._presence.now()
        try:
            self._sign_of_life(now)
            self._follow()
            receipts = self._take(batch)
            self._ask_helpers(now)
            if not self._glance:  # before a helper that was answered asks again
                self._show(now)
            batch = []
            for handed, receipt in receipts:
                handed.done(receipt)
            while self._leader.act(self._replica, self._presence.now()):
                self._follow()
                self._glance = 0.0
            self._show(now)
            self.trouble = "" if self._serves else _STANDS_BY
        except Unavailable as error:
            self._replica = None  # it may hold more than was saved
            self.trouble = str(error) or "the store cannot be reached"
            self._meters.store_away.inc()
            _refuse(batch, "this hub cannot reach its store")
            time.sleep(AWAY)
        except (Diverged, Forgotten):
            self._replica = None  # the next replica takes all answers in the order of ids
            _refuse(batch, "this hub has to replay all replies")
        except NewerDatabase:
            _refuse(batch, "this hub is stopping")
            raise
        except CcesaError as error:  # such as a series under another charter, or a store that has gone back
            self._replica = None
            self.trouble = str(error)
            self._leader.hold(self.trouble, now, is_stale=isinstance(error, StaleLog))
            _refuse(batch, "this hub cannot go on")
            with suppress(CcesaError):
                self._show(now)

    def _sign_of_life(self, now: float) -> None:
        if elapsed(self._beat, now) >= HEARTBEAT:
            self._store.check_version()
            self._store.note_alive(self._replica.hub if self._replica else self._name, now)
            self._store.drop_claims(now - DEAD)
            self._leader.breathe(now)
            self._meters.leads.set(self._leader.leads(now))
            self._presence.share()
            self._beat = now

    def _follow(self) -> None:
        """Catch up with the log, with a new replica for a new series."""
        row = self._newest_series()
        changed = row != self._row
        if self._federation.helper_ids and self._serves != self._leader.leads(self._presence.now()):
            # Another hub has the vectors that wait from now on, or had them until now.
            self._serves, self._replica, self._glance = not self._serves, None, 0.0
        if row is None or row.over:
            self._replica = None
        elif self._replica is None or self._replica.row.series != row.series:
            hub = f"{self._name}/{secrets.token_hex(4)}"  # a new name: replies that the last one did not save are lost
            self._store.note_alive(hub, self._presence.now())
            self._replica = Replica(self._federation, self._store, row, hub)
            changed = True
        else:
            changed = self._replica.follow() or changed
        self._count_opening()
        if changed:  # other hubs may have recorded rounds
            self._agenda.reload()
            self._row, self._glance = row, 0.0  # last, as the store may go away before

    def _count_opening(self) -> None:
        """Count the open exchange, before its first request leaves this hub."""
        if self._counter is None or self._replica is None or self._replica.open is None:
            return
        count = count_of(self._replica.row.series, self._replica.open)
        if count != self._counter.value:
            try:
                self._counter.set(*count)
            except OSError as error:
                raise Unavailable(f"the counter of this hub cannot be written: {error.strerror}") from error

    def _newest_series(self) -> SeriesRow | None:
        """Return the newest series; raise StaleLog if the store has gone back."""
        self._presence.share_known()  # before the store is read, which must know every request
        try:
            self._mark = self._store.follow(self._mark)
        except StaleLog as error:
            self._store.note_gone_back(str(error), self._presence.now())  # for the other hubs, and the next start
            raise
        series, exchange = self._mark.place
        if witnesses := self._presence.ahead_of(max(self._mark.place, (self._mark.above, -1))):
            raise StaleLog(
                f"the database has gone back: {witnesses}, and its last one is exchange {exchange} of series {series}"
            )
        return self._mark.series

    def _ask_helpers(self, now: float) -> None:
        """Ask helpers about the boxes that have come, also those that another hub held."""
        if self._serves and self._replica is not None and self._federation.helper_ids:
            self._replica.adopt()
            if self._replica.ask_helpers(now):
                self._glance = 0.0

    def _take(self, batch: list[Handed]) -> list[tuple[Handed, Receipt]]:
        """Claim, receive and save replies; return the receipt of each."""
        replica, due, receipts = self._replica, dict[int, Handed](), list[tuple[Handed, Receipt]]()
        if not self._serves:
            return [(handed, Receipt(taken=Taken.AGAIN, reason=_STANDS_BY)) for handed in batch]
        if replica is None or replica.open is None:
            return [(handed, _RECEIPTS[Claim.LATE]) for handed in batch]
        place = (replica.row.series, replica.open.exchange)
        for handed in batch:
            if (handed.series, handed.exchange) != place:
                receipts.append((handed, _RECEIPTS[Claim.LATE]))
            elif handed.client in self._federation.helper_ids and replica.has_beside:
                receipts.append((handed, self._take_word(replica, place, handed)))
            elif handed.client not in replica.requests:
                receipts.append((handed, _NOT_ASKED))
            elif handed.client in due:  # its second one in this batch
                receipts.append((handed, _RECEIPTS[Claim.PENDING]))
            else:
                due[handed.client] = handed
        return receipts + (self._take_due(replica, place, due) if due else [])

    def _take_word(self, replica: Replica, place: tuple[int, int], handed: Handed) -> Receipt:
        """Take a helper's word about boxes. Nothing is kept of it: a hub that was killed asks again."""
        fault = replica.take_word(handed.client, handed.reply)
        self._glance = 0.0
        if not self._store.settle(*place, replica.hub, *replica.settled(), replica.total):
            self._replica = None
            return _TOO_SLOW
        if fault is None:
            return _RECEIPTS[Claim.SAVED]
        name = seat_name(self._federation, handed.client)
        event("refused", logging.WARNING, client=handed.client, name=name, reason=str(fault))
        return Receipt(taken=Taken.FAULTY, reason=str(fault))

    def _take_due(
        self, replica: Replica, place: tuple[int, int], due: dict[int, Handed]
    ) -> list[tuple[Handed, Receipt]]:
        """Take replies to the open exchange, one per client."""
        digests = {client: hashlib.sha256(handed.reply).digest() for client, handed in due.items()}
        claims = self._store.claim(*place, replica.hub, digests)
        receipts = {client: _RECEIPTS[claim] for client, claim in claims.items() if claim is not Claim.OWN}
        own = [client for client, claim in claims.items() if claim is Claim.OWN]
        answers: dict[int, bytes] = {}
        for client in own:
            answer, fault = replica.receive(client, due[client].reply)
            if answer or fault is None:  # the rest of a faulty reply counts
                answers[client] = answer
            if isinstance(fault, LateMessage):
                receipts[client] = Receipt(taken=Taken.LATE, reason=str(fault))
            elif fault is not None:
                self._leader.fault(client, str(fault))
                receipts[client] = Receipt(taken=Taken.FAULTY, reason=str(fault))
        if refused := [client for client in own if client not in answers]:
            self._store.release(*place, replica.hub, refused)
        held = {client: due[client].reply for client in replica.hold(answers)}
        total = None if replica.has_beside else replica.total
        saved = self._store.save(*place, replica.hub, answers, total, held)
        if saved and answers:
            self._mark = replace(self._mark, saved=(*place, *next(iter(answers.items()))))
        if not saved:  # the exchange has closed, or this hub seemed dead
            self._replica = None
        receipts = {client: Receipt(taken=Taken.SAVED) if saved else _TOO_SLOW for client in answers} | receipts
        return [(due[client], receipt) for client, receipt in receipts.items()]

    def _view(self) -> View:
        return replace(self._showing.view(self._replica), serves=self._serves)

    def _show(self, now: float) -> None:
        """Publish view and status from time to time; a status of many members less often."""
        if elapsed(self._glance, now) < GLANCE:
            return
        view = self._view()
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


class Showing:
    """Makes views and statuses in the engine's thread."""

    def __init__(
        self, federation: Federation, store: Store, agenda: Agenda, presence: Presence, leader: Leader
    ) -> None:
        self._federation, self._store, self._agenda = federation, store, agenda
        self._presence, self._leader = presence, leader
        #: The last state, whether it had a reason, and when it began.
        self._held: tuple[State, bool] = ("gathering", False)
        self._since = 0.0

    def state(self, replica: Replica | None) -> tuple[State, str]:
        """Return the state of the federation and the reason for it."""
        if self._leader.reason:
            return "stuck", self._leader.reason
        if replica is None and self._is_over():
            missing = self._agenda.questions - len(self._agenda.answered)
            return "over", f"{missing} of {self._agenda.questions} sums are missing" if missing else ""
        if reason := self._store.pause_reason():
            return "paused", reason
        if replica is None or (replica.open is None and not replica.series.rounds):
            return "gathering", self._presence.shortage(self._presence.now()) or self._setback()
        return "running", self._late(replica)

    def _late(self, replica: Replica) -> str:
        """Return a text about helpers that everybody waits for; empty if they answer in time."""
        now, since = self._presence.now(), self._asked_since(replica)
        late = self._waited_for(replica)
        if replica.open is None or not late or elapsed(since, now) < self._federation.policy.after:
            return ""
        names = ", ".join(seat_name(self._federation, helper) for helper in sorted(late))
        return f"waits for helper{'s' * (len(late) > 1)} {names} since {at(since)}"

    def _asked_since(self, replica: Replica) -> float:
        if replica.waits_for_helpers and replica.open is not None:
            return replica.open.opened
        return replica.asked_since

    def _waited_for(self, replica: Replica) -> set[int]:
        """Return the helpers that have not answered what they were asked."""
        if not replica.waits_for_helpers or replica.open is None:
            return set(replica.beside)
        return set(replica.requests) - self._store.answered(replica.row.series, replica.open.exchange)

    def _setback(self) -> str:
        """Return a text about rounds lost in the set-up, if the latest ones were."""
        lost = self._agenda.lost_in_setup
        if not lost:
            return ""
        until = at(self._agenda.rests_until)
        what = "the last round was" if lost == 1 else f"the last {lost} rounds were"
        return f"{what} lost in the set-up; the next one begins at {until}: {self._agenda.rounds[-1].reason}"

    def _advice(self, state: State, now: float) -> str:
        if state == "gathering":
            every = self._federation.agreement.party_names
            names = [name for client, name in enumerate(every) if not self._presence.is_here(client, now)]
            more = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
            return f"Start the sites that are missing: {', '.join(names[:_NAMED])}{more}." if names else _SITES
        is_stale = state == "stuck" and self._leader.is_stale
        return _GONE_BACK if is_stale else _ADVICE.get(state, "")

    def _is_over(self) -> bool:
        """Return whether nothing is left to do. A hub that has just started may have no replica yet."""
        row = self._store.series()
        is_running = row is not None and not row.over
        return not is_running and (not self._agenda.pending or self._store.is_finishing())

    def view(self, replica: Replica | None) -> View:
        state, _ = self.state(replica)
        opened = None if replica is None else replica.open
        return View(
            state=state,
            series=0 if replica is None else replica.row.series,
            config=b"" if replica is None else replica.row.config,
            exchange=-1 if opened is None else opened.exchange,
            latest=-1 if replica is None else replica.next - 1,
            requests={} if replica is None else replica.requests,
            beside={} if replica is None else replica.beside,
            task=None if opened is None or opened.question is None else opened.task,
            closes=self._closes(opened),
            next_start=0.0 if replica is None else self._next_start(replica),
            question=max(self._agenda.answered, default=-1),
            most_bytes=0 if replica is None else replica.most_bytes,
        )

    def _closes(self, opened: ExchangeRow | None) -> float:
        """Return the latest time at which the open exchange closes, if enough have answered by then."""
        if opened is None:
            return 0.0
        if opened.question is None and self._federation.helper_ids:
            return opened.opened + self._federation.policy.helper_deadline
        return opened.opened + self._federation.policy.lasts(opened.question is not None)

    def _next_start(self, replica: Replica) -> float:
        """Return the latest time at which the next round starts."""
        wait = replica.before_start * self._federation.policy.deadline
        return 0.0 if replica.open is None else self._closes(replica.open) + wait

    def status(self, replica: Replica | None, now: float) -> Status:
        state, reason = self.state(replica)
        if (held := (state, bool(reason))) != self._held:
            self._held, self._since = held, now
        opened = None if replica is None else replica.open
        steps, asked, answered = list[StepStatus](), set[int](), set[int]()
        if replica is not None and opened is not None:
            answered = self._store.answered(replica.row.series, opened.exchange)
            for number, (name, clients) in replica.series.steps.items():
                step = StepStatus(round=number, step=name, asked=len(clients), answered=len(clients & answered))
                steps.append(step)
                asked |= clients
        head = self._store.head()
        return Status(
            name=self._federation.name,
            guard=self._federation.guard,
            state=state,
            reason=reason,
            since=self._since if reason else 0.0,
            advice=self._advice(state, now) if reason else "",
            questions=self._agenda.questions,
            answered=len(self._agenda.answered),
            series=0 if replica is None else replica.row.series,
            exchange=-1 if opened is None else opened.exchange,
            steps=steps,
            opened=0.0 if opened is None else opened.opened,
            closes=self._closes(opened),
            members=[self._member(one, one in asked, one in answered, now) for one in range(self._federation.clients)],
            helpers=[self._helper(replica, one, asked, answered, now) for one in self._federation.helper_ids],
            rounds=[_round(row) for row in self._agenda.rounds[-MOST_ROUNDS:]],
            certificate=list(self._federation.agreement.promises),
            privacy_bits=self._federation.agreement.certificate.privacy_bits,
            privacy=measure_privacy(self._federation, self._agenda.rounds),
            head="" if head is None else head.hash.hex(),
            hubs=self._store.hubs(now - DEAD),
            now=now,
        )

    def _helper(
        self, replica: Replica | None, helper: int, asked: set[int], answered: set[int], now: float
    ) -> MemberStatus:
        """Return the status of a helper, which is also asked beside an exchange of the members."""
        has_beside = replica is not None and replica.has_beside and replica.asked_since > 0
        waits = has_beside and replica is not None and helper in replica.beside
        found = self._member(
            helper, helper in asked or has_beside, helper in answered or (has_beside and not waits), now
        )
        return msgspec.structs.replace(found, name=seat_name(self._federation, helper))

    def _member(self, client: int, asked: bool, answered: bool, now: float) -> MemberStatus:
        row = self._presence.row(client)
        here: MemberState = "present" if self._presence.is_here(client, now) else "absent"
        return MemberStatus(
            client=client,
            name=self._federation.agreement.party_names[client],
            state="set aside" if row.set_aside else here,
            reason=row.set_aside,
            blames=row.blames,
            seen=self._presence.last_contact(client),
            asked=asked,
            answered=answered,
        )


def _round(row: RoundRow) -> RoundStatus:
    return RoundStatus(
        **{name: getattr(row, name) for name in _SAME}, survivors=len(row.survivors), pairs=list(row.pairs)
    )
