"""A client of a series: numbers go up, exchanges go forward, each number has one state, used once."""

import copy
import gc
import pickle
import re
import threading
from itertools import count

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.agreement.config import MAX_NUMBER
from ccesa.crypto import primitives
from ccesa.errors import ConfigError, FaultyServer, OrderError, TaskSpent, TooFewClients, UsageError, VectorError
from ccesa.memory import RELEASE, VECTOR, Entry, ProcessMemory
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.client_states import Accepted, Advertised, Holding, Shared
from ccesa.protocol.schedule import with_number
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.suspended import SavedSeriesClient
from ccesa.simulate.enrolment import new_client
from rounds import changed, federation_of, read
from series_rounds import GUARDS, SeriesPlay, configure_series, kinds, opened, survivors, task_of
from strategies import randomness

guards = pytest.mark.parametrize("guard", GUARDS)
STRIDE = {"curious": 2, "active": 3}
STEPS = {"curious": 5, "active": 6}


def advertise(play: SeriesPlay, place: int, **fields) -> bytes:
    """The request with which round ``place`` starts, to client 0."""
    context = with_number(play.config, place).context
    fields = {"context": context, "client": 0, "number": place.to_bytes(4, "little"), **fields}
    return envelope.pack([m.AdvertiseRequest(**fields).encode()])


def secret_states() -> list[object]:
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Advertised | Shared | Accepted | Holding)]


# How long secrets live


@guards
def test_the_secrets_of_a_round_live_from_its_first_exchange_to_its_last(guard):
    """Five exchanges under ``curious``, six under ``active``; never of more than three rounds, or two."""
    play, stride, steps = SeriesPlay(guard, rounds=6), STRIDE[guard], STEPS[guard]
    for exchange in range(stride * 6):
        play.exchange()
        alive = [r for r in range(6) if r * stride <= exchange < r * stride + steps - 1]
        assert all(client.rounds == tuple(alive) for client in play.clients.values())
        assert len(alive) <= 2  # of the one that answered its last step nothing is left
    play.series.stop()


@guards
def test_secrets_of_a_round_that_goes_on_without_this_client_are_dropped_with_the_next_exchange(guard):
    play = SeriesPlay(guard, rounds=4)
    play.exchanges(STRIDE[guard])
    play.exchange(missing={0})  # its secrets of round 0 wait
    waiting = play.clients[0].rounds
    assert 0 in waiting
    while 0 not in play.open():
        for i, request in play.requests.items():
            play.series.receive(i, play.clients[i].receive(request))
        play.series.close()
    play.clients[0].receive(play.requests[0])
    assert not set(waiting) & set(play.clients[0].rounds)


@guards
def test_nothing_is_left_of_rounds_that_are_over(guard):
    before = len(secret_states())
    play = SeriesPlay(guard, rounds=3)
    play.run()
    assert len(secret_states()) == before


def test_a_fault_that_is_kept_keeps_no_state():
    """The frames of a traceback would hold on to the state of the round, and to the vector."""
    before = len(secret_states())
    play = SeriesPlay(rounds=1)
    wrong = np.zeros(1, np.uint16)
    play.clients[0] = SeriesClient(play.config, lambda config: Client(config, 0, lambda: wrong, task=task_of(0)))
    play.exchanges(4)
    fault = play.clients[0].faults[0]
    assert isinstance(fault, VectorError)
    assert fault.__traceback__ is fault.__context__ is fault.__cause__ is None
    play.series.stop()
    for client in list(play.clients.values())[1:]:
        client.stop()
    assert len(secret_states()) == before
    assert play.clients[0].faults


def test_faults_are_those_of_the_latest_exchange():
    play = SeriesPlay(rounds=4)
    play.exchanges(2)
    accept, start = opened(play.open()[0])
    reply = play.clients[0].receive(envelope.pack([accept[:-1], start]))
    assert list(play.clients[0].faults) == [0]
    assert play.clients[0].rounds == (1,)
    assert kinds(reply) == ["AdvertiseReply"]
    for i, request in play.requests.items():
        play.series.receive(i, reply if i == 0 else play.clients[i].receive(request))
    play.series.close()
    found = survivors(play.exchange())
    assert play.clients[0].faults == {}
    while not play.series.finished:
        found |= survivors(play.exchange())
    everyone = tuple(range(6))
    assert found == {0: everyone[1:], 1: everyone, 2: everyone, 3: everyone}


# Numbers, exchanges, envelopes: S25, S37


@guards
def test_s37_a_number_is_joined_once_and_only_upwards(guard):
    play = SeriesPlay(guard)
    client = play.clients[0]
    assert kinds(client.receive(advertise(play, 3)))
    for lower in (0, 2):
        with pytest.raises(FaultyServer, match="an exchange that is over"):
            client.receive(advertise(play, lower))
    assert client.rounds == (3,)
    assert client.receive(advertise(play, 3)) == client.receive(advertise(play, 3))  # a repeat, no second key
    client.receive(advertise(play, 4))
    assert client.rounds == (4,)  # nothing was said of round 3, which is over for this client


@guards
def test_s37_a_number_that_was_left_is_not_joined_again(guard):
    play = SeriesPlay(guard)
    client = play.clients[0]
    first = client.receive(advertise(play, 2))
    spoilt = envelope.pack([changed(opened(advertise(play, 2))[0], client=1)])
    assert client.receive(spoilt) == b""  # a second, different request: it leaves the round
    assert "expected" in str(client.faults[2])
    assert client.receive(advertise(play, 2)) == b""
    assert client.rounds == ()
    assert client.receive(advertise(play, 3)) not in (b"", first)


@guards
def test_s37_a_number_is_remembered_across_processes(guard):
    play, used = SeriesPlay(guard), set()
    client = play.client(0, used_rounds=used)
    client.receive(advertise(play, 2))
    assert used == {with_number(play.config, 2).round_id}
    again = play.client(0, used_rounds=used)  # the process has died; nobody knows the keys of round 2
    assert again.receive(advertise(play, 2)) == b""
    assert "has had a round of this number" in str(again.faults[2])
    assert again.receive(advertise(play, 3))
    assert again.rounds == (3,)


def test_s37_a_round_that_cannot_be_remembered_is_not_joined():
    class FullDisk(set):
        def add(self, value):
            raise OSError("no space left on device")

    play = SeriesPlay()
    client = play.client(0, used_rounds=FullDisk())
    with pytest.raises(OSError, match="no space"):
        client.receive(advertise(play, 0))
    assert client.rounds == ()


@guards
def test_s25_messages_of_different_exchanges_do_not_travel_together(guard):
    play = SeriesPlay(guard, rounds=6)
    play.exchanges(STRIDE[guard])
    ahead = opened(advertise(play, 4))
    request = opened(play.open()[0])
    with pytest.raises(FaultyServer, match="different exchanges"):
        play.clients[0].receive(envelope.pack(request[:1] + ahead))
    assert play.clients[0].rounds == (0,)  # nothing has changed
    assert play.clients[0].receive(play.requests[0])


@guards
def test_s25_an_older_exchange_is_refused_and_changes_nothing(guard):
    play, seen = SeriesPlay(guard, rounds=4), []
    for _ in range(7):
        play.open()
        for old in seen[:-1]:
            rounds = play.clients[0].rounds
            with pytest.raises(FaultyServer, match=r"over|not in|series"):
                play.clients[0].receive(old)
            assert play.clients[0].rounds == rounds
        for i, request in play.requests.items():
            play.series.receive(i, play.clients[i].receive(request))
        play.series.close()
        seen.append(play.requests[0])


@guards
def test_s25_a_round_that_is_held_back_while_another_goes_on_is_over(guard):
    """Of rounds 0 and 1 one exchange has only one: whatever comes later of the other is passed over."""
    for held in (0, 1):
        play = SeriesPlay(guard, rounds=4)
        play.exchanges(STRIDE[guard] + 1)
        old, new = opened(play.open()[0])
        back, sent = (old, new) if held == 0 else (new, old)
        client = play.clients[0]
        assert len(opened(client.receive(envelope.pack([sent])))) == 1
        assert client.rounds == (1 - held,)
        with pytest.raises(FaultyServer, match="not in"):
            client.receive(envelope.pack([back]))
        client.receive(envelope.pack([sent, back]))
        assert client.rounds == (1 - held,)


@guards
def test_s25_two_messages_of_one_round_do_not_travel_together(guard):
    play = SeriesPlay(guard, rounds=2)
    (only,) = opened(play.open()[0])
    with pytest.raises(FaultyServer, match="two messages of round 0"):
        play.clients[0].receive(envelope.pack([only, only]))


@guards
def test_s25_messages_of_another_series_are_refused(guard):
    play, other = SeriesPlay(guard), SeriesPlay(guard)
    with pytest.raises(FaultyServer, match="another series"):
        play.clients[0].receive(other.open()[0])
    with pytest.raises(FaultyServer, match="another series"):  # or one that says another number
        play.clients[0].receive(advertise(play, 2, number=(3).to_bytes(4, "little")))
    for step in range(3):
        for i, request in other.requests.items():
            other.series.receive(i, other.clients[i].receive(request))
        other.series.close()
        other.open()
        play.clients[0].receive(advertise(play, step))
        with pytest.raises(FaultyServer):
            play.clients[0].receive(other.requests[0])


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (b"\1", "1 bytes after the last message"),
        (envelope.pack([b"x"] * 4), "more than 3 messages"),
        (envelope.pack([b"x"]), "rounds that this client is not in"),
        (envelope.pack([b"\x94\xb1AdvertiseRequest!"]), "not in|message"),
    ],
)
def test_other_bytes_than_an_envelope_are_refused_and_change_nothing(request_, text):
    play = SeriesPlay()
    with pytest.raises(FaultyServer, match=text):
        play.clients[0].receive(request_)
    assert play.clients[0].receive(play.open()[0])
    with pytest.raises(UsageError, match="a request must be bytes"):
        play.clients[0].receive("text")


def test_a_spoilt_advertise_is_the_servers_fault():
    play = SeriesPlay()
    for odd in (advertise(play, 0, number=b"\0" * 3), advertise(play, 0)[:-1] + b"\xff"):
        with pytest.raises(FaultyServer):
            play.clients[0].receive(odd)


def test_a_message_that_opens_no_step_is_refused():
    play = SeriesPlay(rounds=1)
    reply = play.clients[0].receive(play.open()[0])
    with pytest.raises(FaultyServer, match="opens no step"):
        play.clients[0].receive(reply)


@guards
def test_a_client_that_was_started_anew_passes_over_what_it_is_not_in(guard):
    """The others are in flight; it joins with the next advertise, and every sum is right."""
    for when in range(1, STEPS[guard] + 2):
        play, ended = SeriesPlay(guard, rounds=5), []
        used = set()
        play.clients[0] = play.client(0, used_rounds=used)
        for exchange in count():
            if play.series.finished:
                break
            if exchange == when:
                play.clients[0] = play.client(0, used_rounds=used)
            for i, request in play.open().items():
                if i == 0 and exchange >= when and not in_any(play, kinds(request)):
                    with pytest.raises(FaultyServer, match="rounds that this client is not in"):
                        play.clients[0].receive(request)
                    continue
                play.series.receive(i, play.clients[i].receive(request))
            ended += play.series.close()
        for one in ended:
            play.check(one)
        found = survivors(ended)
        assert 0 in found[4]
        assert all(set(range(1, 6)) <= set(members) for members in found.values())


def in_any(play: SeriesPlay, names: list[str]) -> bool:
    return bool(play.clients[0].rounds) or "AdvertiseRequest" in names


@guards
def test_a_repeated_exchange_gets_the_same_answer_but_for_the_vector(guard):
    """Whatever the network repeats costs nobody a round."""
    play, ended = SeriesPlay(guard, rounds=4), []
    while not play.series.finished:
        for i, request in play.open().items():
            first = play.clients[i].receive(request)
            again = play.clients[i].receive(request)
            assert opened(again) == [one for one in opened(first) if not m.has_vector(m.kind_of(one))]
            assert play.clients[i].faults == {}
            play.series.receive(i, first)
            play.series.receive(i, again)
        ended += play.series.close()
    assert survivors(ended) == dict.fromkeys(range(4), tuple(range(6)))


# The end of a series, and calls out of order


@guards
@pytest.mark.parametrize("how", ["stop", "empty"])
def test_a_series_that_is_over_is_over_for_good(guard, how):
    """An exchange that was under way when the series was stopped makes no keys any more."""
    play = SeriesPlay(guard, rounds=None)
    play.exchanges(STRIDE[guard])
    late, client = play.open()[0], play.clients[0]
    if how == "stop":
        client.stop()
    else:
        assert client.receive(b"") == b""
    assert client.rounds == ()
    for request in (late, advertise(play, 7)):
        with pytest.raises(OrderError, match="has left the series"):
            client.receive(request)
    client.stop()
    assert client.receive(b"") == b""
    woken = play.client(0)
    woken.resume(client.suspend())
    with pytest.raises(OrderError, match="has left the series"):
        woken.receive(advertise(play, 7))


def test_overlapping_calls_are_refused():
    inside, go_on = threading.Event(), threading.Event()
    config = configure_series("curious")

    def slow(config):
        inside.set()
        go_on.wait(10)
        return Client(config, 0, np.zeros(5, np.uint16))

    client, play = SeriesClient(config, slow), SeriesPlay()
    play.config = config
    thread = threading.Thread(target=client.receive, args=[advertise(play, 0)])
    thread.start()
    inside.wait(10)
    for call in (client.prepare, client.stop, client.suspend, lambda: client.receive(b"")):
        with pytest.raises(OrderError, match="still at work"):
            call()
    go_on.set()
    thread.join()
    assert client.rounds == (0,)


@guards
def test_after_an_interruption_a_client_can_only_be_stopped(guard, monkeypatch):
    play = SeriesPlay(guard, rounds=None)
    play.exchanges(3)
    client, before = play.clients[0], len(secret_states())

    def interrupted(*arguments):
        raise KeyboardInterrupt

    play.open()
    play.vector = interrupted
    with pytest.raises(KeyboardInterrupt):
        client.receive(play.requests[0])
    for call in (client.prepare, client.suspend, lambda: client.receive(play.requests[0])):
        with pytest.raises(OrderError, match="interrupted"):
            call()
    client.stop()
    assert client.rounds == ()
    assert len(secret_states()) < before


@guards
def test_what_the_callers_function_raises_changes_nothing(guard):
    """Training fails, or no client can be made: the same exchange again is answered."""
    play, trouble = SeriesPlay(guard, rounds=3), [RuntimeError("out of memory"), None]
    fine_party, fine_vector = play.party, play.vector

    def party(i, config, **options):
        if i == 0 and config.number == 1 and trouble[0]:
            raise trouble[0]
        return fine_party(i, config, **options)

    def vector(i, number):
        if i == 0 and number == 1 and trouble[1]:
            raise trouble[1]
        return fine_vector(i, number)

    play.party, play.vector, ended = party, vector, []
    while not play.series.finished:
        for i, request in play.open().items():
            try:
                reply = play.clients[i].receive(request)
            except RuntimeError:
                trouble[:] = [None, RuntimeError("once more")] if trouble[0] else [None, None]
                reply = play.clients[i].receive(request)
            play.series.receive(i, reply)
        ended += play.series.close()
    assert trouble == [None, None]
    assert survivors(ended) == dict.fromkeys(range(3), tuple(range(6)))


def test_a_client_of_another_round_is_the_callers_mistake():
    config = configure_series("curious")
    fixed = Client(with_number(config, 7), 0, np.zeros(5, np.uint16))
    play = SeriesPlay()
    play.config = config
    for make, text in ((lambda _: fixed, "made from another configuration"), (lambda _: None, "expected Client")):
        client = SeriesClient(config, make)
        assert client.receive(advertise(play, 0)) == b""
        assert re.search(text, str(client.faults[0]))
        assert isinstance(client.faults[0], ConfigError)


def test_a_client_of_a_series_wants_accept_and_is_not_copied():
    play = SeriesPlay()
    with pytest.raises(ConfigError, match="accept=True"):
        SeriesClient(msgspec.structs.replace(play.config, accept=False), lambda config: None)
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            take(play.clients[0])


# One use of every state: suspended and resumed


@guards
def test_a_client_may_sleep_between_any_two_exchanges(guard):
    """The bytes that leave it are the same, from the same randomness, with and without sleep."""
    awake, asleep = SeriesPlay(guard, rounds=4), SeriesPlay(guard, rounds=4)
    asleep.config = awake.config
    sources = {}

    def repeatable(play):
        def party(i, config):
            """Client 0 draws the same bytes in both plays: one source per round, whoever goes on with it."""
            source = sources.setdefault((id(play), i, config.number), randomness(100 * i + config.number))
            return new_client(
                config,
                i,
                play.vector(i, config.number),
                federation_of(config),
                task=task_of(config.number),
                random=source,
            )

        play.party = party
        play.clients = {i: play.client(i) for i in range(6)}

    repeatable(awake)
    repeatable(asleep)
    resumed = set()
    ended = []
    while not awake.series.finished:
        for i, request in awake.open().items():
            reply = awake.clients[i].receive(request)
            assert asleep.clients[i].receive(request) == reply
            slept = asleep.clients[i].suspend()
            with pytest.raises(OrderError, match="suspended"):
                asleep.clients[i].receive(request)
            asleep.clients[i] = asleep.client(i)
            asleep.clients[i].resume(slept, resumed)
            assert asleep.clients[i].rounds == awake.clients[i].rounds
            awake.series.receive(i, reply)
        ended += awake.series.close()
    assert survivors(ended) == dict.fromkeys(range(4), tuple(range(6)))


@guards
def test_a_state_is_resumed_once(guard):
    play, resumed = SeriesPlay(guard), set()
    play.exchanges(2)
    saved = play.clients[0].suspend()
    first = play.client(0)
    first.resume(saved, resumed)
    assert first.rounds == (0,)
    with pytest.raises(OrderError, match="resumed before"):
        play.client(0).resume(saved, resumed)
    with pytest.raises(OrderError, match="answered already"):
        first.resume(saved)


@guards
def test_resumed_twice_a_state_is_a_two_time_pad(guard):
    """Why the rule exists: with the memory taken away two vectors leave under the same masks."""
    play = SeriesPlay(guard, rounds=1)
    play.exchanges(3)
    saved = play.clients[0].suspend()
    request, vectors = play.open()[0], {}
    for secret in (np.full(5, 1000, np.uint16), np.arange(5, dtype=np.uint16)):
        twin = play.client(0)
        play.vector = lambda i, number, secret=secret: secret
        twin.resume(saved)  # no memory
        (reply,) = opened(twin.receive(request))
        vectors[secret.tobytes()] = np.frombuffer(read(reply).vector, np.uint16)
    (one, first), (other, second) = vectors.items()
    assert not np.array_equal(first, np.frombuffer(one, np.uint16))
    inputs = np.frombuffer(one, np.uint16) - np.frombuffer(other, np.uint16)
    assert np.array_equal(first - second, inputs)  # anyone who sees both knows how they differ


def test_bytes_that_are_refused_do_not_count_as_resumed():
    play, resumed = SeriesPlay(), set()
    play.exchanges(1)
    saved = play.clients[0].suspend()
    for wrong in (saved[:-1], saved + b"x", b"", bytes([saved[0] ^ 1]) + saved[1:]):
        with pytest.raises(ConfigError):
            play.client(0).resume(wrong, resumed)
    with pytest.raises(ConfigError, match="another series"):
        SeriesPlay().client(0).resume(saved, resumed)
    with pytest.raises(ConfigError, match="another client"):
        play.client(1).resume(saved, resumed)
    assert not resumed
    play.client(0).resume(saved, resumed)
    assert len(resumed) == 1


def test_suspended_twice_without_news_is_not_resumed_twice():
    play, resumed = SeriesPlay(), set()
    saved = play.clients[0].suspend()
    for _ in range(3):
        client = play.client(0)
        client.resume(saved, resumed)
        saved = client.suspend()


def test_what_is_suspended_does_not_show_itself():
    play = SeriesPlay()
    play.exchanges(2)
    saved = msgspec.msgpack.decode(play.clients[0].suspend()[32:], type=SavedSeriesClient)
    assert saved.clients
    assert repr(saved) == str(saved) == "SavedSeriesClient(...)"


# What has left is spent: S36


@guards
@pytest.mark.parametrize("attempts", [1, 2])
def test_s36_a_lost_round_that_is_repeated_counts_as_a_second_attempt(guard, attempts):
    """Round 1 repeats the task of round 0, which was lost after the vectors had left."""
    same, tasks = bytes(range(32)), {i: ProcessMemory() for i in range(6)}
    play = SeriesPlay(guard, rounds=2, **({"attempts": attempts} if guard == "active" else {}))
    fine, limit = play.party, {} if guard == "active" else {"attempts": attempts}
    play.party = lambda i, config: fine(i, config, task=same, tasks=tasks[i], **limit)
    ended, refusals = [], []
    while not play.series.finished:
        for i, request in play.series.open(same).items():
            replies = opened(play.clients[i].receive(request))
            if i > 1:  # nearly all vectors of round 0 are lost on the way
                replies = [one for one in replies if not lost_vector(play, one)]
            play.series.receive(i, envelope.pack(replies))
            refusals += play.clients[i].faults.values()
        ended += play.series.close()
    assert ended[0].failure is not None
    assert all(len(list(one.entries(VECTOR, same))) == attempts for one in tasks.values())
    if attempts == 1:
        assert {type(one) for one in refusals} == {TaskSpent}
        assert isinstance(ended[1].failure, TooFewClients)
    else:
        assert not refusals
        assert np.array_equal(ended[1].result().vector, play.expected(1, range(6)))


def lost_vector(play: SeriesPlay, message: bytes) -> bool:
    return m.context_of(message) == play.config.context and m.has_vector(m.kind_of(message))


@guards
def test_s36_who_has_spent_its_vector_refuses_and_the_others_go_on(guard):
    play, same = SeriesPlay(guard, rounds=3), bytes(range(32))
    spent = ProcessMemory()
    spent.add(Entry(RELEASE, same + play.config.series_id, 0))
    fine = play.party

    def party(i, config):
        task = same if config.number == 1 else task_of(config.number)
        return fine(i, config, task=task, tasks=spent if i == 0 else ProcessMemory())

    play.party, ended, faults = party, [], {}
    while not play.series.finished:
        working = play.series.masking
        task = same if working == 1 else m.NO_TASK if working is None else task_of(working)
        for i, request in play.series.open(task).items():
            play.series.receive(i, play.clients[i].receive(request))
        faults |= play.clients[0].faults
        ended += play.series.close()
    assert survivors(ended) == {0: tuple(range(6)), 1: (1, 2, 3, 4, 5), 2: tuple(range(6))}
    assert list(faults) == [1]
    assert isinstance(faults[1], TaskSpent)


# Masks ahead


@guards
@settings(max_examples=15)
@given(st.integers(0, 2**16), st.sets(st.integers(1, 7), max_size=2), st.booleans(), st.sampled_from([8, 16, 32, 64]))
def test_masks_ahead_change_no_byte_also_when_neighbours_leave(guard, seed, gone, accuses, bits):
    """Between accept and mask some leave, and one was accused."""

    def played(ahead):
        play = SeriesPlay(guard, clients=12, rounds=1, bits=bits)
        play.config = play.series.config = msgspec.structs.replace(play.config, series_id=seed.to_bytes(32, "big"))
        fine = play.party
        play.party = lambda i, config: fine(i, config, random=randomness(seed + i))
        play.clients = {i: play.client(i) for i in range(12)}
        play.exchanges(2)
        for i, request in play.open().items():
            if i == 0 and accuses:
                (accept,) = opened(request)
                texts = read(accept).sealed
                size = len(texts) // 11
                request = envelope.pack([changed(accept, sealed=bytes(size) + texts[size:])])
            reply = play.clients[i].receive(request)
            if i not in gone:
                play.series.receive(i, reply)
        play.series.close()
        if ahead:
            for client in play.clients.values():
                client.prepare()
                client.prepare()
        return {i: play.clients[i].receive(request) for i, request in play.open().items()}

    plain, prepared = played(ahead=False), played(ahead=True)
    assert plain
    assert plain == prepared


@guards
def test_masks_ahead_are_never_suspended_and_go_with_the_vector(guard):
    play = SeriesPlay(guard, rounds=1)
    play.exchanges(3)
    size = len(woken_up(play, 0))
    client = play.clients[0]
    client.prepare()
    ahead = client._clients[0]._round.ahead
    masks = bytes(ahead.drafts[0].content)
    assert any(masks)
    assert repr(ahead) == "MasksAhead(...)"
    assert "ahead" not in repr(client._clients[0]._round)
    saved = client.suspend()
    assert len(saved) == size
    assert masks not in saved
    assert client._clients == {}
    woken = play.client(0)
    woken.resume(saved)
    assert woken._clients[0]._round.ahead is None
    woken.prepare()
    woken.receive(play.open()[0])
    assert woken._clients[0]._round.ahead is None
    woken.prepare()  # nothing is left to prepare
    assert woken._clients[0]._round.ahead is None


def woken_up(play: SeriesPlay, i: int) -> bytes:
    """What client i was suspended as; it goes on in another object."""
    saved = play.clients[i].suspend()
    play.clients[i] = play.client(i)
    play.clients[i].resume(saved)
    return saved


@guards
def test_masks_ahead_need_no_agreement_in_the_mask_step(guard, monkeypatch):
    """All that is left is one addition: no key is agreed on and no keystream made, but for who has left."""
    play = SeriesPlay(guard, rounds=1)
    play.exchanges(3)
    for client in play.clients.values():
        client.prepare()
    agreed = []
    monkeypatch.setattr(primitives, "agree", lambda *arguments: agreed.append(arguments))
    requests = play.open()
    replies = {i: play.clients[i].receive(request) for i, request in requests.items()}
    assert not agreed
    monkeypatch.undo()
    for i, reply in replies.items():
        play.series.receive(i, reply)
    play.series.close()
    ended = []
    while not play.series.finished:
        ended += play.exchange()
    assert survivors(ended) == {0: tuple(range(6))}


def test_the_largest_number_is_the_last():
    play = SeriesPlay(number=MAX_NUMBER, rounds=1)
    assert play.clients[0].receive(advertise(play, MAX_NUMBER))
    assert play.clients[0].rounds == (MAX_NUMBER,)
