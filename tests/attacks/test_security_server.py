"""A server that misbehaves: every row of the threat table that the curious guard must hold.

A client that notices aborts: FaultyServer, and from then on it gives nothing away. Where it cannot tell the
server's lie from a neighbour's it complains of the neighbour, and gives nothing away either.
"""

from collections.abc import Iterable

import numpy as np
import pytest

from attacks.stage import ids
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import ConfigError, FaultyNeighbour, FaultyServer, LateMessage, OrderError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from rounds import Play, accused_in, changed, configure, read, total_of


def aborts(client: Client, request: bytes, match: str) -> None:
    with pytest.raises(FaultyServer, match=match):
        client.receive(request)
    assert client.done
    assert not client._state.__dict__  # no secret is left
    with pytest.raises(OrderError, match="aborted"):
        client.receive(request)


def complains(client: Client, request: bytes, of: set[int]) -> None:
    """Instead of the vector, which nobody asks for any more."""
    made = []
    object.__setattr__(client._round, "vector", lambda: made.append(1))
    reply = client.receive(request)
    assert accused_in(reply) == of
    assert client.receive(request) == reply
    assert client.done
    assert not made
    assert not client._state.__dict__
    with pytest.raises(OrderError, match="not kept"):
        client._round.vector()
    with pytest.raises(FaultyNeighbour) as blamed:
        client.receive(changed(request, dropped=ids(1)))
    assert set(blamed.value.clients) == of


@pytest.mark.parametrize(
    ("graph", "t"),
    [(Complete(), 4), (Harary(degree=6), 3), (ErdosRenyi(p=0.9), 3)],
    ids=["complete", "harary", "erdos-renyi"],
)
def test_s1_two_disjoint_sets_of_holders_refused_in_the_configuration(graph, t):
    with pytest.raises(ConfigError, match="disjoint"):
        configure(8, graph=graph, threshold=Fixed(t=t))


def test_s1_two_disjoint_sets_of_holders_refused_in_the_neighbourhood():
    """The mean degree is fine and this neighbourhood is too large: no secret is dealt."""
    config = configure(40, graph=ErdosRenyi(p=0.2), threshold=Fixed(t=5))
    play = Play(config)
    play.step()
    wide = np.flatnonzero(play.server.graph.degrees + 1 >= 10).tolist()
    assert wide
    assert play.requests.keys().isdisjoint(wide)  # an honest server does not even ask
    aborts(play.clients[0], shown_to_first(play, range(1, 13)), "disjoint")


@pytest.mark.parametrize(
    "dropped",
    [ids(2, 2), ids(3, 2), ids(7), ids(99)],
    ids=["duplicate", "out-of-order", "not-a-neighbour", "never-enrolled"],
)
@pytest.mark.parametrize("step", ["mask", "unmask"])
def test_s3_impossible_ids_among_the_dropped(step, dropped):
    play = Play(configure(8)).until(step, {"advertise": {7}})
    aborts(play.clients[0], changed(play.requests[0], dropped=dropped), "dropped")


def test_s4_the_client_itself_listed_as_dropped():
    play = Play(configure(8)).until("unmask")
    aborts(play.clients[3], changed(play.requests[3], dropped=ids(3)), "itself")


def test_s5_a_second_different_unmask_request():
    play = Play(configure(8)).until("unmask")
    client, request = play.clients[0], play.requests[0]
    first = client.receive(request)
    assert client.receive(request) == first
    aborts(client, changed(request, dropped=ids(2)), "answers no further request")


def test_s6_a_vector_that_arrives_after_its_sender_was_declared_dropped():
    play = Play(configure(8)).until("mask")
    late = play.clients[5].receive(play.requests[5])
    play.step(gone={5})
    before = total_of(play.server)
    with pytest.raises(LateMessage, match="client 5"):
        play.server.receive(5, late)
    assert np.array_equal(total_of(play.server), before)
    aggregate = play.finish()
    assert 5 not in aggregate.survivors
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))


@pytest.mark.parametrize(
    ("floor", "name"),
    [
        (Floor(clients=9), "clients"),
        (Floor(degree=8), "degree"),
        (Floor(threshold=6), "threshold"),
        (Floor(survivors=3), "survivors"),
    ],
    ids=["clients", "degree", "threshold", "survivors"],
)
def test_s12_below_the_clients_own_floor(floor, name):
    asked = []

    def random(count):
        asked.append(count)
        return bytes(count)

    with pytest.raises(ConfigError, match=name):
        Client(configure(8), 0, np.zeros(5, np.uint16), floor=floor, random=random)
    assert not asked  # refused before key generation


def test_s12_a_neighbourhood_below_the_floor():
    config = configure(8)
    play = Play(config, floor=Floor(degree=7))
    play.step(gone={6, 7})
    aborts(play.clients[0], play.requests[0], "floor is 7")


@pytest.mark.parametrize(("degree", "refused"), [(8, False), (9, True)])
def test_s12_a_neighbourhood_in_which_the_threshold_is_too_small_a_share(degree, refused):
    """6 of 7 in the mean; with more neighbours than that fewer of them in proportion open a secret."""
    config = configure(16, graph=ErdosRenyi(p=0.5), threshold=Fixed(t=6))
    play = Play(config, floor=Floor(threshold_ratio=0.7))
    play.step()
    request = shown_to_first(play, range(1, degree + 1))
    if refused:
        aborts(play.clients[0], request, "neighbourhood has threshold_ratio = 0.6667, .* floor is 0.7")
    else:
        assert read(play.clients[0].receive(request)).sealed


def shown_to_first(play: Play, neighbours: Iterable[int]) -> bytes:
    """Client 0 with these neighbours, all to be masked with."""
    bundles = [read(play.said["advertise"][i]) for i in neighbours]
    return m.ShareRequest(
        context=play.config.context,
        client=0,
        neighbours=ids(*neighbours),
        keys=b"".join(one.keys for one in bundles),
        masked=b"\1" * len(bundles),
    ).encode()


@pytest.mark.parametrize("step", ["advertise", "share", "mask", "unmask"])
def test_s13_a_request_of_another_round(step):
    ours, theirs = Play(configure(8)).until(step), Play(configure(8)).until(step)
    aborts(ours.clients[0], theirs.requests[0], "another round")


def test_s13_sealed_shares_of_another_round_do_not_open():
    """Even with the right context on the envelope and the same key pairs."""
    config, twins = configure(8), []
    for place in ({"series_id": bytes(32)}, {"series_id": bytes(32), "number": 1}):
        streams = {i: np.random.default_rng(i) for i in range(8)}
        play = Play(RoundConfig(**{**_fields(config), **place}))
        for i, client in play.clients.items():
            object.__setattr__(client._round, "random", streams[i].bytes)
        twins.append(play.until("mask"))
    ours, theirs = twins
    replayed = changed(ours.requests[0], sealed=read(theirs.requests[0]).sealed)
    complains(ours.clients[0], replayed, set(range(1, 8)))


def _fields(config: RoundConfig) -> dict:
    return {name: getattr(config, name) for name in config.__struct_fields__}


def test_s13_a_used_round_id():
    config, used = configure(8), set()
    Client(config, 0, np.zeros(5, np.uint16), used_rounds=used)
    with pytest.raises(ConfigError, match="has had a round of this number"):
        Client(config, 0, np.zeros(5, np.uint16), used_rounds=used)


def test_s14_all_public_keys_differ_between_rounds():
    seen = set()
    for _ in range(3):
        for reply in Play(configure(8)).replies().values():
            keys = set(AGREEMENTS["x25519"].public_keys(read(reply).keys))
            assert len(keys) == 2
            assert seen.isdisjoint(keys)
            seen |= keys
    assert len(seen) == 3 * 8 * 2


def sealed_places(request: bytes) -> list[bytes]:
    sealed = read(request).sealed
    return [sealed[k : k + 80] for k in range(0, len(sealed), 80)]


def test_s16_a_sealed_share_moved_to_another_recipient():
    play = Play(configure(8)).until("mask")
    mine, other = sealed_places(play.requests[0]), sealed_places(play.requests[1])
    mine[1] = other[1]  # both from client 2, this one for client 1
    complains(play.clients[0], changed(play.requests[0], sealed=b"".join(mine)), {2})


def test_s16_a_sealed_share_reflected_to_its_sender():
    play = Play(configure(8)).until("share")
    replies = play.replies()
    for i, reply in replies.items():
        play.server.receive(i, reply)
    play.requests = play.server.close()
    reflected = sealed_places(replies[0])  # what client 0 sealed for everyone, as if it came from them
    complains(play.clients[0], changed(play.requests[0], sealed=b"".join(reflected)), set(range(1, 8)))


def test_s17_v2_cut_down_for_one_victim():
    play = Play(configure(9)).until("mask")
    few = sealed_places(play.requests[0])[:3]  # with itself 4 of 9; t = 5
    made = []
    object.__setattr__(play.clients[0]._round, "vector", lambda: made.append(1))
    request = changed(play.requests[0], dropped=ids(4, 5, 6, 7, 8), sealed=b"".join(few))
    aborts(play.clients[0], request, "fewer than its threshold")
    assert not made  # aborted before the vector was even asked for


def test_s17_nobody_left_to_mask_with():
    play = Play(configure(12, graph=Harary(degree=8, mask_degree=2))).until("mask")
    state = play.clients[0]._state
    partners = state.near.mask_neighbours
    kept = [k for k, j in enumerate(state.near.neighbours) if j not in partners]
    sealed = sealed_places(play.requests[0])
    request = changed(play.requests[0], dropped=ids(*partners), sealed=b"".join(sealed[k] for k in kept))
    aborts(play.clients[0], request, "nobody|no neighbour is left")


def test_s17_nobody_left_to_mask_with_among_the_survivors():
    """Enough hold shares of it, and its vector would be a sum of its own."""
    play = Play(configure(12, graph=Harary(degree=8, mask_degree=2))).until("unmask")
    state = play.clients[0]._state
    partners = state.near.mask_neighbours
    assert state.near.degree + 1 - len(partners) >= state.threshold
    aborts(play.clients[0], changed(play.requests[0], dropped=ids(*partners)), "no neighbour is left")


def test_s17_one_left_to_mask_with_is_enough():
    play = Play(configure(12, graph=Harary(degree=8, mask_degree=2))).until("unmask")
    state = play.clients[0]._state
    partners = state.near.mask_neighbours
    assert read(play.clients[0].receive(changed(play.requests[0], dropped=ids(partners[0])))).shares


def test_s17_v3_cut_down_below_the_threshold():
    play = Play(configure(9)).until("unmask")
    aborts(play.clients[0], changed(play.requests[0], dropped=ids(1, 2, 3, 4, 5)), "fewer than its threshold")


@pytest.mark.parametrize("field", ["neighbours", "keys", "masked"])
def test_a_neighbourhood_whose_lists_do_not_fit(field):
    play = Play(configure(8)).until("share")
    whole = getattr(read(play.requests[0]), field)
    aborts(play.clients[0], changed(play.requests[0], **{field: whole[:-1]}), "bytes")


def test_a_client_as_its_own_neighbour():
    play = Play(configure(8)).until("share")
    aborts(play.clients[0], changed(play.requests[0], neighbours=ids(0, 2, 3, 4, 5, 6, 7)), "own neighbour")


def test_the_same_key_for_two_neighbours():
    play = Play(configure(8)).until("share")
    keys = read(play.requests[0]).keys
    aborts(play.clients[0], changed(play.requests[0], keys=keys[:64] + keys[:64] + keys[128:]), "twice")


def test_a_low_order_key_among_the_neighbours():
    play = Play(configure(8)).until("share")
    keys = read(play.requests[0]).keys
    aborts(play.clients[0], changed(play.requests[0], keys=bytes(32) + keys[32:]), "low order")


def test_a_mask_flag_that_is_no_flag():
    play = Play(configure(8)).until("share")
    aborts(play.clients[0], changed(play.requests[0], masked=b"\2" * 7), "flag")


def test_a_request_for_somebody_else():
    play = Play(configure(8)).until("share")
    aborts(play.clients[0], play.requests[1], "for client 1")


def test_garbage():
    play = Play(configure(8))
    aborts(play.clients[0], b"\xc1", "not a message")


def test_oversize():
    play = Play(configure(8))
    aborts(play.clients[0], bytes(10_000), "at most")


@pytest.mark.parametrize(
    ("graph", "flags"),
    [
        (Harary(degree=6), b"\1\0\0\0\0\0"),
        (Harary(degree=6, mask_degree=4), b"\1\1\0\0\0\0"),
        (Complete(), b"\1" * 6 + b"\0"),
        (ErdosRenyi(p=1.0), b"\0" + b"\1" * 6),
    ],
    ids=["harary", "harary-nested", "complete", "erdos-renyi"],
)
def test_s17_fewer_mask_edges_than_the_configuration_gives(graph, flags):
    play = Play(configure(8, graph=graph)).until("share")
    aborts(play.clients[0], changed(play.requests[0], masked=flags), "to mask with")


def test_s12_fewer_mask_edges_than_the_floor():
    play = Play(configure(8, graph=Complete(mask_degree=6)), floor=Floor(mask_degree=6))
    play.step(gone={6, 7})
    aborts(play.clients[0], play.requests[0], "mask_degree = 5, this client's floor is 6")
