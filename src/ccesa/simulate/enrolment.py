"""Members, a charter and parties for rounds in one process. In real rounds each member has its own files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ccesa.agreement.agreement import TRUST
from ccesa.agreement.charter import Charter, Seat, Stated
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.graphs import Complete
from ccesa.graphs.thresholds import Majority
from ccesa.guards import guard_named
from ccesa.helper_keys import ProcessKeys
from ccesa.memory import ProcessMemory
from ccesa.privacy.ledger import Account, Ledger
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.client_states import VectorSource
from ccesa.protocol.server import Server

#: The largest time of a charter: simulated charters do not expire.
_NEVER = 2**53 - 1
_ZEROS: dict[str, Any] = {one.name: 0 for one in msgspec.structs.fields(Stated) if one.required}
#: The certificate of a charter without a plan: every failure is certain.
NOTHING = Stated(**_ZEROS)


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """All members and helpers with their identities, which only a simulation has in one place."""

    identities: Sequence[Identity] = field(repr=False)
    charter: Charter = field(repr=False)
    #: By place; a member that helps has the same identity in both lists.
    helpers: Sequence[Identity] = field(default=(), repr=False)


def enrol(clients: int) -> list[Identity]:
    return [Identity.new() for _ in range(clients)]


def make_charter(
    identities: Sequence[Identity], *, helpers: Sequence[Identity] = (), kind: type[Charter] = Charter, **agreed: Any
) -> Charter:
    """Make a charter of these members and helpers, in order. Without a certificate it promises nothing."""
    seats = tuple(Seat(f"client-{place}", one.public) for place, one in enumerate(identities))
    defaults: dict[str, Any] = {"serial": 1, "expires": _NEVER, "min_survivors": 3}
    if helpers:
        named = {seat.key: seat for seat in seats}
        each = (named.get(one.public, Seat(f"helper-{place}", one.public)) for place, one in enumerate(helpers))
        defaults |= {"helpers": tuple(each), "colluders": 0}
    else:
        graph = {"graph": Complete(), "threshold": Majority(), "least_roster": 3, "certificate": NOTHING}
        defaults |= graph
    return kind(members=seats, **(defaults | agreed))


def federate(clients: int, *, helpers: int = 0, **agreed: Any) -> Enrolment:
    """Return a new federation of members, with this number of helpers that are not members."""
    identities, others = enrol(clients), enrol(helpers)
    charter = make_charter(identities, helpers=others, **agreed)
    return Enrolment(identities=identities, charter=charter, helpers=others)


def new_client(
    config: RoundConfig, number: int, vector: VectorSource, federation: Enrolment | None = None, **options: Any
) -> Client:
    """Make the client with this number; under a guard with a charter it belongs to the federation."""
    if not guard_named(config.guard).chartered:
        return Client(config, number, vector, **options)
    members = _require(config, federation)
    # Rounds in one process have no tasks that could be repeated, and no personal data.
    options = {"tasks": None, "account": fresh_account(members.charter), **options}
    return ActiveClient(config, members.identities[number], members.charter, vector, **options)


def new_helper(config: RoundConfig, place: int, federation: Enrolment, **options: Any) -> Helper:
    """Make the helper in this place; keys and memory last as long as the process, unless they are given."""
    options = {"memory": ProcessMemory(), "keys": ProcessKeys(), **options}
    return Helper(config, federation.helpers[place], federation.charter, **options)


def new_helpers(config: RoundConfig, federation: Enrolment | None, **options: Any) -> dict[int, Helper]:
    """Make all helpers of a round by their ids; none for a round without them."""
    if not config.helper_ids:
        return {}
    members = _require(config, federation)
    return {one: new_helper(config, place, members, **options) for place, one in enumerate(config.helper_ids)}


def fresh_account(charter: Charter) -> Account | None:
    """Return an account of a new ledger in memory, with room for all rounds of the charter."""
    mechanism = charter.mechanism
    if mechanism is None:
        return None
    ledger = Ledger.in_memory(epsilon=mechanism.epsilon, delta=mechanism.delta)
    return ledger.account(mechanism, charter.digest)


def new_server(config: RoundConfig, federation: Enrolment | None = None, **options: Any) -> Server:
    """Make the server of a round; under a guard with a charter it has the federation's."""
    chartered = guard_named(config.guard).chartered
    return Server(config, _require(config, federation).charter if chartered else TRUST, **options)


def _require(config: RoundConfig, federation: Enrolment | None) -> Enrolment:
    if federation is None:
        raise ConfigError(f"a round under guard = {config.guard} needs a federation: simulate.federate(...) makes one")
    return federation
