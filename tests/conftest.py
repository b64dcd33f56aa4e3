"""For all tests: their examples, permissions of new files, parts of the machine, and one browser."""

import gc
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import machine

if TYPE_CHECKING:
    from browser import BrowserThread

# The cores are shared already: threads of one test that wait for each other keep others waiting.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples every time: a red test is about the change at hand. `make test-random` looks for others, twice
# as many where a property does not say how many.
settings.register_profile("ccesa", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ccesa"))

os.umask(0o022)  # lists that others can write to are refused


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are found, and later not among what was found: it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for part in marker.args:
            machine.need(part)


@pytest.fixture(scope="session")
def browser_thread() -> "Iterator[BrowserThread]":
    """The one browser of all tests of this process, and its thread."""
    from browser import BrowserThread  # most runs of some tests need no browser, and Playwright takes a while

    thread = BrowserThread()
    yield thread
    thread.close()


@pytest.fixture
def browser(browser_thread: "BrowserThread"):
    """The one browser; a test that asks for it runs in the browser's thread."""
    return browser_thread.browser


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if "browser" not in pyfuncitem.fixturenames:
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    pyfuncitem.funcargs["browser_thread"].run(pyfuncitem.obj, **given)
    return True


def pytest_terminal_summary(terminalreporter) -> None:
    machine.summary(terminalreporter)
