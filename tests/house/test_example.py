"""The example as a reader runs it: processes, sockets, clients that hang up."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_machines.py"


def test_a_round_between_processes_over_tcp():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--port", str(port)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "client 3 is gone" in done.stdout
    assert "client 7 is gone" in done.stdout
    assert "sum over (0, 1, 2, 4, 5, 6, 8, 9, 10, 11): [560 560 560]" in done.stdout


def test_rounds_with_noise_until_the_budget_is_spent():
    done = subprocess.run(
        [sys.executable, str(EXAMPLE.with_name("noisy_rounds.py"))], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    for number in range(3):
        assert f"round {number}: a mean of 28 sites, off by 0." in done.stdout
    assert "site 0 has spent epsilon = 8.00 of 8.0" in done.stdout
    assert "round 3: 3 vector(s) of this site have left" in done.stdout


@pytest.mark.parametrize("options", [pytest.param([], marks=pytest.mark.slow), ["--kill"]])
def test_a_large_server_with_front_ends_and_workers_of_which_one_may_die(options):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE.with_name("large_server.py")), *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "the sum over 40 clients is right" in done.stdout
    assert ("did not come from the executor (BrokenProcessPool" in done.stderr) == bool(options)


def test_joining_without_a_number_says_what_is_missing():
    done = subprocess.run([sys.executable, str(EXAMPLE), "join"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "number" in done.stderr
