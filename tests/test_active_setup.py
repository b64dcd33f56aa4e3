"""Who takes part in a round under the guard ``active``: configurations, lists and identities."""

import numpy as np
import pytest

from active_rounds import STEP_NAMES, played, secrets_of
from ccesa.config import Floor, Harary, RoundConfig
from ccesa.errors import ConfigError, FaultyServer
from ccesa.identity import Admission, Identity, Member
from ccesa.plan.planner import plan_or_complete
from ccesa.protocol.active_client import ActiveClient, default_floor
from ccesa.protocol.active_server import ActiveServer
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from rounds import (
    ActivePlay,
    admission,
    configure,
    configure_active,
    identity,
)


def vector() -> np.ndarray:
    return np.zeros(5, np.uint16)


def test_the_guards_do_not_mix():
    active, curious = configure_active(8), configure(8)
    with pytest.raises(ConfigError, match="this client has guard = curious, the round has active"):
        Client(active, 0, vector())
    with pytest.raises(ConfigError, match="this server has guard = curious, the round has active"):
        Server(active)
    with pytest.raises(ConfigError, match="goes with active only"):
        ActiveClient(curious, identity(0), admission(8), vector())
    with pytest.raises(ConfigError, match="goes with active only"):
        ActiveServer(curious, admission(8))


def shuffled() -> Admission:
    return Admission(reversed(admission(8).members))


OTHER_LISTS = {
    "shorter": lambda: Admission(admission(8).members[:-1]),
    "longer": lambda: admission(9),
    "another order": shuffled,
    "another key": lambda: Admission([*admission(8).members[:-1], Member("x", identity(77).public)]),
}


@pytest.mark.parametrize("name", OTHER_LISTS)
def test_a_configuration_for_another_list_is_refused_by_both_sides(name):
    config, other, asked = configure_active(8), OTHER_LISTS[name](), []
    with pytest.raises(ConfigError, match="compare the lists"):
        ActiveClient(config, identity(0), other, vector(), random=asked.append)
    with pytest.raises(ConfigError, match="compare the lists"):
        ActiveServer(config, other)
    assert not asked


def test_a_digest_for_another_number_of_clients_is_refused():
    config = configure(9, guard="active", admission=admission(8).digest)
    with pytest.raises(ConfigError, match="9 clients and another admission list than this one of 8"):
        ActiveClient(config, identity(0), admission(8), vector())


def test_an_identity_that_is_not_in_the_list():
    with pytest.raises(ConfigError, match="not in the admission list"):
        ActiveClient(configure_active(8), Identity(bytes(31) + b"\xff"), admission(8), vector())


def test_a_client_takes_its_place_in_the_list():
    for i in range(8):
        assert ActiveClient(configure_active(8), identity(i), admission(8), vector()).client == i


def test_names_and_comments_may_differ_between_the_parties():
    renamed = Admission(Member(f"n{k}", one.public, "c") for k, one in enumerate(admission(8).members))
    play = ActivePlay(configure_active(8))
    play.clients[3] = ActiveClient(play.config, identity(3), renamed, play.vectors[3])
    assert np.array_equal(play.finish().vector, play.expected(range(8)))


@pytest.mark.parametrize(("clients", "floor"), [(3, 3), (4, 3), (5, 3), (6, 4), (12, 7), (13, 7)])
def test_the_default_floor_is_more_than_half_of_the_list(clients, floor):
    client = ActiveClient(configure_active(clients), identity(0), admission(clients), vector())
    assert client._round.floor.clients == floor


@pytest.mark.parametrize(
    ("clients", "degree"), [(3, 2), (4, 2), (5, 2), (6, 3), (12, 6), (24, 10), (100, 14), (1000, 20)]
)
def test_the_default_floor_asks_for_neighbours(clients, degree):
    assert default_floor(admission(clients)).degree == degree


def test_a_ring_of_two_neighbours_is_refused_by_default():
    """Two colluders beside a client would open its vector."""
    config = configure_active(100, graph=Harary(degree=2))
    with pytest.raises(ConfigError, match="degree = 2, this client's floor is 14"):
        ActiveClient(config, identity(0), admission(100), vector())


@pytest.mark.parametrize("graph", ["best", "erdos-renyi", "complete"])
@pytest.mark.parametrize(("clients", "dropout", "collusion"), [(4, 0.05, 0), (30, 0.1, 0), (100, 0.1, 0.1)])
def test_planned_graphs_pass_the_default_floor(clients, dropout, collusion, graph):
    made = plan_or_complete(clients, dropout, collusion, guard="active", graph=graph)
    default_floor(admission(clients)).check(made.config(admission=admission(clients).digest))


def test_a_floor_that_mentions_one_thing_keeps_the_rest():
    """S20 with a client that asked for more than the default, and must not get less."""
    play = ActivePlay(configure_active(24), floor=Floor(threshold=3))
    play.step(gone=range(4, 24))
    with pytest.raises(FaultyServer, match="clients = 4, this client's floor is 13"):
        play.clients[0].receive(play.requests[0])


def test_a_used_round_id():
    used, config = set(), configure_active(8)
    ActiveClient(config, identity(0), admission(8), vector(), used_rounds=used)
    with pytest.raises(ConfigError, match="used before"):
        ActiveClient(config, identity(0), admission(8), vector(), used_rounds=used)


def test_secrets_are_not_in_repr():
    play = ActivePlay(configure_active(6))
    while play.requests:
        for i, reply in play.replies().items():
            play.server.receive(i, reply)
        for i, client in play.clients.items():
            shown = repr(client._state) + repr(client._round)
            hidden = [*secrets_of(client), identity(i).seed, play.vectors[i].tobytes()]
            assert not any(secret.hex() in shown or repr(secret)[2:-1] in shown for secret in hidden)
        play.requests = play.server.close()


def test_the_configuration_travels():
    config = configure_active(8)
    play = ActivePlay(RoundConfig.decode(config.encode()))
    assert np.array_equal(play.finish().vector, play.expected(range(8)))


def test_the_scan_for_secrets_finds_them_in_every_state():
    counts = {step: len(secrets_of(played(step).clients[0])) for step in STEP_NAMES}
    assert counts == {"advertise": 0, "share": 3, "mask": 3 + 2 * 6, "confirm": 7, "unmask": 7}
