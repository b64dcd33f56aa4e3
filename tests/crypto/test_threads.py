"""Threads work where they help, and nowhere else."""

import os
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import machine
from ccesa.crypto import masks
from ccesa.crypto import masks as side
from ccesa.crypto.kernels import KERNELS, kernel
from ccesa.crypto.masks import Mask, add_masks, helpful_threads, side_by_side
from ccesa.simulate import Exactly, simulate
from rounds import configure

KEY = bytes(range(16))


@pytest.fixture(params=KERNELS)
def every_kernel(request, monkeypatch):
    if request.param == "native":
        machine.need("kernel")
    if KERNELS[request.param]() is None:
        pytest.skip("this machine cannot run it")
    monkeypatch.setenv("CCESA_KERNEL", request.param)
    return kernel()


@pytest.fixture
def started(monkeypatch):
    """What every thread that is started does."""
    found, start = [], side.start_new_thread

    def noted(work, arguments):
        found.append(work)
        return start(work, arguments)

    monkeypatch.setattr(side, "start_new_thread", noted)
    return found


@given(st.integers(0, 64), st.integers(1, 2**32 - 1), st.integers(0, 10**6))
def test_no_more_threads_than_allowed_and_at_least_one(most, size, count):
    found = helpful_threads(most, size, count)
    assert 1 <= found <= (most or len(os.sched_getaffinity(0)))


@given(st.integers(1, 2**32 - 1), st.integers(1, 10**6), st.integers(1, 100))
def test_more_work_never_takes_fewer_threads(size, count, times):
    few, many = kernel().threads_for(size, count), kernel().threads_for(size * times, count)
    assert few <= many
    assert few <= kernel().threads_for(size, count * times)


def test_by_default_all_cores_of_this_process_work(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(7)), raising=False)
    assert helpful_threads(0, 2**31, 1000) == 7
    assert helpful_threads(3, 2**31, 1000) == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert helpful_threads(0, 2**31, 1000) == 1


@given(st.lists(st.integers(), max_size=40), st.integers(1, 6))
def test_every_part_is_done_once_and_results_stand_in_order(parts, threads):
    done = []

    def work(part):
        done.append(part)
        return 2 * part

    assert side_by_side(work, parts, threads) == [2 * part for part in parts]
    assert sorted(done) == sorted(parts)


def test_threads_work_at_the_same_time():
    meeting = threading.Barrier(3, timeout=60)
    assert side_by_side(lambda part: meeting.wait() >= 0, range(3), 3) == [True] * 3


def test_a_thread_that_never_runs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(side, "start_new_thread", lambda work, arguments: None)
    assert side_by_side(str, range(9), 4) == [str(part) for part in range(9)]


@pytest.mark.parametrize("most", [0, 1])
def test_a_system_that_starts_no_more_threads_costs_time_and_nothing_else(most, monkeypatch):
    """By default there are threads, and a container may have a limit on them."""
    begin, begun = side.start_new_thread, []

    def limited(work, arguments):
        if len(begun) == most:
            raise RuntimeError("can't start new thread")
        begun.append(begin(work, arguments))

    monkeypatch.setattr(side, "start_new_thread", limited)
    assert side_by_side(lambda part: part**2, range(9), 4) == [part**2 for part in range(9)]
    assert len(begun) == most


@pytest.mark.parametrize("failing", ["here", "elsewhere"])
def test_a_failure_is_raised_when_nothing_is_under_way_any_more(failing):
    """Whoever catches it may use the vector again."""
    meeting, under_way, here = threading.Barrier(2, timeout=60), set(), threading.get_ident()

    def work(part):
        under_way.add(part)
        if part < 2:
            meeting.wait()
            if (threading.get_ident() == here) == (failing == "here"):
                under_way.discard(part)
                raise LookupError(part)
        time.sleep(0.05)
        under_way.discard(part)

    with pytest.raises(LookupError):
        side_by_side(work, range(40), 2)
    assert not under_way


@pytest.mark.usefixtures("every_kernel")
@pytest.mark.parametrize("threads", [0, 1, 2, 8])
def test_ten_thousand_words_start_no_thread(threads, started):
    add_masks(np.zeros(10_000, np.uint32), [Mask(KEY, 1)] * 50, "aes128-ctr", threads)
    assert started == []


def test_a_million_words_start_one_less_than_work(every_kernel, started):
    count = 100
    add_masks(np.zeros(1_000_000, np.uint32), [Mask(KEY, 1)] * count, "aes128-ctr", 3)
    assert len(started) == min(3, every_kernel.threads_for(4_000_000, count)) - 1
    assert len(started) == 2


def test_clients_that_are_simulated_at_a_time_have_one_thread_each(monkeypatch):
    """Those of the round would multiply with them. The server, which works alone, has all of them."""
    asked = []

    def noted(most, size, count):
        asked.append(most)
        return 1

    monkeypatch.setattr(masks, "helpful_threads", noted)
    assert simulate(configure(6, length=5), threads=4, dropout=Exactly({"mask": {1}})).exact
    assert asked == [1] * 5 + [4]
