"""The hub with the lease leads: it begins series, opens and closes exchanges, and records rounds and blames.

Its decisions are in the store before anyone acts on them. If two hubs lead for a moment, because one was
slow, each decision is still made once, and the second hub follows the first.
"""

import dataclasses
import json
import logging
import math

import msgspec

from ccesa.errors import CcesaError, CorruptShares, RoundFailed, VectorError
from ccesa.evidence import Evidence
from ccesa.protocol import messages as m
from ccesa.protocol.schedule import with_number
from ccesa.protocol.series import Ended
from ccesa.service.errors import Unavailable
from ccesa.service.federation import Federation
from ccesa.service.hub.agenda import (
    ABANDONED,
    SENSELESS,
    SUM,
    TASK_LOST,
    Agenda,
    Presence,
    elapsed,
    find_blamed,
    measure_privacy,
)
from ccesa.service.hub.replica import Replica, Started
from ccesa.service.logs import event
from ccesa.service.meters import Meters
from ccesa.service.store import Store
from ccesa.service.store.rows import ExchangeRow, RoundRow, SeriesRow
from ccesa.service.tasks import task_digest

#: The last step of a round.
_LAST = "unmask"
#: Seconds of a lease, and seconds after which a failed action is tried again.
LEASE, PATIENCE = 10.0, 5.0
#: Rounds of a series: more than are ever run.
ROUNDS = 1 << 31


class Records:
    """Records the outcomes of rounds, and sets clients aside that were blamed too often."""

    def __init__(
        self, federation: Federation, store: Store, agenda: Agenda, presence: Presence, meters: Meters
    ) -> None:
        self._federation, self._store, self._agenda = federation, store, agenda
        self._presence, self._meters = presence, meters
        #: Clients that sent this hub an invalid reply in the open exchange.
        self.faulty: set[int] = set()

    def reload(self) -> None:
        self._agenda.reload()

    def begin_exchange(self) -> None:
        """Forget faults: another exchange opens."""
        self.faulty = set()

    def write(self, replica: Replica, now: float) -> None:
        """Record all rounds that a replica knows to be over; earlier records stay."""
        self._agenda.reload()
        known = {(row.series, row.number) for row in self._agenda.rounds}
        while replica.ended:
            if (replica.row.series, replica.ended[0].number) not in known:
                self._put(replica, replica.ended[0], now)
            replica.ended.pop(0)
        self._store.forget(replica.row.series, replica.oldest)

    def abandon(self, now: float, counted: int = 0) -> None:
        """End the running series, if there is one. Its rounds in flight are lost.

        Their questions count as asked, since vectors may have left for them. The next series has a number
        above ``counted``.
        """
        row = self._store.series()
        if row is not None and not row.over:
            self._abandon(row, now)
        self._store.begin_anew(counted)

    def _abandon(self, row: SeriesRow, now: float) -> None:
        self._agenda.reload()
        known = {(one.series, one.number) for one in self._agenda.rounds}
        for exchange in self._store.exchanges(row.series):
            number = None if exchange.question is None else self._federation.masked_in(exchange.exchange)
            if number is not None and (row.series, number) not in known:
                self._store.put_round(_abandoned(row.series, number, exchange, self._agenda, now))
                self._agenda.reload()
        self._store.end_series(row.series)
        self.audit("series abandoned", now, series=row.series)

    def fault(self, client: int, reason: str) -> None:
        """Record that a client sent an invalid reply."""
        self.faulty.add(client)
        event("refused", logging.WARNING, client=client, reason=reason)
        self.blame({client}, f"it sent an invalid reply: {reason}")

    def blame(self, clients: set[int], reason: str) -> None:
        """Count a blame for each of these clients; set aside those with too many."""
        if not clients:
            return
        now, most = self._presence.now(), self._federation.policy.faults
        self._set_aside(self._store.blame(dict.fromkeys(clients, 1), reason, now, most), reason)

    def _set_aside(self, clients: set[int], reason: str) -> None:
        """Log that clients were set aside."""
        self._presence.reload()
        for client in sorted(clients):
            event("set-aside", logging.WARNING, client=client, reason=reason)

    def audit(self, kind: str, now: float, **body: object) -> None:
        """Add an entry to the audit log, and log it."""
        self._store.audit(kind, json.loads(json.dumps(body)), now)
        short = {name: value for name, value in body.items() if isinstance(value, int | float | str)}
        event(kind.replace(" ", "-"), logging.INFO, **short)

    def _put(self, replica: Replica, ended: Ended, now: float) -> None:
        """Record one round, unless another hub was faster."""
        row = self._row(replica, ended, replica.started[ended.number], now)
        if row.outcome == SUM:
            self._agenda.report_all()
            row = self._reported(row)
        blames = find_blamed(row.pairs, self._federation.agreement.certificate.around)
        if isinstance(ended.failure, CorruptShares):
            blames.add(ended.failure.client)
        aside = self._store.put_round(row, blames, self._federation.policy.faults, self._promised(row))
        self._agenda.reload()
        if aside is not None:
            self._set_aside(aside, f"round {row.number} of series {row.series}")
            self._meters.round_over(row.outcome, len(row.pairs))
            logged = ("series", "number", "question", "attempt", "outcome", "reason", "asked", "pairs")
            event("round", survivors=len(row.survivors), **{name: getattr(row, name) for name in logged})

    def _reported(self, row: RoundRow) -> RoundRow:
        """Report a sum to the coordinator, and return its row with the coordinator's numbers.

        If no vectors of this form can have this sum, a member lied, masks hide which, and the round is lost.
        """
        try:
            return dataclasses.replace(row, metrics=dict(self._agenda.report(row)))
        except VectorError as error:
            reason = f"a member in the sum lied: {error}"
            return dataclasses.replace(row, outcome=SENSELESS, reason=reason, total=b"")

    def _promised(self, row: RoundRow) -> dict[str, object]:
        """Return charter and certificate behind a sum, and the privacy spent up to it."""
        agreed, privacy = (self._federation.agreement, measure_privacy(self._federation, [*self._agenda.rounds, row]))
        return {
            "charter": agreed.digest.hex() or None,
            "certificate": agreed.certificate.logged,
            "epsilon": None if privacy is None else privacy.epsilon,
            "delta": None if privacy is None else privacy.delta,
        }

    def _row(self, replica: Replica, ended: Ended, started: Started, now: float) -> RoundRow:
        outcome = ended.failure or ended.result()
        lost, name, reason = isinstance(outcome, RoundFailed), type(outcome).__name__, str(outcome)
        if lost and ended.released and not self._agenda.is_noisy:
            name, reason = TASK_LOST, f"{name} after shares were released: {reason}"
        return RoundRow(
            series=replica.row.series,
            number=ended.number,
            question=started.question,
            attempt=0 if started.question is None else self._agenda.attempts(started.question) + 1,
            task=started.task,
            context=with_number(replica.config, ended.number).context,
            started=started.time,
            ended=now,
            outcome=name if lost else SUM,
            reason=reason if lost else "",
            survivors=() if isinstance(outcome, RoundFailed) else outcome.survivors,
            asked=started.asked,
            pairs=_pairs(outcome.evidence),
            total=b"" if isinstance(outcome, RoundFailed) else outcome.vector.tobytes(),
        )


def _pairs(evidence: Evidence) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((min(pair), max(pair)) for pair in evidence.pairs()))


def _abandoned(series: int, number: int, asked: ExchangeRow, agenda: Agenda, now: float) -> RoundRow:
    """Return the row of a round that was asked for vectors in a series that was ended."""
    return RoundRow(
        series=series,
        number=number,
        question=asked.question,
        attempt=agenda.attempts(asked.question or 0) + 1,
        task=asked.task,
        started=asked.opened,
        ended=now,
        outcome=ABANDONED,
        reason="the operator has begun a new series, and sites answer a question in one series only",
        asked=len(asked.members),
    )


class Leader:
    """Decides, while this hub has the lease."""

    def __init__(
        self,
        federation: Federation,
        store: Store,
        agenda: Agenda,
        records: Records,
        presence: Presence,
        meters: Meters,
        name: str,
    ) -> None:
        self._federation, self._store, self._agenda, self._records = federation, store, agenda, records
        self._presence, self._meters, self._name = presence, meters, name
        #: When the lease was taken, when waiting for members began, and when an action failed.
        self._taken, self._gathering, self._held = -math.inf, 0.0, -math.inf
        #: The members that were here when this hub last began a round.
        self._tried: set[int] = set()
        #: Why nothing goes on; empty if the federation goes on.
        self.reason = ""
        #: Whether the reason is a store that has gone back.
        self.is_stale = False

    def breathe(self, now: float) -> None:
        """Take or keep the lease."""
        self._taken = now if self._store.lead(self._name, now, LEASE) else -math.inf

    def leads(self, now: float) -> bool:
        return elapsed(self._taken, now) < LEASE

    def act(self, replica: Replica | None, now: float) -> bool:
        """Do the next thing that is due; return whether that has changed the log."""
        if elapsed(self._held, now) < PATIENCE:
            return False
        self.reason = ""
        if not self.leads(now):
            return False
        try:
            if replica is None:
                return self._begin(now)
            if replica.ended:
                self._records.write(replica, now)
                return True
            if replica.open is None:
                return self._open(replica, now)
            return self._close(replica, replica.open, now)
        except Unavailable:
            raise
        except CcesaError as error:
            self.hold(str(error), now)
            return False

    def hold(self, reason: str, now: float, *, is_stale: bool = False) -> None:
        """Wait for a reason that the operator has to know. It is logged once, and shown while it lasts."""
        if reason != self.reason:
            event("stuck", logging.WARNING, reason=reason)
        self.reason, self._held, self.is_stale = reason, now, is_stale

    def _begin(self, now: float) -> bool:
        """Begin a series for the questions that are left."""
        pending = self._agenda.pending
        if not pending or self._store.finishing():
            return False
        config = self._federation.config(self._federation.form.length(self._agenda.task(pending[0])))
        agreed = self._federation.agreement
        body = {"series_id": config.series_id.hex(), "charter": agreed.digest.hex() or None}
        form = msgspec.json.encode(self._federation.form)
        row = self._store.begin_series(config.encode(), ROUNDS, body, now, agreed.names, form)
        self._presence.reload()
        event("series", series=row.series, questions=len(pending))
        self._gathering = now
        return True

    def _open(self, replica: Replica, now: float) -> bool:
        """Open the next exchange, or end the series if no question is left."""
        pending = self._agenda.pending
        nothing_left = not pending or self._store.finishing()
        if replica.finished or (nothing_left and not replica.has_vectors):
            self._store.end_series(replica.row.series, replica.next)
            return True
        if self._store.paused() or not self._is_gathered(replica, now):
            return False
        self._federation.agreement.check_current(now)
        self._tried = self._presence.present(now)
        question = pending[0] if replica.masking is not None else None
        opening = ExchangeRow(
            exchange=replica.next,
            members=tuple(sorted(self._tried)) if self._is_needed(replica) else (),
            task=m.NO_TASK if question is None else task_digest(self._agenda.task(question)),
            question=question,
            opened=now,
        )
        self._store.open_exchange(replica.row.series, opening)
        return True

    def _is_needed(self, replica: Replica) -> bool:
        """Return whether there is a question for a round that could start now."""
        return replica.before_start > 0 or len(self._agenda.pending) > len(replica.in_flight)

    def _is_gathered(self, replica: Replica, now: float) -> bool:
        """Return whether enough members are here to begin a round, or one is in flight."""
        if replica.in_flight:
            return True
        present, eligible = self._presence.present(now), self._presence.eligible
        needed = self._federation.agreement.needed
        if len(eligible) < needed:
            self.hold(f"a round needs {needed} members, and {len(eligible)} are not set aside", now)
            return False
        self._gathering = self._gathering or now
        if self._presence.lacking(now) or self._rests(present, now):
            return False
        return present >= eligible or elapsed(self._gathering, now) >= self._federation.policy.gather

    def _rests(self, present: set[int], now: float) -> bool:
        """Return whether the next round waits after rounds that were lost in the set-up.

        The same members would probably lose the next one, too; a new member may help.
        """
        return present <= self._tried and now < self._agenda.rests_until

    def _close(self, replica: Replica, opened: ExchangeRow, now: float) -> bool:
        """Close the open exchange if the policy says so; return whether it is closed.

        Clients that have declined with an empty reply count neither as asked nor as answered.
        """
        place, seconds = (replica.row.series, opened.exchange), elapsed(opened.opened, now)
        answers, empty = self._store.count_answered(*place)
        closes = not self._federation.policy.stays_open(
            asked=len(replica.requests) - empty,
            answered=answers - empty,
            minimum=min(self._federation.min_survivors, len(replica.requests)),
            seconds=seconds,
            vectors=opened.question is not None,
        )
        if closes:
            answered = self._store.answered(*place)
            for name, asked in replica.steps.values():
                silent = asked - answered
                faulty = len(silent & self._records.faulty)
                self._meters.step_closed(name, seconds, len(asked), len(silent), faulty)
                self._presence.fell_silent(set(silent), now)
                if name == _LAST:
                    self._presence.came_through(set(asked & answered))
            self._records.begin_exchange()
            self._store.close_exchange(*place, now)
        return closes
