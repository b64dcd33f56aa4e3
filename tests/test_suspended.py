"""A client that goes to sleep between steps and wakes up in a new object gives the same round."""

import contextlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.config import Complete, ErdosRenyi, Harary
from ccesa.errors import ConfigError, FaultyServer, OrderError
from ccesa.protocol import suspended
from ccesa.protocol.active_client import ActiveClient
from ccesa.protocol.active_server import ActiveServer
from ccesa.protocol.client import Client
from ccesa.protocol.round import run_round
from ccesa.protocol.server import Server
from ccesa.simulate import admit, enrol
from rounds import configure

N = 7
VECTORS = [np.arange(3, dtype=np.uint32) * (i + 1) for i in range(N)]
IDENTITIES = enrol(N)
ADMISSION = admit(IDENTITIES)


def parties(guard, graph):
    if guard == "curious":
        config = configure(N, graph=graph, length=3, bits=32)
        return Server(config), lambda i: Client(config, i, VECTORS[i])
    config = configure(N, graph=graph, length=3, bits=32, guard="active", admission=ADMISSION.digest)
    return ActiveServer(config, ADMISSION), lambda i: ActiveClient(
        config, IDENTITIES[i], ADMISSION, VECTORS[i]
    )


@pytest.mark.parametrize("guard", ["curious", "active"])
@pytest.mark.parametrize("graph", [Complete(), Harary(degree=4), ErdosRenyi(p=0.9)])
def test_every_step_in_a_new_object(guard, graph):
    server, make = parties(guard, graph)
    asleep = dict.fromkeys(range(N))

    def carry(step, requests):
        for i, request in requests.items():
            if step.name in ("mask", "unmask") and i == 2:
                continue  # one drops out on the way
            client = make(i)
            if asleep[i] is not None:
                client.resume(asleep[i])
            reply = client.receive(request)
            asleep[i] = client.suspend()
            assert client.done
            yield i, reply

    result = run_round(server, carry)
    assert np.array_equal(result.vector, sum(VECTORS[i] for i in result.survivors))


def test_a_repeated_request_is_answered_alike_after_waking_up():
    server, make = parties("curious", Complete())
    request = server.open()[0]
    client = make(0)
    reply = client.receive(request)
    woken = make(0)
    woken.resume(client.suspend())
    assert woken.receive(request) == reply


def test_a_suspended_client_answers_nothing():
    server, make = parties("curious", Complete())
    request = server.open()[0]
    client = make(0)
    client.suspend()
    with pytest.raises((OrderError, FaultyServer)):
        client.receive(request)


def test_who_has_answered_cannot_become_another():
    server, make = parties("curious", Complete())
    client = make(0)
    saved = make(0).suspend()
    client.receive(server.open()[0])
    with pytest.raises(OrderError):
        client.resume(saved)


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(data):
    with contextlib.suppress(ConfigError):
        suspended.decode(data)


def test_a_changed_state_is_refused_or_harmless():
    _, make = parties("curious", Complete())
    saved = make(0).suspend()
    for cut in range(len(saved)):
        with pytest.raises(ConfigError):
            make(0).resume(saved[:cut])
    with pytest.raises(ConfigError):
        make(0).resume(os.urandom(40))
