"""Requests are made when they are asked for, and are the same bytes whenever that is."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import TooFewClients
from ccesa.graphs import Harary
from ccesa.protocol.series import Series
from ccesa.protocol.server import Server
from ccesa.protocol.server_states import MadeOnDemand
from rounds import Play, configure, configure_active

KINDS = [
    pytest.param(kind, accept, id=f"{kind.__name__}-{accept}")
    for kind in (configure, configure_active)
    for accept in (False, True)
]


def recorded(config, gone):
    """Play a round; yield the requests of each step as the server gave them, and as dictionaries then."""
    play = Play(config)
    made = []
    close = play.server.close

    def remember():
        requests = close()
        made.append((requests, dict(requests)))
        return requests

    play.server.close = remember
    play.to_the_end(gone)
    return made


@pytest.mark.parametrize(("make", "accept"), KINDS)
def test_requests_of_all_steps_are_the_same_after_the_round(make, accept):
    config = make(9, graph=Harary(degree=6), accept=accept)
    made = recorded(config, {"share": [1], "mask": [2]})
    assert len(made) == len(Play(config).server._steps)
    for requests, before in made:
        assert dict(requests) == before
        assert list(requests) == sorted(before)
        for client in reversed(list(before)):
            assert requests[client] == before[client]


@pytest.mark.parametrize(("make", "accept"), KINDS)
def test_other_threads_get_the_same_bytes(make, accept):
    for requests, before in recorded(make(8, accept=accept), {"mask": [3]}):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(requests.__getitem__, list(requests) * 8))
        assert found == list(before.values()) * 8


@settings(max_examples=30)
@given(asked=st.sets(st.integers(0, 7), min_size=3), others=st.lists(st.integers(-3, 12)))
def test_requests_are_a_read_only_mapping(asked, others):
    requests = Server(configure(8)).open(asked)
    assert isinstance(requests, MadeOnDemand)
    assert len(requests) == len(asked)
    assert bool(requests)
    assert list(requests) == sorted(asked) == list(requests.keys())
    for client in others:
        assert (client in requests) == (client in asked)
        assert (requests.get(client) is None) == (client not in asked)
        if client not in asked:
            with pytest.raises(KeyError):
                requests[client]
    assert requests == dict(requests.items())
    assert requests[np.int64(min(asked))] == requests[min(asked)]
    with pytest.raises(TypeError):
        requests[0] = b""
    with pytest.raises(TypeError):
        del requests[0]
    assert "b" not in requests
    assert repr(requests) == f"<requests for {len(asked)} clients>"


def test_nothing_is_made_before_it_is_asked_for():
    made = []
    requests = MadeOnDemand({3: 0, 5: 1}, lambda node: made.append(node) or bytes([node]))
    assert (len(requests), 3 in requests, list(requests), made) == (2, True, [3, 5], [])
    assert (requests[5], made) == (b"\x01", [1])


def test_envelopes_are_the_same_after_the_exchange():
    series = Series(configure(8, accept=True), rounds=2)
    envelopes = series.open()
    before = dict(envelopes)
    (lost,) = series.close()  # nobody has answered
    with pytest.raises(TooFewClients):
        lost.result()
    assert dict(envelopes) == before
    assert len(before) == 8
