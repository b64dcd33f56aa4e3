"""Lines in Flower's log. All begin with the same words."""

from functools import cache
from logging import ERROR, INFO, WARNING

from flwr.common import log

_LINE = "secure aggregation: %s"


def info(line: str) -> None:
    log(INFO, _LINE, line)


def warn(line: str) -> None:
    log(WARNING, _LINE, line)


def fail(line: str, error: BaseException) -> None:
    """Log an error in the user's own code, with its traceback."""
    log(ERROR, _LINE, line, exc_info=error)


@cache
def info_once(line: str) -> None:
    """Log a line only once in this process."""
    info(line)
