"""Whole rounds under the guard ``active``, and every check of its clients and its server."""

import traceback

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.config import Complete, ErdosRenyi, Fixed, Floor, Harary, Linear, Majority, RoundConfig
from ccesa.crypto import merkle
from ccesa.errors import (
    ConfigError,
    ConflictingMessage,
    FaultyClient,
    FaultyServer,
    LateMessage,
    OrderError,
    RoundFailed,
    TooFewClients,
    Unreliable,
)
from ccesa.graphs.assignment import draw, neighbourhood
from ccesa.identity import Admission, Identity, Member
from ccesa.protocol import messages as m
from ccesa.protocol import roster
from ccesa.protocol.active_client import ActiveClient
from ccesa.protocol.active_server import ActiveServer
from ccesa.protocol.client import Client
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from ccesa.protocol.steps import STEPS
from rounds import (
    LOOSE,
    ActivePlay,
    admission,
    changed,
    configure,
    configure_active,
    identity,
    read,
)
from strategies import graphs, thresholds, without_thin_masks

STEP_NAMES = [step.name for step in STEPS["active"]]
THREE_GRAPHS = {
    "erdos-renyi": ErdosRenyi(p=0.97),
    "harary": Harary(degree=12),
    "complete": Complete(),
}


def check(play: ActivePlay, gone) -> str:
    """An aggregate is the plain sum over those who sent a vector; anything else is a named failure."""
    try:
        aggregate = play.finish(gone)
    except RoundFailed as failure:
        return type(failure).__name__
    assert set(aggregate.survivors).isdisjoint(set().union(*(gone.get(s, ()) for s in STEP_NAMES[:3])))
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    return "aggregate"


# Whole rounds


@settings(max_examples=60)
@given(st.data())
def test_any_drop_pattern_gives_the_plain_sum_or_a_named_failure(data):
    n = data.draw(st.integers(3, 12))
    graph = without_thin_masks(data.draw(graphs(n)))
    config = configure_active(
        n,
        graph=graph,
        threshold=data.draw(thresholds(graph, n)),
        bits=data.draw(st.sampled_from([8, 16, 32, 64])),
        length=data.draw(st.integers(1, 20)),
        generator=data.draw(st.sampled_from(["aes128-ctr", "chacha20"])),
    )
    gone = {step: data.draw(st.sets(st.integers(0, n - 1), max_size=n // 3)) for step in STEP_NAMES}
    check(ActivePlay(config, seed=data.draw(st.integers(0, 100)), floor=LOOSE), gone)


@pytest.mark.parametrize("step", STEP_NAMES)
@pytest.mark.parametrize("graph", THREE_GRAPHS.values(), ids=THREE_GRAPHS)
def test_losing_any_two_clients_at_each_step(graph, step):
    rng = np.random.default_rng(5)
    for _ in range(3):
        lost = set(rng.choice(20, 2, replace=False).tolist())
        play = ActivePlay(configure_active(20, graph=graph))
        assert check(play, {step: lost}) == "aggregate"
        stay = step in ("confirm", "unmask")
        assert set(play.server.aggregate.survivors) == set(range(20)) - (set() if stay else lost)


FIXED = {"erdos-renyi": Fixed(t=10), "harary": Fixed(t=9), "complete": Fixed(t=11)}


@pytest.mark.parametrize("rule", ["majority", "fixed", "linear"])
@pytest.mark.parametrize("name", THREE_GRAPHS)
def test_somebody_drops_in_every_step(name, rule):
    threshold = {"majority": Majority(), "fixed": FIXED[name], "linear": Linear(slope=640, base=1)}[rule]
    gone = {"advertise": {2}, "share": {5}, "mask": {11}, "confirm": {7}, "unmask": {13}}
    config = configure_active(20, graph=THREE_GRAPHS[name], threshold=threshold)
    assert check(ActivePlay(config), gone) == "aggregate"


@pytest.mark.parametrize("absent", [{0}, {19}, {0, 1, 8, 19}, set(range(0, 18, 2))], ids=str)
def test_ids_that_never_join(absent):
    play = ActivePlay(configure_active(20, graph=Harary(degree=8)))
    assert check(play, {"advertise": absent}) == "aggregate"
    assert set(play.server.aggregate.survivors) == set(range(20)) - absent


def test_the_smallest_round():
    play = ActivePlay(configure_active(3, threshold=Fixed(t=2)))
    assert check(play, {}) == "aggregate"


def test_the_driver_knows_nothing_of_the_guard():
    play = ActivePlay(configure_active(8))
    server = ActiveServer(play.config, admission(8))
    aggregate = run_round(server, in_memory(play.clients, lambda step, i: (step.name, i) == ("confirm", 3)))
    assert np.array_equal(aggregate.vector, play.expected(range(8)))


def test_a_vector_counts_although_its_sender_does_not_confirm():
    play = ActivePlay(configure_active(9))
    aggregate = play.finish({"confirm": {4}})
    assert aggregate.survivors == tuple(range(9))
    assert np.array_equal(aggregate.vector, play.expected(range(9)))


def test_too_few_confirmations_fail_before_a_share_is_asked_for():
    """Each of five needs four neighbours that confirmed, and has three."""
    play = ActivePlay(configure_active(6)).until("confirm")
    with pytest.raises(Unreliable) as failure:
        play.step(gone={0, 1})
    assert failure.value.clients == tuple(range(6))


def test_fewer_than_min_survivors_confirm():
    with pytest.raises(TooFewClients, match="step confirm"):
        ActivePlay(configure_active(12, min_survivors=11)).finish({"confirm": {0, 1}})


@settings(max_examples=60)
@given(st.data())
def test_whoever_confirmed_is_asked_for_shares_in_a_reliable_round(data):
    """t_i holders that can be shown enough are t_i neighbours that confirmed: nobody is left over."""
    n = data.draw(st.integers(4, 12))
    graph = without_thin_masks(data.draw(graphs(n)))
    gone = data.draw(st.sets(st.integers(0, n - 1), max_size=n // 3))  # before keys make a difference
    play = ActivePlay(configure_active(n, graph=graph), floor=LOOSE)
    try:
        play.until("confirm")
        confirmed = set(play.requests) - gone
        play.step(gone)
    except RoundFailed:
        return
    assert set(play.requests) == confirmed


def test_vectors_are_not_in_what_the_server_hands_on():
    """Requests grow with the neighbourhood and the roster, never with the vector."""
    sizes = []
    for length in (1, 3000):
        play, size = ActivePlay(configure_active(6, length=length, round_id=bytes(32))), 0
        while play.requests:
            size += sum(map(len, play.requests.values()))
            play.step()
        sizes.append(size)
    assert sizes[0] == sizes[1]


# Neighbourhoods


@given(st.data())
def test_a_neighbourhood_is_that_of_the_whole_graph(data):
    enrolled = data.draw(st.integers(3, 40))
    kind = data.draw(graphs(enrolled))
    chosen = data.draw(st.sets(st.integers(0, 2**32 - 2), min_size=1, max_size=enrolled))
    ids, seed = np.array(sorted(chosen)), data.draw(st.binary(min_size=32, max_size=32))
    whole = draw(kind, seed, ids)
    for node in range(ids.size):
        assert np.array_equal(neighbourhood(kind, seed, ids, node), whole.neighbours(node))


@pytest.mark.parametrize("graph", THREE_GRAPHS.values(), ids=THREE_GRAPHS)
def test_clients_derive_the_neighbours_that_the_server_drew(graph):
    play = ActivePlay(configure_active(20, graph=graph)).until("mask", {"advertise": {3, 4}})
    drawn = play.server._graph
    for i in play.requests:
        node = play.server._nodes[i]
        assert np.array_equal(play.clients[i]._state.shared.neighbours, drawn.ids[drawn.neighbours(node)])


def test_another_root_is_another_graph():
    seeds = {roster.seed(bytes(32), bytes([k]) * 32) for k in range(50)}
    assert len({draw(Harary(degree=4), seed, np.arange(20)).columns.tobytes() for seed in seeds}) == 50


# A server that lies


GRAPH = Harary(degree=6)


def played(step: str, gone=None, **options) -> ActivePlay:
    options = {"graph": GRAPH, "min_survivors": 5, **options}
    return ActivePlay(configure_active(12, **options)).until(step, gone or {})


def aborts(client: ActiveClient, request: bytes, match: str) -> None:
    """With this error, with nothing secret in it, and for good."""
    secrets = secrets_of(client)
    with pytest.raises(FaultyServer, match=match) as error:
        client.receive(request)
    assert client.done
    assert not vars(client._state)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
    inside = error.value.__traceback__.tb_next.tb_next  # below the frames of the tests
    frames = traceback.TracebackException(FaultyServer, error.value, inside, capture_locals=True)
    shown = "".join(frames.format())
    assert not any(secret.hex() in shown or repr(secret)[2:-1] in shown for secret in secrets)
    for again in (request, b""):
        with pytest.raises(OrderError, match="aborted"):
            client.receive(again)
    with pytest.raises(OrderError):
        client._round.vector()


def secrets_of(value: object) -> list[bytes]:
    """Private keys, secrets and shares, wherever they lie in a state."""
    state = value._state if isinstance(value, ActiveClient) else value
    found = []
    for name, part in vars(state).items():
        if name in ("shared", "held"):
            found += secrets_of(part)
        elif name in ("self_secret", "own_share"):
            found.append(part)
        elif name in ("mask_private", "sealing_private"):
            found.append(part.private_bytes_raw())
        elif name == "mask_secret":
            found.append(part.astype("<u2").tobytes())
        elif name == "shares":
            found += part
        elif name == "sealings":
            found += [key for sealing in part for key in sealing]
    return found


def test_the_scan_for_secrets_finds_them_in_every_state():
    counts = {step: len(secrets_of(played(step).clients[0])) for step in STEP_NAMES}
    assert counts == {"advertise": 0, "share": 3, "mask": 3 + 2 * 6, "confirm": 7, "unmask": 7}


def flipped(data: bytes, place: int = 0) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def packed(members, clients: int = 12) -> bytes:
    return m.pack_set(np.isin(np.arange(clients), list(members)))


EVERYONE = set(range(12))
#: Step 1, with nobody missing: what is changed in the request, and what the client says.
ROSTERS = {
    "v1 short": (lambda r: {"v1": r.v1[:-1]}, "V1 has 1 bytes, 2 are due"),
    "v1 beyond the last": (lambda r: {"v1": b"\xff\xff"}, "V1 contains a client that was never enrolled"),
    "without itself": (lambda r: {"v1": packed(EVERYONE - {0})}, "does not contain this client"),
    "below its floor": (
        lambda r: {"v1": packed(range(6))},
        "a roster of 6 clients, this client's floor is 7",
    ),
    "root short": (lambda r: {"root": r.root[:-1]}, "root has 31 bytes"),
    "root changed": (lambda r: {"root": flipped(r.root)}, "did not sign|other keys or members"),
    "keys short": (lambda r: {"keys": r.keys[:-1]}, "keys has 383 bytes, 384 are due"),
    "keys of five": (lambda r: {"keys": r.keys[64:]}, "keys has 320 bytes"),
    "signatures short": (lambda r: {"signatures": r.signatures[64:]}, "signatures has 320 bytes"),
    "signature changed": (
        lambda r: {"signatures": flipped(r.signatures)},
        r"client \d+ did not sign its keys",
    ),
    "key changed": (lambda r: {"keys": flipped(r.keys, 70)}, r"client \d+ did not sign its keys"),
    "member left out": (lambda r: {"v1": packed(EVERYONE - {11})}, "did not sign|proof|other keys"),
    "proof changed": (lambda r: {"proof": flipped(r.proof)}, "other keys or members"),
    "proof short": (lambda r: {"proof": r.proof[:-32]}, "a proof of"),
    "proof long": (lambda r: {"proof": r.proof + bytes(32)}, "a proof of"),
}


@pytest.mark.parametrize("name", ROSTERS)
def test_a_roster_that_is_not_right(name):
    change, match = ROSTERS[name]
    play = played("share")
    request = read(play.requests[0])
    aborts(play.clients[0], changed(play.requests[0], **change(request)), match)


def test_a_roster_below_min_survivors_where_the_floor_is_lower():
    play = ActivePlay(configure_active(12, graph=GRAPH, min_survivors=8), floor=Floor(clients=3)).until(
        "share"
    )
    aborts(play.clients[0], changed(play.requests[0], v1=packed(range(7))), "a roster of 7 clients")


def test_a_small_roster_that_is_right_in_itself():
    """S20: eleven joined, the server shows six of them, with everything in order."""
    play = ActivePlay(configure_active(12, graph=GRAPH, min_survivors=3))
    play.step(gone=range(6, 12))
    aborts(play.clients[0], play.requests[0], "a roster of 6 clients, this client's floor is 7")


def test_a_floor_of_its_own():
    play = ActivePlay(configure_active(12, graph=GRAPH, min_survivors=3), floor=Floor(clients=11))
    play.step(gone={6, 7})
    aborts(play.clients[0], play.requests[0], "a roster of 10 clients, this client's floor is 11")


def bundles_of(play: ActivePlay) -> dict[int, tuple[bytes, bytes]]:
    return {i: (b.sealing_key + b.mask_key, b.signature) for i, b in play.server._advertised.items()}


def introduction(play: ActivePlay, bundles: dict[int, tuple[bytes, bytes]], client: int) -> bytes:
    """The request of step 1 that is right for these bundles."""
    context, ids = play.config.context, sorted(bundles)
    tree = merkle.levels([roster.leaf(context, i, bundles[i][0]) for i in ids])
    v1 = packed(ids, play.config.clients)
    root = roster.root(context, v1, tree[-1].tobytes())
    node = ids.index(client)
    nodes = neighbourhood(play.config.graph, roster.seed(context, root), np.array(ids), node)
    near = [ids[other] for other in nodes.tolist()]
    return m.RosterRequest(
        context=context,
        client=client,
        v1=v1,
        root=root,
        keys=b"".join(bundles[j][0] for j in near),
        signatures=b"".join(bundles[j][1] for j in near),
        proof=merkle.prove(tree, np.sort(np.append(nodes, node))),
    ).encode()


def signed_by(i: int, context: bytes, client: int, keys: bytes) -> tuple[bytes, bytes]:
    return keys, identity(i).sign(roster.bundle_text(context, client, keys))


COMPLETE = {"graph": Complete(), "threshold": Fixed(t=7)}  # everyone is a neighbour under every root


def test_the_introduction_of_these_tests_is_that_of_the_server():
    play = played("share")
    assert introduction(play, bundles_of(play), 0) == play.requests[0]


def test_s8_a_root_with_other_keys_of_the_client_itself():
    play = played("share", **COMPLETE)
    bundles = {**bundles_of(play), 0: signed_by(0, play.config.context, 0, bytes(range(64)))}
    aborts(play.clients[0], introduction(play, bundles, 0), "other keys or members")


def test_s9_keys_signed_by_another_identity_name_whose_they_should_be():
    play = played("share", **COMPLETE)
    bundles = bundles_of(play)
    bundles[5] = signed_by(6, play.config.context, 5, bundles[5][0])
    aborts(play.clients[0], introduction(play, bundles, 0), "client 5 did not sign its keys")


def test_s9_keys_signed_for_another_round():
    play = played("share", **COMPLETE)
    bundles = bundles_of(play)
    bundles[5] = signed_by(5, bytes(32), 5, bundles[5][0])
    aborts(play.clients[0], introduction(play, bundles, 0), "client 5 did not sign its keys")


def test_s9_two_bundles_swapped():
    play = played("share", **COMPLETE)
    bundles = bundles_of(play)
    bundles[5], bundles[6] = bundles[6], bundles[5]
    aborts(play.clients[0], introduction(play, bundles, 0), "client 5 did not sign its keys")


def test_s7_neighbours_of_the_servers_choice():
    """Their keys are signed and in the root; they are just not the neighbours that the root gives."""
    play = played("share")
    bundles = bundles_of(play)
    near = play.server._graph.ids[play.server._graph.neighbours(0)].tolist()
    wanted = sorted(EVERYONE - {0, *near})[:3] + near[3:]
    request = changed(
        play.requests[0],
        keys=b"".join(bundles[j][0] for j in wanted),
        signatures=b"".join(bundles[j][1] for j in wanted),
        proof=merkle.prove(play.server._tree, np.array(sorted([0, *wanted]))),
    )
    aborts(play.clients[0], request, "did not sign its keys")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda keys, own: bytes(32) + keys[32:], "low order"),
        (lambda keys, own: keys[:32] + keys[:32], "twice"),
        (lambda keys, own: keys[:32] + own[32:], "twice"),
    ],
    ids=["low order", "one key in both places", "the client's own key"],
)
def test_a_colluder_that_signs_bad_keys(change, match):
    play = played("share", **COMPLETE)
    bundles = bundles_of(play)
    keys = change(bundles[5][0], bundles[0][0])
    bundles[5] = signed_by(5, play.config.context, 5, keys)
    aborts(play.clients[0], introduction(play, bundles, 0), match)


@pytest.mark.parametrize("floor", [Floor(degree=8), Floor(mask_degree=8), Floor(threshold=6)], ids=repr)
def test_a_neighbourhood_below_the_floor(floor):
    """The mean is fine; here eight of twelve joined."""
    play = ActivePlay(configure_active(12, min_survivors=3), floor=floor)
    play.step(gone=range(8, 12))
    aborts(play.clients[0], play.requests[0], "floor is")


def test_two_disjoint_sets_of_holders_in_a_wide_neighbourhood():
    config = configure_active(30, graph=ErdosRenyi(p=0.2), threshold=Fixed(t=4), min_survivors=2)
    for seed in range(20):
        play = ActivePlay(config, seed=seed)
        play.step()
        wide = np.flatnonzero(play.server._graph.degrees + 1 >= 8).tolist()
        if wide:
            break
    assert play.requests.keys().isdisjoint(wide)  # an honest server does not even ask
    request = introduction(play, bundles_of(play), wide[0])
    aborts(play.clients[wide[0]], request, "two disjoint sets")


def sealed_of(play: ActivePlay, members: set[int]) -> bytes:
    """What those of the client's neighbours who are left sealed for client 0."""
    near = play.clients[0]._state.shared.neighbours.tolist()
    texts = dict(zip(near, m.items("sealed", read(play.requests[0]).sealed, len(near), 80), strict=True))
    return b"".join(texts[j] for j in near if j in members)


def test_s19_v2_must_be_part_of_v1():
    play = played("mask", {"advertise": {7}})
    aborts(play.clients[0], changed(play.requests[0], v2=packed(EVERYONE)), "client 7 is in V2 and not in V1")


def test_v2_without_the_client_itself():
    play = played("mask")
    aborts(play.clients[0], changed(play.requests[0], v2=packed(EVERYONE - {0})), "itself out of V2")


@pytest.mark.parametrize(
    ("v2", "match"),
    [(b"\xff", "V2 has 1 bytes"), (b"\xff\x1f", "V2 contains a client")],
    ids=["short", "stray"],
)
def test_v2_that_is_no_set(v2, match):
    play = played("mask")
    aborts(play.clients[0], changed(play.requests[0], v2=v2), match)


def test_s17_v2_with_too_few_neighbours():
    play = played("mask")
    near = play.clients[0]._state.shared.neighbours.tolist()
    v2 = EVERYONE - set(near[2:])
    request = changed(play.requests[0], v2=packed(v2), sealed=sealed_of(play, v2))
    aborts(play.clients[0], request, "2 live neighbours .* threshold 4")


def test_sealed_texts_of_others_than_v2_has():
    play = played("mask")
    near = play.clients[0]._state.shared.neighbours.tolist()
    aborts(
        play.clients[0], changed(play.requests[0], v2=packed(EVERYONE - {near[0]})), "sealed has 480 bytes"
    )
    play = played("mask")
    near = play.clients[0]._state.shared.neighbours.tolist()
    fewer = sealed_of(play, EVERYONE - {near[0]})
    aborts(play.clients[0], changed(play.requests[0], sealed=fewer), "sealed has 400 bytes")


def test_a_sealed_text_that_does_not_open():
    play = played("mask")
    sealed = read(play.requests[0]).sealed
    aborts(play.clients[0], changed(play.requests[0], sealed=flipped(sealed)), "does not open")


def test_s10_different_rosters_to_different_clients():
    """Client 0 is shown a roster with a colluder's other keys: nothing it signs fits what others signed."""
    play = played("share", **COMPLETE)
    bundles = bundles_of(play)
    other = ActivePlay(play.config)
    other.step()
    bundles[5] = bundles_of(other)[5]  # the colluder signs twice
    lied = play.clients[0].receive(introduction(play, bundles, 0))
    replies = {i: play.clients[i].receive(r) for i, r in play.requests.items() if i != 0}
    for i, reply in {**replies, 0: lied}.items():
        play.server.receive(i, reply)
    play.requests = play.server.close()
    with pytest.raises(FaultyServer, match="client 5: sealed text does not open"):
        play.clients[0].receive(play.requests[0])


V3S = {
    "short": (lambda near: b"\xff", "V3 has 1 bytes"),
    "stray": (lambda near: b"\xff\x1f", "V3 contains a client"),
    "not in V2": (lambda near: packed(EVERYONE), "client 11 is in V3 and not in V2"),
    "without itself": (lambda near: packed(EVERYONE - {0, 11}), "itself out of V3"),
    "few neighbours": (lambda near: packed(EVERYONE - {11, *near[2:]}), "2 live neighbours .* threshold 4"),
    "few clients": (lambda near: packed({0, *near[:3]}), "4 clients in V3, the sum of fewer than 5"),
}


@pytest.mark.parametrize("name", V3S)
def test_a_v3_that_is_not_right(name):
    make, match = V3S[name]
    play = played("confirm", {"share": {11}})
    near = [j for j in play.clients[0]._state.held.holding.tolist() if j != 0]
    aborts(play.clients[0], changed(play.requests[0], v3=make(near)), match)


def test_a_v3_below_the_floor_for_survivors():
    play = ActivePlay(configure_active(12, graph=GRAPH, min_survivors=10), floor=Floor(survivors=10))
    play.until("confirm")
    near = [j for j in play.clients[0]._state.held.holding.tolist() if j != 0]
    far = sorted(EVERYONE - {0, *near})[:3]
    request = changed(play.requests[0], v3=packed(EVERYONE - set(far)))
    aborts(play.clients[0], request, "9 clients in V3, the sum of fewer than 10")


def test_s2_a_second_v3_is_never_signed():
    play = played("confirm")
    client, request = play.clients[0], play.requests[0]
    first = client.receive(request)
    assert client.receive(request) == first
    aborts(client, changed(request, v3=packed(EVERYONE - {11})), "confirm-request where")


def shown_to(play: ActivePlay, text: bytes, flag: int, client: int = 0) -> bytes:
    """A request of step 3 in which all surviving neighbours signed this text."""
    near = [j for j in play.clients[client]._state.held.holding.tolist() if j != client]
    return changed(
        play.requests[client],
        confirmed=bytes([flag]) * len(near),
        signatures=b"".join(identity(j).sign(text) for j in near),
    )


def texts_of(play: ActivePlay) -> tuple[bytes, bytes, bytes]:
    state = play.clients[0]._state
    return state.root, state.v2, state.v3


def test_what_these_tests_sign_is_what_clients_sign():
    play = played("unmask")
    root, v2, v3 = texts_of(play)
    context = play.config.context
    assert shown_to(play, roster.confirmed_text(context, root, v2, v3), 1) == play.requests[0]


@pytest.mark.parametrize("which", ["root", "v2", "v3", "context"])
def test_s2_confirmations_of_something_else(which):
    play = played("unmask")
    root, v2, v3 = texts_of(play)
    other = packed(EVERYONE - {11})
    parts = {"context": play.config.context, "root": root, "v2": v2, "v3": v3}
    parts[which] = bytes(32) if which in ("root", "context") else other
    request = shown_to(play, roster.confirmed_text(*parts.values()), 1)
    aborts(play.clients[0], request, r"client \d+ did not sign the survivors")


def test_s19_signatures_on_another_v2():
    play = played("unmask")
    root, _, _ = texts_of(play)
    text = roster.masking_text(play.config.context, root, packed(EVERYONE - {11}))
    aborts(play.clients[0], shown_to(play, text, 0), r"client \d+ did not sign the survivors")


def test_a_signature_on_v2_is_no_confirmation_and_a_confirmation_is_not_shown_as_one_on_v2():
    for flag in (0, 1):
        play = played("unmask")
        root, v2, v3 = texts_of(play)
        masking = roster.masking_text(play.config.context, root, v2)
        confirmed = roster.confirmed_text(play.config.context, root, v2, v3)
        request = shown_to(play, masking if flag else confirmed, flag)
        aborts(play.clients[0], request, "did not sign the survivors")


def test_too_few_confirmations():
    """All signed V2, three of six also V3; the threshold is four."""
    play = played("unmask")
    root, v2, _ = texts_of(play)
    text = roster.masking_text(play.config.context, root, v2)
    aborts(play.clients[0], shown_to(play, text, 0), "0 neighbours confirmed the survivors, 4 have to")
    play = played("unmask")
    good, masked = read(play.requests[0]), read(shown_to(play, text, 0))
    root, v2, _ = texts_of(play)
    masked = read(shown_to(play, roster.masking_text(play.config.context, root, v2), 0))
    request = changed(
        play.requests[0],
        confirmed=b"\1\1\1\0\0\0",
        signatures=good.signatures[: 3 * 64] + masked.signatures[3 * 64 :],
    )
    aborts(play.clients[0], request, "3 neighbours confirmed the survivors, 4 have to")


def test_enough_confirmations_and_no_more():
    play = played("unmask")
    good = read(play.requests[0])
    root, v2, _ = texts_of(play)
    masked = read(shown_to(play, roster.masking_text(play.config.context, root, v2), 0))
    request = changed(
        play.requests[0],
        confirmed=b"\1\1\1\1\0\0",
        signatures=good.signatures[: 4 * 64] + masked.signatures[4 * 64 :],
    )
    assert len(read(play.clients[0].receive(request)).shares) == 7 * 32


UNMASKS = {
    "flags short": (lambda r: {"confirmed": r.confirmed[:-1]}, "confirmed has 5 bytes, 6 are due"),
    "signatures short": (lambda r: {"signatures": r.signatures[:-64]}, "signatures has 320 bytes"),
    "flag of 2": (lambda r: {"confirmed": b"\2" + r.confirmed[1:]}, "neither 0 nor 1"),
    "signature changed": (
        lambda r: {"signatures": flipped(r.signatures, -1 % 384)},
        r"client \d+ did not sign",
    ),
    "signatures swapped": (
        lambda r: {"signatures": r.signatures[64:128] + r.signatures[:64] + r.signatures[128:]},
        r"client \d+ did not sign",
    ),
}


@pytest.mark.parametrize("name", UNMASKS)
def test_a_request_for_shares_that_is_not_right(name):
    change, match = UNMASKS[name]
    play = played("unmask")
    aborts(play.clients[0], changed(play.requests[0], **change(read(play.requests[0]))), match)


def test_s5_a_second_different_request_for_shares():
    play = played("unmask")
    client, request = play.clients[0], play.requests[0]
    first = client.receive(request)
    assert client.receive(request) == first
    aborts(client, changed(request, confirmed=b"\0" * 6), "another request")


@pytest.mark.parametrize("step", STEP_NAMES)
def test_s13_a_request_of_another_round(step):
    ours, theirs = played(step), played(step)
    aborts(ours.clients[0], theirs.requests[0], "another round")


@pytest.mark.parametrize("step", STEP_NAMES)
def test_a_request_for_somebody_else(step):
    play = played(step)
    aborts(play.clients[0], play.requests[1], "for client 1")


@pytest.mark.parametrize("step", STEP_NAMES)
def test_garbage_and_oversize(step):
    aborts(played(step).clients[0], b"\xc1", "not a message")
    play = played(step)
    aborts(play.clients[0], play.requests[0] + bytes(100_000), "at most")


# Clients that misbehave


def refuses(play: ActivePlay, client: int, reply: bytes, match: str, kind=FaultyClient) -> None:
    """Refused, the sender named, and nothing else has changed."""
    waiting, total = play.server.waiting, play.server._total.copy()
    with pytest.raises(kind, match=match) as error:
        play.server.receive(client, reply)
    assert error.value.client == client
    assert play.server.waiting == waiting
    assert np.array_equal(play.server._total, total)


@pytest.mark.parametrize("step", ["advertise", "mask", "confirm"])
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda signature: flipped(signature), "signature that does not verify"),
        (lambda signature: signature[:-1], "signature has 63 bytes, 64 are due"),
        (lambda signature: b"", "signature has 0 bytes"),
        (lambda signature: bytes(64), "signature that does not verify"),
    ],
    ids=["flipped", "short", "none", "zeros"],
)
def test_a_bad_signature_is_refused_and_its_sender_named(step, change, match):
    play = played(step)
    for i in range(12):
        reply = play.clients[i].receive(play.requests[i])
        if i == 4:
            refuses(play, i, changed(reply, signature=change(read(reply).signature)), match)
        play.server.receive(i, reply)
    play.requests = play.server.close()
    aggregate = play.finish()
    assert np.array_equal(aggregate.vector, play.expected(range(12)))


def test_s11_an_identity_that_was_never_admitted():
    play = played("advertise")
    reply = read(play.clients[4].receive(play.requests[4]))
    text = roster.bundle_text(play.config.context, 4, reply.sealing_key + reply.mask_key)
    refuses(play, 4, changed(reply.encode(), signature=identity(99).sign(text)), "does not verify")


def test_a_bundle_of_somebody_else():
    play = played("advertise")
    other = play.clients[5].receive(play.requests[5])
    refuses(play, 4, changed(other, client=4), "does not verify")
    refuses(play, 4, other, "in the name of client 5")


@pytest.mark.parametrize("sizes", [(31, 33), (33, 31), (0, 64), (64, 0)])
def test_a_byte_does_not_move_from_one_key_to_the_other(sizes):
    """The signature is on both keys as the server cuts them; it still has to be two keys."""
    play = played("advertise")
    reply = read(play.clients[4].receive(play.requests[4]))
    both = reply.sealing_key + reply.mask_key
    cut = changed(reply.encode(), sealing_key=both[: sizes[0]], mask_key=both[sizes[0] :])
    refuses(play, 4, cut, "sealing_key has")


def test_a_vector_under_the_signature_of_another_round_or_step():
    play = played("mask")
    advertised = play.server._advertised[4].signature
    reply = play.clients[4].receive(play.requests[4])
    refuses(play, 4, changed(reply, signature=advertised), "does not verify")
    refuses(play, 4, changed(reply, vector=b""), "vector has 0 bytes")
    play.server.receive(4, reply)
    refuses(play, 4, changed(reply, vector=bytes(10)), "different answer", ConflictingMessage)


def test_a_confirmation_that_is_a_signature_on_v2_only():
    play = played("mask")
    masked = {i: read(reply).signature for i, reply in play.replies().items()}
    play = played("confirm")
    reply = play.clients[4].receive(play.requests[4])
    refuses(play, 4, changed(reply, signature=masked[4]), "does not verify")
    refuses(play, 4, changed(reply, signature=play.server._signatures[4]), "does not verify")


def test_a_confirmation_that_comes_late():
    play = played("confirm")
    late = play.clients[4].receive(play.requests[4])
    play.step(gone={4})
    assert 4 not in play.requests
    refuses(play, 4, late, "step confirm has closed", LateMessage)
    assert np.array_equal(play.finish().vector, play.expected(range(12)))


def test_a_refused_client_counts_as_dropped():
    play, refused = played("advertise"), []
    server = ActiveServer(play.config, admission(12))

    def carry(step, requests):
        for i, reply in in_memory(play.clients)(step, requests):
            yield i, changed(reply, signature=bytes(64)) if (step.name, i) == ("confirm", 2) else reply

    aggregate = run_round(server, carry, refused.append)
    assert [fault.client for fault in refused] == [2]
    assert np.array_equal(aggregate.vector, play.expected(range(12)))


# Set-up


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
