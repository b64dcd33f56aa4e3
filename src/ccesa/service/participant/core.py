"""A participant follows the rounds of a hub to the end, with no socket and no clock.

Under a charter a site takes from the hub only the part of a round that the charter leaves open. Before anything
leaves the site, its memory has an entry for anything that must not happen twice. A participant that was killed and
started again is out of the rounds in flight, reports it, and is in the next round.
"""

from typing import Annotated, Any

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.errors import (
    CcesaError,
    ConfigError,
    FaultyServer,
    MalformedMessage,
    OrderError,
    VectorError,
    own_failure,
    shown,
)
from ccesa.memory import ROUND, UsedOnce
from ccesa.privacy.ledger import Account
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.masking import Careful
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.spending import check_table, count_table
from ccesa.protocol.steps import steps_of
from ccesa.service.forms import AnyForm, Statistics, form_of
from ccesa.service.participant.calls import (
    Call,
    Event,
    Flow,
    HubAnswer,
    Kind,
    Pause,
    pause_of,
    read,
    read_base64,
    read_json,
)
from ccesa.service.participant.line import Download, Line, Upload
from ccesa.service.participant.site import Site, TakeResult, at_once
from ccesa.service.tasks import task_digest
from ccesa.wire import Data
from ccesa.words import Vector

OVER = "over"  # the state of a federation that has ended
#: The maximum number of results to ask for, of bytes of one besides its value, and of levels of nesting.
MOST_RESULTS, _MOST_BESIDE, _DEPTH = 100_000, 1 << 22, 20
_TASK_BYTES = 32
_RECENT = 8  # a site knows this many rounds by their contexts; fewer are ever in flight
_REASON = 500  # the maximum length of a reason from the hub or from the site's own function


def take_part(site: Site) -> Flow[None]:
    """Take part in a federation until it is over; ``Participant.run`` has a list of the errors."""
    standing = site.standing
    line = Line(member=standing.member, token=standing.token, patience=site.patience, tell=site.tell)
    number, failures = 0, list[VectorError]()
    while True:
        announced = yield from next_series(site, line, number)
        if announced.state == OVER:
            if site.results is not None:
                form = form_of(standing.agreement, announced.form)
                yield from fetch_results(line, form, announced.question, site.results)
            without = ", without a single sum" if announced.question < 0 else ""
            site.tell(Event(kind="over", text=f"the federation is over{without}"))
            break
        number = announced.series
        line.part_bytes = part_of(site, announced)
        taking = Taking(site, line, announced)
        done = yield from taking.run()
        failures += taking.failures.values()
        if done:
            break
    if site.strict and failures:  # only in the end: the hub must not notice
        raise failures[0]


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a hub's announcement on which a site decides."""

    guard: str
    state: str
    series: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    charter: str | None = None
    config: str | None = None
    form: Any = None
    part_bytes: int = 8 << 20
    question: int = -1  # the highest question that has an answer, or -1


def part_of(site: Site, announced: Announced) -> int:
    """Return the size of parts: neither one call for each byte, nor all of the memory for one part."""
    return site.part_bytes or min(max(announced.part_bytes, 1 << 16), 1 << 26)


def next_series(site: Site, line: Line, after: int) -> Flow[Announced]:
    """Return the announcement of the series after this one, or of the end of the federation, once it comes."""
    waited = False
    while True:
        headers = {"prefer": f"wait={site.wait}"} if waited or after else {}
        call = Call(method="GET", path=f"/v1/federation?after={after}", headers=headers, wait=site.wait)
        answer = yield from line.ask(call)
        announced = read(answer, Announced)
        site.standing.check_hub(announced.guard, announced.charter)
        if announced.state == OVER or announced.series > after:
            return announced
        if not waited:
            site.tell(Event(kind="waiting", text="waiting for rounds to begin"))
        waited = True
        yield Pause(seconds=pause_of(answer))


class _Enough(OrderError):
    """Raised for a round that this site sits out, because it wants to be in one sum and is in a round already."""


class Taking:
    """One site's part in one series."""

    def __init__(self, site: Site, line: Line, announced: Announced) -> None:
        """Agree to the terms of the series; the charter's part of them comes from the site's own copy."""
        self._site, self._line, self._number = site, line, announced.series
        agreement, data = site.standing.agreement, read_base64(announced.config or "", "configuration of the series")
        agreement.check_current()
        config, self._form = agreement.decode(data), form_of(agreement, announced.form)
        if self._form.bits != config.bits:
            raise ConfigError(
                f"the form has words of {self._form.bits} bits, and the rounds have words of {config.bits}"
            )
        self._length, self._account = config.length, self._account_for(self._form)
        self._series = SeriesClient(config, self._client, used_rounds=UsedOnce(site.memory, ROUND))
        #: Those that members answer.
        self._steps = tuple(step for step in steps_of(config) if not step.by_helpers)
        self._most = sum(sorted(m.limit(step.request, config) + 4 for step in self._steps)[-envelope.MOST :])
        #: The id of this client; if it is unknown, the hub says it in its first request.
        self._place = site.standing.client
        #: The task that this site holds: its digest, computed here, and its payload.
        self._task: tuple[bytes, bytes] | None = None
        self._joined: dict[bytes, int] = {}  # the rounds that this site has joined, by context
        #: The reasons for which this site sent noise around zeros, by number of the round.
        self.failures: dict[int, VectorError] = {}
        self._reported: set[int] = set()

    def _account_for(self, form: AnyForm) -> Account | None:
        if form.mechanism is not None:
            return self._site.standing.account(self._site.ledger, form.mechanism)
        if self._site.ledger is not None:
            raise ConfigError(
                "this site has a ledger, so it takes part only in rounds with noise; these rounds have none"
            )
        return None

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
            latest = exchange_of(answer, latest)
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
        sends_at_once = m.has_vector(self._steps[0].reply)
        if "ccesa-task" not in answer.headers or not (self._series.rounds or sends_at_once):
            return
        named = _digest(answer.headers["ccesa-task"])
        if self._task is not None and self._task[0] == named:
            return
        self._task = None  # one at a time is in memory
        most = self._site.max_task or self._form.max_task(self._length)
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

        answer = yield from Upload(self._line, path, reply, sent).run()
        self._report_failures()
        if answer.status in (200, 201, 204):
            return self._report_taken(reply)
        if answer.status == 410:
            self._tell("late", "the exchange closed before this answer arrived")
            return False
        if answer.status == 409:
            if not reply:
                return False  # an earlier process of this site has answered
            raise OrderError("another process answers with the identity or token of this site: stop one of the two")
        if answer.status == 422:
            self._refuse(FaultyServer(f"the hub refused this site's answer ({answer})"))
            return False
        raise FaultyServer(f"the hub answered {answer} to a reply")

    def _report_failures(self) -> None:
        """Report the rounds in which only noise was sent, now that the answer has left."""
        for number in self.failures.keys() - self._reported:
            self._reported.add(number)
            text = f"only noise was sent for round {number}: {self.failures[number]}"
            self._tell("nothing", shown(text, _REASON), number)

    def _report_taken(self, reply: Data) -> bool:
        """Report the outcome of a reply that the hub has; return whether this site has finished."""
        done = False
        for message in envelope.unpack(reply):
            kind, number = m.kind_of(message), self._joined.get(m.context_of(message) or b"")
            if kind is not None and m.has_vector(kind):
                self._tell("sent", f"sent a masked vector of {len(message):,} bytes for round {number}", number)
            elif kind is self._steps[0].reply:
                self._tell("joined", f"joined round {number}", number)
            elif kind is self._steps[-1].reply:
                self._tell("summed", f"in the sum of round {number}", number)
            done = done or (self._site.once and kind is self._steps[-1].reply)
        return done

    def _client(self, config: RoundConfig) -> Client:
        site = self._site
        if site.once and self._series.rounds:
            raise _Enough("this site takes part in one sum only, and is already in a round")
        recent = list(self._joined.items())[1 - _RECENT :]
        self._joined = dict([*recent, (config.context, config.number)])
        return site.standing.make_client(
            config,
            self._place,
            Careful(lambda: self._vector(config)),
            task=lambda: self._held_task[0],
            tasks=site.memory,
            account=self._account,
            threads=site.threads,
        )

    @property
    def _held_task(self) -> tuple[bytes, bytes]:
        """The digest and the payload of the task that this site holds; the hub may have named another digest."""
        if self._task is None:
            raise FaultyServer("the hub asked for a vector before it sent the task")
        return self._task

    def _vector(self, config: RoundConfig) -> Vector:
        """Call the site's function, and turn its contribution into a vector."""
        (_, payload), agreed = self._held_task, self._site.standing.agreement
        if agreed.schema is not None:
            check_table(self._site.memory, agreed.digest, agreed.attempts)
        given = self._form.argument(payload)
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
        noise = self._form.mechanism
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
            return self._form.vector(contribution, payload, config.context)
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


def exchange_of(answer: HubAnswer, latest: int) -> int:
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
        raise FaultyServer("the hub named a task by an invalid digest")
    return found


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The published result of one question."""

    question: int
    outcome: str
    series: int
    number: int
    survivors: list[int]
    value: Any
    metrics: dict[str, float]
    head: str  # The head of the audit log in hexadecimal. Keep it to notice a later change of the log.


class _Sum(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sum of words or a mean of arrays, in base64: no larger in memory than on the wire."""

    words: str | msgspec.UnsetType = msgspec.UNSET
    bits: int | msgspec.UnsetType = msgspec.UNSET
    arrays: str | msgspec.UnsetType = msgspec.UNSET
    weight: float | msgspec.UnsetType = msgspec.UNSET


class _Plain(Published, frozen=True, kw_only=True):
    value: _Sum


class _Outline(msgspec.Struct, frozen=True):
    value: msgspec.Raw


def fetch_results(line: Line, form: AnyForm, last: int, take: TakeResult) -> Flow[None]:
    """Fetch all published results, one by one, up to the last question that has an answer."""
    for question in range(min(last + 1, MOST_RESULTS)):
        body = yield from Download(line, f"/v1/results/{question}", form.max_result).run()
        if body is not None:  # neither lost nor unpublished
            take(_read(body, form))


def _read(body: bytes, form: AnyForm) -> dict[str, Any]:
    """Return a result. Only a report may have any shape, because lists take thirty times their bytes."""
    if len(body) - len(read_json(body, _Outline).value) > _MOST_BESIDE:
        raise FaultyServer(f"a result has more than {_MOST_BESIDE} bytes besides its value")
    kind = Published if isinstance(form, Statistics) else _Plain
    result: dict[str, Any] = msgspec.to_builtins(read_json(body, kind))
    if not _is_flat(result, _DEPTH):
        raise FaultyServer("a result is nested more deeply than any report")
    return result


def _is_flat(value: object, depth: int) -> bool:
    """Return whether nothing is nested more deeply than this, so that JSON can be written again."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_flat(one, depth - 1) for one in inner)
