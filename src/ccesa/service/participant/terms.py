"""What a hub announces, and how much of it a site takes: with a charter, only what that leaves open."""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, FaultyServer, shown
from ccesa.guards import guard_named
from ccesa.privacy.ledger import Account
from ccesa.service.forms import AnyForm, form_of
from ccesa.service.participant.calls import Answer, Call, Part, Pause, read
from ccesa.service.participant.events import Event
from ccesa.service.participant.line import Line
from ccesa.service.participant.site import Site

#: The state of a federation that has ended.
OVER = "over"
#: The most seconds until the hub is asked again, whatever it says.
_LONGEST = 60


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """As much of what a hub announces as decisions are made by."""

    guard: str
    state: str
    series: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    charter: str | None = None
    config: str | None = None
    form: Any = None
    part_bytes: int = 8 << 20
    #: The highest one that has an answer, or -1.
    question: int = -1


def part_bytes_of(told: int) -> int:
    """Return a size of parts that costs neither one call per byte nor all memory."""
    return min(max(told, 1 << 16), 1 << 26)


def next_series(site: Site, line: Line, after: int) -> Part[Announced]:
    """Return the series after this one, once there is one, or that the federation is over."""
    waited = False
    while True:
        call = Call(
            method="GET",
            path=f"/v1/federation?after={after}",
            headers={"prefer": f"wait={site.wait}"} if waited or after else {},
            wait=site.wait,
        )
        answer = yield from line.ask(call)
        found = read(answer, Announced)
        _check_guard(site, found)
        if found.state == OVER or found.series > after:
            return found
        if not waited:
            site.tell(Event(kind="waiting", text="waiting for rounds to begin"))
        waited = True
        yield Pause(seconds=pause_of(answer))


def pause_of(answer: Answer) -> int:
    """Return the seconds after which it is worth asking again."""
    told = answer.number("retry-after")
    return 1 if told is None else min(told, _LONGEST)


def _check_guard(site: Site, found: Announced) -> None:
    """Refuse a hub of another guard, or of another charter, than this site has agreed to."""
    chartered = guard_named(found.guard).chartered
    if site.charter is None and chartered:
        raise ConfigError(
            f"this hub runs rounds with guard = {found.guard}: take part with a charter and an identity"
        )
    if site.charter is not None and not chartered:
        raise FaultyServer(
            f"this site has a charter, and the hub runs rounds with guard = {shown(found.guard)}, "
            "which has none"
        )
    if site.charter is not None and found.charter != site.charter.digest.hex():
        raise FaultyServer(
            f"the hub has another charter ({shown((found.charter or 'none')[:8])}...) than this site "
            f"({site.charter.digest.hex()[:8]}..., serial {site.charter.serial}): compare the digests that "
            "`ccesa charter show` prints"
        )


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a series is, as far as this site has agreed to it."""

    config: RoundConfig
    form: AnyForm
    account: Account | None


def agreed(site: Site, found: Announced) -> Terms:
    """Read the configuration and the form of a series; what a charter says is taken from nowhere else."""
    try:
        data = base64.b64decode(found.config or "", validate=True)
    except (binascii.Error, ValueError):
        raise FaultyServer("the configuration of the series is not in base64") from None
    charter = site.charter
    if charter is None:
        config = RoundConfig.decode(data)
    else:
        charter.check_current()
        config = charter.decode(data)
    form = form_of(charter, found.form)
    if form.bits != config.bits:
        raise ConfigError(f"a form of {form.bits} bits in rounds of {config.bits}")
    return Terms(config=config, form=form, account=_account(site, form))


def _account(site: Site, form: AnyForm) -> Account | None:
    """Return what vectors are charged to. A site with a ledger takes part with noise only."""
    mechanism = form.mechanism
    if mechanism is None:
        if site.ledger is not None:
            raise ConfigError(
                "this site has a ledger, and takes part with noise only; these rounds have none"
            )
        return None
    if site.ledger is None:
        if site.charter is not None:
            raise ConfigError("the charter has noise: take part with a ledger")
        return None
    return site.ledger.account(mechanism, site.charter.digest if site.charter else None)
