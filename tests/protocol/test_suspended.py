"""A client that goes to sleep between steps and wakes up in a new object gives the same round."""

import hashlib
import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import CcesaError, ConfigError, FaultyServer, OrderError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.protocol import suspended
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.round import run_round
from ccesa.protocol.server import Server
from ccesa.simulate import enrol, make_charter
from rounds import configure, steps_under

N = 7
VECTORS = [np.arange(3, dtype=np.uint32) * (i + 1) for i in range(N)]
IDENTITIES = enrol(N)


def parties(guard, graph, accept=False):
    if guard == "curious":
        config = configure(N, graph=graph, length=3, bits=32, accept=accept)
        return Server(config), lambda i: Client(config, i, VECTORS[i])
    charter = make_charter(IDENTITIES, graph=graph, min_survivors=2)
    config = charter.config(length=3, accept=accept)
    return Server(config, charter), lambda i: ActiveClient(config, IDENTITIES[i], charter, VECTORS[i], tasks=None)


ways = pytest.mark.parametrize(
    ("guard", "accept"), [(guard, accept) for guard in ("curious", "active") for accept in (False, True)]
)


@ways
@pytest.mark.parametrize("graph", [Complete(), Harary(degree=4), ErdosRenyi(p=0.99)])
def test_every_step_in_a_new_object(guard, accept, graph):
    server, make = parties(guard, graph, accept)
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
    with pytest.raises(ConfigError):
        suspended.decode(data, suspended.SavedClient)


def sleepers(guard, accept=False):
    """One client's bytes before every step and after the last; the round goes on in between."""
    server, make = parties(guard, Complete(), accept)
    clients = {i: make(i) for i in range(N)}
    requests, found = server.open(), []
    while True:
        asleep = clients[0].suspend()
        found.append(asleep)
        clients[0] = make(0)
        clients[0].resume(asleep)
        if not requests:
            return make, found
        for i, request in requests.items():
            server.receive(i, clients[i].receive(request))
        requests = server.close()


@ways
def test_a_changed_state_is_refused(guard, accept):
    make, found = sleepers(guard, accept)
    assert len(found) == len(steps_under(guard, accept)) + 1
    for data in found:
        for cut in range(0, len(data), 7):
            with pytest.raises(ConfigError):
                make(0).resume(data[:cut])
        for place in range(0, len(data), 11):
            with pytest.raises(ConfigError):
                make(0).resume(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(ConfigError):
            make(0).resume(data + b"x")


def resealed(fields):
    """As ``encode`` would give them, were they what they should be."""
    body = msgspec.msgpack.encode(fields)
    return hashlib.sha256(body).digest() + body


ODD = [None, -1, 0, 5, 99, 1.5, "x", "", b"", b"x", True, [], {}, ["object", "Joined"], "unmask", "share"]


@ways
def test_other_values_in_a_state_are_refused_or_harmless(guard, accept):
    """Of any field, with a right digest: no exception outside the tree, and nobody skips a step."""
    make, found = sleepers(guard, accept)
    for data in found:
        fields = msgspec.msgpack.decode(data[32:])
        for name, odd in itertools.product(fields, ODD):
            client = make(0)
            try:
                client.resume(resealed({**fields, name: odd}))
            except CcesaError:
                continue
            same = type(odd) is type(fields[name]) and odd == fields[name]
            assert same or client.done or name in ("last_request", "last_reply", "nonce")


@ways
def test_other_values_inside_a_state_are_refused(guard, accept):
    make, found = sleepers(guard, accept)
    for data in found:
        fields = msgspec.msgpack.decode(data[32:])
        state = msgspec.msgpack.decode(fields["state"]) if fields["state"] else {}
        for name, odd in itertools.product(state, [None, -1.5, "x", [5], {}]):
            if odd == {} and name in ("public_keys", "sealings", "given", "seeds"):
                continue  # a table without entries has the right type
            changed = msgspec.msgpack.encode({**state, name: odd})
            with pytest.raises(ConfigError):
                make(0).resume(resealed({**fields, "state": changed}))
        for missing in fields:
            if missing != "nonce":
                with pytest.raises(ConfigError):
                    make(0).resume(resealed({k: v for k, v in fields.items() if k != missing}))


@pytest.mark.parametrize("accept", [False, True])
def test_a_state_in_the_place_of_another_is_refused(accept):
    make, found = sleepers("active", accept)
    every = [msgspec.msgpack.decode(data[32:]) for data in found[:-1]]
    for one, other in itertools.permutations(every, 2):
        with pytest.raises(ConfigError):
            make(0).resume(resealed({**one, "state": other["state"]}))


def test_a_state_that_was_resumed_is_not_resumed_again():
    """Without the memory two V3 would be signed; a backup that brings both back is not noticed."""
    server, make = parties("active", Complete())
    asleep, resumed = make(0).suspend(), set()
    first = make(0)
    first.resume(asleep, resumed)
    with pytest.raises(OrderError, match="resumed before"):
        make(0).resume(asleep, resumed)
    first.receive(server.open()[0])  # who came first goes on
    make(0).resume(asleep)  # nobody remembers: nothing tells


def test_bytes_that_are_refused_do_not_count_as_resumed():
    _, make = parties("active", Complete())
    asleep, resumed = make(0).suspend(), set()
    with pytest.raises(ConfigError):
        make(1).resume(asleep, resumed)
    make(0).resume(asleep, resumed)


def test_suspended_twice_without_news_is_not_resumed_twice():
    _, make = parties("active", Complete())
    asleep, resumed = make(0).suspend(), set()
    for _ in range(3):
        client = make(0)
        client.resume(asleep, resumed)
        asleep = client.suspend()


@ways
def test_the_vector_is_dropped_once_it_was_sent(guard, accept):
    make, found = sleepers(guard, accept)
    names = [step.name for step in steps_under(guard, accept)] + ["done"]
    for name, data in zip(names, found, strict=True):
        client = make(0)
        client.resume(data)
        kept = client._round.vector is VECTORS[0]
        assert kept == (name in ("advertise", "share", "accept", "mask"))
        client.suspend()
        assert client._round.vector is not VECTORS[0]
