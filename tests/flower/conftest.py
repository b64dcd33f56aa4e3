"""For tests with the federation in memory: its log, and a clock of its own."""

import logging

import pytest

from ccesa.flower.both import log
from ccesa.flower.server import exchange
from flower_grid import Clock


@pytest.fixture
def said():
    """What Flower's logger was told."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    logger, handler = logging.getLogger("flwr"), Keep()
    others = list(logger.handlers)
    for other in others:
        logger.removeHandler(other)
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
    for other in others:
        logger.addHandler(other)


@pytest.fixture(autouse=True)
def clock(said, monkeypatch):
    """Time passes only where somebody waits."""
    log.info_once.cache_clear()
    made = Clock()
    monkeypatch.setattr(exchange, "time", made)
    return made
