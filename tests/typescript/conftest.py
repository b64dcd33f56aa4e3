"""For all tests of the client in TypeScript: a runner on each platform, started once."""

from collections.abc import Iterator

import pytest

from browser import BrowserThread
from runners import PLATFORMS, Runner, in_chromium, in_node


@pytest.fixture(scope="session", params=PLATFORMS)
def runner(request: pytest.FixtureRequest) -> Runner:
    """The clients on each platform in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def node() -> Iterator[Runner]:
    """Clients in Node."""
    with in_node() as runner:
        yield runner


@pytest.fixture(scope="session")
def chromium(browser_thread: BrowserThread) -> Iterator[Runner]:
    """Clients in Chromium."""
    with in_chromium(browser_thread) as runner:
        yield runner
