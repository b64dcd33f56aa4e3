"""What a client does for one task: vectors in one series and in order, and shares in one round only."""

import contextlib
import hashlib
import os
import threading
import time
import warnings

import numpy as np
import pytest

from ccesa.errors import ConfigError, FaultyServer, OrderError, RoundFailed, TaskSpent, VectorError
from ccesa.memory import MASK, RELEASE, VECTOR, Entry, FolderMemory, ProcessMemory
from ccesa.memory import TASK as OLD
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import Aggregate
from rounds import Play, accused_in, changed, charter_of, configure, configure_active, identity, read

TASK, OTHER = (hashlib.sha256(what).digest() for what in (b"the first model", b"the second model"))
guards = pytest.mark.parametrize("guard", ["curious", "active"])


SERIES = bytes(range(32))


class Site:
    """Where client 0 lives: what it remembers across rounds."""

    def __init__(self, guard: str, attempts: int | None = None, releases: int | None = None, memory=None):
        self.guard, self.tasks, self.used = guard, memory or ProcessMemory(), set()
        limits = {"attempts": attempts, "releases": releases}
        self.limit = {name: value for name, value in limits.items() if value is not None}
        self.number = 0

    def config(self, number: int | None = None, series: bytes = SERIES, **options):
        """The next round of the series, unless another one is asked for."""
        if number is None:
            number, self.number = self.number, self.number + 1
        where = {"series_id": series, "number": number, **options}
        if self.guard == "curious":
            return configure(5, **where)
        return configure_active(5, **self.limit, **where)

    def client(self, config, vector=None, **options) -> Client:
        vector = np.ones(5, np.uint16) if vector is None else vector
        options = {"task": TASK, "tasks": self.tasks, "used_rounds": self.used, **options}
        if self.guard == "curious":
            return Client(config, 0, vector, **self.limit, **options)
        return ActiveClient(config, identity(0), charter_of(config), vector, **options)

    def round(self, task: bytes = TASK, unknown: bool = False, where=None, **options) -> Play:
        """A task that is unknown before step 2 is one that a function makes there."""
        config = self.config(**(where or {}))
        play = Play(config, task=task)
        play.vectors[0] = np.ones(5, np.uint16)
        play.clients[0] = self.client(config, task=(lambda: task) if unknown else task, **options)
        return play

    def lost(self, task: bytes = TASK, **options) -> None:
        """A round in which the vector of client 0 leaves, and too few others come."""
        play = self.round(task, **options).until("mask")
        play.clients[0].receive(play.requests[0])
        with pytest.raises(RoundFailed):
            play.server.close()

    def finish(self, task: bytes = TASK, **options) -> Aggregate:
        play = self.round(task, **options)
        aggregate = play.finish()
        assert np.array_equal(aggregate.vector, play.expected(range(5)))
        return aggregate

    def refuses(self, match: str, task: bytes = TASK, **options) -> None:
        """The vector of client 0 does not leave, and is not made; the round goes on without it."""
        made = []
        play = self.round(task, vector=lambda: made.append(1), **options).until("mask")
        for _ in range(2):  # and asking again changes nothing
            with pytest.raises(TaskSpent, match=match):
                play.clients[0].receive(play.requests[0])
        assert not made
        play.step(gone={0})
        assert play.finish().survivors == (1, 2, 3, 4)

    def numbers(self, about: str, task: bytes = TASK) -> list[int]:
        """Numbers of the rounds in which something was done for a task."""
        entries = list(self.tasks.entries(about, task))
        assert {entry.key for entry in entries} <= {task + SERIES}
        return sorted(entry.number for entry in entries)


@guards
@pytest.mark.parametrize("attempts", [None, 1, 2, 3])
def test_one_vector_too_many_is_refused_before_it_is_made(guard, attempts):
    """What is worked on is known in step 2: until then a round costs keys and shares, and no vector."""
    site = Site(guard, attempts)
    for _ in range(attempts or 2):
        site.lost()
    site.refuses(f"contributed to this task {attempts or 2} time")
    site.finish(OTHER)
    assert len(site.numbers(VECTOR)) == (attempts or 2)
    assert len(site.numbers(VECTOR, OTHER)) == len(site.numbers(RELEASE, OTHER)) == 1


@guards
@pytest.mark.parametrize("releases", [None, 1, 2])
def test_who_has_released_shares_for_a_task_sends_no_vector_for_it(guard, releases):
    """As often as agreed on; the number of attempts does not matter."""
    site = Site(guard, attempts=5, releases=releases)
    for _ in range(releases or 1):
        site.finish()
    site.refuses(f"released its shares for this task {releases or 1} time")
    assert len(site.numbers(RELEASE)) == (releases or 1)
    site.finish(OTHER)


@guards
def test_a_lost_round_is_repeated_in_its_series_under_a_higher_number(guard):
    site = Site(guard, attempts=9)
    site.lost(where={"number": 4})
    site.refuses("another series", where={"number": 5, "series": bytes(32)})
    site.refuses("in round 4 of this series", where={"number": 3})
    site.refuses("in round 4 of this series", where={"number": 4, "length": 6}, used_rounds=None)
    site.finish(where={"number": 5})
    assert (site.numbers(VECTOR), site.numbers(RELEASE)) == ([4, 5], [5])


@guards
@pytest.mark.parametrize("step", ["confirm", "unmask"])
def test_a_later_vector_ends_the_earlier_round(guard, step):
    """Neither its confirmation nor its shares leave, whichever process has them."""
    if guard == "curious":
        step = "unmask"
    site = Site(guard, attempts=5)
    first = site.round().until(step)
    site.round(task=OTHER).until("mask").step()  # a vector for another task changes nothing
    site.lost()
    with pytest.raises(FaultyServer, match="a later round has asked for a vector for this task"):
        first.clients[0].receive(first.requests[0])
    assert first.clients[0].done
    with pytest.raises(OrderError):
        first.clients[0].receive(first.requests[0])
    assert site.numbers(RELEASE) == []


@guards
def test_an_earlier_round_does_not_end_a_later_one(guard):
    """Its vector is refused, though the round began before."""
    site = Site(guard, attempts=5)
    first = site.round().until("mask")
    second = site.round().until("unmask")
    with pytest.raises(TaskSpent, match="in round 1 of this series"):
        first.clients[0].receive(first.requests[0])
    second.finish()
    assert site.numbers(RELEASE) == [1]


@guards
def test_the_same_shares_are_said_again_and_no_others(guard):
    site = Site(guard)
    play = site.round().until("unmask")
    reply = play.clients[0].receive(play.requests[0])
    assert play.clients[0].receive(play.requests[0]) == reply
    assert site.numbers(RELEASE) == [0]


@guards
def test_shares_leave_once_though_two_processes_hold_them(guard):
    """What was suspended was copied: the second release finds the entry of the first."""
    site = Site(guard, releases=1)
    play = site.round().until("unmask")
    asleep = play.clients[0].suspend()
    twins = [site.client(play.config, used_rounds=None) for _ in range(2)]
    for twin in twins:
        twin.resume(asleep)
    twins[0].receive(play.requests[0])
    with pytest.raises(FaultyServer, match="the task is closed"):
        twins[1].receive(play.requests[0])


@guards
def test_a_release_that_cannot_be_written_down_does_not_leave(guard):
    class FullDisk(ProcessMemory):
        def add(self, entry):
            if entry.about == RELEASE:
                raise OSError("no space left on device")
            return super().add(entry)

    site = Site(guard, memory=FullDisk())
    play = site.round().until("unmask")
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            play.clients[0].receive(play.requests[0])


@guards
def test_what_leaves_is_in_the_folder_before(guard, tmp_path):
    """Another process sees it, and a crash leaves it there."""
    site = Site(guard, attempts=3, memory=FolderMemory(tmp_path))
    site.lost()
    site.tasks = FolderMemory(tmp_path)
    site.refuses("another series", where={"number": 7, "series": bytes(32)})
    site.finish()
    site.tasks = FolderMemory(tmp_path)
    site.refuses("released its shares")
    assert (site.numbers(VECTOR), site.numbers(RELEASE)) == ([0, 1], [1])


@guards
def test_a_task_that_version_0_2_counted_is_closed(guard, tmp_path):
    """Nobody knows in which series its vectors left."""
    memory = FolderMemory(tmp_path)
    memory.add(Entry(OLD, TASK, 1))
    site = Site(guard, attempts=3, memory=memory)
    site.refuses("with an earlier version")
    site.finish(OTHER)


@guards
def test_a_memory_that_cannot_be_read_lets_nothing_leave(guard, tmp_path):
    site = Site(guard, memory=FolderMemory(tmp_path / "memory"))
    play = site.round().until("mask")
    (tmp_path / "memory" / f"vector-{TASK.hex()}-what").touch()
    with pytest.raises(ConfigError, match="nobody knows what it forbids"):
        play.clients[0].receive(play.requests[0])
    (tmp_path / "memory" / f"vector-{TASK.hex()}-what").unlink()
    (tmp_path / "memory").rename(tmp_path / "away")
    with pytest.raises(ConfigError, match="cannot read its memory"):
        play.clients[0].receive(play.requests[0])
    (tmp_path / "away").rename(tmp_path / "memory")
    play.finish()


@guards
def test_of_two_rounds_at_once_the_second_vector_does_not_leave(guard):
    site = Site(guard, attempts=1)
    first, second = site.round().until("mask"), site.round().until("mask")
    first.step()
    for _ in range(2):  # and asking again changes nothing
        with pytest.raises(TaskSpent):
            second.clients[0].receive(second.requests[0])
    assert site.numbers(VECTOR) == [0]
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
    assert site.numbers(VECTOR) == []
    site.finish()


@guards
def test_a_complaint_costs_nothing(guard):
    site = Site(guard, attempts=1)
    play = site.round().until("mask")
    request = changed(play.requests[0], sealed=bytes(len(read(play.requests[0]).sealed)))
    assert accused_in(play.clients[0].receive(request)) == {1, 2, 3, 4}
    assert site.numbers(VECTOR) == []


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
    assert site.numbers(VECTOR) == []
    site.finish()


@guards
def test_a_vector_that_has_left_is_spent_though_the_round_is_lost(guard):
    """Colluders may know the sum of a round that was lost."""
    site = Site(guard, attempts=1)
    site.lost()
    assert site.numbers(VECTOR) == [0]
    site.refuses("1 time")


@guards
def test_what_cannot_be_written_down_does_not_leave(guard):
    """The entry goes first: a full disk costs the round, and never a vector that nobody knows of."""

    class FullDisk(ProcessMemory):
        def add(self, entry):
            raise OSError("no space left on device")

    site = Site(guard, memory=FullDisk())
    play = site.round().until("mask")
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            play.clients[0].receive(play.requests[0])


@guards
def test_a_memory_of_tasks_needs_a_task(guard):
    drawn = []
    site = Site(guard)
    with pytest.raises(ConfigError, match="give this client a task"):
        site.client(site.config(), task=m.NO_TASK, random=drawn.append)
    assert not drawn
    assert not site.used
    site.client(site.config(), task=m.NO_TASK, tasks=None)


@guards
def test_a_task_that_turns_out_to_be_none_is_refused_before_the_vector_is_made(guard):
    site, made = Site(guard), []
    play = site.round(m.NO_TASK, vector=lambda: made.append(1), unknown=True).until("mask")
    for _ in range(2):  # and nothing has changed
        with pytest.raises(ConfigError, match="give this client a task"):
            play.clients[0].receive(play.requests[0])
    assert not made
    assert site.numbers(VECTOR) == []


@guards
def test_without_a_memory_nothing_is_counted(guard):
    for _ in range(4):
        play = Site(guard, attempts=1).round(tasks=None)
        play.finish()


def test_the_charter_says_how_often():
    """Not the caller: an active client has no such argument."""
    config = configure_active(5, attempts=1)
    with pytest.raises(TypeError, match="attempts"):
        ActiveClient(config, identity(0), charter_of(config), np.ones(5, np.uint16), tasks=None, attempts=5)
    tasks = ProcessMemory()
    tasks.add(Entry(VECTOR, TASK + config.series_id, 0))
    config = configure_active(5, attempts=1, series_id=config.series_id, number=1)
    play = Play(config, task=TASK)
    play.clients[0] = ActiveClient(
        config, identity(0), charter_of(config), np.ones(5, np.uint16), task=TASK, tasks=tasks
    )
    with pytest.raises(TaskSpent):
        play.until("mask").replies()
    assert configure_active(5, attempts=2).charter != config.charter


@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
@pytest.mark.parametrize("name", ["attempts", "releases"])
def test_attempts_and_releases_are_counted_from_one(name, count):
    with pytest.raises(ConfigError, match=f"{name} must be"):
        Client(configure(5), 0, np.ones(5, np.uint16), task=TASK, tasks=ProcessMemory(), **{name: count})


def test_a_dict_is_no_memory_of_tasks():
    with pytest.raises(ConfigError, match="tasks: expected a FolderMemory, a ProcessMemory or None, got dict"):
        Client(configure(5), 0, np.ones(5, np.uint16), task=TASK, tasks={})


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
    assert site.numbers(VECTOR) == site.numbers(RELEASE) == [0]


@guards
def test_of_two_threads_at_once_one_vector_leaves(guard):
    """A memory that takes its time, as one on a disk does."""

    class Slow(ProcessMemory):
        def entries(self, about, start=b""):
            found = super().entries(about, start)
            time.sleep(0.02)
            return found

    site = Site(guard, attempts=1, memory=Slow())
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
    assert len(site.numbers(VECTOR)) == 1


# One vector per round


@guards
@pytest.mark.parametrize("where", ["folder", "process"])
def test_one_vector_per_round_leaves_a_client_that_was_copied(guard, where, tmp_path):
    """Another task would do: the masks are those of the round. The copy drops its keys."""
    memory = FolderMemory(tmp_path) if where == "folder" else ProcessMemory()
    site = Site(guard, attempts=9, memory=memory)
    config = site.config(accept=True)
    play = Play(config, task=TASK)
    play.clients[0] = site.client(config)
    play.until("mask")
    asleep = play.clients[0].suspend()
    twins = [site.client(config, task=task, used_rounds=None) for task in (TASK, OTHER)]
    for twin in twins:
        twin.resume(asleep)
    twins[0].receive(play.requests[0])
    with pytest.raises(OrderError, match="another process of this client has sent its vector of this round"):
        twins[1].receive(changed(play.requests[0], task=OTHER))
    assert twins[1].done
    assert [entry.key for entry in site.tasks.entries(MASK)] == [config.context]
    assert list(site.tasks.entries(VECTOR, OTHER)) == []


@guards
def test_a_fork_of_a_client_answers_nothing_and_drops_its_keys(guard):
    """Whatever the memory: here there is none."""
    site = Site(guard)
    play = site.round(tasks=None).until("mask")
    client = play.clients[0]
    said = in_a_fork(lambda: (refusal(client.suspend), refusal(client.receive, play.requests[0]), client.done))
    assert said == repr(("OrderError", "OrderError", True))
    play.finish()


@guards
@pytest.mark.parametrize("where", ["folder", "process", "nowhere"])
def test_of_a_function_that_forks_one_vector_leaves(guard, where, tmp_path):
    """The child comes back from the function as the parent does, with the same masks and another vector."""
    memories = {"folder": FolderMemory(tmp_path), "process": ProcessMemory(), "nowhere": None}
    read_end, write_end = os.pipe()

    def forking():
        child = fork()
        forked.append(child)
        return np.full(5, 1 if child else 2, np.uint16)

    forked = []
    site = Site(guard)
    play = site.round(vector=forking, tasks=memories[where]).until("mask")
    client = play.clients[0]
    outcome = refusal(client.receive, play.requests[0])
    if not forked[0]:  # the child
        os.write(write_end, repr((outcome, client.done)).encode())
        os._exit(0)
    os.waitpid(forked[0], 0)
    os.close(write_end)
    with open(read_end, "rb") as said:
        assert said.read().decode() == repr(("OrderError", True))
    assert outcome == "bytes"


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests
        return os.fork()


def refusal(what, *arguments) -> str:
    """Return the name of what was returned, or raised."""
    try:
        return type(what(*arguments)).__name__
    except Exception as error:
        return type(error).__name__


def in_a_fork(what) -> str:
    """Return what another process says, which has all that this one has."""
    read_end, write_end = os.pipe()
    child = fork()
    if not child:
        os.write(write_end, repr(what()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with open(read_end, "rb") as said:
        return said.read().decode()
