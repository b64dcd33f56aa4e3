"""Whole rounds with helpers: the sum is the plain sum over those who were confirmed, or the round fails by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa import words
from ccesa.errors import HelpersMissing, TaskSpent, TooFewClients
from ccesa.memory import ProcessMemory
from ccesa.protocol.round import in_memory, run_round
from ccesa.simulate.enrolment import federate, new_client, new_helpers, new_server
from strategies import bits, generators


@settings(max_examples=25, deadline=None)
@given(
    st.integers(3, 9), st.integers(2, 5), bits, generators, st.sampled_from(["x25519", "x25519-mlkem768"]), st.data()
)
def test_the_sum_is_that_of_the_members_that_answered(clients, helpers, size, generator, agreement, data):
    enrolment = federate(clients, helpers=helpers, bits=size, generator=generator, agreement=agreement)
    config = enrolment.charter.config(length=data.draw(st.sampled_from([1, 7, 300, 20_000])))
    rng = np.random.default_rng(clients)
    vectors = [np.frombuffer(rng.bytes(config.vector_bytes), words.dtype(size)) for _ in range(clients)]
    parties = {i: new_client(config, i, vectors[i], enrolment) for i in range(clients)}
    gone = data.draw(st.sets(st.integers(0, clients + helpers - 1), max_size=2))
    carry = in_memory(parties | new_helpers(config, enrolment), lambda step, one: one in gone)
    left = [one for one in range(clients) if one not in gone]
    server = new_server(config, enrolment)
    if any(one >= clients for one in gone):
        with pytest.raises(HelpersMissing) as missing:
            run_round(server, carry)
        assert missing.value.helpers == tuple(sorted(one for one in gone if one >= clients))
        return
    if len(left) < 3:
        with pytest.raises(TooFewClients):
            run_round(server, carry)
        return
    found = run_round(server, carry)
    assert found.survivors == tuple(left)
    assert (found.vector == np.sum([vectors[one] for one in left], axis=0, dtype=words.dtype(size))).all()


def test_a_member_that_counts_tasks_by_another_name_sends_vectors_for_one_of_them():
    """Helpers do not know the name: they would answer about both, and two sums that differ by a member expose it."""
    enrolment, memory = federate(3, helpers=2), ProcessMemory()
    series, (first, other) = bytes(32), (bytes([one]) * 32 for one in (1, 2))

    def send(number: int, task: bytes) -> None:
        config = enrolment.charter.config(length=5, series_id=series, number=number)
        options = {"task": task, "tasks": memory, "counted": lambda asked: bytes([9]) * 32}
        server, helpers = new_server(config, enrolment, task=task), new_helpers(config, enrolment)
        requests = server.open()
        for one, request in requests.items():
            server.receive(one, helpers[one].receive(request))
        new_client(config, 0, np.ones(5, np.uint32), enrolment, **options).receive(server.close()[0])

    send(0, first)
    with pytest.raises(TaskSpent, match="in another form"):
        send(1, other)
    send(2, first)


@pytest.mark.parametrize("agreement", ["x25519", "x25519-mlkem768"])
def test_another_server_takes_over_what_all_helpers_have_confirmed(agreement):
    """It asks the same question as the one before would have. The vectors that wait come again."""
    enrolment = federate(5, helpers=3, agreement=agreement)
    config = enrolment.charter.config(length=9)
    vectors = [np.arange(9, dtype=np.uint32) * one for one in range(5)]
    parties = {one: new_client(config, one, vectors[one], enrolment) for one in range(5)}
    helpers = new_helpers(config, enrolment)
    first, second = new_server(config, enrolment), new_server(config, enrolment)
    shown = {one: helpers[one].receive(request) for one, request in first.open().items()}
    second.open()
    for server in (first, second):
        for helper, reply in shown.items():
            server.receive(helper, reply)
    replies = {one: parties[one].receive(request) for one, request in first.close().items()}
    second.close()
    for one in (0, 2, 3):
        first.receive(one, replies[one])
    for helper, request in first.ask_helpers().items():
        assert first.pending == {0, 2, 3}
        assert helper in first.awaited
        first.receive(helper, helpers[helper].receive(request))
    assert (first.pending, first.awaited, first.confirmed) == (set(), set(), {0, 2, 3})
    first.receive(4, replies[4])
    second.take_over({one: first.recall(one) for one in (0, 2, 3)}, first.total.tobytes())
    assert second.confirmed == {0, 2, 3}
    questions = first.close()
    assert dict(second.close()) == dict(questions)
    for helper, request in questions.items():
        second.receive(helper, helpers[helper].receive(request))
    second.close()
    assert second.result().survivors == (0, 2, 3)
    assert (second.result().vector == vectors[0] + vectors[2] + vectors[3]).all()
