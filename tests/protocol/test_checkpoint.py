"""A server that is lost at any moment and restored elsewhere gives the same round, or fails it by name."""

import hashlib
import re
from contextlib import suppress
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import machine
from attacks.stage import changed
from ccesa import words
from ccesa.crypto import primitives, shamir
from ccesa.errors import (
    CcesaError,
    ConfigError,
    ConflictingMessage,
    FaultyServer,
    LateMessage,
    OrderError,
    OverlappingSums,
    RoundFailed,
    StaleCheckpoint,
    TooFewClients,
    UsageError,
)
from ccesa.graphs import Complete, Harary
from ccesa.protocol import checkpoint
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Advertised, Shared
from ccesa.protocol.steps import steps_of
from ccesa.simulate.enrolment import new_server
from rounds import CONFIGURE, Play, configure, federation_of, read, revectored, total_of
from strategies import altered, seeds

#: Guards, with and without the step accept and the hybrid agreement that needs it.
GUARDS = tuple(
    f"{guard}{more}"
    for guard in ("curious", "active")
    for more in ("", "+accept", "+hybrid")
    if more != "+hybrid" or machine.PARTS["ml-kem"].find()
)


def configured(guard, clients, **options):
    name, _, more = guard.partition("+")
    if more == "hybrid":
        options["agreement"] = "x25519-mlkem768"
    return CONFIGURE[name](clients, **options, accept=bool(more))


def steps(guard):
    return steps_of(configured(guard, 6))


guards = st.sampled_from(GUARDS)
each_guard = pytest.mark.parametrize("guard", GUARDS)
each_opening = pytest.mark.parametrize(
    ("guard", "step"), [(guard, step.name) for guard in GUARDS for step in steps(guard)]
)
each_closing = pytest.mark.parametrize(
    ("guard", "step"), [(guard, step.name) for guard in GUARDS for step in steps(guard)[:-1]]
)


def durable(config, openings, **options):
    return new_server(config, federation_of(config), openings=openings, **options)


class DurablePlay(Play):
    """A round whose server can be saved; ``openings`` outlives it."""

    def __init__(self, config, seed=0):
        self.openings = set()
        super().__init__(config, server=self.new, seed=seed)

    def new(self, config, **options):
        return durable(config, self.openings, **options)

    def restored(self, data):
        """Another server, from a checkpoint."""
        server = durable(self.config, self.openings)
        return server, server.restore(data)

    def front_ends(self, count):
        """So many servers beside the first, from one checkpoint of it."""
        return [self.restored(self.server.checkpoint())[0] for _ in range(count)]


class Interrupted(DurablePlay):
    """After every call the server is lost, and another one goes on; a twin is never lost."""

    def __init__(self, config, seed=0):
        super().__init__(config, seed)
        self.saved, self.secrets = [], set()
        self.twin = durable(config, set())
        assert self.twin.open() == self.requests
        self.renew()

    def renew(self):
        data = self.server.checkpoint()
        assert data == self.twin.checkpoint()
        self.saved.append(data)
        self.server, requests = self.restored(data)
        assert requests == self.requests
        assert list(requests) == list(self.requests)
        assert self.server.waiting == self.twin.waiting
        assert self.server.checkpoint() == data

    def ask(self, client, request):
        reply = super().ask(client, request)
        self.secrets |= secrets_of(self.clients[client])
        return reply

    def hand_over(self, client, reply):
        super().hand_over(client, reply)
        self.twin.receive(client, reply)
        self.renew()

    def close(self):
        try:
            requests = self.twin.close()
        except RoundFailed as failure:
            with pytest.raises(type(failure), match=re.escape(str(failure))):
                super().close()
            raise
        super().close()
        assert self.requests == requests
        if requests:
            self.renew()


def secrets_of(client):
    """Private keys, and what shares are made of."""
    state = client._state
    if isinstance(state, Advertised):
        private = state.sealing_private, state.mask_private
        return {shamir.to_bytes(state.mask_secret), *map(primitives.private_bytes, private)}
    return {state.self_secret} if isinstance(state, Shared) else set()


def opened(data):
    return msgspec.msgpack.decode(data[32:], strict=False)


def resealed(fields):
    """As ``checkpoint`` would give them, were they what they should be."""
    body = msgspec.msgpack.encode(fields)
    return hashlib.sha256(body).digest() + body


@st.composite
def interrupted(draw):
    clients, guard = draw(st.integers(4, 7)), draw(guards)
    graph = draw(st.sampled_from([Complete(), Harary(degree=4)] if clients > 4 else [Complete()]))
    config = configured(guard, clients, graph=graph, length=24, bits=32)
    ids = st.sets(st.integers(0, clients - 1), max_size=1)
    gone = {step.name: draw(ids) for step in steps(guard)}
    return Interrupted(config, draw(seeds)), gone


# The same round


@given(interrupted())
@settings(max_examples=25)
def test_a_server_that_is_restored_after_every_call_gives_the_same_round(drawn):
    """Every byte that leaves it is that of the server that was never lost."""
    play, gone = drawn
    with suppress(RoundFailed):  # of both, with the same text: see ``close``
        play.finish(gone)
    assert type(play.server.failure) is type(play.twin.failure)
    result = play.server.aggregate
    if result is None:
        return
    assert np.array_equal(result.vector, play.expected(result.survivors))
    assert np.array_equal(result.vector, play.twin.result().vector)
    assert result.survivors == play.twin.result().survivors
    assert result.evidence == play.twin.result().evidence


@given(interrupted())
@settings(max_examples=15)
def test_no_masked_vector_and_no_secret_is_in_a_checkpoint(drawn):
    """But the sum of those that came, once; of the first one that is all there is."""
    play, gone = drawn
    with suppress(RoundFailed):
        play.finish(gone)
    vectors = {client: read(reply).vector for client, reply in play.said["mask"].items()}
    for data in play.saved:
        assert not [secret for secret in play.secrets if secret in data]
        total = opened(data)["total"]
        assert data.count(total) == 1 or not total
        rest = data.replace(total, b"") if total else data
        for vector in vectors.values():
            assert not [k for k in range(len(vector) - 16) if vector[k : k + 16] in rest]
    if play.said["mask"]:
        last = next(data for data in reversed(play.saved) if opened(data)["step"] == "mask")
        assert sum_of(play, vectors) == opened(last)["total"]
        assert opened(last)["answers"][-1].keys() == vectors.keys()


def sum_of(play, vectors):
    total = words.zeros(play.config.length, play.config.bits)
    for vector in vectors.values():
        total += words.from_bytes(vector, play.config.bits)
    return total.tobytes()


@each_guard
@pytest.mark.parametrize(("clients", "degree", "length"), [(12, 4, 50_000), (12, 8, 100), (30, 4, 100)])
def test_a_checkpoint_has_one_vector_and_a_little_for_each_client_and_edge(guard, clients, degree, length):
    config = configured(guard, clients, graph=Harary(degree=degree), length=length, bits=32)
    play, answers = DurablePlay(config), 0
    while play.requests:
        kind = play.server.step.reply
        answers += m.limit(kind, config) - config.vector_bytes * m.has_vector(kind)
        for client, reply in play.replies().items():
            play.hand_over(client, reply)
        # Every answer once, of which the largest has so many bytes for each of its neighbours, and one sum.
        assert len(play.server.checkpoint()) <= config.vector_bytes + clients * answers + 300
        play.close()


def test_repeats_are_known_and_conflicts_refused_as_before():
    for guard in GUARDS:
        play = DurablePlay(configured(guard, 6))
        while play.requests:
            replies = play.replies()
            play.hand_over(0, replies[0])
            play.server, _ = play.restored(play.server.checkpoint())
            before, data = play.server.waiting, play.server.checkpoint()
            play.server.receive(0, replies[0])
            assert (play.server.waiting, play.server.checkpoint()) == (before, data)
            for other in others(play.config, replies[0]):
                with pytest.raises(ConflictingMessage):
                    play.server.receive(0, other)
            assert play.server.checkpoint() == data
            for client in list(replies)[1:]:
                play.hand_over(client, replies[client])
            play.close()
        assert np.array_equal(play.server.result().vector, play.expected(range(6)))


def others(config, reply):
    """Answers that are like this one but for one field."""
    message = read(reply)
    for name in m.sizes(type(message)):
        field = getattr(message, name)
        if name == "vector":
            yield revectored(config, reply, bytes(len(field)))
        elif name not in ("tag", "digest"):
            yield changed(reply, **{name: bytes([field[0] ^ 1]) + field[1:] if field else bytes(4)})


def test_a_reply_to_a_step_that_closed_before_is_late_after_a_restore():
    play = DurablePlay(configure(6)).until("mask", {"share": {5}})
    server, _ = play.restored(play.server.checkpoint())
    with pytest.raises(LateMessage):
        server.receive(0, play.said["share"][0])


def test_complaints_are_restored():
    play = DurablePlay(configure(7)).until("mask")
    accused = m.pack_ids(np.array([2]))
    complaint = m.Complaint(context=play.config.context, client=0, accused=accused).encode()
    play.server.receive(0, complaint)
    play.server, play.requests = play.restored(play.server.checkpoint())
    result = play.finish({"mask": {0}})
    assert [tuple(pair) for pair in result.evidence] == [(0, 2)]
    assert result.survivors == (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("guard", ["curious+accept", "active+accept"])
def test_accusations_are_restored(guard):
    play = Interrupted(configured(guard, 9)).until("accept")
    accused = m.pack_ids(np.array([2]))
    play.step(to_server=lambda client, reply: changed(reply, accused=accused) if client == 0 else reply)
    result = play.finish()
    assert [tuple(pair) for pair in result.evidence] == [(0, 2)]
    assert result.survivors == play.twin.result().survivors
    assert np.array_equal(result.vector, play.expected(result.survivors))


TASK = bytes(range(32))


@each_guard
@pytest.mark.parametrize("how", ["made with it", "told"])
def test_what_else_a_closing_depends_on_is_restored(guard, how):
    """Whatever the server that is restored was made with: who was asked, the task, the dropout."""
    config, openings = configured(guard, 8), set()
    asked, clients = range(1, 8), Play(config, task=TASK).clients
    given = {"task": TASK} if how == "made with it" else {}
    server = durable(config, openings, dropout=0, **given)
    requests = server.open(asked)
    if how == "told":
        server.work_on(TASK)
    while requests:
        other = durable(config, openings)
        assert other.restore(server.checkpoint()) == requests
        assert other._round == replace(server._round, random=other._round.random)
        for client, request in requests.items():
            reply = clients[client].receive(request)
            server.receive(client, reply)
            other.receive(client, reply)
        assert other.checkpoint() == server.checkpoint()
        server, requests = other, other.close()
    assert server.result().survivors == tuple(asked)


def test_another_task_can_be_told_after_a_restore_until_clients_know_theirs():
    play = DurablePlay(configure(6)).until("share")
    play.server.work_on(bytes(32))
    play.server, play.requests = play.restored(play.server.checkpoint())
    play.server.work_on(TASK)
    play.step()
    assert {read(request).task for request in play.requests.values()} == {TASK}
    play.server, _ = play.restored(play.server.checkpoint())
    with pytest.raises(OrderError, match="told their task already"):
        play.server.work_on(bytes(32))


# Every step opens once


@each_closing
def test_s27_a_server_from_before_a_closing_fails_the_round_by_name(guard, step):
    play = DurablePlay(configured(guard, 6)).until(step)
    saved = [play.server.checkpoint()]
    for client, reply in play.replies().items():
        play.hand_over(client, reply)
        saved.append(play.server.checkpoint())
    play.close()
    for data in saved:
        server = durable(play.config, play.openings)
        with pytest.raises(StaleCheckpoint, match="run a new round") as failure:
            server.restore(data)
        assert failure.value.step == play.server.step.name
        assert server.failure is failure.value
        is_over(server, data)


def is_over(server, data):
    """Nobody is asked any more."""
    assert server.finished
    with pytest.raises(type(server.failure)):
        server.result()
    for call in (server.open, server.close, server.checkpoint, lambda: server.restore(data)):
        with pytest.raises(OrderError):
            call()


@each_closing
def test_s27_of_two_servers_from_one_checkpoint_one_closes_the_step(guard, step):
    play = DurablePlay(configured(guard, 6)).until(step)
    replies = play.replies()
    (other,) = play.front_ends(1)
    for client, reply in replies.items():
        play.hand_over(client, reply)
        if client != 3:
            other.receive(client, reply)
    data = play.server.checkpoint()
    play.close()
    with pytest.raises(StaleCheckpoint):
        other.close()
    is_over(other, data)
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


def test_s27_steps_long_ago_do_not_open_again_either():
    play = DurablePlay(configure(6))
    first = play.server.checkpoint()
    play.until("unmask")
    with pytest.raises(StaleCheckpoint, match="step share"):
        play.restored(first)


def test_s27_clients_refuse_a_second_different_request():
    """Should a memory be restored with the server, whoever was asked before still gives nothing away."""
    play = DurablePlay(configure(6)).until("mask")
    replies = play.replies()
    for client in list(replies)[1:]:
        play.hand_over(client, replies[client])
    backup, openings = play.server.checkpoint(), set(play.openings)
    play.hand_over(0, replies[0])
    play.close()
    play.clients[1].receive(play.requests[1])
    forgetful = durable(play.config, openings)
    forgetful.restore(backup)
    again = forgetful.close()
    with pytest.raises(FaultyServer, match="another request after the last one"):
        play.clients[1].receive(again[1])


@each_guard
def test_a_round_that_a_lost_server_opened_is_not_opened_again(guard):
    play = DurablePlay(configured(guard, 6))
    server = durable(play.config, play.openings)
    with pytest.raises(StaleCheckpoint, match="step advertise"):
        server.open()
    assert isinstance(server.failure, StaleCheckpoint)
    durable(configured(guard, 6), play.openings).open()  # another round is


@each_guard
def test_the_last_closing_sends_nothing_and_can_be_repeated(guard):
    play = DurablePlay(configured(guard, 6)).until("unmask", {"mask": {2}})
    for client, reply in play.replies().items():
        play.hand_over(client, reply)
    data = play.server.checkpoint()
    play.close()
    server, _ = play.restored(data)
    assert server.close() == {}
    assert np.array_equal(server.result().vector, play.server.result().vector)
    assert server.result().survivors == (0, 1, 3, 4, 5)


def test_a_closing_that_failed_has_sent_nothing_and_can_be_repeated():
    play = DurablePlay(configure(6, min_survivors=5)).until("mask")
    replies = play.replies()
    for client in range(4):
        play.hand_over(client, replies[client])
    data = play.server.checkpoint()
    with pytest.raises(TooFewClients):
        play.close()
    play.server, play.requests = play.restored(data)
    for client in range(4, 6):
        play.hand_over(client, replies[client])
    play.close()
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


class FullDisk(set):
    """Remembers nothing more, and says so."""

    def add(self, entry):
        if len(self) == 2:
            raise OSError("no space left")
        super().add(entry)


def test_a_step_that_cannot_be_remembered_is_not_opened():
    play = Play(configure(6), server=lambda config, task: durable(config, FullDisk())).until("share")
    for client, reply in play.replies().items():
        play.hand_over(client, reply)
    with pytest.raises(OSError, match="no space"):
        play.server.close()
    for call in (play.server.close, play.server.checkpoint):
        with pytest.raises(OrderError, match="interrupted"):
            call()


# Other bytes, other memories


@each_opening
def test_a_damaged_checkpoint_is_refused(guard, step):
    play = DurablePlay(configured(guard, 5)).until(step)
    data = play.server.checkpoint()
    for place in range(0, len(data), 1 + len(data) // 40):
        for bad in (data[:place], data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], data + b"x"):
            server = durable(play.config, play.openings)
            with pytest.raises(ConfigError, match="damaged: take another copy of the newest one, or run a"):
                server.restore(bad)
    assert play.restored(data)[1] == play.requests


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(data):
    server = durable(configure(5), set())
    with pytest.raises(ConfigError):
        server.restore(data)
    with pytest.raises(ConfigError):
        server.restore(hashlib.sha256(data).digest() + data)
    server.open()  # nothing has changed


@pytest.mark.parametrize("data", ["text", None, 5])
def test_what_is_not_bytes_is_the_callers_mistake(data):
    with pytest.raises(UsageError, match="a checkpoint is bytes"):
        durable(configure(5), set()).restore(data)


def test_a_checkpoint_may_lie_in_a_view():
    play = DurablePlay(configure(5))
    _, requests = play.restored(memoryview(bytearray(play.server.checkpoint())))
    assert requests == play.requests


def test_of_another_configuration():
    play = DurablePlay(configure(5))
    server = durable(configure(5), play.openings)
    with pytest.raises(ConfigError, match="give the configuration that it was opened with"):
        server.restore(play.server.checkpoint())


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_of_another_version(version):
    play = DurablePlay(configure(5))
    data = resealed(opened(play.server.checkpoint()) | {"version": version})
    with pytest.raises(ConfigError, match="another version of ccesa: end the round with that one"):
        play.restored(data)


def test_a_memory_that_has_never_seen_the_round():
    """Whether a later step was opened cannot be known from it."""
    play = DurablePlay(configure(5)).until("mask")
    for known in ([], sorted(play.openings)[1:], sorted(play.openings)[:-1]):
        server = durable(play.config, set(known))
        with pytest.raises(ConfigError, match="do not have this round"):
            server.restore(play.server.checkpoint())


def test_without_a_memory_nothing_is_saved_or_restored():
    play, plain = DurablePlay(configure(5)), Play(configure(5))
    for call in (plain.server.checkpoint, lambda: durable(play.config, None).restore(b"")):
        with pytest.raises(ConfigError, match="openings"):
            call()
    plain.until("unmask")
    assert len(plain.server._log.answers) == 1  # nor kept


def test_there_is_nothing_to_save_before_the_round_and_after_it():
    server = durable(configure(5), set())
    with pytest.raises(OrderError, match="not been opened"):
        server.checkpoint()
    play = DurablePlay(configure(5))
    play.finish()
    with pytest.raises(OrderError, match="over"):
        play.server.checkpoint()


def test_answers_go_with_the_round():
    """Shares among them, with a sum or without."""
    play = DurablePlay(configure(5))
    play.finish()
    assert not play.server._log.answers
    play = DurablePlay(configure(5)).until("unmask")
    with pytest.raises(RoundFailed):
        play.server.close()
    assert not play.server._log.answers


def test_only_a_new_server_is_restored():
    play = DurablePlay(configure(5))
    data = play.server.checkpoint()
    for server in (play.server, play.restored(data)[0]):
        with pytest.raises(OrderError, match="opened already"):
            server.restore(data)
        with pytest.raises(OrderError, match="opened already"):
            server.open()


@cache
def saved_in(step, guard="curious"):
    play = DurablePlay(configured(guard, 5)).until(step)
    play.hand_over(0, play.replies()[0])
    return play, opened(play.server.checkpoint())


@given(guards, st.data())
@settings(max_examples=60)
def test_a_log_that_no_server_can_have_fails_by_name(guard, data):
    """With a right digest: no exception outside the tree, and nothing is asked that was not asked before."""
    step = data.draw(st.sampled_from([step.name for step in steps(guard)]))
    play, fields = saved_in(step, guard)
    server = durable(play.config, play.openings)
    try:
        requests = server.restore(resealed(data.draw(altered(fields))))
    except CcesaError:
        return
    assert requests == play.requests or server.step.name == "advertise"


@pytest.mark.parametrize(
    "change",
    [{"step": "share"}, {"step": "nap"}, {"answers": []}, {"answers": [{}] * 4}, {"answers": [{}] * 9}],
    ids=str,
)
def test_a_log_of_other_steps_than_it_says_is_refused(change):
    play, fields = saved_in("mask")
    data = resealed(fields | change)
    for call in (durable(play.config, play.openings).restore, play.server.merge):
        with pytest.raises(ConfigError, match="a checkpoint in step"):
            call(data)


@pytest.mark.parametrize("step", ["mask", "unmask"])
@pytest.mark.parametrize("total", [b"", bytes(9), bytes(11)])
def test_a_sum_of_another_length_fails_by_name(step, total):
    play, fields = saved_in(step)
    server = durable(play.config, play.openings)
    with pytest.raises(RoundFailed, match="run a new round"):
        server.restore(resealed(fields | {"total": total}))
    is_over(server, b"")


# Several front ends


def test_nothing_was_taken_of_whoever_has_not_answered():
    play = DurablePlay(configure(4))
    play.hand_over(2, play.replies()[2])
    assert play.server.taken(2)
    with pytest.raises(OrderError, match="client 3 has not answered the open step"):
        play.server.taken(3)


@given(guards, st.data(), seeds)
@settings(max_examples=25)
def test_any_split_over_front_ends_gives_the_same_sum(guard, data, seed):
    clients, count = 7, data.draw(st.integers(1, 3))
    play = DurablePlay(configured(guard, clients, length=24), seed).until("mask")
    takes = data.draw(st.lists(st.integers(0, count), min_size=clients, max_size=clients))
    ends = [play.server, *play.front_ends(count)]
    for (client, reply), end in zip(play.replies({6}).items(), takes, strict=False):
        ends[end].receive(client, reply)
    for end in data.draw(st.permutations(ends[1:])):
        play.server.merge(end.checkpoint())
    play.close()
    result = play.finish()
    assert result.survivors == tuple(range(6))
    assert np.array_equal(result.vector, play.expected(range(6)))


@given(guards, st.sets(st.integers(0, 5), min_size=1), seeds)
@settings(max_examples=15)
def test_sums_with_the_same_clients_are_not_merged(guard, twice, seed):
    play = DurablePlay(configured(guard, 6), seed).until("mask")
    (other,) = play.front_ends(1)
    for client, reply in play.replies().items():
        play.hand_over(client, reply)
        if client in twice:
            other.receive(client, reply)
    before = play.server.checkpoint()
    with pytest.raises(OverlappingSums) as error:
        play.server.merge(other.checkpoint())
    assert error.value.clients == tuple(sorted(twice))
    assert play.server.checkpoint() == before
    play.close()
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


@given(guards, st.sets(st.integers(0, 5)), seeds)
@settings(max_examples=15)
def test_sums_with_the_same_clients_are_not_taken_over(guard, twice, seed):
    play = DurablePlay(configured(guard, 6), seed).until("mask")
    (other,) = play.front_ends(1)
    for client, reply in play.replies().items():
        if client or client in twice:
            play.hand_over(client, reply)
        if not client or client in twice:
            other.receive(client, reply)
    before, both = play.server.checkpoint(), {client: other.taken(client) for client in other.answered}
    if twice:
        with pytest.raises(OverlappingSums) as error:
            play.server.take_over(both, other.total.tobytes())
        assert error.value.clients == tuple(sorted(twice))
        assert play.server.checkpoint() == before
    else:
        play.server.take_over(both, other.total.tobytes())
    play.close()
    result = play.finish()
    assert np.array_equal(result.vector, play.expected(result.survivors))


def test_a_front_end_is_merged_once_and_survives_a_restore():
    play = DurablePlay(configure(6)).until("mask")
    (other,) = play.front_ends(1)
    for client, reply in play.replies().items():
        (other if client % 2 else play.server).receive(client, reply)
    saved = other.checkpoint()
    play.server.merge(saved)
    play.server, _ = play.restored(play.server.checkpoint())
    with pytest.raises(OverlappingSums, match="1, 3, 5"):
        play.server.merge(saved)
    play.close()
    with pytest.raises(StaleCheckpoint):
        play.restored(saved)
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


def test_who_is_not_merged_has_dropped_out():
    play = DurablePlay(configure(6)).until("mask")
    (other,) = play.front_ends(1)
    for client, reply in play.replies().items():
        (other if client == 4 else play.server).receive(client, reply)
    play.close()
    result = play.finish()
    assert result.survivors == (0, 1, 2, 3, 5)
    assert np.array_equal(result.vector, play.expected(result.survivors))


def test_what_is_not_beside_is_not_merged():
    """Another round, an earlier step of this one, the same step with another V2."""
    play, stranger = DurablePlay(configure(6)), DurablePlay(configure(6)).until("mask")
    early = play.server.checkpoint()
    play.until("mask")
    fields = opened(play.server.checkpoint())
    fields["answers"][1].pop(0)
    before = play.server.checkpoint()
    for data, match in [
        (stranger.server.checkpoint(), "another round"),
        (early, "in step advertise"),
        (resealed(fields), "restored from one checkpoint"),
        (before[:-1], "damaged"),
    ]:
        with pytest.raises(ConfigError, match=match):
            play.server.merge(data)
        assert play.server.checkpoint() == before
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


@pytest.mark.parametrize("step", [step.name for step in steps("active+accept") if step.name != "mask"])
def test_only_masked_vectors_are_merged(step):
    play = DurablePlay(configured("active+accept", 6)).until(step)
    with pytest.raises(OrderError, match="takes no masked vectors"):
        play.server.merge(play.server.checkpoint())


@pytest.mark.parametrize("total", [b"", bytes(9), bytes(11)])
def test_a_front_end_with_a_sum_of_another_length_fails_the_round(total):
    play = DurablePlay(configure(6)).until("mask")
    fields = opened(play.server.checkpoint()) | {"total": total}
    with pytest.raises(RoundFailed, match="run a new round"):
        play.server.merge(resealed(fields))
    assert play.server.finished


@each_guard
def test_a_front_end_cannot_speak_for_who_was_not_asked(guard):
    play = DurablePlay(configured(guard, 6)).until("mask", {"share": {5}})
    (other,) = play.front_ends(1)
    other.receive(0, play.replies()[0])
    fields = opened(other.checkpoint())
    (answer,) = fields["answers"][-1].values()
    fields["answers"][-1] = {5: changed(answer, client=5)}
    with pytest.raises(RoundFailed) as failure:
        play.server.merge(resealed(fields))
    assert isinstance(failure.value.__cause__, LateMessage)


# What is where


def test_what_was_read_is_not_shown():
    play = DurablePlay(configure(5)).until("unmask")
    log = checkpoint.Log(play.config.context, play.openings, tuple(step.name for step in steps("curious")))
    assert repr(log.follow(play.server.checkpoint())) == "SavedServer(...)"


def test_the_sum_is_not_shared_with_the_bytes_that_it_came_from():
    play = DurablePlay(configure(6)).until("mask")
    data = bytearray(play.server.checkpoint())
    server, _ = play.restored(data)
    server.receive(0, play.replies()[0])
    assert bytes(data) == play.server.checkpoint()
    assert not np.array_equal(total_of(server), total_of(play.server))


def test_a_memory_must_be_one():
    with pytest.raises(ConfigError, match="openings is a set"):
        new_server(configure(4), openings=[])
