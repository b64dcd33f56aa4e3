"""A server that lies: every check of a client under the guard ``active``."""

import traceback

import numpy as np
import pytest

from active_rounds import EVERYONE, STEP_NAMES, bundles_of, flipped, introduction, packed, played, secrets_of, tree_of
from ccesa.crypto import merkle
from ccesa.errors import FaultyNeighbour, FaultyServer, OrderError
from ccesa.graphs import Complete, ErdosRenyi
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client import ActiveClient
from rounds import Play, accused_in, changed, configure_active, identity, read


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


#: Step 1, with nobody missing: what is changed in the request, and what the client says.
ROSTERS = {
    "v1 short": (lambda r: {"v1": r.v1[:-1]}, "V1: expected 2 bytes, got 1"),
    "v1 beyond the last": (lambda r: {"v1": b"\xff\xff"}, "V1 contains a client that was never enrolled"),
    "without itself": (lambda r: {"v1": packed(EVERYONE - {0})}, "does not contain this client"),
    "too small": (lambda r: {"v1": packed(range(6))}, "6 clients in the roster, the charter demands 7"),
    "root short": (lambda r: {"root": r.root[:-1]}, "root: expected 32 bytes, got 31"),
    "root changed": (lambda r: {"root": flipped(r.root)}, "did not sign|other keys or members"),
    "keys short": (lambda r: {"keys": r.keys[:-1]}, "keys: expected 384 bytes, got 383"),
    "keys of five": (lambda r: {"keys": r.keys[64:]}, "keys: expected 384 bytes, got 320"),
    "signatures short": (lambda r: {"signatures": r.signatures[64:]}, "signatures: expected 384 bytes, got 320"),
    "signature changed": (lambda r: {"signatures": flipped(r.signatures)}, r"client \d+ did not sign its keys"),
    "key changed": (lambda r: {"keys": flipped(r.keys, 70)}, r"client \d+ did not sign its keys"),
    "member left out": (lambda r: {"v1": packed(EVERYONE - {11})}, "did not sign|proof|other keys"),
    "proof changed": (lambda r: {"proof": flipped(r.proof)}, "other keys or members"),
    "proof short": (lambda r: {"proof": r.proof[:-32]}, "proof: expected"),
    "proof long": (lambda r: {"proof": r.proof + bytes(32)}, "proof: expected"),
}


@pytest.mark.parametrize("name", ROSTERS)
def test_a_roster_that_is_not_right(name):
    change, match = ROSTERS[name]
    play = played("share", least_roster=7)
    request = read(play.requests[0])
    aborts(play.clients[0], changed(play.requests[0], **change(request)), match)


@pytest.mark.parametrize(("least_roster", "min_survivors"), [(9, 5), (5, 9)])
def test_a_small_roster_that_is_right_in_itself(least_roster, min_survivors):
    """S20: all joined, the server shows eight of them, with everything in order."""
    play = played("share", least_roster=least_roster, min_survivors=min_survivors)
    few = {i: bundle for i, bundle in bundles_of(play).items() if i < 8}
    aborts(play.clients[0], introduction(play, few, 0), "8 clients in the roster, the charter demands 9")


def test_the_smallest_roster_that_the_charter_allows():
    play = played("share", least_roster=8)
    few = {i: bundle for i, bundle in bundles_of(play).items() if i < 8}
    assert read(play.clients[0].receive(introduction(play, few, 0))).sealed


def signed_by(i: int, context: bytes, client: int, keys: bytes) -> tuple[bytes, bytes]:
    return keys, identity(i).sign(signed_texts.bundle_text(context, client, keys))


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
    near = play.server.graph.ids[play.server.graph.neighbours(0)].tolist()
    wanted = sorted(EVERYONE - {0, *near})[:3] + near[3:]
    request = changed(
        play.requests[0],
        keys=b"".join(bundles[j][0] for j in wanted),
        signatures=b"".join(bundles[j][1] for j in wanted),
        proof=merkle.prove(tree_of(play, bundles), np.array(sorted([0, *wanted]))),
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


def test_two_disjoint_sets_of_holders_in_a_wide_neighbourhood():
    config = configure_active(30, graph=ErdosRenyi(p=0.2), threshold=Fixed(t=4), min_survivors=2)
    for seed in range(20):
        play = Play(config, seed=seed)
        play.step()
        wide = np.flatnonzero(play.server.graph.degrees + 1 >= 8).tolist()
        if wide:
            break
    assert play.requests.keys().isdisjoint(wide)  # an honest server does not even ask
    request = introduction(play, bundles_of(play), wide[0])
    aborts(play.clients[wide[0]], request, "two disjoint sets")


def sealed_of(play: Play, members: set[int]) -> bytes:
    """What those of the client's neighbours who are left sealed for client 0."""
    near = play.clients[0]._state.near.neighbours
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
    [(b"\xff", "V2: expected 2 bytes, got 1"), (b"\xff\x1f", "V2 contains a client")],
    ids=["short", "stray"],
)
def test_v2_that_is_no_set(v2, match):
    play = played("mask")
    aborts(play.clients[0], changed(play.requests[0], v2=v2), match)


def test_s17_v2_with_too_few_neighbours():
    play = played("mask")
    near = play.clients[0]._state.near.neighbours
    v2 = EVERYONE - set(near[2:])
    request = changed(play.requests[0], v2=packed(v2), sealed=sealed_of(play, v2))
    aborts(play.clients[0], request, "2 live neighbours .* threshold 4")


def test_sealed_texts_of_others_than_v2_has():
    play = played("mask")
    near = play.clients[0]._state.near.neighbours
    aborts(
        play.clients[0],
        changed(play.requests[0], v2=packed(EVERYONE - {near[0]})),
        "commitments: expected 160 bytes, got 192",
    )
    play = played("mask")
    near = play.clients[0]._state.near.neighbours
    fewer = sealed_of(play, EVERYONE - {near[0]})
    aborts(play.clients[0], changed(play.requests[0], sealed=fewer), "sealed: expected 480 bytes, got 400")


def test_a_sealed_text_that_does_not_open():
    play = played("mask")
    sealed = read(play.requests[0]).sealed
    near = play.clients[0]._state.near.neighbours
    reply = play.clients[0].receive(changed(play.requests[0], sealed=flipped(sealed)))
    assert accused_in(reply) == {near[0]}
    assert play.clients[0].done
    assert not vars(play.clients[0]._state)
    with pytest.raises(FaultyNeighbour, match=f"in the name of client {near[0]}: "):
        play.clients[0].receive(play.requests[0])


def test_s10_different_rosters_to_different_clients():
    """Client 0 is shown a roster with a colluder's other keys: nothing it signs fits what others signed."""
    play = played("share", **COMPLETE)
    bundles = bundles_of(play)
    other = Play(play.config)
    other.step()
    bundles[5] = bundles_of(other)[5]  # the colluder signs twice
    lied = play.clients[0].receive(introduction(play, bundles, 0))
    replies = {i: play.clients[i].receive(r) for i, r in play.requests.items() if i != 0}
    for i, reply in {**replies, 0: lied}.items():
        play.server.receive(i, reply)
    play.requests = play.server.close()
    assert accused_in(play.clients[0].receive(play.requests[0])) == {5}
    assert accused_in(play.clients[5].receive(play.requests[5])) == {0}


V3S = {
    "short": (lambda near: b"\xff", "V3: expected 2 bytes, got 1"),
    "stray": (lambda near: b"\xff\x1f", "V3 contains a client"),
    "not in V2": (lambda near: packed(EVERYONE), "client 11 is in V3 and not in V2"),
    "without itself": (lambda near: packed(EVERYONE - {0, 11}), "itself out of V3"),
    "few neighbours": (lambda near: packed(EVERYONE - {11, *near[2:]}), "2 live neighbours .* threshold 4"),
    "few clients": (lambda near: packed({0, *near[:3]}), "4 clients in V3, the charter demands 5"),
}


@pytest.mark.parametrize("name", V3S)
def test_a_v3_that_is_not_right(name):
    make, match = V3S[name]
    play = played("confirm", {"share": {11}})
    near = play.clients[0]._state.near.neighbours
    aborts(play.clients[0], changed(play.requests[0], v3=make(near)), match)


def test_a_v3_below_min_survivors_far_from_the_client():
    """Nobody is missing around client 0."""
    play = played("confirm", min_survivors=10)
    near = play.clients[0]._state.near.neighbours
    far = sorted(EVERYONE - {0, *near})[:3]
    request = changed(play.requests[0], v3=packed(EVERYONE - set(far)))
    aborts(play.clients[0], request, "9 clients in V3, the charter demands 10")


def test_s2_a_second_v3_is_never_signed():
    play = played("confirm")
    client, request = play.clients[0], play.requests[0]
    first = client.receive(request)
    assert client.receive(request) == first
    aborts(client, changed(request, v3=packed(EVERYONE - {11})), "expected signed-unmask-request, got confirm-request")


def shown_to(play: Play, text: bytes, flag: int, client: int = 0) -> bytes:
    """A request of step 3 in which all surviving neighbours signed this text."""
    near = play.clients[client]._state.near.neighbours
    return changed(
        play.requests[client],
        confirmed=bytes([flag]) * len(near),
        signatures=b"".join(identity(j).sign(text) for j in near),
    )


def texts_of(play: Play) -> tuple[bytes, bytes, bytes]:
    state = play.clients[0]._state
    return state.root, state.v2, state.v3


def test_what_these_tests_sign_is_what_clients_sign():
    play = played("unmask")
    root, v2, v3 = texts_of(play)
    context = play.config.context
    assert shown_to(play, signed_texts.confirmed_text(context, root, v2, m.NO_TASK, v3), 1) == play.requests[0]


@pytest.mark.parametrize("which", ["root", "v2", "task", "v3", "context"])
def test_s2_confirmations_of_something_else(which):
    play = played("unmask")
    root, v2, v3 = texts_of(play)
    other = packed(EVERYONE - {11})
    parts = {"context": play.config.context, "root": root, "v2": v2, "task": m.NO_TASK, "v3": v3}
    parts[which] = b"\1" * 32 if which in ("root", "context", "task") else other
    request = shown_to(play, signed_texts.confirmed_text(*parts.values()), 1)
    aborts(play.clients[0], request, r"client \d+ did not sign the survivors")


def test_s19_signatures_on_another_v2():
    play = played("unmask")
    root, _, _ = texts_of(play)
    text = signed_texts.masking_text(play.config.context, root, packed(EVERYONE - {11}), m.NO_TASK)
    aborts(play.clients[0], shown_to(play, text, 0), r"client \d+ did not sign the survivors")


def test_s26_signatures_for_another_task():
    play = played("unmask")
    root, v2, _ = texts_of(play)
    text = signed_texts.masking_text(play.config.context, root, v2, b"\1" * 32)
    aborts(play.clients[0], shown_to(play, text, 0), r"client \d+ did not sign the survivors")


def test_a_signature_on_v2_is_no_confirmation_and_a_confirmation_is_not_shown_as_one_on_v2():
    for flag in (0, 1):
        play = played("unmask")
        root, v2, v3 = texts_of(play)
        masking = signed_texts.masking_text(play.config.context, root, v2, m.NO_TASK)
        confirmed = signed_texts.confirmed_text(play.config.context, root, v2, m.NO_TASK, v3)
        request = shown_to(play, masking if flag else confirmed, flag)
        aborts(play.clients[0], request, "did not sign the survivors")


def test_too_few_confirmations():
    """All signed V2, three of six also V3; the threshold is four."""
    play = played("unmask")
    root, v2, _ = texts_of(play)
    text = signed_texts.masking_text(play.config.context, root, v2, m.NO_TASK)
    aborts(play.clients[0], shown_to(play, text, 0), "expected 4 neighbours to confirm .* got 0")
    play = played("unmask")
    good, masked = read(play.requests[0]), read(shown_to(play, text, 0))
    root, v2, _ = texts_of(play)
    masked = read(shown_to(play, signed_texts.masking_text(play.config.context, root, v2, m.NO_TASK), 0))
    request = changed(
        play.requests[0], confirmed=b"\1\1\1\0\0\0", signatures=good.signatures[: 3 * 64] + masked.signatures[3 * 64 :]
    )
    aborts(play.clients[0], request, "expected 4 neighbours to confirm .* got 3")


def test_enough_confirmations_and_no_more():
    play = played("unmask")
    good = read(play.requests[0])
    root, v2, _ = texts_of(play)
    masked = read(shown_to(play, signed_texts.masking_text(play.config.context, root, v2, m.NO_TASK), 0))
    request = changed(
        play.requests[0], confirmed=b"\1\1\1\1\0\0", signatures=good.signatures[: 4 * 64] + masked.signatures[4 * 64 :]
    )
    assert len(read(play.clients[0].receive(request)).shares) == 7 * 32


UNMASKS = {
    "flags short": (lambda r: {"confirmed": r.confirmed[:-1]}, "confirmed: expected 6 bytes, got 5"),
    "signatures short": (lambda r: {"signatures": r.signatures[:-64]}, "signatures: expected 384 bytes, got 320"),
    "flag of 2": (lambda r: {"confirmed": b"\2" + r.confirmed[1:]}, "neither 0 nor 1"),
    "signature changed": (lambda r: {"signatures": flipped(r.signatures, -1 % 384)}, r"client \d+ did not sign"),
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
    aborts(client, changed(request, confirmed=b"\0" * 6), "answers no further request")


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
