"""How often a client contributes to one task: what has left is spent, whatever became of the round."""

import contextlib
import hashlib
import threading
import time

import numpy as np
import pytest

from ccesa.errors import ConfigError, FaultyServer, RoundFailed, TaskSpent, VectorError
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import Aggregate
from rounds import (
    Play,
    accused_in,
    changed,
    charter_of,
    configure,
    configure_active,
    identity,
    read,
)

TASK, OTHER = (hashlib.sha256(what).digest() for what in (b"the first model", b"the second model"))
guards = pytest.mark.parametrize("guard", ["curious", "active"])


class Site:
    """Where client 0 lives: what it remembers across rounds."""

    def __init__(self, guard: str, attempts: int | None = None):
        self.guard, self.tasks, self.used = guard, {}, set()
        self.limit = {} if attempts is None else {"attempts": attempts}

    def config(self):
        if self.guard == "curious":
            return configure(5)
        return configure_active(5, **self.limit)

    def client(self, config, vector=None, **options) -> Client:
        vector = np.ones(5, np.uint16) if vector is None else vector
        options = {"task": TASK, "tasks": self.tasks, "used_rounds": self.used, **options}
        if self.guard == "curious":
            return Client(config, 0, vector, **self.limit, **options)
        return ActiveClient(config, identity(0), charter_of(config), vector, **options)

    def round(self, task: bytes = TASK, unknown: bool = False, **options) -> Play:
        """A task that is unknown before step 2 is one that a function makes there."""
        config = self.config()
        play = Play(config, task=task)
        play.vectors[0] = np.ones(5, np.uint16)
        play.clients[0] = self.client(config, task=(lambda: task) if unknown else task, **options)
        return play

    def finish(self, task: bytes = TASK) -> Aggregate:
        play = self.round(task)
        aggregate = play.finish()
        assert np.array_equal(aggregate.vector, play.expected(range(5)))
        return aggregate


@guards
@pytest.mark.parametrize("attempts", [None, 1, 2, 3])
def test_one_contribution_too_many_is_refused_before_the_vector_is_made(guard, attempts):
    """What is worked on is known in step 2: until then a round costs keys and shares, and no vector."""
    site, made = Site(guard, attempts), []
    for _ in range(attempts or 2):
        site.finish()
    play = site.round(vector=lambda: made.append(1)).until("mask")
    with pytest.raises(TaskSpent, match=f"contributed to this task {attempts or 2} time"):
        play.clients[0].receive(play.requests[0])
    assert not made
    play.step(gone={0})
    assert play.finish().survivors == (1, 2, 3, 4)
    site.finish(OTHER)
    assert site.tasks == {TASK: attempts or 2, OTHER: 1}


@guards
def test_of_two_rounds_at_once_the_second_vector_does_not_leave(guard):
    site = Site(guard, attempts=1)
    first, second = site.round().until("mask"), site.round().until("mask")
    first.step()
    for _ in range(2):  # and asking again changes nothing
        with pytest.raises(TaskSpent):
            second.clients[0].receive(second.requests[0])
    assert site.tasks == {TASK: 1}
    first.finish()
    second.step(gone={0})
    assert second.finish().survivors == (1, 2, 3, 4)


@guards
@pytest.mark.parametrize("step", ["advertise", "share", "mask"])
def test_a_round_that_is_lost_before_the_vector_leaves_costs_nothing(guard, step):
    """Everybody else is gone, or the server lies: as often as it likes."""
    site = Site(guard, attempts=1)
    for _ in range(3):
        play = site.round().until(step)
        with pytest.raises(FaultyServer):
            play.clients[0].receive(changed(play.requests[0], client=1))
    for _ in range(3):
        play = site.round().until(step)
        if step != "mask":
            play.replies()
            with pytest.raises(RoundFailed):
                play.server.close()
    assert site.tasks == {}
    site.finish()


@guards
def test_a_complaint_costs_nothing(guard):
    site = Site(guard, attempts=1)
    play = site.round().until("mask")
    request = changed(play.requests[0], sealed=bytes(len(read(play.requests[0]).sealed)))
    assert accused_in(play.clients[0].receive(request)) == {1, 2, 3, 4}
    assert site.tasks == {}


@guards
def test_a_vector_that_cannot_be_made_costs_nothing(guard):
    site = Site(guard, attempts=1)

    def broken():
        raise MemoryError

    play = site.round(vector=broken).until("mask")
    with pytest.raises(MemoryError):
        play.clients[0].receive(play.requests[0])
    play = site.round(vector=lambda: np.ones(4, np.uint16)).until("mask")
    with pytest.raises(VectorError):
        play.clients[0].receive(play.requests[0])
    assert site.tasks == {}
    site.finish()


@guards
def test_a_vector_that_has_left_is_spent_though_the_round_is_lost(guard):
    """Colluders may know the sum of a round that was lost."""
    site = Site(guard, attempts=1)
    play = site.round().until("mask")
    play.clients[0].receive(play.requests[0])
    with pytest.raises(RoundFailed):
        play.server.close()
    assert site.tasks == {TASK: 1}
    again = site.round().until("mask")
    with pytest.raises(TaskSpent):
        again.clients[0].receive(again.requests[0])


@guards
def test_what_cannot_be_written_down_does_not_leave(guard):
    """The count goes first: a full disk costs the round, and never a vector that nobody knows of."""

    class FullDisk(dict):
        def __setitem__(self, key, value):
            raise OSError("no space left on device")

    site = Site(guard)
    site.tasks = FullDisk()
    play = site.round().until("mask")
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            play.clients[0].receive(play.requests[0])


@guards
def test_a_memory_of_tasks_needs_a_task(guard):
    drawn = []
    site = Site(guard)
    with pytest.raises(ConfigError, match="and works on none"):
        site.client(site.config(), task=m.NO_TASK, random=drawn.append)
    assert not drawn
    assert not site.used
    site.client(site.config(), task=m.NO_TASK, tasks=None)


@guards
def test_a_task_that_turns_out_to_be_none_is_refused_before_the_vector_is_made(guard):
    site, made = Site(guard), []
    play = site.round(m.NO_TASK, vector=lambda: made.append(1), unknown=True).until("mask")
    for _ in range(2):  # and nothing has changed
        with pytest.raises(ConfigError, match="and works on none"):
            play.clients[0].receive(play.requests[0])
    assert not made
    assert site.tasks == {}


@guards
def test_without_a_memory_nothing_is_counted(guard):
    for _ in range(4):
        play = Site(guard, attempts=1).round(tasks=None)
        play.finish()


def test_the_charter_says_how_often():
    """Not the caller: an active client has no such argument."""
    config = configure_active(5, attempts=1)
    with pytest.raises(TypeError, match="attempts"):
        ActiveClient(config, identity(0), charter_of(config), np.ones(5, np.uint16), tasks={}, attempts=5)
    play = Play(config, task=TASK)
    play.clients[0] = ActiveClient(
        config, identity(0), charter_of(config), np.ones(5, np.uint16), task=TASK, tasks={TASK: 1}
    )
    with pytest.raises(TaskSpent):
        play.until("mask").replies()
    assert configure_active(5, attempts=2).charter != config.charter


@pytest.mark.parametrize("attempts", [0, -1, 1.5, "2"])
def test_attempts_are_counted_from_one(attempts):
    with pytest.raises(ConfigError, match="attempts must be"):
        Client(configure(5), 0, np.ones(5, np.uint16), task=TASK, tasks={}, attempts=attempts)


@guards
def test_a_client_that_wakes_up_after_its_last_vector_finishes_the_round(guard):
    """Counted once, by the object that sent it."""
    site = Site(guard, attempts=1)
    play, asleep = site.round(), None
    while play.requests:
        client = site.client(play.config, used_rounds=None)
        if asleep is not None:
            client.resume(asleep)
        play.clients[0] = client
        replies = play.replies()
        asleep = client.suspend()
        for i, reply in replies.items():
            play.server.receive(i, reply)
        play.requests = play.server.close()
    assert np.array_equal(play.server.result().vector, play.expected(range(5)))
    assert site.tasks == {TASK: 1}


@guards
def test_of_two_threads_at_once_one_vector_leaves(guard):
    """A memory that takes its time, as one on a disk does."""

    class Slow(dict):
        def get(self, key, default=None):
            found = super().get(key, default)
            time.sleep(0.02)
            return found

    site = Site(guard, attempts=1)
    site.tasks = Slow()
    plays = [site.round().until("mask") for _ in range(2)]
    left = []

    def answer(play: Play) -> None:
        with contextlib.suppress(TaskSpent):
            left.append(play.clients[0].receive(play.requests[0]))

    threads = [threading.Thread(target=answer, args=[play]) for play in plays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(left) == 1
    assert site.tasks == {TASK: 1}
