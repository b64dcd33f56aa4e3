"""Lines in Flower's log, all of which begin with the same words."""

from logging import ERROR, INFO, WARNING

from flwr.common import log

_LINE = "secure aggregation: %s"


def info(line: str) -> None:
    log(INFO, _LINE, line)


def warn(line: str) -> None:
    log(WARNING, _LINE, line)


def fail(line: str, error: Exception) -> None:
    """Log an error of somebody's own code with its traceback."""
    log(ERROR, _LINE, line, exc_info=error)


class Once:
    """Lines that a log has once, however often they are true."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def info(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            info(line)
