"""Records: each round that is over is written down, with who was in it, and who is to blame for what."""

import dataclasses
import json
import logging

from ccesa.errors import CorruptShares, RoundFailed, VectorError
from ccesa.evidence import Evidence
from ccesa.protocol.schedule import numbered
from ccesa.protocol.series import Ended
from ccesa.service.federation import Federation
from ccesa.service.hub.agenda import ABANDONED, SENSELESS, SUM, TASK_LOST, Agenda
from ccesa.service.hub.blame import blamed
from ccesa.service.hub.budget import spent
from ccesa.service.hub.presence import Presence
from ccesa.service.hub.replica import Replica, Started
from ccesa.service.logs import event
from ccesa.service.meters import Meters
from ccesa.service.store import Store
from ccesa.service.store.rows import Exchange, RoundRow, SeriesRow


class Records:
    """Writes down what came out of rounds, and sets clients aside that were blamed too often."""

    def __init__(
        self, federation: Federation, store: Store, agenda: Agenda, presence: Presence, meters: Meters
    ) -> None:
        self._federation, self._store, self._agenda = federation, store, agenda
        self._presence, self._meters = presence, meters
        #: Who sent this hub what an honest client would not, in the open exchange.
        self.faulty: set[int] = set()

    def reload(self) -> None:
        """Read what other hubs have written down."""
        self._agenda.reload()

    def begin_exchange(self) -> None:
        """Count faults anew: an exchange has opened."""
        self.faulty = set()

    def write(self, replica: Replica, now: float) -> None:
        """Write down all rounds that a replica knows to be over; what was written before stays."""
        self._agenda.reload()
        known = {(row.series, row.number) for row in self._agenda.rounds}
        while replica.ended:
            if (replica.row.series, replica.ended[0].number) not in known:
                self._put(replica, replica.ended[0], now)
            replica.ended.pop(0)
        self._store.forget(replica.row.series, replica.oldest)

    def abandon(self, now: float) -> None:
        """End the series that is running, if there is one; whatever was in flight in it is lost.

        Vectors may have left for the questions that were asked in it, so they count as asked.
        """
        row = self._store.series()
        if row is not None and not row.over:
            self._abandon(row, now)
        self._store.begin_anew()

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
        """Write down that a client sent what an honest one would not."""
        self.faulty.add(client)
        event("refused", logging.WARNING, client=client, reason=reason)
        self.blame({client}, f"it sent what an honest client would not: {reason}")

    def blame(self, clients: set[int], reason: str) -> None:
        """Count a blame for each of these; whoever has too many is set aside."""
        if not clients:
            return
        now, most = self._presence.now(), self._federation.policy.faults
        self._set_aside(self._store.blame(dict.fromkeys(clients, 1), reason, now, most), reason)

    def _set_aside(self, clients: set[int], reason: str) -> None:
        """Know that clients were set aside, and say so."""
        self._presence.reload()
        for client in sorted(clients):
            event("set-aside", logging.WARNING, client=client, reason=reason)

    def audit(self, kind: str, now: float, **body: object) -> None:
        """Add an entry to the audit log, and a line to the other one."""
        self._store.audit(kind, json.loads(json.dumps(body)), now)
        short = {name: value for name, value in body.items() if isinstance(value, int | float | str)}
        event(kind.replace(" ", "-"), logging.INFO, **short)

    def _put(self, replica: Replica, ended: Ended, now: float) -> None:
        """Write down one round, if no other hub was faster."""
        row = self._row(replica, ended, replica.started[ended.number], now)
        if row.outcome == SUM:
            self._agenda.tell()
            row = self._told(row)
        blames = blamed(row.pairs, self._federation.agreement.around)
        if isinstance(ended.failure, CorruptShares):
            blames.add(ended.failure.client)
        aside = self._store.put_round(row, blames, self._federation.policy.faults, self._promised(row))
        self._agenda.reload()
        if aside is not None:
            self._set_aside(aside, f"round {row.number} of series {row.series}")
            self._meters.round_over(row.outcome, len(row.pairs))
            said = ("series", "number", "question", "attempt", "outcome", "reason", "asked", "pairs")
            event("round", survivors=len(row.survivors), **{name: getattr(row, name) for name in said})

    def _told(self, row: RoundRow) -> RoundRow:
        """Tell the coordinator about a sum; one that no vectors of this form have is a round that is lost.

        Somebody in it lied, and masks hide who.
        """
        try:
            return dataclasses.replace(row, metrics=dict(self._agenda.told(row)))
        except VectorError as error:
            reason = f"somebody in the sum lied: {error}"
            return dataclasses.replace(row, outcome=SENSELESS, reason=reason, total=b"")

    def _promised(self, row: RoundRow) -> dict[str, object]:
        """Return what a sum rests on, and what the noise in all of them has spent, this one included."""
        agreed, privacy = self._federation.agreement, spent(self._federation, [*self._agenda.rounds, row])
        return {
            "charter": agreed.digest.hex() or None,
            "certificate": agreed.stated,
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
            context=numbered(replica.config, ended.number).context,
            started=started.time,
            ended=now,
            outcome=name if lost else SUM,
            reason=reason if lost else "",
            survivors=() if isinstance(outcome, RoundFailed) else outcome.survivors,
            asked=started.asked,
            pairs=_pairs(outcome.evidence),
            total=b"" if isinstance(outcome, RoundFailed) else outcome.vector.tobytes(),
            metrics={},
        )


def _pairs(evidence: Evidence) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((min(pair), max(pair)) for pair in evidence.pairs()))


def _abandoned(series: int, number: int, asked: Exchange, agenda: Agenda, now: float) -> RoundRow:
    """Return a round that was asked for vectors in a series that was ended."""
    return RoundRow(
        series=series,
        number=number,
        question=asked.question,
        attempt=agenda.attempts(asked.question or 0) + 1,
        task=asked.task,
        context=b"",
        started=asked.opened,
        ended=now,
        outcome=ABANDONED,
        reason="the operator has begun a new series; sites answer a question in one series only",
        survivors=(),
        asked=len(asked.members),
        pairs=(),
        total=b"",
        metrics={},
    )
