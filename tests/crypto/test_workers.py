"""Masks come off a sum through any executor, and a round survives whatever that does."""

import logging
import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import workers
from ccesa.agreement.agreement import TRUST
from ccesa.crypto.masks import Mask, add_masks
from ccesa.errors import ConfigError
from ccesa.protocol.server import Server
from ccesa.workers import add_masks_by, sum_masks
from rounds import CONFIGURE, Play, charter_of, configure
from strategies import bits, generators, seeds
from test_masks import random_masks, random_vector

guards = pytest.mark.parametrize("guard", CONFIGURE)


@pytest.fixture(scope="module", autouse=True)
def _small_parts():
    """A vector of a few kilobytes is worth sending, in parts of 64 bytes each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "PART_BYTES", 64)
        patch.setattr(workers, "PART_STREAM_BYTES", 64)
        yield


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


class Direct(Executor):
    """Works when it is asked, in the same thread; tests spoil what it does."""

    def __init__(self):
        self.tasks = []

    def submit(self, work, /, *arguments):
        self.tasks += arguments
        future = Future()
        future.set_result(self.work(work, *arguments))
        return future

    def work(self, work, task):
        return work(task)


class Spoilt(Direct):
    """Every other part is not what it should be."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil

    def submit(self, work, /, task):
        future = super().submit(work, task)
        return future if len(self.tasks) % 2 else self.spoil(future)


def refused(future):
    raise RuntimeError("cannot schedule new futures after shutdown")


def failed(future):
    broken = Future()
    broken.set_exception(MemoryError("the text of somebody else"))
    return broken


def interrupted(future):
    broken = Future()
    broken.set_exception(KeyboardInterrupt())
    return broken


def cancelled(future):
    gone = Future()
    gone.cancel()
    gone.set_running_or_notify_cancel()
    return gone


def told_twice(future):
    class Twice(Future):
        def add_done_callback(self, tell):
            super().add_done_callback(tell)
            super().add_done_callback(tell)

    twice = Twice()
    twice.set_exception(MemoryError())
    return twice


def told_too_early(future):
    class Early(Future):
        def add_done_callback(self, tell):
            tell(self)

    return Early()


def unreadable(future):
    class Unreadable(Future):
        def exception(self, timeout=None):
            raise OSError("the text of somebody else")

    gone = Unreadable()
    gone.set_result(future.result())
    return gone


def cannot_be_cancelled(future):
    class Stubborn(Future):
        def cancel(self):
            raise OSError("the scheduler is gone")

    return Stubborn()


def giving(make):
    def spoil(future):
        other = Future()
        other.set_result(make(future.result()))
        return other

    return spoil


#: What an executor can do to a part, and how the log calls it.
FAULTS = {
    "refused": (refused, "RuntimeError"),
    "failed": (failed, "MemoryError"),
    "interrupted": (interrupted, "KeyboardInterrupt"),
    "cancelled": (cancelled, "CancelledError"),
    "told-twice": (told_twice, "MemoryError"),
    "told-too-early": (told_too_early, "TimeoutError"),
    "unreadable": (unreadable, "OSError"),
    "stubborn": (cannot_be_cancelled, "none in 0.05 seconds"),
    "no-future": (lambda future: None, "AttributeError"),
    "short": (giving(lambda found: found[:-1]), "a result of another kind"),
    "long": (giving(lambda found: np.append(found, found[:1])), "a result of another kind"),
    "none": (giving(lambda found: None), "a result of another kind"),
    "list": (giving(lambda found: found.tolist()), "a result of another kind"),
    "wide": (giving(lambda found: found.astype(np.uint64)), "a result of another kind"),
    "square": (giving(lambda found: found.reshape(1, -1)), "a result of another kind"),
    "zeros": (giving(np.zeros_like), "other words"),
    "negated": (giving(np.negative), "other words"),
    "turned": (giving(lambda found: found[::-1]), "other words"),
    "never": (lambda future: Future(), "none in 0.05 seconds"),
}


def both_ways(executor, vector, masks, generator="aes128-ctr"):
    """The sum as it comes through an executor, and as it comes without."""
    plain = vector.copy()
    add_masks(plain, masks, generator, 1)
    add_masks_by(executor, vector, masks, generator, 1)
    return vector.tobytes(), plain.tobytes()


@given(generators, bits, st.integers(1, 1500), st.integers(0, 12), seeds)
def test_parts_add_up_to_the_whole(generator, width, length, count, seed):
    executor = Direct()
    found, plain = both_ways(
        executor, random_vector(length, width, seed), random_masks(generator, seed, count), generator
    )
    assert found == plain
    parts = -(-length * width // 8 // 64)
    assert len(executor.tasks) == (parts if parts > 1 else 0)


@given(generators, bits, st.integers(1, 400), st.integers(1, 5), seeds)
def test_a_task_is_pickled_whole_and_shows_no_key(generator, width, length, count, seed):
    masks = random_masks(generator, seed, count)
    for task in workers._tasks(random_vector(length, width, seed), masks, generator):
        again = pickle.loads(pickle.dumps(task))  # noqa: S301 (our own)
        assert again == task
        assert again.keys == b"".join(mask.key for mask in masks)
        assert list(again.negative) == [mask.sign < 0 for mask in masks]
        assert repr(task) == f"MaskSum(generator={generator!r}, bits={width}, part={task.part!r})"
        assert sum_masks(again).tobytes() == sum_masks(task).tobytes()


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_come_back_the_server_sums_itself(fault, monkeypatch, caplog):
    spoil, name = FAULTS[fault]
    monkeypatch.setattr(workers, "PATIENCE", 0.05)
    found, plain = both_ways(Spoilt(spoil), random_vector(900, 32, 1), random_masks("aes128-ctr", 1, 7))
    assert found == plain
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"28 of 57 sums of masks did not come from the executor ({name}): the server makes them itself"
    )


def test_parts_that_are_mixed_up_are_found_out(caplog):
    class Same(Direct):
        future = None

        def submit(self, work, /, task):
            self.future = self.future or super().submit(work, task)
            return self.future

    found, plain = both_ways(Same(), random_vector(48, 32, 1), random_masks("aes128-ctr", 1, 7))
    assert found == plain
    assert "2 of 3 sums of masks did not come from the executor (other words)" in caplog.text


@given(generators, bits, st.integers(130, 1500), st.integers(1, 12), seeds)
def test_words_that_are_right_are_taken_wherever_they_are_compared(generator, width, length, count, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "PART_BYTES", 512)
        executor = Direct()
        vector, masks = random_vector(length, width, seed), random_masks(generator, seed, count)
        assert len(workers._tasks(vector, masks, generator)) == -(-length * width // 8 // 512)
        missing = workers._by_workers(executor, vector, workers._tasks(vector, masks, generator))
    assert not missing


def test_which_words_are_compared_is_random():
    """A worker that gets one block of 64 wrong is found out sometimes, and not each time."""
    task = workers.MaskSum(generator="aes128-ctr", bits=32, part=slice(64, 64 + 1024), keys=bytes(16), negative=b"\0")
    wrong = sum_masks(task)
    wrong[16:528] += np.uint32(1)  # half of the blocks
    assert {workers._holds_somewhere(wrong, task) for _ in range(200)} == {True, False}


def test_an_executor_that_works_is_not_in_the_log(caplog):
    both_ways(Direct(), random_vector(900, 32, 1), random_masks("aes128-ctr", 1, 7))
    assert not caplog.records


def test_parts_that_nobody_began_are_taken_back(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.05)
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(release.wait)
        found, plain = both_ways(pool, random_vector(900, 32, 1), random_masks("aes128-ctr", 1, 7))
        assert found == plain
        assert pool._work_queue.qsize() == 57  # they are there, and do nothing any more
        release.set()


def test_an_interrupt_is_not_swallowed(monkeypatch):
    class Interrupted(Direct):
        def submit(self, work, /, task):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_masks_by(Interrupted(), np.zeros(900, np.uint32), [Mask(bytes(16), 1)], "aes128-ctr", 1)


def test_parts_are_large_where_there_are_few_masks(monkeypatch):
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "PART_BYTES", 512 << 10)
        patch.setattr(workers, "PART_STREAM_BYTES", 256 << 20)
        vector = np.zeros(9_200_000, np.uint32)
        sizes = {
            count: len(workers._tasks(vector, [Mask(bytes(16), 1)] * count, "aes128-ctr")) for count in (0, 1, 40, 2000)
        }
    assert sizes == {0: 1, 1: 1, 40: 6, 2000: 71}


# Whole rounds


def server_of(config, **options):
    return Server(config, charter_of(config) if config.charter else TRUST, **options)


def play_with(guard, executor):
    config = CONFIGURE[guard](6, length=300)
    return Play(config, server=lambda config, **options: server_of(config, executor=executor, **options))


def finished(play):
    """The sum of a round in which client 2 drops out with its vector, and whether it is the plain one."""
    play.to_the_end({"mask": {2}})
    return np.array_equal(play.server.result().vector, play.expected({0, 1, 3, 4, 5}))


@guards
@pytest.mark.parametrize("fault", ["refused", "short", "cancelled"])
def test_a_round_survives_its_executor(guard, fault):
    assert finished(play_with(guard, Spoilt(FAULTS[fault][0])))


@guards
def test_a_round_through_processes_gives_the_plain_sum(guard, processes, caplog):
    assert finished(play_with(guard, processes))
    assert not caplog.records


def test_front_ends_take_vectors_and_one_of_them_has_workers(processes, caplog):
    play = Play(configure(6, length=300))
    play.server = Server(play.config, executor=processes)
    play.requests = play.server.open()
    play.until("mask")
    ends = [play.beside() for _ in range(2)]
    for client, reply in play.replies({2}).items():
        [play.server, *ends][client % 3].receive(client, reply)
    for end in ends:
        play.server.take_over({i: end.recall(i) for i in end.answered}, end.total.data.cast("B"))
    play.close()
    play.to_the_end()
    assert np.array_equal(play.server.result().vector, play.expected({0, 1, 3, 4, 5}))
    assert not caplog.records


def test_a_round_through_threads_gives_the_plain_sum(caplog):
    with ThreadPoolExecutor(3) as pool:
        assert finished(play_with("curious", pool))
    assert not caplog.records


def test_a_pool_that_was_shut_down_is_no_loss(caplog):
    with ThreadPoolExecutor(1) as pool:
        pass
    assert finished(play_with("curious", pool))
    assert "RuntimeError" in caplog.text


def test_what_is_no_executor_is_refused_at_once():
    with pytest.raises(ConfigError, match=r"executor: expected Executor, got int; Client\.get_executor"):
        Server(configure(5), executor=2)


def _killed_in_its_work(task):
    """What a worker runs that dies with its second part; the server, which calls it too, lives on."""
    global _parts
    _parts += 1
    if _parts == 2 and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return sum_masks(task)


_parts = 0


def test_a_worker_that_is_killed_in_the_middle_costs_no_sum(monkeypatch, caplog):
    monkeypatch.setattr(workers, "sum_masks", _killed_in_its_work)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert finished(play_with("curious", pool))
    assert "BrokenProcessPool" in caplog.text
