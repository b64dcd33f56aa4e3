"""For all tests: rounds take as long as the machine pleases, and new files have the usual permissions."""

import os

import pytest
from hypothesis import settings

import machine

# The cores are shared already: threads of one test that wait for each other keep others waiting.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples every time: a red test is about the change at hand. `make test-random` looks for others.
settings.register_profile("ccesa", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ccesa"))

os.umask(0o022)  # lists that others can write to are refused


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for part in marker.args:
            machine.need(part)


def pytest_terminal_summary(terminalreporter) -> None:
    machine.summary(terminalreporter)
