"""The hub that holds the lease leads: it begins series, opens and closes exchanges, and records outcomes.

What it decides is in the store before anybody acts on it. Two that lead for a moment, because one was slow,
do no harm: every decision is made once, and whoever comes second follows the first.
"""

import logging
import math

import msgspec

from ccesa.errors import CcesaError
from ccesa.protocol import messages as m
from ccesa.service.errors import Unavailable
from ccesa.service.federation import Federation
from ccesa.service.hub.agenda import Agenda
from ccesa.service.hub.presence import Presence, elapsed
from ccesa.service.hub.records import Records
from ccesa.service.hub.replica import Replica
from ccesa.service.logs import event
from ccesa.service.meters import Meters
from ccesa.service.store import Store
from ccesa.service.store.rows import Exchange
from ccesa.service.tasks import task_digest

#: The last step of a round.
_LAST = "unmask"
#: Seconds for which the lease is taken, and after which what could not be done is tried again.
LEASE, PATIENCE = 10.0, 5.0
#: Rounds of a series: more than there ever are.
ROUNDS = 1 << 31


class Leader:
    """Does what only one hub at a time should do."""

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
        #: When the lease was taken, when members were first waited for, and when something could not be done.
        self._taken, self._gathering, self._held = -math.inf, 0.0, -math.inf
        #: Who was here when a round was last begun by this hub.
        self._tried: set[int] = set()
        #: Why nothing goes on; empty where it does.
        self.reason = ""
        #: Whether that is a store that has gone back.
        self.is_stale = False

    def breathe(self, now: float) -> None:
        """Take or keep the lease."""
        self._taken = now if self._store.lead(self._name, now, LEASE) else -math.inf

    def leads(self, now: float) -> bool:
        """Tell whether this hub leads."""
        return elapsed(self._taken, now) < LEASE

    def act(self, replica: Replica | None, now: float) -> bool:
        """Do the next thing that is due; return whether the log has changed by it."""
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
        """Wait, for a reason that an operator has to know; it is logged once and shown while it lasts."""
        if reason != self.reason:
            event("stuck", logging.WARNING, reason=reason)
        self.reason, self._held, self.is_stale = reason, now, is_stale

    def _begin(self, now: float) -> bool:
        """Begin a series for the questions that are left.

        It has rounds for as often as they may be asked: sites answer a question in one series only.
        """
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
        """Open the next exchange; or end the series, where nothing is left to ask."""
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
        opening = Exchange(
            exchange=replica.next,
            members=tuple(sorted(self._tried)) if self._is_needed(replica) else (),
            task=m.NO_TASK if question is None else task_digest(self._agenda.task(question)),
            question=question,
            opened=now,
        )
        self._store.open_exchange(replica.row.series, opening)
        return True

    def _is_needed(self, replica: Replica) -> bool:
        """Tell whether there is a question for one more round than are in flight, if one could start now."""
        return replica.before_start > 0 or len(self._agenda.pending) > len(replica.in_flight)

    def _is_gathered(self, replica: Replica, now: float) -> bool:
        """Tell whether enough members are here for a round; one in flight goes on with whom it has."""
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
        """Tell whether the next round waits, after some that were lost before vectors were asked for.

        The same members would lose the next one, too. Whoever has come since may cure it.
        """
        return present <= self._tried and now < self._agenda.rests_until

    def _close(self, replica: Replica, opened: Exchange, now: float) -> bool:
        """Close the open exchange, if the policy says so.

        Whoever has said that it takes no part is not waited for, and no answer that others could be missed
        for.
        """
        place, seconds = (replica.row.series, opened.exchange), elapsed(opened.opened, now)
        answers, empty = self._store.count_answered(*place)
        closes = self._federation.policy.closes(
            asked=len(replica.requests) - empty,
            answered=answers - empty,
            least=min(self._federation.minimum, len(replica.requests)),
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
