"""A participant follows the rounds of a hub to the end, with no socket and no clock.

Under a charter a site takes from the hub only the part of a round that the charter leaves open. Before anything
leaves the site, its memory has an entry for anything that must not happen twice. A participant that was killed and
started again is out of the rounds in flight, reports it, and is in the next round.
"""

from typing import Annotated, Any

import msgspec

from ccesa.errors import ConfigError, FaultyServer, VectorError
from ccesa.service.forms import AnyForm, Statistics, form_of
from ccesa.service.participant.calls import Call, Event, Flow, Pause, pause_of, read, read_base64, read_json
from ccesa.service.participant.line import Download, Line
from ccesa.service.participant.site import Site, TakeResult
from ccesa.service.participant.taking import SeriesTerms, Taking

OVER = "over"  # the state of a federation that has ended
#: The maximum number of results to ask for, of bytes of one beside its value, and of levels of nesting.
MOST_RESULTS, _MOST_BESIDE, _DEPTH = 100_000, 1 << 22, 20


def take_part(site: Site) -> Flow[None]:
    """Take part in a federation until it is over; ``Participant.run`` has a list of the errors."""
    standing = site.standing
    line = Line(member=standing.member, token=standing.token, patience=site.patience, tell=site.tell)
    number, failures = 0, list[VectorError]()
    while True:
        announced = yield from _next_series(site, line, number)
        if announced.state == OVER:
            if site.results is not None:
                form = form_of(standing.agreement, announced.form)
                yield from fetch_results(line, form, announced.question, site.results)
            without = ", without a single sum" if announced.question < 0 else ""
            site.tell(Event(kind="over", text=f"the federation is over{without}"))
            break
        number = announced.series
        # Neither one call for each byte, nor all of the memory for one part.
        line.part_bytes = site.part_bytes or min(max(announced.part_bytes, 1 << 16), 1 << 26)
        taking = Taking(site, line, number, _terms_of(site, announced))
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


def _next_series(site: Site, line: Line, after: int) -> Flow[Announced]:
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


def _terms_of(site: Site, announced: Announced) -> SeriesTerms:
    """Return the terms of a series; the charter's part of them comes from the site's own copy."""
    agreement, data = site.standing.agreement, read_base64(announced.config or "", "configuration of the series")
    agreement.check_current()
    config, form = agreement.decode(data), form_of(agreement, announced.form)
    if form.bits != config.bits:
        raise ConfigError(f"a form of {form.bits} bits in rounds of {config.bits}")
    account = None
    if form.mechanism is not None:
        account = site.standing.account(site.ledger, form.mechanism)
    elif site.ledger is not None:
        raise ConfigError("this site has a ledger, and takes part only with noise; these rounds have no noise")
    return SeriesTerms(config=config, form=form, account=account)


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
        body = yield from Download(line, f"/v1/results/{question}", form.most_result).run()
        if body is not None:  # neither lost nor unpublished
            take(_read(body, form))


def _read(body: bytes, form: AnyForm) -> dict[str, Any]:
    """Return a result. Only a report may have any shape, because lists take thirty times their bytes."""
    if len(body) - len(read_json(body, _Outline).value) > _MOST_BESIDE:
        raise FaultyServer(f"a result has more than {_MOST_BESIDE} bytes beside its value")
    kind = Published if isinstance(form, Statistics) else _Plain
    result: dict[str, Any] = msgspec.to_builtins(read_json(body, kind))
    if not _is_flat(result, _DEPTH):
        raise FaultyServer("a result is nested more deeply than any report")
    return result


def _is_flat(value: object, depth: int) -> bool:
    """Return whether nothing is nested more deeply than this, so that JSON can be written again."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_flat(one, depth - 1) for one in inner)
