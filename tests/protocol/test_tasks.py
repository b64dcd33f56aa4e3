"""What a round is about: known late, computed by each client, carried by every vector, signed by everyone."""

import pytest

from active_rounds import flipped
from ccesa.errors import ConfigError, FaultyServer, OrderError
from ccesa.memory import VECTOR, ProcessMemory
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import new_server
from rounds import CONFIGURE, Play, changed, configure, federation_of, identity, read, refuses, revectored

TASK, OTHER = b"\1" * 32, b"\2" * 32
ways = pytest.mark.parametrize(
    ("guard", "accept"), [(guard, accept) for guard in CONFIGURE for accept in (False, True)]
)


def asked(guard: str, accept: bool, **options) -> Play:
    """A round about a task, whose vectors are asked for."""
    return Play(CONFIGURE[guard](8, accept=accept), task=TASK, **options).until("mask")


@ways
@pytest.mark.parametrize("named", [OTHER, m.NO_TASK, TASK[:-1], TASK + b"\1", b""], ids=len)
def test_s15_a_request_for_another_task_is_refused_before_a_vector_is_made(guard, accept, named):
    made, tasks = [], ProcessMemory()
    play = Play(CONFIGURE[guard](8, accept=accept), task=TASK)
    play.clients[0] = play.make_client(0, tasks=tasks)
    play.clients[0]._round.__dict__["vector"] = lambda: made.append(1)
    play.until("mask")
    with pytest.raises(FaultyServer, match=r"another task|task: expected 32 bytes"):
        play.clients[0].receive(changed(play.requests[0], task=named))
    assert play.clients[0].done
    assert not made
    assert not list(tasks.entries(VECTOR))


@ways
def test_a_task_is_computed_when_the_vector_is_asked_for_and_not_before(guard, accept):
    calls = []

    def task() -> bytes:
        calls.append(play.server.step.name)
        return TASK

    play = Play(CONFIGURE[guard](8, accept=accept))
    play.clients[0] = play.make_client(0, task=task)
    for i in range(1, 8):
        play.clients[i] = play.make_client(i, task=TASK)
    play.until("share")
    play.server.work_on(TASK)  # it is known only now
    assert play.finish().survivors == tuple(range(8))
    assert calls == ["mask"]


@ways
def test_clients_cannot_be_told_another_task_once_they_were_told_one(guard, accept):
    play = asked(guard, accept)
    with pytest.raises(OrderError, match="already know their task"):
        play.server.work_on(OTHER)
    assert play.finish().survivors == tuple(range(8))


@pytest.mark.parametrize("task", [b"", bytes(31), bytes(33), "x" * 32, None, bytearray(32)], ids=repr)
def test_a_task_is_a_digest(task):
    config = configure(8)
    play = Play(config)
    with pytest.raises(ConfigError, match="a task must be a digest of 32 bytes"):
        Client(config, 0, play.vectors[0], task=task)
    with pytest.raises(ConfigError, match="a task must be a digest of 32 bytes"):
        Server(config, task=task)
    with pytest.raises(ConfigError, match="a task must be a digest of 32 bytes"):
        play.server.work_on(task)
    play.clients[0] = play.make_client(0, task=lambda: task)
    play.until("mask")
    for _ in range(2):  # and nothing has changed
        with pytest.raises(ConfigError, match="a task must be a digest of 32 bytes"):
            play.clients[0].receive(play.requests[0])


# C14: what the server takes


@ways
def test_c14_a_vector_for_a_stale_task_or_another_v2_is_refused_and_the_right_one_counts(guard, accept):
    play = asked(guard, accept)
    reply = play.clients[0].receive(play.requests.pop(0))
    refuses(play, 0, changed(reply, task=OTHER), "a vector for another task than the one that was asked for")
    refuses(play, 0, changed(reply, among=bytes(32)), "masked among another V2 than the one that was sent")
    for name in ("task", "among"):
        refuses(play, 0, changed(reply, **{name: b""}), f"{name}: expected 32 bytes, got 0")
    play.server.receive(0, reply)
    assert play.finish().survivors == tuple(range(8))


@ways
def test_c14_a_client_that_works_on_something_else_is_out_alone(guard, accept):
    play = Play(CONFIGURE[guard](8, accept=accept), task=TASK)
    play.clients[0] = play.make_client(0, task=OTHER)
    play.until("mask")
    with pytest.raises(FaultyServer, match="another task"):
        play.clients[0].receive(play.requests.pop(0))
    assert play.finish().survivors == tuple(range(1, 8))


@ways
def test_v2_as_a_client_knows_it_is_bound_to_the_client_and_the_round(guard, accept):
    play = asked(guard, accept)
    said = {i: read(reply).among for i, reply in play.replies().items()}
    assert len(set(said.values())) == 8
    known = m.pack_members(range(8), 8) if guard == "active" else b"".join(bytes([i, 0, 0, 0]) for i in range(8))
    assert said == {i: signed_texts.among(play.config.context, i, known) for i in range(8)}


# What is signed


@pytest.mark.parametrize("accept", [False, True])
def test_a_receipt_is_for_this_vector_task_and_v2(accept):
    play = asked("active", accept)
    replies = play.replies()
    reply = read(replies[0])
    state = play.clients[0]._state
    what = (play.config.context, state.root, state.v2, TASK)
    text = signed_texts.receipt_text(*what, reply.digest)
    assert identity(0).sign(text) == reply.receipt
    wrong = {
        "flipped": flipped(reply.receipt),
        "the other signature": reply.signature,
        "somebody else's": read(replies[1]).receipt,
        "another task": identity(0).sign(signed_texts.receipt_text(*what[:3], OTHER, reply.digest)),
        "another vector": identity(0).sign(signed_texts.receipt_text(*what, bytes(32))),
    }
    for receipt in wrong.values():
        refuses(play, 0, changed(replies[0], receipt=receipt), "does not verify")
    refuses(play, 0, changed(replies[0], signature=reply.receipt), "does not verify")
    refuses(play, 0, revectored(play.config, replies[0], bytes(10)), "does not verify")
    for i, one in replies.items():
        play.server.receive(i, one)


@pytest.mark.parametrize("accept", [False, True])
def test_s26_neighbours_of_one_with_another_task_release_nothing(accept):
    """The victim signs what it was asked for; nobody whose task differs takes that for its own."""
    play = Play(CONFIGURE["active"](8, accept=accept), task=TASK)
    play.clients[3] = play.make_client(3, task=OTHER)
    play.until("mask")
    signatures = {}
    for i, request in play.requests.items():
        reply = play.clients[i].receive(changed(request, task=OTHER) if i == 3 else request)
        signatures[i] = read(reply).signature
        if i != 3:
            play.server.receive(i, reply)
    everyone = m.pack_members(range(8), 8)
    confirm = {i: m.ConfirmRequest(context=play.config.context, client=i, v3=everyone).encode() for i in range(8)}
    confirmed = {i: read(play.clients[i].receive(request)).signature for i, request in confirm.items()}
    for i in range(8):
        near = [j for j in range(8) if j != i]
        for third in (signatures[3], confirmed[3]):  # whichever of the two it is shown
            shown = m.SignedUnmaskRequest(
                context=play.config.context,
                client=i,
                confirmed=bytes(third is confirmed[3] if j == 3 else 1 for j in near),
                signatures=b"".join(third if j == 3 else confirmed[j] for j in near),
            )
            if not play.clients[i].done:
                with pytest.raises(FaultyServer, match="did not sign the survivors"):
                    play.clients[i].receive(shown.encode())
        assert play.clients[i].done


def test_masks_do_not_depend_on_the_task():
    """They can be made ahead; what keeps two tasks apart are the digests and the signatures."""
    config = configure(8, series_id=bytes(32))
    vectors = []
    for task in (TASK, OTHER):
        play = Play(config, task=task)
        for i, client in play.clients.items():
            client._round.__dict__["random"] = lambda size, i=i: bytes([i + 1]) * size
        vectors.append([read(reply).vector for reply in play.until("mask").replies().values()])
    assert vectors[0] == vectors[1]


@ways
def test_an_advertise_for_another_number_is_refused_before_a_key_exists(guard, accept):
    drawn = []
    play = Play(CONFIGURE[guard](8, accept=accept, number=5), random=lambda size: drawn.append(size))
    for number in (4, 6, 0):
        client = play.make_client(0, random=lambda size: drawn.append(size))
        with pytest.raises(FaultyServer, match="another number than the round"):
            client.receive(changed(play.requests[0], number=number.to_bytes(4, "little")))
        assert client.done
    for number in (b"", b"\5", bytes([5, 0, 0, 0, 0])):
        with pytest.raises(FaultyServer):
            play.make_client(0).receive(changed(play.requests[0], number=number))
    assert not drawn


@ways
def test_only_those_who_are_asked_take_part(guard, accept):
    """Who is enrolled and not asked is as if it had dropped out."""
    play = Play(CONFIGURE[guard](8, accept=accept))
    again = new_server(play.config, federation_of(play.config))
    with pytest.raises(ConfigError, match="client id 8 was never enrolled"):
        again.open([0, 8])
    play.server, play.requests = again, again.open(range(1, 8))
    assert set(play.requests) == again.waiting == set(range(1, 8))
    assert play.finish().survivors == tuple(range(1, 8))
