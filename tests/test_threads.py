"""Threads work where they help, and nowhere else."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.crypto import masks
from ccesa.crypto.kernels import KERNELS, kernel
from ccesa.crypto.masks import Mask, add_masks, helpful_threads
from ccesa.simulate import Exactly, simulate
from rounds import configure

KEY = bytes(range(16))


@pytest.fixture(params=KERNELS)
def every_kernel(request, monkeypatch):
    if KERNELS[request.param]() is None:
        pytest.skip("this machine cannot run it")
    monkeypatch.setenv("CCESA_KERNEL", request.param)
    return kernel()


@pytest.fixture
def started(monkeypatch):
    """The names of all threads that are started."""
    names, start = [], threading.Thread.start

    def noted(self):
        names.append(self.name)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return names


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
    assert threading.active_count() == 1 or not any(one.name in started for one in threading.enumerate())


def test_clients_that_are_simulated_at_a_time_have_one_thread_each(monkeypatch):
    """Those of the round would multiply with them. The server, which works alone, has all of them."""
    asked = []

    def noted(most, size, count):
        asked.append(most)
        return 1

    monkeypatch.setattr(masks, "helpful_threads", noted)
    assert simulate(configure(6, length=5), threads=4, dropout=Exactly({"mask": {1}})).exact
    assert asked == [1] * 5 + [4]
