"""The hub with the lease leads: it begins series, opens and closes exchanges, and records rounds and blames.

Its decisions are in the store before anyone acts on them. If one hub was slow and two lead for a moment, each
decision is still made once, and the second hub follows the first.
"""

import dataclasses
import logging
import math
from collections.abc import Iterable

import msgspec

from ccesa.errors import CcesaError, CorruptShares, RoundFailed, VectorError
from ccesa.evidence import by_id
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
    find_refused,
    measure_privacy,
    seat_name,
)
from ccesa.service.hub.replica import Replica, Started, first_round, masked_in
from ccesa.service.logs import event
from ccesa.service.meters import Meters
from ccesa.service.store import Store
from ccesa.service.store.rows import ExchangeRow, RoundRow
from ccesa.service.tasks import task_digest

_LAST, _LAST_OF_MEMBERS = "unmask", "mask"  # the last step of a round, and with helpers the last that asks members
LEASE, PATIENCE = 10.0, 5.0  # seconds of a lease, and seconds after which a failed action is tried again
ROUNDS = 1 << 31  # a series never comes to its last round


class Leader:
    """Decides while this hub has the lease, and records rounds and faults."""

    def __init__(
        self, federation: Federation, store: Store, agenda: Agenda, presence: Presence, meters: Meters, name: str
    ) -> None:
        self._federation, self._store, self._agenda = federation, store, agenda
        self._presence, self._meters, self._name = presence, meters, name
        #: The times when this hub took the lease, when it began to wait for members, and when an action failed.
        self._taken, self._gathering, self._held = -math.inf, 0.0, -math.inf
        self._tried: set[int] = set()  # the members that were here when this hub last began a round
        self._faulty: set[int] = set()  # clients that sent this hub an invalid reply in the open exchange
        self.reason = ""  # the reason for which nothing goes on; empty if the federation goes on
        self.is_stale = False  # whether the reason is a store that has gone back

    def breathe(self, now: float) -> None:
        self._taken = now if self._store.lead(self._name, now, LEASE) else -math.inf

    def leads(self, now: float) -> bool:
        return elapsed(self._taken, now) < LEASE

    def act(self, replica: Replica | None, now: float) -> bool:
        """Take the next action that is due; return whether it has changed the log."""
        if elapsed(self._held, now) < PATIENCE:
            return False
        self.reason = ""
        if not self.leads(now):
            return False
        try:
            if replica is None:
                return self._begin(now)
            if replica.ended:
                self._write(replica, now)
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
        """Wait, for a reason that is logged once, and shown to the operator while it lasts."""
        if reason != self.reason:
            event("stuck", logging.WARNING, reason=reason)
        self.reason, self._held, self.is_stale = reason, now, is_stale

    def _begin(self, now: float) -> bool:
        """Begin a series for the questions that are left."""
        pending = self._agenda.pending
        if not pending or self._store.is_finishing():
            return False
        agreed, form = self._federation.agreement, self._federation.form
        config = first_round(self._federation, form.length(self._agenda.task(pending[0])))
        body = {"series_id": config.series_id.hex(), "charter": agreed.digest.hex() or None}
        row = self._store.begin_series(
            config.encode(), ROUNDS, body, now, agreed.party_names, msgspec.json.encode(form)
        )
        self._presence.reload()
        event("series", series=row.series, questions=len(pending))
        self._gathering = now
        return True

    def _open(self, replica: Replica, now: float) -> bool:
        """Open the next exchange, or end the series if no question is left."""
        pending = self._agenda.pending
        nothing_left = not pending or self._store.is_finishing()
        if replica.finished or (nothing_left and not replica.has_vectors):
            self._store.end_series(replica.row.series, replica.next)
            return True
        if self._store.pause_reason() or not self._is_gathered(replica, now):
            return False
        self._federation.agreement.check_current(now)
        self._tried = self._presence.present(now)
        question = pending[0] if replica.series.masking is not None else None
        is_needed = replica.before_start > 0 or len(pending) > len(replica.series.rounds)  # a round that starts now
        opening = ExchangeRow(
            exchange=replica.next,
            members=tuple(sorted(self._tried)) if is_needed else (),
            task=m.NO_TASK if question is None else task_digest(self._agenda.task(question)),
            question=question,
            opened=now,
        )
        self._store.open_exchange(replica.row.series, opening)
        return True

    def _is_gathered(self, replica: Replica, now: float) -> bool:
        """Return whether enough members are here to begin a round, or one is in flight."""
        if replica.series.rounds:
            return True
        present, eligible = self._presence.present(now), self._presence.eligible
        needed = self._federation.agreement.needed
        if len(eligible) < needed:
            self.hold(f"a round needs {needed} members, and {len(eligible)} are not set aside", now)
            return False
        self._gathering = self._gathering or now
        # After rounds lost in the set-up, the same members would probably lose the next one.
        rests = present <= self._tried and now < self._agenda.rests_until
        if self._presence.shortage(now) or rests:
            return False
        return present >= eligible or elapsed(self._gathering, now) >= self._federation.policy.gather

    def _close(self, replica: Replica, opened: ExchangeRow, now: float) -> bool:
        """Close the open exchange if the policy allows it; clients that declined with an empty reply do not count."""
        place, seconds = (replica.row.series, opened.exchange), elapsed(opened.opened, now)
        answers, empty = self._store.count_answered(*place)
        if self._waits_for_helpers(replica, answers, now):
            return False
        if not replica.waits_for_helpers and self._federation.policy.stays_open(
            asked=len(replica.requests) - empty,
            answered=answers - empty,
            minimum=min(self._federation.min_survivors, len(replica.requests)),
            seconds=seconds,
            vectors=opened.question is not None,
        ):
            return False
        answered = self._store.answered(*place)
        for name, asked in replica.series.steps.values():
            silent = asked - answered
            faulty = len(silent & self._faulty)
            self._meters.count_step(name, seconds, len(asked), len(silent), faulty)
            self._presence.note_silent(set(silent), now)
            if name == (_LAST_OF_MEMBERS if replica.config.helper_ids else _LAST):
                self._presence.note_answered(set(asked & answered))
        self._faulty.clear()
        self._store.close_exchange(*place, now)
        return True

    def _waits_for_helpers(self, replica: Replica, answers: int, now: float) -> bool:
        """Return whether the open exchange stays open for helpers: they are few, and each is needed."""
        if replica.open is None or not (replica.waits_for_helpers or replica.beside):
            return False
        if self._store.is_finishing() and not replica.has_vectors:
            return False
        since = replica.asked_since if replica.beside else replica.open.opened
        is_answered = not replica.beside and answers >= len(replica.requests)
        return not is_answered and elapsed(since, now) < self._federation.policy.helper_deadline

    # Rounds and faults

    def _write(self, replica: Replica, now: float) -> None:
        """Record all rounds that a replica knows to be over; earlier records stay."""
        known = self._recorded(replica.row.series)
        while replica.ended:
            if replica.ended[0].number not in known:
                self._put(replica, replica.ended[0], now)
            replica.ended.pop(0)
        self._store.forget(replica.row.series, replica.oldest)

    def _recorded(self, series: int) -> set[int]:
        """Return the numbers of the rounds of a series that are in the store."""
        self._agenda.reload()
        return {row.number for row in self._agenda.rounds if row.series == series}

    def abandon(self, now: float, counted: int = 0) -> None:
        """End a running series; its rounds in flight count as asked. The next series has a number above ``counted``."""
        row = self._store.series()
        if row is not None and not row.over:
            self._abandon(row.series, now)
        self._store.begin_anew(counted)

    def _abandon(self, series: int, now: float) -> None:
        known = self._recorded(series)
        for asked in self._store.exchanges(series):
            number = masked_in(self._federation, asked.exchange)
            if asked.question is None or number in known:
                continue
            row = RoundRow(
                series=series,
                number=number,
                question=asked.question,
                attempt=self._agenda.next_attempt(asked.question),
                task=asked.task,
                started=asked.opened,
                ended=now,
                outcome=ABANDONED,
                reason="the operator has begun a new series, and sites answer a question in one series only",
                asked=len(asked.members),
            )
            self._store.put_round(row)
            self._agenda.reload()
        self._store.end_series(series)
        self._store.audit("series abandoned", {"series": series}, now)
        event("series-abandoned", series=series)

    def fault(self, client: int, reason: str) -> None:
        self._faulty.add(client)
        event("refused", logging.WARNING, client=client, name=seat_name(self._federation, client), reason=reason)
        if client in self._federation.helper_ids:  # without it there are no rounds
            return
        why, limit = f"it sent an invalid reply: {reason}", self._federation.policy.faults
        self._log_aside(self._store.blame({client: 1}, why, self._presence.now(), limit), why)

    def _log_aside(self, clients: set[int], reason: str) -> None:
        self._presence.reload()
        for client in sorted(clients):
            event("set-aside", logging.WARNING, client=client, reason=reason)

    def _put(self, replica: Replica, ended: Ended, now: float) -> None:
        """Record one round, unless another hub was faster."""
        row = self._row(replica, ended, replica.started[ended.number], now)
        if row.outcome == SUM:
            self._agenda.report_all()
            row = self._report(row)
        helpers = self._federation.helper_ids
        around = self._federation.agreement.certificate.around
        blames = find_refused(row.pairs, helpers) if helpers else find_blamed(row.pairs, around)
        if isinstance(ended.failure, CorruptShares):
            blames.add(ended.failure.client)
        aside = self._store.put_round(row, blames, self._federation.policy.faults, self._promises(row))
        self._agenda.reload()
        if aside is not None:
            self._log_aside(aside, f"round {row.number} of series {row.series}")
            self._meters.count_round(row.outcome, len(row.pairs))
            logged = ("series", "number", "question", "attempt", "outcome", "reason", "asked", "pairs")
            event("round", survivors=len(row.survivors), **{name: getattr(row, name) for name in logged})

    def _report(self, row: RoundRow) -> RoundRow:
        """Report a sum; return its row with the coordinator's numbers, or as lost if a member in it lied."""
        try:
            return dataclasses.replace(row, metrics=dict(self._agenda.report(row)))
        except VectorError as error:
            reason = f"a member in the sum lied: {error}"
            return dataclasses.replace(row, outcome=SENSELESS, reason=reason, total=b"")

    def _promises(self, row: RoundRow) -> dict[str, object]:
        """Return charter and certificate behind a sum, and the privacy spent up to it."""
        agreed = self._federation.agreement
        privacy = measure_privacy(self._federation, [*self._agenda.rounds, row])
        return {
            "charter": agreed.digest.hex() or None,
            "certificate": agreed.certificate.logged,
            "epsilon": None if privacy is None else privacy.epsilon,
            "delta": None if privacy is None else privacy.delta,
        }

    def _naming(self, clients: Iterable[int]) -> str:
        """Return words for clients; helpers have names, because people have to go and ask."""
        every, helpers = sorted(clients), self._federation.helper_ids
        members = [one for one in every if one not in helpers]
        named = [f"helper {seat_name(self._federation, one)}" for one in every if one in helpers]
        return ", ".join([by_id(members)] * (len(members) > 0 or not named) + named)

    def _row(self, replica: Replica, ended: Ended, started: Started, now: float) -> RoundRow:
        outcome = ended.failure or ended.result()
        lost, name = isinstance(outcome, RoundFailed), type(outcome).__name__
        reason = outcome.described(self._naming) if isinstance(outcome, RoundFailed) else ""
        if lost and ended.released and not self._agenda.is_noisy:
            after = "helpers were asked for their sums" if self._federation.helper_ids else "shares were released"
            name, reason = TASK_LOST, f"{name} after {after}: {reason}"
        return RoundRow(
            series=replica.row.series,
            number=ended.number,
            question=started.question,
            attempt=self._agenda.next_attempt(started.question),
            task=started.task,
            context=with_number(replica.config, ended.number).context,
            started=started.time,
            ended=now,
            outcome=name if lost else SUM,
            reason=reason if lost else "",
            survivors=() if isinstance(outcome, RoundFailed) else outcome.survivors,
            asked=started.asked,
            pairs=tuple(sorted((min(pair), max(pair)) for pair in outcome.evidence.pairs())),
            total=b"" if isinstance(outcome, RoundFailed) else outcome.vector.tobytes(),
        )
