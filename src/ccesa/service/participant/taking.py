"""A site's part in one series: it fetches, answers and hands in every exchange, and reports faults."""

from dataclasses import dataclass
from typing import Any

from ccesa.agreement.config import RoundConfig
from ccesa.errors import CcesaError, FaultyServer, MalformedMessage, OrderError, VectorError, own_failure, shown
from ccesa.memory import ROUND, UsedOnce
from ccesa.privacy.ledger import Account
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.masking import Careful
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.spending import check_table, count_table
from ccesa.protocol.steps import steps_of
from ccesa.service.forms import AnyForm
from ccesa.service.participant.calls import Call, Event, Flow, HubAnswer, Kind, Pause, pause_of
from ccesa.service.participant.line import Download, Line, send
from ccesa.service.participant.site import Site, at_once
from ccesa.service.tasks import task_digest
from ccesa.wire import Data
from ccesa.words import Vector

_TASK_BYTES = 32
_RECENT = 8  # a site knows this many rounds by their contexts; fewer are ever in flight
_REASON = 500  # the maximum length of a reason from the hub or from the site's own function


@dataclass(frozen=True, kw_only=True)
class SeriesTerms:
    """The terms of a series, to which this site has agreed."""

    config: RoundConfig
    form: AnyForm
    account: Account | None


class _Enough(OrderError):
    """Raised for a round that this site sits out, because it wants to be in one sum and is in a round already."""


class Taking:
    """One site's part in one series."""

    def __init__(self, site: Site, line: Line, number: int, terms: SeriesTerms) -> None:
        self._site, self._line, self._terms, self._number = site, line, terms, number
        used_rounds = UsedOnce(site.memory, ROUND)
        self._series = SeriesClient(terms.config, self._client, used_rounds=used_rounds)
        self._steps = steps_of(terms.config)
        self._most = sum(sorted(m.limit(step.request, terms.config) + 4 for step in self._steps)[-envelope.MOST :])
        #: The id of this client; if it is unknown, the hub says it in its first request.
        self._place = site.standing.client
        #: The task that this site holds: its digest, computed here, and its payload.
        self._task: tuple[bytes, bytes] | None = None
        self._joined: dict[bytes, int] = {}  # the rounds that this site has joined, by context
        #: The reasons for which this site sent noise around zeros, by number of the round.
        self.failures: dict[int, VectorError] = {}
        self._reported: set[int] = set()

    def run(self) -> Flow[bool]:
        """Follow the exchanges to the end of the series; return whether this site has finished."""
        self._tell("waiting", f"waiting for a round of series {self._number}")
        try:
            return (yield from self._exchanges())
        finally:
            self._series.stop()

    def _exchanges(self) -> Flow[bool]:
        latest = -1
        while True:
            path = f"/v1/series/{self._number}/exchanges"
            wait, most = self._site.wait, max(self._most, 1 << 16)
            headers = {"prefer": f"wait={wait}"}
            call = Call(method="GET", path=f"{path}?after={latest}", headers=headers, most=most, wait=wait)
            answer = yield from self._line.ask_as_member(call)
            if answer.status == 410:
                return False
            if answer.status == 204:
                yield Pause(seconds=pause_of(answer))
                continue
            latest = _exchange(answer, latest)
            if not answer.body:  # the series is over for this site
                return False
            yield from self._get_task(answer)
            reply = self._reply(answer.body)
            if (yield from self._hand_in(f"{path}/{latest}/reply", reply)):
                return True
            del reply
            self._series.prepare()

    def _get_task(self, answer: HubAnswer) -> Flow[None]:
        """Fetch the task that the hub names, if this site needs it and does not have it yet."""
        if "ccesa-task" not in answer.headers or not self._series.rounds:
            return
        named = _digest(answer.headers["ccesa-task"])
        if self._task is not None and self._task[0] == named:
            return
        self._task = None  # one at a time is in memory
        most = self._site.most_task or self._terms.form.most_task(self._terms.config.length)
        payload = yield from Download(self._line, f"/v1/tasks/{named.hex()}", most).run()
        if payload is not None:
            self._task = (task_digest(payload), payload)

    def _reply(self, request: bytes) -> bytes:
        """Return the reply to an exchange; empty if this site has no part in it."""
        try:
            if self._is_out(request):
                self._tell("out", "these rounds run without this site; it waits for the next one")
                return b""
            reply = self._series.receive(request)
        except (FaultyServer, MalformedMessage) as error:  # nothing has changed
            self._refuse(FaultyServer(str(error)))
            return b""
        for number, fault in sorted(self._series.faults.items()):
            if not isinstance(fault, _Enough):
                self._refuse(fault, number)
        return reply

    def _is_out(self, request: Data) -> bool:
        """Return whether no message starts a round, and none is of a round that this process has joined."""
        messages = envelope.unpack(request)
        if self._place is None:  # the hub's first message has it
            self._place = m.decode(messages[0], self._most).client
        starts = self._steps[0].request
        return not any(m.kind_of(one) is starts or m.context_of(one) in self._joined for one in messages)

    def _hand_in(self, path: str, reply: bytes) -> Flow[bool]:
        """Send a reply until the hub has it; return whether this site has finished."""

        def sent(offset: int) -> None:
            self._tell("sending", f"{offset:,} of {len(reply):,} bytes sent")

        answer = yield from send(self._line, path, reply, sent)
        self._report_failures()
        if answer.status in (200, 201, 204):
            return self._report_taken(reply)
        if answer.status == 410:
            self._tell("late", "the exchange closed before this answer arrived")
            return False
        if answer.status == 409:
            if not reply:
                return False  # an earlier process of this site has answered
            raise OrderError(
                "another process answers in the name of this site, with the same identity or token: stop one"
            )
        if answer.status == 422:
            self._refuse(FaultyServer(f"the hub did not take this site's answer ({answer})"))
            return False
        raise FaultyServer(f"the hub answered {answer} to a reply")

    def _report_failures(self) -> None:
        """Report the rounds in which only noise was sent, now that the answer has left."""
        for number in self.failures.keys() - self._reported:
            self._reported.add(number)
            text = f"nothing but noise was sent for round {number}: {self.failures[number]}"
            self._tell("nothing", shown(text, _REASON), number)

    def _report_taken(self, reply: Data) -> bool:
        """Report the outcome of a reply that the hub has; return whether this site has finished."""
        done = False
        for message in envelope.unpack(reply):
            kind, number = m.kind_of(message), self._joined.get(m.context_of(message) or b"")
            if kind is self._steps[0].reply:
                self._tell("joined", f"joined round {number}", number)
            elif kind is not None and m.has_vector(kind):
                self._tell("sent", f"sent a masked vector of {len(message):,} bytes for round {number}", number)
            elif kind is self._steps[-1].reply:
                self._tell("summed", f"in the sum of round {number}", number)
                done = self._site.once
        return done

    def _client(self, config: RoundConfig) -> Client:
        site = self._site
        if site.once and self._series.rounds:
            raise _Enough("this site takes part in one sum, and is in a round already")
        recent = list(self._joined.items())[1 - _RECENT :]
        self._joined = dict([*recent, (config.context, config.number)])
        return site.standing.make_client(
            config,
            self._place,
            Careful(lambda: self._vector(config)),
            task=lambda: self._held_task[0],
            tasks=site.memory,
            account=self._terms.account,
            threads=site.threads,
        )

    @property
    def _held_task(self) -> tuple[bytes, bytes]:
        """The digest and the payload of the task that this site holds; the hub may have named another digest."""
        if self._task is None:
            raise FaultyServer("the hub asks for a vector, and has not handed over the task")
        return self._task

    def _vector(self, config: RoundConfig) -> Vector:
        """Call the site's function, and turn its contribution into a vector."""
        (_, payload), agreed = self._held_task, self._site.standing.agreement
        if agreed.schema is not None:
            check_table(self._site.memory, agreed.digest, agreed.attempts)
        given = self._terms.form.argument(payload)
        self._tell("working", f"working on the task of round {config.number}", config.number)
        vector = self._contribution(given, payload, config)
        if agreed.schema is not None:
            count_table(self._site.memory, agreed.digest, agreed.attempts)
        return vector

    def _contribution(self, given: Any, payload: bytes, config: RoundConfig) -> Vector:
        """Return a vector of the form. With noise every site sends one, even if its function fails.

        Silence would reveal something about the site's data. So the site sends noise around zeros, and reports that
        afterwards.
        """
        noise = self._terms.form.mechanism
        if noise is None:
            return self._make(given, payload, config)
        from ccesa.privacy.quantizer import around_zero  # loaded only if noise is drawn

        # If every vector takes the same time, the hub could see that noise was drawn afterwards.
        nothing = None if self._site.make is at_once else around_zero(noise)
        try:
            return self._site.make(lambda: self._make(given, payload, config))
        except KeyboardInterrupt:  # the person at the site ends it
            raise
        except BaseException as error:  # also SystemExit
            self.failures[config.number] = own_failure(error)
        return around_zero(noise) if nothing is None else nothing

    def _make(self, given: Any, payload: bytes, config: RoundConfig) -> Vector:
        try:
            contribution = self._site.contribute(given, config.number)
            return self._terms.form.vector(contribution, payload, config.context)
        except CcesaError:
            raise
        except (Exception, SystemExit) as error:  # the site's own function
            if self._site.strict and isinstance(error, Exception):
                raise
            raise own_failure(error) from None

    def _refuse(self, error: CcesaError, number: int | None = None) -> None:
        """Report an error of the hub; a strict site ends with it."""
        if self._site.strict:
            raise error
        self._tell("refused", shown(str(error), _REASON), number)

    def _tell(self, kind: Kind, text: str, number: int | None = None) -> None:
        self._site.tell(Event(kind=kind, text=text, round=number))


def _exchange(answer: HubAnswer, latest: int) -> int:
    """Return the number of an answer's exchange; raise FaultyServer unless it is a later one."""
    exchange = answer.number("ccesa-exchange")
    if answer.status != 200 or exchange is None:
        raise FaultyServer(f"the hub did not answer with an exchange ({answer})")
    if exchange <= latest:
        raise FaultyServer(f"the hub sent exchange {exchange} after exchange {latest}")
    return exchange


def _digest(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != _TASK_BYTES:
        raise FaultyServer("the hub names a task that is not a digest")
    return found
