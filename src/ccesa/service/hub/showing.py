"""A hub shows its sites a view of what is open, and its operator a status."""

import time

from ccesa.service.desk import MemberState, MemberStatus, RoundStatus, State, Status, StepStatus, View
from ccesa.service.federation import Federation
from ccesa.service.hub.agenda import Agenda, Presence, measure_privacy
from ccesa.service.hub.leader import Leader
from ccesa.service.hub.replica import Replica
from ccesa.service.store import Store
from ccesa.service.store.rows import ExchangeRow, RoundRow

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
    "stuck": "Fix the problem above. The hub tries again every few seconds.",
    "over": "To ask more questions, raise rounds in the federation's file.",
}


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
            return "over", self._lost()
        if reason := self._store.pause_reason():
            return "paused", reason
        if replica is None or (replica.open is None and not replica.series.rounds):
            return "gathering", self._presence.shortage(self._presence.now()) or self._setback()
        return "running", ""

    def _setback(self) -> str:
        """Return a text about rounds lost in the set-up, if the latest ones were."""
        lost = self._agenda.lost_in_setup
        if not lost:
            return ""
        until = time.strftime("%H:%M:%S UTC", time.gmtime(self._agenda.rests_until))
        what = "the last round was" if lost == 1 else f"the last {lost} rounds were"
        return f"{what} lost in the set-up; the next one begins at {until}: {self._agenda.rounds[-1].reason}"

    def _advice(self, state: State, now: float) -> str:
        if state == "gathering":
            missing = [client for client in range(self._federation.clients) if not self._presence.is_here(client, now)]
            names = [self._federation.agreement.names[client] for client in missing]
            more = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
            return f"Start the sites that are missing: {', '.join(names[:_NAMED])}{more}." if names else _SITES
        is_stale = state == "stuck" and self._leader.is_stale
        return _GONE_BACK if is_stale else _ADVICE.get(state, "")

    def _is_over(self) -> bool:
        """Return whether nothing is left to do. A hub that has just started may have no replica yet."""
        row = self._store.series()
        is_running = row is not None and not row.over
        return not is_running and (not self._agenda.pending or self._store.is_finishing())

    def _lost(self) -> str:
        lost = set(range(self._agenda.questions)) - self._agenda.answered
        return f"{len(lost)} of {self._agenda.questions} sums are missing" if lost else ""

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
            rounds=[_round(row) for row in self._agenda.rounds[-MOST_ROUNDS:]],
            certificate=list(self._federation.agreement.promises),
            privacy_bits=self._federation.agreement.certificate.privacy_bits,
            privacy=measure_privacy(self._federation, self._agenda.rounds),
            head="" if head is None else head.hash.hex(),
            hubs=self._store.hubs(now - DEAD),
            now=now,
        )

    def _member(self, client: int, asked: bool, answered: bool, now: float) -> MemberStatus:
        row = self._presence.row(client)
        here: MemberState = "present" if self._presence.is_here(client, now) else "absent"
        return MemberStatus(
            client=client,
            name=self._federation.agreement.names[client],
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
