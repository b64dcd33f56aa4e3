"""Who takes part in a round under the guard ``active``: charters, configurations and identities."""

from functools import partial

import msgspec
import numpy as np
import pytest

from active_rounds import STEP_NAMES, played, secrets_of
from ccesa.agreement.charter import Charter, Seat
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.graphs import Harary
from ccesa.graphs.thresholds import Fixed
from ccesa.plan import plan
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.client_states import Membership
from ccesa.protocol.server import Server
from rounds import Play, charter, configure, configure_active, identity


def vector() -> np.ndarray:
    return np.zeros(5, np.uint16)


def test_the_guards_do_not_mix():
    active, curious = configure_active(8), configure(8)
    with pytest.raises(ConfigError, match="guard = active, which needs a charter: make an ActiveClient"):
        Client(active, 0, vector())
    with pytest.raises(ConfigError, match=r"which needs a charter: .* Server\(config, charter\)"):
        Server(active)
    with pytest.raises(ConfigError, match="guard = curious, which has no charter"):
        ActiveClient(curious, identity(0), charter(8), vector(), tasks=None)
    with pytest.raises(ConfigError, match="guard = curious, which has no charter"):
        Server(curious, charter(8))


def test_what_was_forgotten_or_swapped_is_named():
    planned, agreed = plan(8, 0.1), charter(8)
    with pytest.raises(ConfigError, match="config: expected RoundConfig, got Plan; plan"):
        Client(planned, 0, vector())
    with pytest.raises(ConfigError, match="config: expected RoundConfig, got Plan"):
        Server(planned)
    with pytest.raises(ConfigError, match="config: expected RoundConfig, got Plan"):
        Server(planned, agreed)
    with pytest.raises(ConfigError, match="charter: expected Charter, got str"):
        Server(configure_active(8), "charter.toml")
    with pytest.raises(ConfigError, match="identity: expected Identity, got Charter"):
        ActiveClient(configure_active(8), agreed, identity(0), vector(), tasks=None)


def test_a_charter_does_not_take_the_place_of_a_floor_under_a_guard_without_one():
    config, member = configure(8), Membership(identity=identity(0), charter=charter(8))
    with pytest.raises(ConfigError, match="has no charter: make a Client"):
        Client(config, 0, vector(), floor=Floor(clients=100), member=member)
    with pytest.raises(ConfigError, match=r"has no charter: .* Server"):
        Server(config, charter(8))


#: Another value for everything that a configuration says.
DIFFERENT = {
    "clients": {"clients": 9},
    "bits": {"bits": 32},
    "graph": {"graph": Harary(degree=6)},
    "threshold": {"threshold": Fixed(t=6)},
    "generator": {"generator": "chacha20"},
    "agreement": {"agreement": "x25519-mlkem768", "accept": True},
    "min_survivors": {"min_survivors": 4},
    "guard": {"guard": "curious", "charter": msgspec.UNSET},
    "charter": {"charter": bytes(32)},
}
LEFT = {"series_id": bytes(32), "number": 5, "length": 7, "accept": True}


def test_these_are_all_fields():
    assert DIFFERENT.keys() | LEFT.keys() | {"version"} == set(RoundConfig.__struct_fields__)


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_configuration_that_differs_from_the_charter_is_refused_before_a_key_is_drawn(name):
    """By both sides. The digest that it carries is right, unless that is what differs."""
    agreed, asked = charter(8), []
    config = msgspec.structs.replace(agreed.config(length=5), **DIFFERENT[name])
    match = {"guard": "guard = curious, which has no charter", "charter": "is for another charter"}.get(
        name, f"differs from the charter in {name}"
    )
    with pytest.raises(ConfigError, match=match):
        ActiveClient(config, identity(0), agreed, vector(), random=asked.append, used_rounds=Untouched(), tasks=None)
    with pytest.raises(ConfigError, match=match):
        Server(config, agreed)
    assert not asked


class Untouched(set):
    """Nothing is to be remembered of a round that is refused."""

    def add(self, element: object) -> None:
        raise AssertionError(element)


@pytest.mark.parametrize("name", LEFT)
def test_series_number_length_and_accept_are_left(name):
    config = msgspec.structs.replace(charter(8).config(length=5), **{name: LEFT[name]})
    Server(config, charter(8))
    ActiveClient(config, identity(0), charter(8), np.zeros(config.length, np.uint16), tasks=None)


def seats() -> tuple[Seat, ...]:
    return charter(8).members


OTHER_MEMBERS = {
    "shorter": lambda: seats()[:-1],
    "longer": lambda: charter(9).members,
    "another order": lambda: seats()[::-1],
    "another key": lambda: (*seats()[:-1], Seat("x", identity(77).public)),
    "another name": lambda: (*seats()[:-1], Seat("x", seats()[-1].key)),
}


@pytest.mark.parametrize("name", OTHER_MEMBERS)
def test_a_round_of_a_charter_with_other_members_is_refused_by_both_sides(name):
    config, other, asked = configure_active(8), replaced(charter(8), members=OTHER_MEMBERS[name]()), []
    with pytest.raises(ConfigError, match="is for another charter"):
        ActiveClient(config, identity(0), other, vector(), random=asked.append, tasks=None)
    with pytest.raises(ConfigError, match="is for another charter"):
        Server(config, other)
    with pytest.raises(ConfigError, match=r"another charter .*serial 1.*: compare the digests"):
        other.decode(config.encode())
    assert not asked


def replaced(agreed: Charter, **fields) -> Charter:
    return msgspec.structs.replace(agreed, **fields)


@pytest.mark.parametrize(("now", "valid"), [(999, True), (999.9, True), (1000, False), (10**9, False)])
def test_a_charter_that_has_expired_is_refused_before_a_key_is_drawn(now, valid):
    agreed, asked = charter(8, expires=1000), []
    make = partial(
        ActiveClient, agreed.config(length=5), identity(0), agreed, vector(), random=asked.append, tasks=None
    )
    if valid:
        make(now=now)
    else:
        with pytest.raises(ConfigError, match="serial 1 expired on 1970-01-01 00:16 UTC: get a new one"):
            make(now=now)
        with pytest.raises(ConfigError, match="serial 1 expired"):
            Server(agreed.config(length=5), agreed, now=now)
    assert not asked


def test_the_clock_is_that_of_the_system_unless_said_otherwise():
    agreed = charter(8, expires=10**9)
    with pytest.raises(ConfigError, match="expired on 2001-09-09"):
        ActiveClient(agreed.config(length=5), identity(0), agreed, vector(), tasks=None)
    ActiveClient(charter(8).config(length=5), identity(0), charter(8), vector(), tasks=None)


def test_an_identity_that_is_not_in_the_list():
    with pytest.raises(ConfigError, match="not among the members"):
        ActiveClient(configure_active(8), Identity(bytes(31) + b"\xff"), charter(8), vector(), tasks=None)


def test_a_client_takes_its_place_in_the_list():
    for i in range(8):
        assert ActiveClient(configure_active(8), identity(i), charter(8), vector(), tasks=None).client == i


def test_a_used_round_id():
    used, config = set(), configure_active(8)
    ActiveClient(config, identity(0), charter(8), vector(), used_rounds=used, tasks=None)
    with pytest.raises(ConfigError, match="has had a round of this number"):
        ActiveClient(config, identity(0), charter(8), vector(), used_rounds=used, tasks=None)


def test_secrets_are_not_in_repr():
    play = Play(configure_active(6), task=b"\1" * 32)  # no task is the seed of identity 0
    while play.requests:
        for i, reply in play.replies().items():
            play.server.receive(i, reply)
        for i, client in play.clients.items():
            shown = repr(client._state) + repr(client._round)
            hidden = [*secrets_of(client), identity(i).seed, play.vectors[i].tobytes()]
            assert not any(secret.hex() in shown or repr(secret)[2:-1] in shown for secret in hidden)
        play.requests = play.server.close()


def test_the_configuration_travels():
    config = configure_active(8, number=7, accept=True)
    assert charter(8).decode(config.encode()) == config
    play = Play(charter(8).decode(config.encode()))
    assert np.array_equal(play.finish().vector, play.expected(range(8)))


def test_the_scan_for_secrets_finds_them_in_every_state():
    counts = {step: len(secrets_of(played(step).clients[0])) for step in STEP_NAMES}
    assert counts == {"advertise": 0, "share": 3, "mask": 4 + 6, "confirm": 7, "unmask": 7}
