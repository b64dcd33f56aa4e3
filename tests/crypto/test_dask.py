"""A server takes masks off through a real Dask cluster: scheduler and workers are processes of their own."""

import json
import logging
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor
from contextlib import ExitStack

import numpy as np
import pytest

from ccesa import workers
from ccesa.protocol.server import Server
from rounds import Play, configure

distributed = pytest.importorskip("distributed")

SECONDS = 60  # for anything that takes a few on a machine with nothing else to do


class Cluster:
    """Processes as an operator starts them, on ports that the system chooses."""

    def __init__(self, folder, stack):
        self._file, self._output, self._stack = folder / "scheduler.json", folder / "output", stack
        self._log = stack.enter_context(self._output.open("wb"))
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        _until(self._written)
        self.workers = [self._start("worker", "--no-nanny", "--nthreads", "1", "--no-dashboard") for _ in "ab"]

    def _start(self, what, *options):
        command = [sys.executable, "-m", "dask", what, "--scheduler-file", str(self._file), *options]
        process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _written(self):
        try:
            return json.loads(self._file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def output(self):
        return self._output.read_text(errors="replace")

    def client(self):
        client = distributed.Client(scheduler_file=str(self._file), timeout=SECONDS, set_as_default=False)
        self._stack.callback(client.close, timeout=5)
        client.wait_for_workers(len(self.workers), timeout=SECONDS)
        return client


def _until(true):
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "PART_BYTES", 16 << 10)
    monkeypatch.setattr(workers, "PART_STREAM_BYTES", 16 << 10)
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


class KillingAtFirstResult(Executor):
    """Hands everything on; when the first part has come back, a process is no more."""

    def __init__(self, executor, victim):
        self._executor, self._victim, self.submitted = executor, victim, 0

    def submit(self, work, /, *arguments):
        self.submitted += 1
        future = self._executor.submit(work, *arguments)
        future.add_done_callback(lambda done: self._victim.kill())
        return future


def finished(executor):
    """A round of which a quarter of the clients drops out with their vectors: is its sum the plain one?"""
    config = configure(12, length=300_000, bits=32)
    play = Play(config, server=lambda config, **options: Server(config, executor=executor, **options))
    play.to_the_end({"mask": {0, 3, 7}})
    return np.array_equal(play.server.result().vector, play.expected(set(range(12)) - {0, 3, 7}))


def test_the_sum_is_exact_whatever_is_left_of_a_cluster(cluster, monkeypatch, caplog):
    """One worker is killed in the middle of its work; then the other one, and then the scheduler."""
    caplog.set_level(logging.WARNING, "ccesa")
    client = cluster.client()
    executor = KillingAtFirstResult(client.get_executor(), cluster.workers[0])
    assert finished(executor)
    assert executor.submitted == 74
    assert cluster.workers[0].wait(SECONDS) == -signal.SIGKILL
    assert ours(caplog) == []  # Dask gave the parts to the other one
    _shows_no_key(cluster, client)
    monkeypatch.setattr(workers, "PATIENCE", 1.0)
    for process in (cluster.workers[1], cluster.scheduler):
        process.kill()
        process.wait(SECONDS)
        caplog.clear()
        assert finished(client.get_executor())  # Dask waits for what does not come
        assert ours(caplog) == [
            "74 of 74 sums of masks did not come from the executor (none in 1 seconds): the server makes them itself"
        ]


def ours(caplog):
    return [record.getMessage() for record in caplog.records if record.name == workers.__name__]


def _shows_no_key(cluster, client):
    """Dask logs what fails on a worker, in older versions with its arguments."""
    key = b"a key that is secret, 32 bytes.."
    task = workers.MaskSum(generator="broken", bits=32, part=slice(0, 16), keys=key, negative=b"\0")
    with pytest.raises(KeyError):
        client.get_executor().submit(workers.sum_masks, task).result(SECONDS)
    _until(lambda: "Compute Failed" in cluster.output())
    assert key.decode() not in cluster.output()
